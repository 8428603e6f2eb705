"""Why a run converged, oscillated or diverged: measurements, rules and advice."""

from rnnparse.study.diagnosis.evidence import EVIDENCE
from rnnparse.study.diagnosis.rules import LABELS, RULES, Diagnosis, diagnose, diagnose_all

__all__ = ["EVIDENCE", "LABELS", "RULES", "Diagnosis", "diagnose", "diagnose_all"]

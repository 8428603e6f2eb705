from rnnparse.study.diagnosis.evidence import EVIDENCE as EVIDENCE
from rnnparse.study.diagnosis.rules import LABELS as LABELS
from rnnparse.study.diagnosis.rules import RULES as RULES
from rnnparse.study.diagnosis.rules import Diagnosis as Diagnosis
from rnnparse.study.diagnosis.rules import diagnose as diagnose
from rnnparse.study.diagnosis.rules import diagnose_all as diagnose_all

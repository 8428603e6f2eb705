"""Scoring of trees against gold trees, by the rules of EVALB.

`report` (per label, per length, significance) and `attachments` are imported by name.
"""

from rnnparse.evaluation.evalb import (
    Evaluation,
    count_crossing,
    evalb_files,
    evaluate,
    evaluate_files,
    match_spans,
    spans,
)
from rnnparse.evaluation.params import EvalbParams
from rnnparse.evaluation.totals import SentenceScore

__all__ = [
    "EvalbParams",
    "Evaluation",
    "SentenceScore",
    "count_crossing",
    "evalb_files",
    "evaluate",
    "evaluate_files",
    "match_spans",
    "spans",
]

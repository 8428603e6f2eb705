"""Exact decoding with a PCFG: CKY, k-best trees, and forests of shared subtrees."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

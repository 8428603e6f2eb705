"""The base PCFG: annotated symbols, rule probabilities and a lexicon with unknown-word classes."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

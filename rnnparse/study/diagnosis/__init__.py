"""Explain why a trial converged, oscillated or diverged: measurements, rules and advice."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

"""Find out which settings make training converge, and explain why others do not."""

from rnnparse._lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)

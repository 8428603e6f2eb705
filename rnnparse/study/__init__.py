"""Compare configurations of training, and explain why training does not converge."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

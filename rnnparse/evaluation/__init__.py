"""Score trees against gold trees, by the rules of EVALB."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

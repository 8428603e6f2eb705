"""Studies of the parser: grids of its settings, trained on forests that all trials share."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

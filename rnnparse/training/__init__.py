"""Train a parser: read treebanks, make k-best lists, train the network, save the model."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

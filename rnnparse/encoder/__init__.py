"""Pre-trained encoders: vectors of the tokens of a sentence, from a frozen network."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

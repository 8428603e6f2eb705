"""Read, clean, binarize, draw and write trees; tokenize text."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

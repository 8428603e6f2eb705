"""The syntactically untied recursive network (SU-RNN), its weights and its batches of forests."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

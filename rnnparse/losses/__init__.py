"""Structured losses with explicit subgradients, and losses computed outside TensorFlow."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

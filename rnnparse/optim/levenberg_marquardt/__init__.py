"""Least squares by Levenberg–Marquardt, for Keras models and any residuals of Keras variables."""

from rnnparse._lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__)

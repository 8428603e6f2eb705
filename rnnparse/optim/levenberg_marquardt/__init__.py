"""Least squares by Levenberg–Marquardt, for Keras models and any residuals of Keras variables."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

"""AdaGrad, per-example gradients, Levenberg–Marquardt and freezing, for any Keras model."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

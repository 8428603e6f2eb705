"""Record norms, zeros and saturation of gradients, weights and activations during training."""

from rnnparse._lazy import public_names

__getattr__, __dir__ = public_names(__name__)

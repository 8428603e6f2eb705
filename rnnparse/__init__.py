"""rnnparse: Compositional Vector Grammars trained with explicit subgradients."""

__version__ = "0.1.0"

"""Train, use and study Compositional Vector Grammar parsers; explicit subgradients for Keras.

    import rnnparse
    parser = rnnparse.load("model")
    print(parser.parse("They ate udon with forks."))

Each subpackage is a public face of its own: `rnnparse.losses`, `rnnparse.optim`,
`rnnparse.telemetry`, `rnnparse.study` and `rnnparse.evaluation` for any model or tree;
`rnnparse.trees`, `rnnparse.grammar`, `rnnparse.inference`, `rnnparse.models` and
`rnnparse.training` for the parts of the parser. Modules within them are private.
"""

from rnnparse._lazy import public_names
from rnnparse.version import __version__ as __version__

__getattr__, __dir__ = public_names(__name__)

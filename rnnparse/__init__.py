"""rnnparse: Compositional Vector Grammars trained with explicit subgradients.

import rnnparse
parser = rnnparse.load("model")
print(parser.parse("They ate udon with forks."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rnnparse.config import TrainingConfig
    from rnnparse.evaluation import EvalbParams, Evaluation, evaluate
    from rnnparse.losses.structured import structured_hinge
    from rnnparse.models.cvg import CVG
    from rnnparse.optim.adagrad import AdaGrad
    from rnnparse.parser import Parser, ParseResult, ScoredTree, load
    from rnnparse.training.pipeline import train
    from rnnparse.trees.brackets import load_trees, read_trees, write_trees

__version__ = "0.1.0"

# Names are loaded when they are first used, so that `import rnnparse` takes no time and parsing
# never loads TensorFlow.
_HOMES = {
    "AdaGrad": "rnnparse.optim.adagrad",
    "CVG": "rnnparse.models.cvg",
    "EvalbParams": "rnnparse.evaluation",
    "Evaluation": "rnnparse.evaluation",
    "ParseResult": "rnnparse.parser",
    "Parser": "rnnparse.parser",
    "ScoredTree": "rnnparse.parser",
    "TrainingConfig": "rnnparse.config",
    "evaluate": "rnnparse.evaluation",
    "load": "rnnparse.parser",
    "load_trees": "rnnparse.trees.brackets",
    "read_trees": "rnnparse.trees.brackets",
    "structured_hinge": "rnnparse.losses.structured",
    "train": "rnnparse.training.pipeline",
    "write_trees": "rnnparse.trees.brackets",
}

__all__ = [
    "CVG",
    "AdaGrad",
    "EvalbParams",
    "Evaluation",
    "ParseResult",
    "Parser",
    "ScoredTree",
    "TrainingConfig",
    "evaluate",
    "load",
    "load_trees",
    "read_trees",
    "structured_hinge",
    "train",
    "write_trees",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rnnparse' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

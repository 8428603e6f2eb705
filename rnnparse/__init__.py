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
    from rnnparse.losses.external import ExternalLoss, check_external, external_loss
    from rnnparse.losses.structured import (
        structured_hinge,
        structured_perceptron,
        structured_squared_hinge,
    )
    from rnnparse.models.cvg import CVG
    from rnnparse.optim.adagrad import AdaGrad
    from rnnparse.optim.freezing import freeze, unfreeze
    from rnnparse.optim.least_squares import fit_least_squares
    from rnnparse.optim.levenberg_marquardt import LevenbergMarquardt
    from rnnparse.optim.per_example import PerExampleModel
    from rnnparse.parser import NodeScore, Parser, ParseResult, ScoredTree, load
    from rnnparse.study.lr_range_test import range_test
    from rnnparse.study.study import Study
    from rnnparse.training.pipeline import train
    from rnnparse.trees.brackets import load_trees, read_trees, write_trees
    from rnnparse.trees.style import TreebankStyle

__version__ = "0.1.0"

# Names are loaded when they are first used, so that `import rnnparse` takes no time and parsing
# never loads TensorFlow.
_HOMES = {
    "AdaGrad": "rnnparse.optim.adagrad",
    "CVG": "rnnparse.models.cvg",
    "EvalbParams": "rnnparse.evaluation",
    "Evaluation": "rnnparse.evaluation",
    "ExternalLoss": "rnnparse.losses.external",
    "LevenbergMarquardt": "rnnparse.optim.levenberg_marquardt",
    "NodeScore": "rnnparse.parser",
    "ParseResult": "rnnparse.parser",
    "Parser": "rnnparse.parser",
    "PerExampleModel": "rnnparse.optim.per_example",
    "ScoredTree": "rnnparse.parser",
    "Study": "rnnparse.study.study",
    "TrainingConfig": "rnnparse.config",
    "TreebankStyle": "rnnparse.trees.style",
    "check_external": "rnnparse.losses.external",
    "evaluate": "rnnparse.evaluation",
    "external_loss": "rnnparse.losses.external",
    "fit_least_squares": "rnnparse.optim.least_squares",
    "freeze": "rnnparse.optim.freezing",
    "load": "rnnparse.parser",
    "load_trees": "rnnparse.trees.brackets",
    "range_test": "rnnparse.study.lr_range_test",
    "read_trees": "rnnparse.trees.brackets",
    "structured_hinge": "rnnparse.losses.structured",
    "structured_perceptron": "rnnparse.losses.structured",
    "structured_squared_hinge": "rnnparse.losses.structured",
    "train": "rnnparse.training.pipeline",
    "unfreeze": "rnnparse.optim.freezing",
    "write_trees": "rnnparse.trees.brackets",
}

__all__ = [
    "CVG",
    "AdaGrad",
    "EvalbParams",
    "Evaluation",
    "ExternalLoss",
    "LevenbergMarquardt",
    "NodeScore",
    "ParseResult",
    "Parser",
    "PerExampleModel",
    "ScoredTree",
    "Study",
    "TrainingConfig",
    "TreebankStyle",
    "check_external",
    "evaluate",
    "external_loss",
    "fit_least_squares",
    "freeze",
    "load",
    "load_trees",
    "range_test",
    "read_trees",
    "structured_hinge",
    "structured_perceptron",
    "structured_squared_hinge",
    "train",
    "unfreeze",
    "write_trees",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rnnparse' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)

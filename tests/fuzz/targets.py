"""The targets of `python -m tests.fuzz`, by name."""

from __future__ import annotations

import importlib

from tests.fuzz.harness import Target
from tests.fuzz.model_mutations import MODELS
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.readers import READERS
from tests.fuzz.study_mutations import STUDIES

TARGETS: dict[str, Target] = {
    target.name: target for target in (*READERS, *PROGRAMS, *MODELS, *STUDIES)
}


def find_target(name: str) -> Target:
    """A target by its name, or as MODULE:ATTRIBUTE."""
    module, _, attribute = name.partition(":")
    if not attribute:
        return TARGETS[name]
    target: Target = getattr(importlib.import_module(module), attribute)
    return target

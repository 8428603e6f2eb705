"""Public names of a package, each loaded when it is first used (PEP 562).

A package lists its public names once, in its stub `__init__.pyi`. Type checkers and editors read
that file, and so does `public_names`: importing the package imports none of its modules.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package with a stub.

    Args:
        package: its name, of which the stub says `from MODULE import NAME as NAME` for a public
            name and `from PACKAGE import NAME as NAME` for a public subpackage.
    """
    module = sys.modules[package]
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    homes = {
        alias.name: node.module
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(str(home)), name)
        setattr(module, name, value)
        return value

    names = sorted(homes)
    return load, lambda: names, names

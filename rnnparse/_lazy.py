"""Public names of a package, each loaded when it is first used (PEP 562).

A package lists its public names once, in its stub `__init__.pyi`. Type checkers and editors read
that file, and so does `public_names` when a name is first used: importing the package imports none
of its modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from os.path import splitext
from typing import Any


def public_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with a stub; the former also gives `__all__`.

    Args:
        package: its name, of which the stub says `from MODULE import NAME as NAME` for a public
            name and `from PACKAGE import NAME as NAME` for a public subpackage.
    """
    module = sys.modules[package]

    @cache
    def homes() -> dict[str, str | None]:
        import ast  # takes 10 ms to load

        with open(f"{splitext(str(module.__file__))[0]}.pyi", encoding="utf-8") as stub:
            body = ast.parse(stub.read()).body
        imports = (node for node in body if isinstance(node, ast.ImportFrom))
        return {alias.name: node.module for node in imports for alias in node.names}

    def names() -> list[str]:
        return sorted(homes())

    def load(name: str) -> Any:
        if name == "__all__":
            return names()
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes()[name]
        if home == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(str(home)), name)
        setattr(module, name, value)
        return value

    return load, names

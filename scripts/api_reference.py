"""Write docs/api.md: the public names of rnnparse and its subpackages, from their docstrings.

    python scripts/api_reference.py
"""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"
INTRODUCTION = """\
# API reference

The public names of each package, with the first paragraph of their documentation; `help(NAME)` in
Python shows all of it. Import a name from the package in the heading, for example
`from rnnparse.optim import clip_each`: modules inside the packages may change.
`python scripts/api_reference.py` writes this page.
"""


def reference() -> str:
    """The page."""
    stubs = (ROOT / "rnnparse").rglob("__init__.pyi")
    packages = sorted(".".join(stub.parent.relative_to(ROOT).parts) for stub in stubs)
    return "\n".join([INTRODUCTION, *(part for name in packages for part in section(name))])


def section(package: str) -> list[str]:
    """The part about a package: its purpose, and an entry for each of its names."""
    face = import_module(package)
    names = [name for name in face.__all__ if not isinstance(getattr(face, name), ModuleType)]
    entries = [entry(package, name, getattr(face, name)) for name in names]
    return [f"## {package}\n", first_paragraph(face) + "\n", *entries, ""]


def entry(package: str, name: str, value: Any) -> str:
    """One line: signature with a link to the source, and the first paragraph of the docstring."""
    module = inspect.getmodule(value)
    if module is None or not module.__name__.startswith("rnnparse"):  # a constant
        module = import_module(homes(package)[name])
    home = Path(str(module.__file__))
    label = f"[`{name}{signature(value)}`](../{home.relative_to(ROOT)})"
    return f"- {label}: {constant_paragraph(home, name) or first_paragraph(value)}"


def homes(package: str) -> dict[str, str]:
    """The modules from which a package imports its public names."""
    stub = ROOT.joinpath(*package.split("."), "__init__.pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def constant_paragraph(home: Path, name: str) -> str:
    """The first paragraph of the string below the assignment to a name; empty if there is none."""
    for node, below in pairwise(ast.parse(home.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            assert isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant), name
            return paragraph(str(below.value.value))
    return ""


def signature(value: Any) -> str:
    """The parameters without their types; empty for what is not called directly."""
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    names = [p.replace(annotation=p.empty) for p in parameters]
    shown = inspect.Signature([p if short(p.default) else p.replace(default=...) for p in names])
    return str(shown).replace("Ellipsis", "…")


def short(default: Any) -> bool:
    """Whether a default is brief enough to be shown."""
    return default is inspect.Parameter.empty or len(repr(default)) <= 20


def first_paragraph(value: Any) -> str:
    """The first paragraph of the docstring of a value."""
    return paragraph(inspect.getdoc(value) or "")


def paragraph(docstring: str) -> str:
    """The first paragraph on one line."""
    return " ".join(docstring.partition("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

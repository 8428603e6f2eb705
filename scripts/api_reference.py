"""Write docs/api.md: the public names of rnnparse and its subpackages, from their docstrings.

    python scripts/api_reference.py
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"
INTRODUCTION = """\
# API reference

The public names of each package, with the first paragraph of their documentation; `help(NAME)` in
Python shows all of it. Names load when they are first used. Modules inside the packages are
private. `python scripts/api_reference.py` writes this page.
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
    home = inspect.getmodule(value)
    label = f"`{name}{signature(value)}`"
    if home is not None and home.__file__ and home.__name__.startswith("rnnparse"):
        label = f"[{label}](../{Path(home.__file__).relative_to(ROOT)})"
    return f"- {label}: {first_paragraph(value)}"


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
    """The first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")

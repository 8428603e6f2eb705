"""Render the templates of this folder with Jinja2."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnnparse.errors import MissingExtraError
from rnnparse.trees.draw import indented
from rnnparse.trees.drawing import EXTRA, draw_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

_TEMPLATES = Path(__file__).parent / "templates"


def rendered(name: str, context: dict[str, Any]) -> Iterator[str]:
    """The pieces of a page, each as soon as it is ready.

    Args:
        name: of a template.
        context: its variables; iterators in it are consumed step by step.

    Raises:
        MissingExtraError: at once, if Jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", EXTRA) from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    pieces: Iterator[str] = environment.get_template(name).generate(context)
    return (_encodable(piece) for piece in pieces)


def inline_tree(tree: Tree, marked: Collection[int] = ()) -> Any:
    """Markup of a tree for a page: a drawing, or text if the tree is too deep for one.

    Args:
        tree: the tree.
        marked: as for `rnnparse.trees.drawing.draw_tree`.

    Raises:
        MissingExtraError: svgling or Jinja2 is not installed.
    """
    try:
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("jinja2", EXTRA) from None
    try:
        return Markup(draw_tree(tree, marked, background=None).svg)
    except ValueError:
        return Markup("<pre>{}</pre>").format("\n".join(indented(tree)))


def _number(value: float | None, digits: int = 2) -> str:
    """A number for a table; a dash for None."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0.00


def _encodable(text: str) -> str:
    """A text with U+FFFD for bytes of file names that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""A page that shows trees, one sentence after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rnnparse.pages.rendering import rendered


class Figure(NamedTuple):
    """A tree on a page: markup of `inline_tree`, and a line below it."""

    markup: Any
    caption: str


class Section(NamedTuple):
    """A sentence on a page.

    Attributes:
        heading: a line.
        text: the sentence.
        notes: what to know about its trees.
        figures: the trees.
    """

    heading: str
    text: str
    notes: Sequence[str]
    figures: Sequence[Figure]


def tree_page(title: str, sections: Iterable[Section]) -> Iterator[str]:
    """The pieces of the page; each section as soon as it is there.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    return rendered("trees.html.j2", {"title": title, "sections": sections})

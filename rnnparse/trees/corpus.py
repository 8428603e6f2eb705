"""Read a treebank and clean its trees; warnings count what cleaning removes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rnnparse.trees.brackets import Source, read_as, source_name
from rnnparse.trees.cleaning import Removals, clean
from rnnparse.trees.node import Node
from rnnparse.trees.style import TreebankStyle

if TYPE_CHECKING:
    from nltk.tree import Tree

_log = logging.getLogger("rnnparse")
_SHOWN = 3  # most examples in a warning


def read_clean(
    source: Source, style: TreebankStyle, *, tree_type: type = Node, keep_empty: bool = False
) -> Iterator[tuple[Tree, Tree | None]]:
    """The trees of a treebank, each with its cleaned form.

    Warnings at the end count trees that hold only traces, nodes that the style drops, traces that
    are not tagged -NONE-, and kept words that look like traces.

    Args:
        source, keep_empty: as for `read_trees`.
        style: conventions of the treebank.
        tree_type: type of the trees, `Node` or NLTK's `Tree`.

    Returns:
        Pairs of a tree and its cleaned form, which is None if no words remain.

    Raises:
        TreebankError: as `read_trees`.
    """
    removals, without_words = Removals(), 0
    for tree in read_as(tree_type, source, style, keep_empty):
        cleaned = clean(tree, style, removals)
        without_words += cleaned is None and len(tree) > 0
        yield tree, cleaned
    name = source_name(source)
    if without_words:
        _log.warning("%s: %d tree(s) hold only traces", name, without_words)
    removed = []
    if removals.nodes:
        labels = ", ".join(sorted(removals.nodes))
        removed.append(f"{removals.nodes.total()} node(s) labelled {labels} (--drop)")
    if removals.traces:
        removed.append(f"{_examples(removals.traces, 'trace(s)')} (--traces)")
    if removed:
        _log.warning("%s: removed %s", name, " and ".join(removed))
    suspects = removals.likely_traces()
    if suspects:
        _log.warning(
            "%s: kept %s; if they are traces, remove them with --traces",
            name,
            _examples(suspects, "word(s) that look like traces"),
        )


def _examples(counts: Counter[tuple[str, str]], what: str) -> str:
    examples = (f"({category} {word})" for (category, word), _ in counts.most_common(_SHOWN))
    return f"{counts.total()} {what} such as {', '.join(examples)}"

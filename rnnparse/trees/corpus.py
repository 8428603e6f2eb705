"""A treebank's trees beside their cleaned form, with warnings that count what was left out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from nltk.tree import Tree

from rnnparse.trees.brackets import Source, read_trees, source_name
from rnnparse.trees.cleaning import Removals, clean
from rnnparse.trees.style import TreebankStyle

_log = logging.getLogger("rnnparse")
_SHOWN = 3  # examples


def read_clean(
    source: Source, style: TreebankStyle, *, keep_empty: bool = False
) -> Iterator[tuple[Tree, Tree | None]]:
    """Trees as a treebank has them, each with its cleaned form.

    What cleaning leaves out is counted in warnings at the end: trees that hold nothing but traces,
    nodes that the style drops, and traces that are not tagged -NONE-; so are words that look like
    traces and were kept.

    Args:
        source, keep_empty: as for `read_trees`.
        style: the conventions of the treebank.

    Returns:
        Pairs of a tree and its cleaned form, which is None where no word is left.

    Raises:
        TreebankError: as `read_trees`.
    """
    removals, without_words = Removals(), 0
    for tree in read_trees(source, style=style, keep_empty=keep_empty):
        cleaned = clean(tree, style, removals)
        without_words += cleaned is None and len(tree) > 0
        yield tree, cleaned
    name = source_name(source)
    if without_words:
        _log.warning("%s: %d tree(s) hold nothing but traces", name, without_words)
    left_out = []
    if removals.nodes:
        labels = ", ".join(sorted(removals.nodes))
        left_out.append(f"{removals.nodes.total()} node(s) labelled {labels} (--drop)")
    if removals.traces:
        left_out.append(f"{_examples(removals.traces, 'trace(s)')} (--traces)")
    if left_out:
        _log.warning("%s: left out %s", name, " and ".join(left_out))
    suspects = removals.likely_traces()
    if suspects:
        _log.warning(
            "%s: kept %s; if they are traces, leave them out with --traces",
            name,
            _examples(suspects, "word(s) that look like traces"),
        )


def _examples(counts: Counter[tuple[str, str]], what: str) -> str:
    examples = (f"({category} {word})" for (category, word), _ in counts.most_common(_SHOWN))
    return f"{counts.total()} {what} such as {', '.join(examples)}"

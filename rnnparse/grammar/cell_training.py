"""Training of the classifier of chart cells; see `cell_closing`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.grammar.cell_closing import BITS, CellClosing
from rnnparse.grammar.cell_kernel import fit_cells, gold_scores
from rnnparse.grammar.coarse import CoarseGrammar
from rnnparse.grammar.coarse_tags import coarse_emissions, likeliest_tags
from rnnparse.grammar.lexicon import Lexicon
from rnnparse.trees.binarization import binarize
from rnnparse.trees.cleaning import words
from rnnparse.trees.heads import HeadTable
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

MISSED = 0.005  # share of constituents in closed cells, of sentences not trained on
LONGEST = 400  # tokens; the number of cells grows with the square of the length
FEWEST = 1000  # constituents other than tokens and sentences; with fewer, no cell is closed


def estimate_closing(
    trees: Sequence[Tree], heads: HeadTable, lexicon: Lexicon, coarse: CoarseGrammar
) -> CellClosing | None:
    """Train the classifier; None if there are too few constituents.

    The threshold is the one at which classifiers trained on either half of the trees close the
    cells of `MISSED` of the constituents of the other half. Sentences of more than `LONGEST` tokens
    are left out.

    Args:
        trees: cleaned trees.
        heads: for the binarization.
        lexicon: tags their words.
        coarse: the coarse grammar.
    """
    short = [tree for tree in trees if len(words(tree)) <= LONGEST]
    if not short:
        return None
    data = _Data.of(short, heads, lexicon, coarse)
    middle = len(short) // 2
    halves = data.part(0, middle), data.part(middle, len(short))
    scores = np.concatenate(
        [other.gold_scores(half.fitted()) for half, other in (halves, halves[::-1])]
    )
    if len(scores) < FEWEST:
        return None
    return CellClosing(data.fitted(), float(np.quantile(scores, MISSED)))


@dataclass(frozen=True)
class _Data:
    """The tags of sentences, and which cells constituents span; see `fit_cells`."""

    ptr: np.ndarray
    tags: np.ndarray
    cell_ptr: np.ndarray
    gold: np.ndarray

    @classmethod
    def of(
        cls, trees: Sequence[Tree], heads: HeadTable, lexicon: Lexicon, coarse: CoarseGrammar
    ) -> _Data:
        tags = [_tags(words(tree), lexicon, coarse) for tree in trees]
        gold = [_spanned_cells(tree, heads) for tree in trees]
        return cls(
            np.cumsum([0, *map(len, tags)], dtype=np.int64),
            np.concatenate(tags),
            np.cumsum([0, *map(len, gold)], dtype=np.int64),
            np.concatenate(gold),
        )

    def part(self, first: int, last: int) -> _Data:
        """The sentences first..last-1."""
        ptr, cells = self.ptr[first : last + 1], self.cell_ptr[first : last + 1]
        return _Data(
            ptr - ptr[0],
            self.tags[ptr[0] : ptr[-1]],
            cells - cells[0],
            self.gold[cells[0] : cells[-1]],
        )

    def fitted(self) -> np.ndarray:
        """The weights of a classifier trained on this data."""
        weights = np.zeros(1 << BITS, np.float32)
        fit_cells(self.ptr, self.tags, self.gold, weights)
        return weights

    def gold_scores(self, weights: np.ndarray) -> np.ndarray:
        """The scores of the cells of constituents."""
        scores: np.ndarray = gold_scores(self.ptr, self.tags, self.gold, weights)
        return scores


def _tags(tokens: list[str], lexicon: Lexicon, coarse: CoarseGrammar) -> np.ndarray:
    e = lexicon.emissions(tokens)
    tags: np.ndarray = likeliest_tags(
        *coarse_emissions(e.ptr, e.symbol, e.logp, coarse.coarse, coarse.state_weight),
        coarse.tag_weight,
        coarse.tag_code,
    )
    return tags


def _spanned_cells(tree: Tree, heads: HeadTable) -> np.ndarray:
    """uint8: of each cell, whether a node of the binarized tree spans it; trees may be deep."""
    n = len(words(tree))
    spanned = np.zeros(n * (n + 1) // 2, np.uint8)
    position = 0
    # Each node is visited twice: with -1 before its children, and with its start after them.
    pending: list[tuple[Any, int]] = [(binarize(tree, heads), -1)]
    while pending:
        node, start = pending.pop()
        if start >= 0:
            spanned[position * (position - 1) // 2 + position - 1 - start] = 1
        elif is_tree(node):
            pending.append((node, position))
            pending.extend((child, -1) for child in reversed(node))
        else:
            position += 1
    return spanned

"""The classifier of chart cells: what it is trained on, and how many constituents it misses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.grammar import cell_training
from rnnparse.grammar.cell_closing import BITS, CellClosing
from rnnparse.grammar.cell_kernel import cell_scores
from rnnparse.grammar.coarse import coarse_grammar
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.trees.heads import HeadTable
from rnnparse.trees.node import Node
from tests.grammar.small import trees


def cell(start: int, end: int) -> int:
    return end * (end - 1) // 2 + end - 1 - start


def test_the_cells_of_constituents_and_intermediate_ones() -> None:
    tree = Tree.fromstring("(TOP (S (NP (D a) (J b) (N c)) (V d) (P e)))")
    spanned = cell_training._spanned_cells(tree, HeadTable.left())
    # Heads are leftmost, so right siblings are split off from the outside inward.
    spans = {(i, i + 1) for i in range(5)} | {(0, 3), (0, 2), (0, 5), (0, 4)}
    assert {x for x in range(15) if spanned[x]} == {cell(i, j) for i, j in spans}


def test_a_deep_tree_is_no_problem() -> None:
    tree = Node("N", ["w"])
    for i in range(5000):
        tree = Node("AB"[i % 2], [tree])
    grammar = estimate([Node("TOP", [tree])] * 2, HeadTable.left())
    assert grammar.closing is None


def test_few_constituents_and_long_sentences_close_no_cell(
    grammar: Grammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarse = coarse_grammar(grammar.pcfg, grammar.lexicon.states())

    def closing(given: list[Tree]) -> CellClosing | None:
        return cell_training.estimate_closing(given, grammar.heads, grammar.lexicon, coarse)

    treebank = trees(400)
    assert closing(treebank[:5]) is None
    assert closing(treebank) is not None
    monkeypatch.setattr(cell_training, "LONGEST", 2)
    assert closing(treebank) is None


def test_about_the_wanted_share_of_unseen_constituents_is_missed(grammar: Grammar) -> None:
    coarse = coarse_grammar(grammar.pcfg, grammar.lexicon.states())
    closing = cell_training.estimate_closing(trees(400), grammar.heads, grammar.lexicon, coarse)
    assert closing is not None
    data = cell_training._Data.of(trees(200, "dev"), grammar.heads, grammar.lexicon, coarse)
    scores = data.gold_scores(closing.weights)
    assert np.mean(scores < closing.threshold) < 4 * cell_training.MISSED
    tags = data.tags[data.ptr[0] : data.ptr[1]]
    of_cells = cell_scores(tags, closing.weights)
    n = len(tags)
    assert np.isinf(of_cells).sum() == n + (n > 1)  # tokens and the whole stay open
    every = np.concatenate(
        [cell_scores(data.tags[a:b], closing.weights) for a, b in pairwise(data.ptr)]
    )
    assert np.mean(every < closing.threshold) > 0.2


@pytest.mark.parametrize(
    ("weights", "threshold"),
    [
        (np.zeros(8, np.float32), 0.0),
        (np.zeros(1 << BITS, np.float64), 0.0),
        (np.full(1 << BITS, np.nan, np.float32), 0.0),
        (np.zeros(1 << BITS, np.float32), np.inf),
        (np.zeros(1 << BITS, np.float32), np.nan),
    ],
)
def test_weights_and_threshold_are_checked(weights: np.ndarray, threshold: float) -> None:
    with pytest.raises(ValueError, match="closing"):
        CellClosing(weights, threshold)

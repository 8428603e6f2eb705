from __future__ import annotations

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.inference.forest import Forest
from rnnparse.losses.cost import candidate_spans, labelled_spans, span_costs, structured_cost
from tests.models.random_forest import CATEGORIES, random_forest

COUNTED = np.array([not name.startswith("@") for name in CATEGORIES])


def as_tree(forest: Forest, candidate: int) -> Tree:
    """One candidate, with intermediate nodes undone."""

    def children(node: int) -> list[Tree]:
        name = CATEGORIES[forest.cat[node]]
        if forest.left[node] < 0:
            return [Tree(name, ["w"])]
        below = children(forest.left[node])
        if forest.right[node] >= 0:
            below = below + children(forest.right[node])
        return below if name.startswith("@") else [Tree(name, below)]

    (tree,) = children(int(forest.root[candidate]))
    return tree


def spans_of(tree: Tree) -> np.ndarray:
    ids = [(CATEGORIES.index(label), start, end) for label, start, end in labelled_spans(tree)]
    return np.array(ids, np.int32).reshape(-1, 3)


def test_spans_are_those_of_inner_nodes_without_the_root() -> None:
    tree = Tree.fromstring("(TOP (S (NP (DT the) (NN cat)) (VP (VB sat))))")
    assert sorted(labelled_spans(tree)) == [("NP", 0, 2), ("S", 0, 3), ("VP", 2, 3)]
    assert labelled_spans(Tree.fromstring("(TOP (NN cat))")) == []
    assert labelled_spans(Tree.fromstring("(NN cat)")) == []


def test_the_margin_counts_wrong_spans_by_hand() -> None:
    gold = Tree.fromstring("(TOP (S (NP (D the) (N cat)) (VP (V sat))))")
    label = Tree.fromstring("(TOP (S (NP (D the) (N cat)) (X (V sat))))")
    bracket = Tree.fromstring("(TOP (S (D the) (NP (N cat) (VP (V sat)))))")
    root = Tree.fromstring("(ROOT (S (NP (X the) (X cat)) (VP (X sat))))")
    assert structured_cost(gold, gold) == 0
    assert structured_cost(label, gold) == pytest.approx(0.1)
    assert structured_cost(bracket, gold, kappa=2.0) == 2.0
    assert structured_cost(root, gold) == 0
    # Missing spans cost nothing: the margin looks at the candidate's own.
    assert structured_cost(Tree.fromstring("(TOP (S (D the) (N cat) (V sat)))"), gold) == 0


def test_repeated_spans_count_as_often_as_they_are_too_many() -> None:
    once = Tree.fromstring("(TOP (NP (S (N cat))))")
    twice = Tree.fromstring("(TOP (NP (S (NP (N cat)))))")
    assert structured_cost(twice, once, 1.0) == 1
    assert structured_cost(once, twice, 1.0) == 0
    assert structured_cost(twice, twice, 1.0) == 0


@pytest.mark.parametrize("seed", range(12))
def test_forests_give_the_margin_of_each_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = int(rng.integers(1, 8))
    forest = random_forest(words, 12, rng)
    trees = [as_tree(forest, k) for k in range(len(forest.root))]
    target = int(rng.integers(len(trees)))
    outside = as_tree(random_forest(words, 1, rng), 0)
    for gold in (trees[target], outside):
        costs = span_costs(forest, spans_of(gold), COUNTED, kappa=0.1)
        expected = [structured_cost(tree, gold, 0.1) for tree in trees]
        np.testing.assert_allclose(costs, expected, atol=1e-12)
    own = candidate_spans(forest, target, COUNTED)
    assert sorted(map(tuple, own)) == sorted(map(tuple, spans_of(trees[target])))
    assert span_costs(forest, own, COUNTED)[target] == 0


def test_repeated_spans_in_a_forest() -> None:
    """NP over S over NP, and NP alone, over one word; the target has NP twice, then once."""
    top, tag, np_, s = 0, 1, 4, 6
    forest = Forest(
        cat=np.array([tag, np_, s, np_, top, top], np.int32),
        left=np.array([-1, 0, 1, 2, 3, 1], np.int32),
        right=np.full(6, -1, np.int32),
        start=np.zeros(6, np.int32),
        end=np.ones(6, np.int32),
        root=np.array([4, 5], np.int32),
        logp=np.zeros(2),
    )
    twice = np.array([[np_, 0, 1], [s, 0, 1], [np_, 0, 1]])
    assert span_costs(forest, twice, COUNTED).tolist() == [0, 0]
    assert span_costs(forest, twice[:2], COUNTED).tolist() == [1, 0]
    assert span_costs(forest, twice[1:2], COUNTED).tolist() == [2, 1]
    assert span_costs(forest, np.array([[-7, 0, 1], [99, 0, 1]]), COUNTED).tolist() == [3, 1]


def test_a_target_without_spans_makes_all_spans_wrong() -> None:
    forest = random_forest(5, 4, np.random.default_rng(0))
    costs = span_costs(forest, np.empty((0, 3)), COUNTED)
    counts = [len(labelled_spans(as_tree(forest, k))) for k in range(len(forest.root))]
    assert costs.tolist() == counts


def test_deep_trees_need_no_deep_stack() -> None:
    tree = Tree("N", ["w"])
    for _ in range(5000):
        tree = Tree("X", [tree, Tree("N", ["w"])])
    assert len(labelled_spans(tree)) == 4999
    assert structured_cost(tree, tree) == 0

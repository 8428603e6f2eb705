"""Random small treebanks, and the probability of a tree summed over all its substates."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.grammar.latent_layout import Layout
from rnnparse.grammar.latent_training import Trainer
from rnnparse.grammar.latent_trees import Nodes, TreebankArrays, treebank_arrays
from rnnparse.trees.heads import HeadTable

LABELS = ("A", "B", "TOP", "X", "Y")
PHRASES, TAGS = ("A", "B"), ("X", "Y", "A")  # a label may be a tag and a phrase


def random_tree(rng: np.random.Generator, depth: int) -> Tree:
    """A tree without its root; nodes have up to three children, and unary chains occur."""
    if depth == 0 or rng.random() < 0.3:
        return Tree(str(rng.choice(TAGS)), [f"w{rng.integers(4)}"])
    children = [random_tree(rng, depth - 1) for _ in range(int(rng.integers(1, 4)))]
    return Tree(str(rng.choice(PHRASES)), children)


@st.composite
def treebanks(draw: st.DrawFn, most: int = 4, depth: int = 2) -> list[Tree]:
    """Up to `most` trees; hypothesis chooses their number and a seed."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    count = draw(st.integers(1, most))
    return [Tree("TOP", [random_tree(rng, depth)]) for _ in range(count)]


def trainer_of(
    trees: list[Tree], seed: int = 0, smoothing: float = 0.0
) -> tuple[TreebankArrays, Trainer]:
    """The trainer of trees over `LABELS`."""
    bank = treebank_arrays(trees, HeadTable.left(), LABELS)
    weights = np.full(len(bank.rules), smoothing)
    return bank, Trainer(bank, LABELS.index("TOP"), np.random.default_rng(seed), weights)


def tree_probability(nodes: Nodes, layout: Layout, probability: np.ndarray, tree: int) -> float:
    """The probability of a tree, by a loop over all assignments of substates."""
    table = {
        (int(rule), *states): p
        for rule, states, p in zip(
            layout.rule, layout.states.T.tolist(), probability.tolist(), strict=True
        )
    }
    own = range(int(nodes.ptr[tree]), int(nodes.ptr[tree + 1]))
    sizes = [range(int(layout.substates[nodes.category[v]])) for v in own]
    total = 0.0
    for states in product(*sizes):
        state = dict(zip(own, states, strict=True))
        total += prod(
            table.get(
                (
                    int(nodes.rule[v]), state[v],
                    state.get(int(nodes.left[v]), 0), state.get(int(nodes.right[v]), 0),
                ),
                0.0,
            )
            for v in own
        )  # fmt: skip
    return total

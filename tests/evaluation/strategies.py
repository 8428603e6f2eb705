"""Random trees over given words, and an independent count of EVALB's numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import strategies as st
from nltk.tree import Tree

LABELS = ("S", "NP", "VP", "PP", "NP-SBJ", "X=2", "ADVP", "PRT", "TOP", "ADJP")
TAGS = ("N", "V", "D", ".", ",", "-NONE-", "ADVP", "PRT")


@st.composite
def trees_over(draw: st.DrawFn, words: list[tuple[str, str]]) -> Tree:
    """A tree whose leaves are these (tag, word) pairs."""
    if len(words) == 1 and draw(st.booleans()):
        return Tree(words[0][0], [words[0][1]])
    label = draw(st.sampled_from(LABELS))
    if len(words) == 1:
        return Tree(label, [Tree(words[0][0], [words[0][1]])])
    cuts = draw(st.sets(st.integers(1, len(words) - 1), min_size=1, max_size=3))
    edges = [0, *sorted(cuts), len(words)]
    children = [draw(trees_over(words[a:b])) for a, b in pairwise(edges)]
    tree = Tree(label, children)
    return Tree(draw(st.sampled_from(LABELS)), [tree]) if draw(st.integers(0, 5)) == 0 else tree


@st.composite
def tree_pairs(draw: st.DrawFn, *, same_tags: bool = False) -> tuple[Tree, Tree]:
    """Two trees over the same words; tags may differ where neither tag is deleted."""
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=9))
    gold = [(tag, f"w{i % 4}") for i, tag in enumerate(tags)]
    test = list(gold)
    if not same_tags:
        for i, (tag, word) in enumerate(gold):
            if tag in ("N", "V", "D"):
                test[i] = (draw(st.sampled_from(("N", "V", "D"))), word)
    top = [Tree("TOP", [draw(trees_over(words))]) for words in (gold, test)]
    return top[0], top[1]


def plain_spans(tree: Tree, deleted: set[str]) -> list[tuple[str, int, int]]:
    """Labelled spans by tree positions, with ADVP for PRT."""
    kept: list[tuple[int, ...]] = []
    for position in tree.treepositions("leaves"):
        if tree[position[:-1]].label() not in deleted:
            kept.append(position)
    result = []
    for position in tree.treepositions():
        node = tree[position]
        if isinstance(node, str) or node.height() == 2:
            continue
        below = [i for i, leaf in enumerate(kept) if leaf[: len(position)] == position]
        label = node.label().replace("=", "-").split("-")[0]
        if below and label not in deleted:
            result.append(("ADVP" if label == "PRT" else label, below[0], below[-1] + 1))
    return result


def plain_counts(gold: Tree, test: Tree, deleted: set[str]) -> tuple[int, int, int, int]:
    """Matched, gold, test and crossing brackets."""
    ours, theirs = plain_spans(gold, deleted), plain_spans(test, deleted)
    matched = sum((Counter(ours) & Counter(theirs)).values())
    crossing = 0
    for _, start, end in theirs:
        cells = set(range(start, end))
        crossing += any(
            cells & other and cells - other and other - cells
            for other in (set(range(a, b)) for _, a, b in ours)
        )
    return matched, len(ours), len(theirs), crossing

"""The grammar's part of the score of each node of a tree: the rules of its best derivation.

A node of more than two children has many derivations, by the order in which the siblings of a head
are split off; all of them are compared. Rules between basic categories are few, so that a node
takes a few small array operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rnnparse.grammar.lexicon import Emissions
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.trees.cleaning import ROOT
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree


class _Rules(NamedTuple):
    """The rules of one parent category and child categories; symbols are numbered by category."""

    parent: np.ndarray  # rising
    left: np.ndarray
    right: np.ndarray
    logp: np.ndarray
    first: np.ndarray  # first rule of each parent


class _Node:
    """A node of a tree; `score` has an entry for each span of its children, by symbol."""

    def __init__(self, label: str, children: list[int], word: int) -> None:
        self.label, self.children, self.word = label, children, word
        self.score: dict[tuple[int, int], np.ndarray] = {}
        self.before_links: dict[tuple[int, int], np.ndarray] = {}


class RuleScores:
    """Scores nodes of trees with the rules of a grammar.

    Args:
        pcfg: the rules.
    """

    def __init__(self, pcfg: Pcfg) -> None:
        self._number = {name: c for c, name in enumerate(pcfg.categories)}
        self._basic = len(pcfg.categories)
        self._category = category = pcfg.category
        order = np.argsort(category, kind="stable")
        self._size = np.bincount(category, minlength=2 * self._basic)
        self._place = np.empty(len(category), np.int64)  # of a symbol within its category
        self._place[order] = np.arange(len(order)) - np.repeat(
            np.cumsum(self._size) - self._size, self._size
        )
        self._root = int(self._place[pcfg.root])
        parent, left, right = pcfg.binary.T
        self._binary = self._grouped(parent, left, right, pcfg.binary_logp)
        parent, child = pcfg.unary.T
        direct, link = ~pcfg.link, pcfg.link
        unary = (parent[direct], child[direct], child[direct], pcfg.unary_logp[direct])
        self._unary = self._grouped(*unary)
        self._links = self._grouped(parent[link], child[link], child[link], pcfg.unary_logp[link])

    def _grouped(
        self, parent: np.ndarray, left: np.ndarray, right: np.ndarray, logp: np.ndarray
    ) -> dict[tuple[int, int, int], _Rules]:
        """Rules by their categories; those of unary rules have their child as `right`, too."""
        kinds = self._category[np.stack([parent, left, right])]
        place = self._place[np.stack([parent, left, right])]
        order = np.lexsort((place[0], kinds[2], kinds[1], kinds[0]))
        kinds, place, logp = kinds[:, order], place[:, order], logp[order]
        new = np.any(kinds[:, 1:] != kinds[:, :-1], axis=0)
        bounds = [0, *(np.flatnonzero(new) + 1).tolist(), len(logp)]
        groups = {}
        for low, high in pairwise(bounds):
            if low < high:
                p, a, b = place[:, low:high]
                first = np.flatnonzero(np.diff(p, prepend=-1))
                key = (int(kinds[0, low]), int(kinds[1, low]), int(kinds[2, low]))
                groups[key] = _Rules(p, a, b, logp[low:high], first)
        return groups

    def parts(self, tree: Tree, emissions: Emissions, *, pieces: bool = False) -> np.ndarray | None:
        """The log probability of the rules at each node in the tree's best derivation.

        The rules of the binarization count with the node that they divide; so do links to the
        smoothing symbols of the grammar. A tag has the probability of its word.

        Args:
            tree: cleaned, with the root TOP.
            emissions: of its words.
            pieces: whether the root joins trees without a rule; it then has the score 0.

        Returns:
            float64 [nodes] in pre-order; their sum is the log probability of the derivation. None
            if the grammar has none.
        """
        nodes = self._nodes(tree)
        for v in reversed(range(len(nodes))):
            if not (pieces and v == 0):
                self._enter(nodes, nodes[v], emissions)
        parts = np.zeros(len(nodes))
        if pieces:
            pending = [(child, self._best(nodes[child])) for child in nodes[0].children]
        else:
            pending = [(0, self._root)] if nodes[0].label == ROOT else [(0, -1)]
        while pending:
            v, symbol = pending.pop()
            score = self._score(nodes[v])
            if symbol < 0 or score is None or score[symbol] == -np.inf:
                return None
            parts[v], below = self._explained(nodes, nodes[v], symbol)
            pending.extend(below)
        return parts

    def _nodes(self, tree: Tree) -> list[_Node]:
        """The nodes in pre-order."""
        nodes: list[_Node] = []
        pending: list[tuple[Tree, int]] = [(tree, -1)]
        words = 0
        while pending:
            old, above = pending.pop()
            is_tag = len(old) == 1 and not is_tree(old[0])
            if above >= 0:
                nodes[above].children.append(len(nodes))
            nodes.append(_Node(old.label(), [], words if is_tag else -1))
            words += is_tag
            if not is_tag:
                pending.extend((child, len(nodes) - 1) for child in reversed(old))
        return nodes

    def _kind(self, node: _Node, span: tuple[int, int]) -> int | None:
        """The category of a node, or of a part of its children; None if it is unknown."""
        basic = self._number.get(node.label)
        if basic is None or span == (0, max(len(node.children), 1)):
            return basic
        return self._basic + basic

    def _score(self, node: _Node) -> np.ndarray | None:
        return node.score.get((0, max(len(node.children), 1)))

    def _best(self, node: _Node) -> int:
        score = self._score(node)
        return -1 if score is None or not len(score) else int(score.argmax())

    def _enter(self, nodes: Sequence[_Node], node: _Node, emissions: Emissions) -> None:
        """Compute the scores of a node, whose children have theirs."""
        count = len(node.children)
        if node.word >= 0:
            kind = self._kind(node, (0, 1))
            if kind is not None:
                states = slice(emissions.ptr[node.word], emissions.ptr[node.word + 1])
                symbol, logp = emissions.symbol[states], emissions.logp[states]
                right = self._category[symbol] == kind
                score = np.full(self._size[kind], -np.inf)
                np.maximum.at(score, self._place[symbol[right]], logp[right])
                self._put(node, (0, 1), kind, score)
            return
        for width in range(1 if count == 1 else 2, count + 1):
            for low in range(count - width + 1):
                span = (low, low + width)
                kind = self._kind(node, span)
                if kind is None:
                    return
                best = np.full(self._size[kind], -np.inf)
                for rules, total, _ in self._options(nodes, node, span, kind):
                    parents = rules.parent[rules.first]
                    best[parents] = np.maximum(
                        best[parents], np.maximum.reduceat(total, rules.first)
                    )
                if best.max(initial=-np.inf) > -np.inf:
                    self._put(node, span, kind, best)

    def _put(self, node: _Node, span: tuple[int, int], kind: int, score: np.ndarray) -> None:
        """Enter the scores of a span, and those through links."""
        node.before_links[span] = node.score[span] = score
        links = self._links.get((kind, kind, kind))
        if links is not None:
            total = score[links.left] + links.logp
            parents = links.parent[links.first]
            linked = score.copy()
            linked[parents] = np.maximum(linked[parents], np.maximum.reduceat(total, links.first))
            node.score[span] = linked

    def _options(
        self, nodes: Sequence[_Node], node: _Node, span: tuple[int, int], kind: int
    ) -> Iterator[tuple[_Rules, np.ndarray, list[tuple[int, int]]]]:
        """The rules that can make a span of children, their scores, and the spans below."""
        low, high = span
        if high - low == 1:
            ways = [[(low, high)]]
        else:  # one sibling at a time is split off
            ways = [[(low, cut), (cut, high)] for cut in {low + 1, high - 1}]
        for way in ways:
            below = [self._below(nodes, node, part) for part in way]
            if any(score is None for _, score in below):
                continue
            (left, left_score), (right, right_score) = below[0], below[-1]
            table = self._unary if len(way) == 1 else self._binary
            rules = table.get((kind, left, right))
            if rules is None:
                continue
            assert left_score is not None and right_score is not None
            total = rules.logp + left_score[rules.left]
            if len(way) == 2:
                total = total + right_score[rules.right]
            yield rules, total, way

    def _below(
        self, nodes: Sequence[_Node], node: _Node, part: tuple[int, int]
    ) -> tuple[int, np.ndarray | None]:
        """The category and scores of a child, or of several children."""
        if part[1] - part[0] > 1:
            return self._basic + self._number[node.label], node.score.get(part)
        child = nodes[node.children[part[0]]]
        return self._number.get(child.label, -1), self._score(child)

    def _explained(
        self, nodes: Sequence[_Node], node: _Node, symbol: int
    ) -> tuple[float, list[tuple[int, int]]]:
        """The score of a node's rules in its best derivation, and its children's symbols."""
        part, below = 0.0, []
        pending = [((0, max(len(node.children), 1)), symbol)]
        while pending:
            span, symbol = pending.pop()
            kind = self._kind(node, span)
            assert kind is not None
            score = node.before_links[span]
            links = self._links.get((kind, kind, kind))
            if links is not None and node.score[span][symbol] > score[symbol]:
                total = np.where(links.parent == symbol, score[links.left] + links.logp, -np.inf)
                link = int(total.argmax())
                part += float(links.logp[link])
                symbol = int(links.left[link])
            if node.word >= 0:
                return part + float(score[symbol]), []
            best, rule, chosen, way = -np.inf, -1, None, []
            for rules, total, parts in self._options(nodes, node, span, kind):
                total = np.where(rules.parent == symbol, total, -np.inf)
                if total.max() > best:
                    best, rule, chosen, way = float(total.max()), int(total.argmax()), rules, parts
            assert chosen is not None
            part += float(chosen.logp[rule])
            for place, of in zip(way, (chosen.left, chosen.right), strict=False):
                if place[1] - place[0] > 1:
                    pending.append((place, int(of[rule])))
                else:
                    below.append((node.children[place[0]], int(of[rule])))
        return part, below

"""The constituents of a parsed tree: where they are, and what each adds to the tree's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.given_trees import forest_of_trees
from rnnparse.parse_results import Constituent, ScoredTree
from rnnparse.trees.binarization import INTERMEDIATE, binarize
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.parser import Parser


@dataclass(frozen=True)
class Describer:
    """Finds the constituents of the trees of one sentence.

    Attributes:
        parser: the parser that made the trees.
        written: the sentence's tokens as the decoder got them.
        offsets: of each token, its first character in the text and the one after its last; None
            if there is no text.
        glued: whether the root joins partial trees.
        posteriors: whether to compute them.
    """

    parser: Parser
    written: Sequence[str]
    offsets: Sequence[tuple[int, int]] | None
    glued: bool
    posteriors: bool

    def __call__(self, scored: ScoredTree) -> tuple[Constituent, ...]:
        """All nodes of a tree in pre-order."""
        nodes = list(_nodes(scored.tree))
        network = self._network_parts(scored.tree, len(nodes))
        grammar = self._grammar_parts(scored)
        chance = self._chances() if self.posteriors else None
        found = []
        for v, (label, start, end, is_tag) in enumerate(nodes):
            posterior = None
            if chance is not None:
                posterior = 1.0 if v == 0 else chance.get((label, start, end), 0.0)
            found.append(
                Constituent(
                    label=label,
                    span=(start, end),
                    characters=self._characters(start, end),
                    is_tag=is_tag,
                    rnn_score=float(network[v]),
                    log_probability=None if grammar is None else float(grammar[v]),
                    posterior=posterior,
                )
            )
        return tuple(found)

    def _characters(self, start: int, end: int) -> tuple[int, int] | None:
        if self.offsets is None:
            return None
        return self.offsets[start][0], self.offsets[end - 1][1]

    def _network_parts(self, tree: Tree, count: int) -> np.ndarray:
        """float64 [count]: the SU-RNN's scores of the nodes in pre-order."""
        parser = self.parser
        forest, tokens, _ = forest_of_trees([tree], parser.grammar)
        batch, place = parser._store(forest, tokens).batch_with_nodes([0])
        scores = parser._scorer.node_scores(batch)[place]
        owners = _owners(binarize(tree, parser.grammar.heads))
        return np.bincount(owners, scores, count)

    def _grammar_parts(self, scored: ScoredTree) -> np.ndarray | None:
        """float64 [nodes]: the log probabilities of the rules; they sum to that of the tree."""
        total = scored.log_probability
        if total is None or self.parser.is_mixture:
            return None
        emissions = self.parser._lexicon.emissions(self.written)
        parts = self.parser._rule_scores.parts(scored.tree, emissions, pieces=self.glued)
        if parts is not None:
            parts[0] += total - parts.sum()
        return parts

    def _chances(self) -> Mapping[tuple[str, int, int], float]:
        brackets = self.parser._brackets(self.written)
        return {(b.label, b.start, b.end): b.probability for b in brackets}


def _nodes(tree: Tree) -> list[tuple[str, int, int, bool]]:
    """Label, span and whether it is a tag, of each node in pre-order."""
    nodes: list[tuple[str, int, int, bool]] = []
    position = 0
    pending: list[Tree | int] = [tree]  # a number ends that node
    while pending:
        node = pending.pop()
        if isinstance(node, int):
            label, start, _, _ = nodes[node]
            nodes[node] = (label, start, position, False)
        elif is_tree(node[0]):
            pending.append(len(nodes))
            nodes.append((node.label(), position, -1, False))
            pending.extend(reversed(node))
        else:
            nodes.append((node.label(), position, position + 1, True))
            position += 1
    return nodes


def _owners(binary: Tree) -> list[int]:
    """For each node of a binarized tree in post-order, the node of the tree that it belongs to.

    Nodes of the tree have their numbers in pre-order.
    """
    owner: dict[int, int] = {}
    pending: list[tuple[Tree, int]] = [(binary, -1)]
    count = 0
    while pending:
        node, above = pending.pop()
        if not node.label().startswith(INTERMEDIATE):
            above, count = count, count + 1
        owner[id(node)] = above
        pending.extend((child, above) for child in reversed(node) if is_tree(child))
    owners = []
    again = [binary]
    while again:  # parents first and right children first is the reverse of post-order
        node = again.pop()
        owners.append(owner[id(node)])
        again.extend(child for child in node if is_tree(child))
    return owners[::-1]

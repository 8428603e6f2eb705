"""The forests of a corpus as flat arrays, from which minibatches are made without Python loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.array_invariants import STORE, check, trusted
from rnnparse.compiled import njit
from rnnparse.models.batch import LevelBatch, number_marked
from rnnparse.models.category_pairs import CategoryPairs, child_categories
from rnnparse.threads import apart

if TYPE_CHECKING:
    from rnnparse.inference.forest import Forest


@dataclass(frozen=True, eq=False)
class ForestDataset:
    """Forests of S sentences (M nodes, T candidates in all), ready for the network.

    Attributes:
        key: int32 [M], the node's row in the stacked weights; -1 for preterminals.
        word: int32 [M], vocabulary row of a preterminal's word; -1 for other nodes.
        left, right: int32 [M], child nodes, counted from the first node of the forest, or -1.
        height: int32 [M], 0 for preterminals, else one more than the highest child.
        node_offsets: int64 [S + 1], first node of each forest.
        root: int32 [T], root nodes, counted from the first node of the forest.
        logp: float64 [T], natural log of each candidate's probability.
        cost: float64 [T], structured margin for κ = 1.
        root_offsets: int64 [S + 1], first candidate of each sentence.
        gold: int32 [S], the target, as a candidate number.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.STORE`, or a child, root or target
            is outside its sentence.
    """

    key: np.ndarray
    word: np.ndarray
    left: np.ndarray
    right: np.ndarray
    height: np.ndarray
    node_offsets: np.ndarray
    root: np.ndarray
    logp: np.ndarray
    cost: np.ndarray
    root_offsets: np.ndarray
    gold: np.ndarray

    def __post_init__(self) -> None:
        check("store", STORE, vars(self))
        nodes, trees = np.diff(self.node_offsets), np.diff(self.root_offsets)
        if np.any(self.root >= np.repeat(nodes, trees)) or np.any(self.gold >= trees):
            raise ValueError("a root or a target of the store is outside its sentence")
        if not _is_sound(
            self.key, self.word, self.left, self.right, self.height, self.node_offsets
        ):
            raise ValueError("a node of the store precedes one of its children")

    @classmethod
    def from_forests(
        cls,
        forests: Sequence[Forest],
        rows: Sequence[np.ndarray],
        category_pairs: CategoryPairs,
        costs: Sequence[np.ndarray] | None = None,
        gold: np.ndarray | Sequence[int] | None = None,
    ) -> ForestDataset:
        """Collect forests.

        Args:
            forests: nodes with children before parents.
            rows: for each sentence int [words], the vocabulary rows of its tokens.
            category_pairs: give each node its row in the stacked weights.
            costs: for each sentence float [K], the structured margins for κ = 1; default 0.
            gold: int [S], the target of each sentence, as a candidate number; default 0.

        Raises:
            ValueError: a child does not precede its parent, or a sentence has fewer rows than its
                forest has words.
        """
        return cls.from_arrays(
            cat=_joined([f.cat for f in forests], np.int32),
            left=_joined([f.left for f in forests], np.int32),
            right=_joined([f.right for f in forests], np.int32),
            start=_joined([f.start for f in forests], np.int32),
            node_offsets=_offsets([len(f.cat) for f in forests]),
            rows=_joined(rows, np.int32),
            token_offsets=_offsets([len(r) for r in rows]),
            root=_joined([f.root for f in forests], np.int32),
            logp=_joined([f.logp for f in forests], np.float64),
            root_offsets=_offsets([len(f.root) for f in forests]),
            category_pairs=category_pairs,
            cost=None if costs is None else _joined(costs, np.float64),
            gold=None if gold is None else np.asarray(gold, np.int32),
        )

    @classmethod
    def from_arrays(
        cls,
        *,
        cat: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        start: np.ndarray,
        node_offsets: np.ndarray,
        rows: np.ndarray,
        token_offsets: np.ndarray,
        root: np.ndarray,
        logp: np.ndarray,
        root_offsets: np.ndarray,
        category_pairs: CategoryPairs,
        cost: np.ndarray | None = None,
        gold: np.ndarray | None = None,
    ) -> ForestDataset:
        """`from_forests` for concatenated arrays of forests, with their offsets [S + 1]."""
        sizes = np.diff(node_offsets)
        first = np.repeat(np.asarray(node_offsets[:-1], np.int64), sizes)
        leaf = left < 0
        absolute_left = np.where(leaf, -1, left + first)
        absolute_right = np.where(right < 0, -1, right + first)
        if np.any(np.maximum(absolute_left, absolute_right) >= np.arange(len(cat))):
            raise ValueError("a child in a forest does not precede its parent")
        token = start + np.repeat(np.asarray(token_offsets[:-1], np.int64), sizes)
        if np.any(token >= np.repeat(np.asarray(token_offsets[1:], np.int64), sizes)):
            raise ValueError("a forest has more words than its sentence has rows")
        key = category_pairs.rows(*child_categories(cat, absolute_left, absolute_right))
        return trusted(
            cls,
            key=np.where(leaf, np.int32(-1), key),
            word=np.where(leaf, _at(rows, token, leaf), np.int32(-1)),
            left=np.asarray(left, np.int32),
            right=np.asarray(right, np.int32),
            height=_heights(absolute_left, absolute_right),
            node_offsets=np.asarray(node_offsets, np.int64),
            root=np.asarray(root, np.int32),
            logp=np.asarray(logp, np.float64),
            cost=np.zeros(len(root)) if cost is None else np.asarray(cost, np.float64),
            root_offsets=np.asarray(root_offsets, np.int64),
            gold=np.zeros(len(sizes), np.int32) if gold is None else np.asarray(gold, np.int32),
        )

    def __len__(self) -> int:
        """S, the number of sentences."""
        return len(self.gold)

    def words(self) -> np.ndarray:
        """The vocabulary rows of all words of the forests: int32, ascending."""
        return np.unique(self.word[self.word >= 0])

    def batch(self, sentences: np.ndarray | Sequence[int]) -> LevelBatch:
        """The forests of the given sentences, in their order, as one batch."""
        return self.batch_with_nodes(sentences)[0]

    def batch_with_nodes(
        self, sentences: np.ndarray | Sequence[int]
    ) -> tuple[LevelBatch, np.ndarray]:
        """`batch`, and the node of the batch for each node of the forests.

        Returns:
            The batch, and int32 [nodes of these forests]: the forests' nodes, one forest after the
            other, as nodes of the batch.

        Raises:
            IndexError: a sentence does not exist.
        """
        chosen = np.asarray(sentences, np.int64)
        if chosen.min(initial=0) < 0 or chosen.max(initial=-1) >= len(self):
            raise IndexError(f"sentences must be from 0 to {len(self) - 1}")
        words, rows, key, left, right, level_offsets, node = _level_arrays(
            chosen, self.node_offsets, self.key, self.word, self.left, self.right, self.height
        )
        source, root = _candidates(chosen, self.node_offsets, self.root_offsets, self.root, node)
        candidates, mask = _rectangle(np.diff(self.root_offsets)[chosen])
        batch = LevelBatch(
            words=words,
            rows=rows,
            key=key,
            left=left,
            right=right,
            level_offsets=level_offsets,
            root=root,
            logp=self.logp[source],
            cost=self.cost[source],
            candidates=candidates,
            mask=mask,
            gold=self.gold[chosen],
        )
        return batch, node


def _joined(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)


def _offsets(sizes: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _at(values: np.ndarray, place: np.ndarray, where: np.ndarray) -> np.ndarray:
    """values[place] where `where` holds, else 0."""
    out = np.zeros(len(place), np.int32)
    out[where] = values[place[where]]
    return out


def _rectangle(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of candidates, sentence by sentence, as [B, K] with a mask."""
    column = np.arange(counts.max(initial=0))
    mask = column < counts[:, None]
    first = np.cumsum(counts) - counts
    return np.where(mask, first[:, None] + column, 0).astype(np.int32), mask


@njit(nogil=True)
def _is_sound(
    key: np.ndarray,
    word: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    height: np.ndarray,
    node_offsets: np.ndarray,
) -> bool:
    """Whether every node is a word, or follows its children, one of which is just below it."""
    for s in range(len(node_offsets) - 1):
        first = node_offsets[s]
        for i in range(first, node_offsets[s + 1]):
            a, b = left[i], right[i]
            if a < 0:
                if b >= 0 or word[i] < 0 or key[i] >= 0 or height[i] != 0:
                    return False
                continue
            if word[i] >= 0 or key[i] < 0 or a >= i - first or b >= i - first:
                return False
            below = height[first + a]
            if b >= 0:
                below = max(below, height[first + b])
            if height[i] != below + 1:
                return False
    return True


@njit(nogil=True)
def _heights(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    height = np.zeros(len(left), np.int32)
    for node in range(len(left)):
        if left[node] >= 0:
            height[node] = height[left[node]] + 1
        if right[node] >= 0:
            height[node] = max(height[node], height[right[node]] + 1)
    return height


@apart
@njit(nogil=True)
def _candidates(
    chosen: np.ndarray,
    node_offsets: np.ndarray,
    root_offsets: np.ndarray,
    root: np.ndarray,
    node: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The chosen sentences' candidates: their positions in the store, their nodes in the batch."""
    count = 0
    for s in chosen:
        count += root_offsets[s + 1] - root_offsets[s]
    source = np.empty(count, np.int64)
    new_root = np.empty(count, np.int32)
    count = 0
    first = 0
    for s in chosen:
        for t in range(root_offsets[s], root_offsets[s + 1]):
            source[count] = t
            new_root[count] = node[first + root[t]]
            count += 1
        first += node_offsets[s + 1] - node_offsets[s]
    return source, new_root


@njit(nogil=True)
def _mark(
    chosen: np.ndarray,
    node_offsets: np.ndarray,
    key: np.ndarray,
    word: np.ndarray,
    height: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Mark used words and rows with 0, others with -1; count nodes; find the greatest height."""
    count, words, rows, top = 0, 0, 0, 0
    for s in chosen:
        for i in range(node_offsets[s], node_offsets[s + 1]):
            count += 1
            words = max(words, word[i] + 1)
            rows = max(rows, key[i] + 1)
            top = max(top, height[i])
    word_slot = np.full(words, -1, np.int32)
    row_slot = np.full(rows, -1, np.int32)
    for s in chosen:
        for i in range(node_offsets[s], node_offsets[s + 1]):
            if word[i] >= 0:
                word_slot[word[i]] = 0
            else:
                row_slot[key[i]] = 0
    return word_slot, row_slot, count, top


@apart
@njit(nogil=True)
def _level_arrays(
    chosen: np.ndarray,
    node_offsets: np.ndarray,
    key: np.ndarray,
    word: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    height: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Sort nodes by height and weights (a counting sort); words become one node each.

    Returns the fields of `LevelBatch` up to level_offsets, and the new node of each old one.
    """
    word_slot, row_slot, count, top = _mark(chosen, node_offsets, key, word, height)
    words = number_marked(word_slot)
    rows = number_marked(row_slot)
    width = len(rows)
    place = np.zeros(top * width + 1, np.int32)
    for s in chosen:
        for i in range(node_offsets[s], node_offsets[s + 1]):
            if word[i] < 0:
                place[(height[i] - 1) * width + row_slot[key[i]] + 1] += 1
    place[0] = len(words)
    for bucket in range(1, len(place)):
        place[bucket] += place[bucket - 1]
    total = place[-1]
    level_offsets = np.empty(top + 2, np.int32)
    level_offsets[0] = 0
    for level in range(top + 1):
        level_offsets[level + 1] = place[level * width]

    node = np.empty(count, np.int32)
    new_key = np.full(total, -1, np.int32)
    new_left = np.full(total, -1, np.int32)
    new_right = np.full(total, -1, np.int32)
    first = 0
    for s in chosen:
        begin = node_offsets[s]
        for i in range(begin, node_offsets[s + 1]):
            here = first + i - begin
            if word[i] >= 0:
                node[here] = word_slot[word[i]]
                continue
            row = row_slot[key[i]]
            bucket = (height[i] - 1) * width + row
            new = place[bucket]
            place[bucket] += 1
            node[here] = new
            new_key[new] = row
            new_left[new] = node[first + left[i]]
            if right[i] >= 0:
                new_right[new] = node[first + right[i]]
        first += node_offsets[s + 1] - begin
    return words, rows, new_key, new_left, new_right, level_offsets, node

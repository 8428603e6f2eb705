"""The forests of a large corpus in a file, of which only batches are in memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from rnnparse.array_invariants import trusted
from rnnparse.models.batch import LevelBatch
from rnnparse.models.forest_dataset import ForestDataset

_NODE = np.dtype([(name, np.int32) for name in ("key", "word", "left", "right", "height")])
_TREE = np.dtype([("logp", np.float64), ("cost", np.float64), ("root", np.int32)])


class Forests(Protocol):
    """Forests to train on, in memory (`ForestDataset`) or in a file (`ForestFile`)."""

    def __len__(self) -> int:
        """S, the number of sentences."""

    def batch(self, sentences: np.ndarray | Sequence[int]) -> LevelBatch:
        """The forests of the given sentences, in their order, as one batch."""

    def words(self) -> np.ndarray:
        """The vocabulary rows of all words of the forests: int32, ascending."""


class ForestFile:
    """Forests of S sentences in temporary files, which have no names and end with the object.

    Batches equal those of a `ForestDataset` with the same forests. Memory holds 20 bytes a sentence
    and what a batch needs. Sentences are read, not mapped, so that no page of the files becomes
    part of the memory of the process.

    Args:
        parts: the forests in order, some sentences at a time.
        folder: of the files, which take 20 bytes for each node and each candidate.

    Raises:
        OSError: a file cannot be written.
    """

    def __init__(self, parts: Iterable[ForestDataset], folder: Path) -> None:
        self._nodes, self._trees = _Records(_NODE, folder), _Records(_TREE, folder)
        gold = [np.empty(0, np.int32)]
        self._words = gold[0]
        for part in parts:
            self._nodes.append(vars(part), part.node_offsets)
            self._trees.append(vars(part), part.root_offsets)
            gold.append(part.gold)
            self._words = np.union1d(self._words, part.words())
        self._gold = np.concatenate(gold)
        self._nodes.finish()
        self._trees.finish()

    def __len__(self) -> int:
        """S, the number of sentences."""
        return len(self._gold)

    def words(self) -> np.ndarray:
        """The vocabulary rows of all words of the forests: int32, ascending."""
        return self._words

    def batch(self, sentences: np.ndarray | Sequence[int]) -> LevelBatch:
        """The forests of the given sentences, in their order, as one batch.

        Raises:
            IndexError: a sentence does not exist.
            OSError: a file cannot be read.
        """
        part = self.select(sentences)
        return part.batch(np.arange(len(part)))

    def select(self, sentences: np.ndarray | Sequence[int]) -> ForestDataset:
        """The forests of the given sentences, in their order, in memory; raises as `batch`."""
        chosen = np.asarray(sentences, np.int64)
        if chosen.min(initial=0) < 0 or chosen.max(initial=-1) >= len(self):
            raise IndexError(f"sentences must be from 0 to {len(self) - 1}")
        nodes, node_offsets = self._nodes.read(chosen)
        trees, root_offsets = self._trees.read(chosen)
        return trusted(
            ForestDataset,
            **nodes,
            **trees,
            node_offsets=node_offsets,
            root_offsets=root_offsets,
            gold=self._gold[chosen],
        )


class _Records:
    """Arrays of equal length in a temporary file, record by record; each sentence has some."""

    def __init__(self, dtype: np.dtype, folder: Path) -> None:
        self._dtype = dtype
        self._counts = [np.empty(0, np.int64)]
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def append(self, arrays: Mapping[str, np.ndarray], offsets: np.ndarray) -> None:
        """Write arrays [M], named as the fields; `offsets` [S + 1] divide them into sentences."""
        records = np.empty(offsets[-1], self._dtype)
        for name in self._fields:
            records[name] = arrays[name]
        self._file.write(records.data)
        self._counts.append(np.diff(offsets))

    def finish(self) -> None:
        """Make what was appended ready for `read`."""
        self._file.flush()
        self._offsets = _offsets(np.concatenate(self._counts))
        del self._counts

    def read(self, chosen: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The arrays [M] of the chosen sentences, end to end, and their offsets [S + 1].

        Raises:
            OSError: the file cannot be read.
        """
        begin, end = self._offsets[chosen], self._offsets[chosen + 1]
        offsets = _offsets(end - begin)
        records = np.empty(offsets[-1], self._dtype)
        size, descriptor = self._dtype.itemsize, self._file.fileno()
        view, place = records.view(np.uint8).data, 0
        for first, last in zip((begin * size).tolist(), (end * size).tolist(), strict=True):
            after = place + last - first
            if os.preadv(descriptor, [view[place:after]], first) < last - first:
                raise OSError("a temporary file of forests has become shorter")
            place = after
        return {name: np.ascontiguousarray(records[name]) for name in self._fields}, offsets

    @property
    def _fields(self) -> tuple[str, ...]:
        assert self._dtype.names is not None
        return self._dtype.names


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])

"""Forests in a file against the same forests in memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.forest_file import ForestFile
from tests.models.conftest import World, make_world


def parts(world: World, cuts: Sequence[int]) -> Iterator[ForestDataset]:
    """The forests of a world in parts, some of which may be empty."""
    store = world.store
    costs = np.split(store.cost, store.root_offsets[1:-1])
    for begin, end in pairwise([0, *sorted(cuts), len(store)]):
        yield ForestDataset.from_forests(
            world.forests[begin:end],
            world.rows[begin:end],
            world.category_pairs,
            costs[begin:end],
            store.gold[begin:end],
        )


def in_file(world: World, folder: Path) -> ForestFile:
    return ForestFile(parts(world, [1, 3]), folder)


def repeated(world: World, times: int, folder: Path) -> ForestFile:
    return ForestFile((world.store for _ in range(times)), folder)


@given(
    seed=st.integers(0, 50),
    cuts=st.lists(st.integers(0, 4), max_size=3),
    chosen=st.lists(st.integers(0, 3), max_size=6),
)
def test_batches_are_those_of_the_dataset_in_memory(
    seed: int, cuts: list[int], chosen: list[int]
) -> None:
    world = make_world(seed)
    file = ForestFile(parts(world, cuts), Path(gettempdir()))
    assert len(file) == len(world.store) == 4
    for ours, theirs in zip(file.batch(chosen), world.store.batch(chosen), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(file.words(), np.unique(np.concatenate(world.rows)))


def test_selected_forests_are_a_sound_dataset(world: World, tmp_path: Path) -> None:
    """Batches trust the file; what the constructor checks holds, too."""
    everything = vars(in_file(world, tmp_path).select(range(len(world.store))))
    ForestDataset(**everything)
    for name, array in vars(world.store).items():
        np.testing.assert_array_equal(everything[name], array)
        assert everything[name].dtype == array.dtype


def test_no_sentence_no_forest(world: World, tmp_path: Path) -> None:
    empty = ForestFile([], tmp_path)
    assert len(empty) == len(empty.words()) == len(empty.batch([]).gold) == 0
    for sentence in (4, -1, 10**9):
        with pytest.raises(IndexError, match="from 0 to 3"):
            in_file(world, tmp_path).batch([sentence])


def test_the_files_have_no_names_and_end_with_the_object(world: World, tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    file = in_file(world, tmp_path)
    assert list(tmp_path.iterdir()) == [] and opened() == before + 2
    del file
    assert opened() == before


def test_a_folder_without_room_is_an_error_that_leaves_nothing_open(
    world: World, tmp_path: Path
) -> None:
    def full() -> Iterator[ForestDataset]:
        yield world.store
        raise OSError("No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space left"):
        ForestFile(full(), tmp_path)
    with pytest.raises(OSError, match="missing"):
        ForestFile([world.store], tmp_path / "missing")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_lost_its_end_is_an_error(world: World, tmp_path: Path) -> None:
    for records in ("_nodes", "_trees"):
        file = in_file(world, tmp_path)
        descriptor = getattr(file, records)._file.fileno()
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - 1)
        file.batch([0, 1, 2])
        with pytest.raises(OSError, match="has become shorter"):
            file.batch([3])


def test_the_memory_of_a_batch_does_not_grow_with_the_file(world: World, tmp_path: Path) -> None:
    def peak(times: int) -> int:
        file = repeated(world, times, tmp_path)
        chosen = np.linspace(0, len(file) - 1, 20).astype(np.int64)
        file.batch(chosen)
        tracemalloc.start()
        file.batch(chosen)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(2000) < 1.1 * peak(10)


def test_making_a_file_takes_the_memory_of_a_part(world: World, tmp_path: Path) -> None:
    """And little more for each sentence than its two offsets and its target."""

    def peak(times: int) -> int:
        tracemalloc.start()
        repeated(world, times, tmp_path)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    repeated(world, 1, tmp_path)
    size = sum(array.nbytes for array in vars(world.store).values())
    grown = peak(2000) - peak(1000)
    assert grown < 1000 * size / 4

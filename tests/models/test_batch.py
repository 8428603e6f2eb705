from __future__ import annotations

import numpy as np
import pytest

from rnnparse.inference.forest import Forest
from rnnparse.models.batch import LevelBatch, pad_batch, restrict
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.scorer import Scorer
from tests.models.conftest import World, make_world


def yields(batch: LevelBatch) -> list[tuple[int, ...]]:
    """The vocabulary rows below each candidate."""
    below: list[tuple[int, ...]] = [(int(w),) for w in batch.words]
    for node in range(len(batch.words), len(batch.key)):
        right = below[batch.right[node]] if batch.right[node] >= 0 else ()
        below.append(below[batch.left[node]] + right)
    return [below[root] for root in batch.root]


def test_nodes_stand_by_height_then_by_weights(world: World) -> None:
    batch = world.batch()
    offsets = batch.level_offsets
    assert offsets[0] == 0 and offsets[1] == len(batch.words) and offsets[-1] == len(batch.key)
    for level in range(1, len(offsets) - 1):
        nodes = np.arange(offsets[level], offsets[level + 1])
        children = np.maximum(batch.left[nodes], batch.right[nodes])
        assert np.all(children < offsets[level])
        assert np.all(children >= offsets[level - 1])
        assert np.all(np.diff(batch.key[nodes]) >= 0)


def test_candidates_keep_their_words_margins_and_order(world: World) -> None:
    order = [2, 0, 3]
    batch = world.store.batch(order)
    words = yields(batch)
    position = 0
    for b, sentence in enumerate(order):
        count = len(world.forests[sentence].root)
        assert batch.candidates[b, :count].tolist() == list(range(position, position + count))
        assert batch.mask[b].sum() == count and batch.mask[b, :count].all()
        for k in range(count):
            assert words[position + k] == tuple(world.rows[sentence])
        begin = world.store.root_offsets[sentence]
        expected = world.store.cost[begin : begin + count]
        assert np.array_equal(batch.cost[position : position + count], expected)
        assert batch.gold[b] == world.store.gold[sentence]
        position += count
    assert position == len(batch.root) == len(batch.logp)


def test_words_and_weights_are_listed_once(world: World) -> None:
    batch = world.batch()
    assert np.array_equal(batch.words, np.unique(np.concatenate(world.rows)))
    used = np.unique(world.store.key[world.store.key >= 0])
    assert np.array_equal(batch.rows, used)
    assert batch.rows[0] == 0, "some keys of this world are rare"


def test_each_forest_node_is_found_in_the_batch(world: World) -> None:
    batch, node = world.store.batch_with_nodes([3, 2])
    first = 0
    for sentence in (3, 2):
        forest = world.forests[sentence]
        for i in range(len(forest.cat)):
            here = node[first + i]
            if forest.left[i] < 0:
                assert batch.words[here] == world.rows[sentence][forest.start[i]]
            else:
                assert batch.left[here] == node[first + forest.left[i]]
                key = world.store.key[world.store.node_offsets[sentence] + i]
                assert batch.rows[batch.key[here]] == key
        first += len(forest.cat)


def test_an_empty_batch_has_no_nodes(world: World) -> None:
    batch = world.store.batch([])
    assert len(batch.key) == 0 and batch.candidates.shape == (0, 0)
    assert batch.level_offsets.tolist() == [0, 0]
    assert len(Scorer(world.parameters).scores(batch)) == 0


def test_a_child_behind_its_parent_is_refused(world: World) -> None:
    forest = world.forests[0]
    with pytest.raises(ValueError, match="do not precede it"):
        Forest(**{**vars(forest), "left": forest.left[::-1].copy()})


def test_restriction_keeps_scores_and_drops_other_nodes(world: World) -> None:
    batch, scorer = world.batch(), Scorer(world.parameters)
    scores = scorer.scores(batch)
    chosen = np.array([[3, 1], [8, -1], [20, 19]])
    part = restrict(batch, chosen, np.array([1, 0, 0]))
    assert np.array_equal(
        scorer.scores(part)[part.candidates][part.mask], scores[[3, 1, 8, 20, 19]]
    )
    assert part.mask.tolist() == [[True, True], [True, False], [True, True]]
    assert np.array_equal(part.cost, batch.cost[[3, 1, 8, 20, 19]])
    assert len(part.key) < len(batch.key)
    reached = set(part.root.tolist()) | set(part.left.tolist()) | set(part.right.tolist())
    assert reached >= set(range(len(part.key)))
    assert set(part.key[len(part.words) :].tolist()) == set(range(len(part.rows)))
    assert np.all(np.diff(part.level_offsets)[1:] > 0)


def test_restriction_to_nothing_is_empty(world: World) -> None:
    part = restrict(world.batch(), np.empty((0, 2), np.int64), np.empty(0, np.int64))
    assert len(part.key) == len(part.words) == len(part.root) == 0


@pytest.mark.parametrize("width", [1, 3, 64])
def test_padding_keeps_scores(width: int) -> None:
    world = make_world(4)
    batch = world.batch()
    padded = pad_batch(batch, width)
    assert np.all(np.diff(padded.level_offsets)[1:] <= width)
    assert padded.level_offsets[-1] + width <= len(padded.key)
    scores = Scorer(world.parameters).scores(padded)
    assert np.array_equal(scores[: len(batch.root)], Scorer(world.parameters).scores(batch))
    assert not padded.mask[len(batch.gold) :].any()
    assert np.array_equal(padded.mask[: len(batch.gold), : batch.mask.shape[1]], batch.mask)


def test_padded_sizes_recur() -> None:
    sizes = {tuple(a.shape for a in pad_batch(make_world(s).batch())) for s in range(8)}
    assert len(sizes) < 8
    for shapes in sizes:
        for size in (size for shape in shapes for size in shape):
            while size % 2 == 0:
                size //= 2
            assert size in (1, 3)


def test_one_sentence_at_a_time_or_all_at_once_is_the_same(world: World) -> None:
    scorer = Scorer(world.parameters)
    together = scorer.scores(world.batch())
    alone = [scorer.scores(world.store.batch([s])) for s in range(len(world.store))]
    assert np.array_equal(together, np.concatenate(alone))


def test_datasets_keep_the_costs_and_targets_that_they_get(world: World) -> None:
    costs = np.split(world.store.cost, world.store.root_offsets[1:-1])
    given = world.forests, world.rows, world.category_pairs, costs, world.store.gold
    again = ForestDataset.from_forests(*given)
    for name, array in vars(world.store).items():
        kept = getattr(again, name)
        assert np.array_equal(kept, array) and kept.dtype == array.dtype
    assert len(ForestDataset.from_forests([], [], world.category_pairs)) == 0

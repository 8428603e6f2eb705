from __future__ import annotations

import numpy as np
import pytest

from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.parameters import initial_parameters

KEYS = CategoryPairs.count(["A", "B"], np.array([0, 1]), np.array([1, -1]))


def test_a_phrase_begins_as_the_mean_of_its_children_and_a_unary_node_as_its_child() -> None:
    W = initial_parameters(KEYS, 3, 4, noise=0.0).W
    b, c = np.arange(4.0), np.arange(4.0)[::-1]
    for row in (0, 1):
        assert np.array_equal(np.concatenate([b, c, [1.0]]) @ W[row], (b + c) / 2)
    assert np.array_equal(np.concatenate([b, c, [1.0]]) @ W[2], b)


def test_noise_is_bounded_seeded_and_not_where_a_unary_node_never_reads() -> None:
    clean = initial_parameters(KEYS, 3, 4, noise=0.0)
    noisy = initial_parameters(KEYS, 3, 4, noise=0.01, seed=5)
    again = initial_parameters(KEYS, 3, 4, noise=0.01, seed=5)
    other = initial_parameters(KEYS, 3, 4, noise=0.01, seed=6)
    difference = np.abs(noisy.W - clean.W)
    assert 0 < difference.max() <= 0.0101
    assert not difference[2, 4:8].any()
    assert 0 < np.abs(noisy.v).max() <= 0.01
    for a, b, c in zip(noisy, again, other, strict=True):
        assert a.tobytes() == b.tobytes() and a.tobytes() != c.tobytes()


def test_given_vectors_are_taken_and_a_wrong_size_is_refused() -> None:
    given = np.arange(8.0).reshape(2, 4)
    parameters = initial_parameters(KEYS, given, 4, dtype="float64")
    assert np.array_equal(parameters.vectors, given)
    assert {a.dtype for a in parameters} == {np.dtype("float64")}
    with pytest.raises(ValueError, match=r"not \[V, 5\]"):
        initial_parameters(KEYS, given, 5)

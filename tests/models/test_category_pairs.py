from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rnnparse.models.category_pairs import CategoryPairs, child_categories
from tests.models.random_forest import CATEGORIES, random_forests


def test_frequent_keys_have_a_row_and_others_share_row_0() -> None:
    left = np.array([1, 1, 2, 2, 2, 3])
    right = np.array([2, 2, -1, -1, 1, -1])
    keys = CategoryPairs.count(["TOP", "A", "B", "C"], left, right, min_count=2)
    assert keys.pairs.tolist() == [[1, 2], [2, -1]]
    assert keys.names == ("<rare>", "A,B", "B")
    assert keys.is_unary.tolist() == [False, False, True]
    assert keys.rows(left, right).tolist() == [1, 1, 2, 2, 0, 0]
    assert len(keys) == 3


def test_unknown_categories_share_row_0() -> None:
    keys = CategoryPairs.count(["A", "B"], np.array([0, 1]), np.array([1, -1]))
    unknown = keys.rows(np.array([7, -5, 0, 1]), np.array([1, -1, 99, -2]))
    assert unknown.tolist() == [0, 0, 0, 0]


def test_a_table_without_keys_sends_all_to_row_0() -> None:
    none = np.empty(0, np.int32)
    keys = CategoryPairs.count(["A"], none, none)
    assert keys.rows(np.array([0, 0]), np.array([0, -1])).tolist() == [0, 0]
    assert len(keys) == 1 and keys.names == ("<rare>",)


@pytest.mark.parametrize("min_count", [1, 3])
def test_rows_agree_with_counting_in_python(min_count: int) -> None:
    rng = np.random.default_rng(3)
    forests, _ = random_forests([(8, 10), (6, 5)], 5, rng)
    counts: Counter[tuple[int, int]] = Counter()
    for forest in forests:
        for left, right in zip(forest.left, forest.right, strict=True):
            if left >= 0:
                counts[forest.cat[left], forest.cat[right] if right >= 0 else -1] += 1
    keys = CategoryPairs.from_forests(CATEGORIES, forests, min_count)
    expected = sorted(pair for pair, n in counts.items() if n >= min_count)
    assert sorted(map(tuple, keys.pairs.tolist())) == expected
    for forest in forests:
        left, right = child_categories(forest.cat, forest.left, forest.right)
        for row, pair in zip(keys.rows(left, right), zip(left, right, strict=True), strict=True):
            assert row == 0 or tuple(keys.pairs[row - 1]) == pair
            assert (row > 0) == (tuple(map(int, pair)) in expected)

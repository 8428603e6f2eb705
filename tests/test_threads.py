from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from itertools import count, islice

import pytest

from rnnparse.threads import AHEAD, in_order


@pytest.mark.parametrize("jobs", [-1, 0, 1, 2, 5])
def test_results_come_in_order_whatever_takes_longest(jobs: int) -> None:
    def square(x: int) -> int:
        time.sleep(0.02 if x % 3 == 0 else 0)
        return x * x

    assert list(in_order(square, range(12), jobs)) == [x * x for x in range(12)]
    assert list(in_order(square, [], jobs)) == []


def test_threads_are_used_when_there_are_several() -> None:
    meet = threading.Barrier(2)
    assert list(in_order(lambda _: meet.wait(10) >= 0, range(4), 2)) == [True] * 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_comes_in_its_turn(jobs: int) -> None:
    def invert(x: int) -> float:
        return 1 / x

    results = in_order(invert, [2, 1, 0, 4], jobs)
    assert list(islice(results, 2)) == [0.5, 1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_items_comes_after_the_results_before_it(jobs: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("no more")

    results = in_order(str, items(), jobs)
    assert list(islice(results, 3)) == ["0", "1", "2"]
    with pytest.raises(OSError, match="no more"):
        next(results)


@pytest.mark.parametrize("jobs", [1, 2])
def test_items_are_taken_only_a_little_ahead(jobs: int) -> None:
    taken = count()
    for number, result in enumerate(islice(in_order(str, taken, jobs), 20)):
        assert result == str(number)
    assert next(taken) - 20 <= (0 if jobs == 1 else AHEAD * jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_may_be_left_unread_without_a_word(jobs: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = in_order(str, range(100), jobs)
        assert list(islice(results, 3)) == ["0", "1", "2"]
        del results

"""`Search` and `Deadline`: budgets are checked, and kept."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.inference import deadline
from rnnparse.inference.deadline import Deadline
from rnnparse.inference.search import BYTES_PER_CELL, EXACT_BYTES_PER_CELL, Search


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("exact", 1, TypeError),
        ("exact", None, TypeError),
        ("max_length", None, TypeError),
        ("max_length", 400.0, TypeError),
        ("max_length", True, TypeError),
        ("max_length", 0, ValueError),
        ("max_length", -1, ValueError),
        ("max_length", 10**10, ValueError),
        ("max_seconds", 0, ValueError),
        ("max_seconds", -1.0, ValueError),
        ("max_seconds", float("nan"), ValueError),
        ("max_seconds", float("inf"), ValueError),
        ("max_seconds", "5", TypeError),
        ("max_memory", 0.5, ValueError),
        ("max_memory", False, TypeError),
    ],
)
def test_values_out_of_range_are_named(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^{name} must be .*, not "):
        Search(**{name: value})


def test_numpy_numbers_are_numbers() -> None:
    search = Search(max_length=np.int64(7), max_memory=np.float32(2))  # type: ignore[arg-type]
    assert search.longest == 7


@given(
    st.integers(1, 10_000), st.none() | st.floats(1, 1e5), st.booleans()
)
def test_the_longest_sentence_is_within_length_and_memory(
    length: int, memory: float | None, exact: bool
) -> None:
    longest = Search(exact=exact, max_length=length, max_memory=memory).longest
    size = EXACT_BYTES_PER_CELL if exact else BYTES_PER_CELL

    def fits(n: int) -> bool:
        return n <= length and (memory is None or n * n * size / 2 <= memory * 1e6)

    assert fits(longest) or longest == 1
    assert not fits(longest + 1)


def test_without_a_limit_there_is_no_thread() -> None:
    stop = np.zeros(1, np.uint8)
    threads = threading.active_count()
    with Deadline(None, stop) as running:
        assert running.flag is stop and threading.active_count() == threads


def test_the_flag_is_set_when_the_time_is_up() -> None:
    stop = np.zeros(1, np.uint8)
    began = time.monotonic()
    with Deadline(0.1, stop) as running:
        while not running.flag[0]:
            assert time.monotonic() - began < 5
            time.sleep(0.001)
    assert time.monotonic() - began >= 0.1
    assert not stop[0]


def test_the_flag_follows_the_other_one() -> None:
    stop = np.zeros(1, np.uint8)
    with Deadline(600.0, stop) as running:
        assert not running.flag[0]
        stop[0] = 1
        began = time.monotonic()
        while not running.flag[0]:
            assert time.monotonic() - began < 5
            time.sleep(0.001)


def test_its_thread_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "POLL", 600.0)
    before = set(threading.enumerate())
    with Deadline(500.0, np.zeros(1, np.uint8)):
        (thread,) = set(threading.enumerate()) - before
    thread.join(5)
    assert not thread.is_alive()


def test_a_system_without_threads_is_one_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(MemoryError, match="no thread can be started"), Deadline(
        1.0, np.zeros(1, np.uint8)
    ):
        pass

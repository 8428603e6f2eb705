"""Work on several threads whose results come in order. The kernels run without Python's lock."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from joblib import Parallel, cpu_count, delayed

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Iterator[Result]:
    """The function's results in the order of the items, each as soon as it is there.

    Args:
        function: called on any thread.
        items: taken as threads become free.
        jobs: threads; 0 for one a processor core that this process may use.

    Raises:
        What the function raises, after the results before it.
    """
    if jobs == 1:
        yield from map(function, items)
        return

    def attempt(item: Item) -> tuple[list[Result], Exception | None]:
        try:
            return [function(item)], None
        except Exception as error:
            return [], error

    run = Parallel(n_jobs=jobs or cpu_count(), prefer="threads", return_as="generator")
    results = run(delayed(attempt)(item) for item in items)
    try:
        for result, error in results:
            if error is not None:
                raise error
            yield result[0]
    finally:
        with warnings.catch_warnings():
            # Of results that nobody has read, which is the reader's choice.
            warnings.simplefilter("ignore", UserWarning)
            results.close()

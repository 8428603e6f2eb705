"""One thread for each matrix product.

BLAS libraries use all cores for a single product. Where several threads compute products, these
threads would compete; and on a busy machine, the threads of one product wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from rnnparse.errors import MissingExtraError

_LOCK = threading.Lock()
_blocks = 0  # that run now
_limiter: Any = None


@contextmanager
def single_threaded_products() -> Iterator[None]:
    """Limit the matrix products of the whole process to one thread each.

    Blocks may overlap: the last one to end lifts the limit.

    Raises:
        MissingExtraError: the package threadpoolctl is not installed.
    """
    global _blocks, _limiter
    libraries = _libraries()
    with _LOCK:
        if not _blocks:
            _limiter = libraries.limit(limits=1, user_api="blas")
        _blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            _blocks -= 1
            if not _blocks:
                _limiter.restore_original_limits()


@cache
def _libraries() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        raise MissingExtraError("threadpoolctl", "encoder") from None
    return ThreadpoolController()

"""numba's `njit`, which caches compiled code wherever possible.

numba caches it beside the source or in the user's cache folder. In containers neither may be
writable, and any disk may be full; this must not stop the program. If neither is writable, the
cache is a private temporary folder; code that cannot be cached is compiled again by the next
process. A note says so, once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config
from numba.core.caching import FunctionCache

from rnnparse.files import private_folder

_LOG = logging.getLogger("rnnparse")
_ADVICE = "set NUMBA_CACHE_DIR to a permanent, writable folder"
_noted = False


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit`, without an error if compiled code cannot be cached.

    Args:
        cache: whether to cache compiled code.
        options: as for `numba.njit`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache and (kept := _cache(function)) is not None:
            dispatcher._cache = kept
        return dispatcher

    return decorate


class _Cache(FunctionCache):
    """A cache that may be damaged, or on a full disk."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # errors of unpickling damaged files
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # the index is damaged, or names types that an update has moved
                self.flush()
                super().save_overload(sig, data)
        except OSError as error:
            _note("compiled code cannot be kept in %s (%s)", self.cache_path, error.strerror)


def _cache(function: Callable[..., Any]) -> _Cache | None:
    try:
        return _Cache(function)
    except RuntimeError:  # no folder is writable
        pass
    try:
        folder = os.environ["NUMBA_CACHE_DIR"] = str(private_folder())  # for other processes, too
        config.reload_config()
        kept = _Cache(function)
    except (OSError, RuntimeError) as error:
        _note("compiled code cannot be kept (%s), and compiling takes a minute each time", error)
        return None
    _note(
        "compiled code is kept in %s, since neither the installation nor the user's cache folder "
        "can be written to",
        folder,
    )
    return kept


def _note(message: str, *about: object) -> None:
    global _noted
    if not _noted:
        _noted = True
        _LOG.warning(message + "; %s", *about, _ADVICE)

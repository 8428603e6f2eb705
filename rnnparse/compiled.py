"""numba's `njit`, which caches compiled code wherever possible.

numba caches it beside the source or in the user's cache folder. In containers neither may be
writable, and any disk may be full; this must not stop the program. If neither is writable, the
cache is a private temporary folder; code that cannot be cached is compiled again by the next
process. A note says so, once.

Compiled code contains the functions that it calls. numba compares only the file of the outermost
one with the cache, and runs old code when another file has changed; here, all files count.

Compiled functions copy arrays in loops: numba compiles `a[:n] = b` for two arrays together with
the text of an error message, which takes 4 s in a process that compiles.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from numba.core import config, types
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from rnnparse.files import private_folder

_LOG = logging.getLogger("rnnparse")
_ADVICE = "set NUMBA_CACHE_DIR to a permanent, writable folder"
_noted = False


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with a cache, and without an error if compiled code cannot be cached.

    Args:
        options: as for `numba.njit`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        return _Kernel(function, None, {"nopython": True, **options})

    return decorate


class _Kernel(CPUDispatcher):
    """A compiled function, and a variant of it for callers that are compiled, too.

    The variant lacks the wrappers for calls from Python and C. Most functions are called by other
    compiled functions only, and would take a quarter longer to compile with their wrappers.
    """

    def __init__(
        self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None
    ) -> None:
        super().__init__(py_func, locals, {**(targetoptions or {}), "no_cfunc_wrapper": True})
        self._cache = _LazyCache(py_func, _Cache)

    @cached_property
    def _inner(self) -> Any:
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        inner: Any = CPUDispatcher(self.py_func, self.locals, options)
        inner._cache = _LazyCache(self.py_func, _InnerCache)
        return inner

    @property
    def _numba_type_(self) -> Any:
        return self._inner._numba_type_


class _LazyCache(NullCache):
    """The cache of a function, opened when the function is first called.

    By then the functions that it calls are known, and functions that are never called cost nothing.
    """

    def __init__(self, function: Callable[..., Any], kind: type[_Cache]) -> None:
        self._function, self._kind = function, kind
        with suppress(OSError):
            _file_hash(function.__code__.co_filename)  # remembered, as the file may change later

    @cached_property
    def _opened(self) -> Any:
        return _open_cache(self._function, self._kind) or NullCache()

    @property
    def cache_path(self) -> str | None:
        path: str | None = self._opened.cache_path
        return path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._opened.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._opened.save_overload(sig, data)

    def flush(self) -> None:
        self._opened.flush()


class _Cache(FunctionCache):
    """A cache that may be damaged, or on a full disk.

    Raises:
        RuntimeError: no folder is writable.
        OSError: the source cannot be read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _source_stamp(function)
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Compiled code knows fields by their positions, and numba's types do not tell these.
        return (*super()._index_key(sig, codegen), tuple(_fields(sig)))

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


class _InnerCache(_Cache):
    """The cache of a variant that Python cannot call, in the same files."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return ("inner", super()._index_key(sig, codegen))


def _fields(arguments: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    """The fields of the named tuples among the types of arguments, also of those in tuples."""
    for kind in arguments:
        if isinstance(kind, (types.NamedTuple, types.NamedUniTuple)):
            yield kind.fields
        if isinstance(kind, types.BaseTuple):
            yield from _fields(kind)  # type: ignore[arg-type]


def _source_stamp(function: Callable[..., Any]) -> str:
    """A hash of all that numba compiles into a function.

    These are the files of the function and of all that it calls by name, and the constants in
    them.
    """
    parts: set[str] = set()
    called, pending = {function}, [function]
    while pending:
        caller: Any = pending.pop()
        parts.add(_file_hash(caller.__code__.co_filename))
        for name in _names(caller.__code__):
            value = caller.__globals__.get(name)
            if isinstance(value, Dispatcher):
                pending += {value.py_func} - called
                called.add(value.py_func)
            elif isinstance(value, type):
                parts.add(f"{name} {getattr(value, '_fields', None)}")
            elif not callable(value) and not isinstance(value, ModuleType):
                parts.add(f"{name} {value!r}")
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function uses, also in functions and comprehensions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def _file_hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _open_cache(function: Callable[..., Any], kind: type[_Cache]) -> _Cache | None:
    try:
        with suppress(RuntimeError):  # no folder is writable
            return kind(function)
        folder = os.environ["NUMBA_CACHE_DIR"] = str(private_folder())  # for other processes, too
        config.reload_config()
        kept = kind(function)
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

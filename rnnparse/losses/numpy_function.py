"""Call NumPy from a graph, with readable exceptions."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

from rnnparse._tensorflow import tf

_KINDS = (NotImplementedError, ValueError, TypeError, MemoryError)
"""Exceptions that TensorFlow turns into distinct classes of `OpError`."""

_numbers = count()
_kept: dict[str, Exception] = {}
_original_init: Callable[..., None] = tf.errors.OpError.__init__


def call_numpy(function: Callable[..., Any], tensors: Any, dtypes: Any, **options: Any) -> Any:
    """`tf.numpy_function` with readable exceptions.

    TensorFlow turns an exception of the function into an `OpError` whose message lists both stacks
    in some sixty lines. This function shortens the message to one line with the original message
    and its place. The error is also an instance of the original class, if Python allows it.

    Args:
        function, tensors, dtypes, options: as for `tf.numpy_function`.
    """
    if tf.executing_eagerly():
        return tf.numpy_function(function, tensors, dtypes, **options)

    @tf.autograph.experimental.do_not_convert
    def keeping(*arrays: Any) -> Any:
        try:
            return function(*arrays)
        except Exception as error:
            token = f"rnnparse kept exception {next(_numbers)}:"
            _kept[token] = error
            # Only class and message pass through C++; then TensorFlow makes its error.
            tf.errors.OpError.__init__ = _init  # type: ignore[method-assign]
            known = (kind for kind in _KINDS if isinstance(error, kind))
            raise next(known, RuntimeError)(f"{token} {error}") from None

    return tf.numpy_function(keeping, tensors, dtypes, **options)


def _init(error: Any, node_def: Any, op: Any, message: Any, *args: Any) -> None:
    """`OpError.__init__`, but with the message of the kept exception, if there is one."""
    for token, kept in list(_kept.items()):
        if token in str(message):
            _kept.clear()
            tf.errors.OpError.__init__ = _original_init  # type: ignore[method-assign]
            frame = traceback.extract_tb(kept.__traceback__)[-1]
            _original_init(error, node_def, op, f"{kept} [{frame.filename}:{frame.lineno}]", *args)
            _become(error, type(kept))
            return
    _original_init(error, node_def, op, message, *args)


def _become(error: Any, kind: type) -> None:
    with suppress(TypeError):  # classes with fields of their own, such as OSError
        error.__class__ = type(kind.__name__, (type(error), kind), {"__module__": kind.__module__})

"""Invariants of the arrays that are read from files or passed to kernels, as tables.

Kernels do not check bounds. Their assumptions are checked where arrays enter: when a file is read,
and in public constructors. Each entry of a table gives shape, type, range of values and order:

    "binary": Array("R 3", np.int32, 0, "S-1")

is an array of R rows and 3 columns with symbol numbers from 0 to S - 1. The first array with an
unknown size (here R) determines it. The class that the table is named after checks the rest, such
as children before parents, or probabilities that sum to 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

LOG_LEAST, LOG_GREATEST = -746.0, 710.0
"""Bounds of the natural logarithms of positive float64."""

LOG_ONE = 1e-6
"""Greatest log probability: 0, with tolerance for rounding."""

GREATEST = 1e15
"""Bound of all weights; products and sums of such weights do not overflow in float32."""

Bound = int | float | str | None


@dataclass(frozen=True)
class Array:
    """Invariants of an array.

    Attributes:
        shape: its sizes with spaces between them, each a number or a term like `S`, `W+1`, `2n+1`.
        dtypes: its type, or the allowed types.
        low, high: least and greatest value (terms are allowed); None for no bound. Bounds of floats
            exclude NaN and infinities.
        order: "" for any; "offsets N": ascending from 0 to N, with repetitions; "parts N": the
            same without repetitions, so that no part is empty.
    """

    shape: str
    dtypes: type | tuple[type, ...]
    low: Bound = None
    high: Bound = None
    order: str = ""


Table = Mapping[str, Array]
Kind = TypeVar("Kind")

_FLOAT = (np.float32, np.float64)

# S symbols, C categories (and as many intermediate ones), R binary rules, U unary rules
PCFG: Table = {
    "category": Array("S", np.int32, 0, "2C-1"),
    "binary": Array("R 3", np.int32, 0, "S-1"),
    "binary_logp": Array("R", np.float64, LOG_LEAST, LOG_ONE),
    "unary": Array("U 2", np.int32, 0, "S-1"),
    "unary_logp": Array("U", np.float64, LOG_LEAST, LOG_ONE),
    "link": Array("U", np.bool_),
}

# W words with E states in all, T tags of unknown words with F states in all
LEXICON: Table = {
    "ptr": Array("W+1", np.int64, order="parts E"),
    "symbol": Array("E", np.int32, 0),
    "logp": Array("E", np.float64, LOG_LEAST, LOG_GREATEST),
    "tag_ptr": Array("T+1", np.int64, order="parts F"),
    "state_symbol": Array("F", np.int32, 0),
    "state_logp": Array("F", np.float64, LOG_LEAST, LOG_GREATEST),
}

# N features of word forms, V words with vectors of d components, T tags
TAGGER: Table = {
    "vectors": Array("V d", np.float32, -GREATEST, GREATEST),
    "weights": Array("N+d T", np.float32, -GREATEST, GREATEST),
}

# H weights of hashed features
CLOSING: Table = {"weights": Array("H", np.float32, -GREATEST, GREATEST)}

# D categories, R rules with P probabilities, W words with E tags and N expected counts in all
LATENT: Table = {
    "substates": Array("D", np.int32, 1, 1 << 10),
    "rules": Array("R 3", np.int32, -1, "D-1"),
    "rule_ptr": Array("R+1", np.int64, order="offsets P"),
    "place": Array("P", np.int32, 0),
    "probability": Array("P", np.float32, 0, 1.0 + LOG_ONE),
    "ptr": Array("W+1", np.int64, order="parts E"),
    "tag": Array("E", np.int32, 0, "D-1"),
    "count": Array("N", np.float32, 0, GREATEST),
}

# K pairs of categories; C categories, the intermediate ones included
KEYS: Table = {"pairs": Array("K 2", np.int32, -1, "C-1")}

# V rows of word vectors, R rows of weights, n components
PARAMETERS: Table = {
    "vectors": Array("V n", _FLOAT, -GREATEST, GREATEST),
    "W": Array("R 2n+1 n", _FLOAT, -GREATEST, GREATEST),
    "v": Array("R n", _FLOAT, -GREATEST, GREATEST),
}

# W words, T tags
SPAN_FEATURES: Table = {
    "counts": Array("W", np.int64, 1),
    "tags": Array("T", np.int32, 0),
}

# Token vectors: W rows of d components for words, B buckets, g components of given vectors, T tags,
# K convolutions of width 3; L layers of an encoder with e components. Spans: h hidden units, C
# categories. d is 0 without the former source, L and e without the latter.
SPANS: Table = {
    "words": Array("W d", _FLOAT, -GREATEST, GREATEST),
    "affixes": Array("B d", _FLOAT, -GREATEST, GREATEST),
    "given": Array("g d", _FLOAT, -GREATEST, GREATEST),
    "tags": Array("T d", _FLOAT, -GREATEST, GREATEST),
    "norm": Array("2 d", _FLOAT, -GREATEST, GREATEST),
    "conv": Array("K 3d d", _FLOAT, -GREATEST, GREATEST),
    "conv_bias": Array("K d", _FLOAT, -GREATEST, GREATEST),
    "conv_norm": Array("K 2 d", _FLOAT, -GREATEST, GREATEST),
    "layers": Array("L", _FLOAT, -GREATEST, GREATEST),
    "bias": Array("h", _FLOAT, -GREATEST, GREATEST),
    "project": Array("d+e 4h", _FLOAT, -GREATEST, GREATEST),
    "hidden_norm": Array("2 h", _FLOAT, -GREATEST, GREATEST),
    "labels": Array("C h", _FLOAT, -GREATEST, GREATEST),
    "label_bias": Array("C", _FLOAT, -GREATEST, GREATEST),
}

# N nodes, K candidate trees
FOREST: Table = {
    "cat": Array("N", np.int32, 0),
    "left": Array("N", np.int32, -1, "N-1"),
    "right": Array("N", np.int32, -1, "N-1"),
    "start": Array("N", np.int32, 0),
    "end": Array("N", np.int32, 1),
    "root": Array("K", np.int32, 0, "N-1"),
    "logp": Array("K", np.float64, -np.inf, GREATEST),
}

# S sentences with their forests end to end: N nodes, K candidate trees in all
LISTS: Table = {
    **FOREST,
    "nodes": Array("S", np.int64, 1, "N"),
    "trees": Array("S", np.int64, 1, "K"),
    "glued": Array("S", np.bool_),
    "divided": Array("S", np.bool_),
}

# S sentences, M nodes, T candidate trees
STORE: Table = {
    "key": Array("M", np.int32, -1),
    "word": Array("M", np.int32, -1),
    "left": Array("M", np.int32, -1, "M-1"),
    "right": Array("M", np.int32, -1, "M-1"),
    "height": Array("M", np.int32, 0, "M"),
    "node_offsets": Array("S+1", np.int64, order="offsets M"),
    "root": Array("T", np.int32, 0, "M-1"),
    "logp": Array("T", np.float64, -np.inf, GREATEST),
    "cost": Array("T", np.float64, 0, GREATEST),
    "root_offsets": Array("S+1", np.int64, order="offsets T"),
    "gold": Array("S", np.int32, 0, "T-1"),
}

# The brackets of T candidate trees of S sentences, as EVALB counts them
COUNTS: Table = {
    "counts_matched": Array("T", np.int64, 0, 2**31),
    "counts_test": Array("T", np.int64, 0, 2**31),
    "counts_gold": Array("S", np.int64, 0, 2**31),
}


def check(what: str, table: Table, arrays: Mapping[str, Any], **sizes: int) -> dict[str, int]:
    """Raise ValueError if an array violates its entry.

    Args:
        what: prefix of the names of arrays in messages, as in `pcfg.binary`.
        table: the entries.
        arrays: arrays by name; those without an entry are ignored.
        sizes: known sizes.

    Returns:
        All sizes.
    """
    for name, entry in table.items():
        array = arrays[name]
        _check_kind(f"{what}.{name}", entry, array)
        _check_shape(f"{what}.{name}", entry, array, sizes)
        _check_values(f"{what}.{name}", entry, array, sizes)
    return sizes


def trusted(kind: type[Kind], **fields: Any) -> Kind:
    """A frozen dataclass without its checks, from arrays that our own kernel has just made.

    Checking the forest of a sentence takes 0.1 ms, about 1 % of the time of parsing.
    """
    new = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(new, name, value)
    return new


def rising(rows: np.ndarray) -> bool:
    """Whether each row of integers [N, d] is greater than the one before, column by column."""
    before, after = rows[:-1], rows[1:]
    greater = np.zeros(len(before), np.bool_)
    for column in reversed(range(rows.shape[1])):
        a, b = before[:, column], after[:, column]
        greater = (a < b) | ((a == b) & greater)
    return bool(greater.all())


def _check_kind(name: str, entry: Array, array: Any) -> None:
    dtypes = entry.dtypes if isinstance(entry.dtypes, tuple) else (entry.dtypes,)
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} must be an array, not {type(array).__name__}")
    if array.dtype not in dtypes:
        names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(f"{name} must be of type {names}, not {array.dtype}")


def _check_shape(name: str, entry: Array, array: np.ndarray, sizes: dict[str, int]) -> None:
    terms = entry.shape.split()
    if array.ndim == len(terms):
        for term, size in zip(terms, array.shape, strict=True):
            for unknown in {letter for letter in term if letter.isalpha()} - sizes.keys():
                # The first array with this size determines it.
                rest = _value(term, {**sizes, unknown: 0})
                factor = _value(term, {**sizes, unknown: 1}) - rest
                sizes[unknown] = max((size - rest) // factor, 0)
        if array.shape == tuple(_value(term, sizes) for term in terms):
            return
    wanted = ", ".join(
        f"{term} = {_value(term, sizes)}" if not term.isdigit() and _is_known(term, sizes) else term
        for term in terms
    )
    raise ValueError(f"{name} has the shape {list(array.shape)}, not [{wanted}]")


def _check_values(name: str, entry: Array, array: np.ndarray, sizes: dict[str, int]) -> None:
    if entry.order:
        order, size = entry.order.split()
        end, step = sizes.setdefault(size, int(array[-1])), int(order == "parts")
        if array[0] != 0 or array[-1] != end or np.any(array[1:] < array[:-1] + step):
            raise ValueError(f"{name} must rise from 0 to {end}")
    if not array.size:
        return
    for bound, value, sign in ((entry.low, array.min(), 1), (entry.high, array.max(), -1)):
        if bound is not None:
            limit = _value(bound, sizes) if isinstance(bound, str) else bound
            if not sign * value >= sign * limit:  # NaN fails, too
                side = "least" if sign > 0 else "most"
                raise ValueError(f"{name} has the value {value}, not at {side} {limit}")


def _is_known(term: str, sizes: Mapping[str, int]) -> bool:
    return all(letter in sizes for letter in term if letter.isalpha())


def _value(term: str, sizes: Mapping[str, int]) -> int:
    """The value of a term: 3, S, W+1, 2n+1, N+d."""
    return sum(factor * (sizes[letter] if letter else 1) for factor, letter in _parts(term))


@cache
def _parts(term: str) -> tuple[tuple[int, str], ...]:
    """The summands of a term: factor and letter, which is empty for a number alone."""
    return tuple(
        (int(sign + (digits or "1")), letter)
        for sign, digits, letter in re.findall(r"([+-]?)(\d*)([A-Za-z]?)", term)
        if digits or letter
    )

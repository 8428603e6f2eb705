"""Frozen weights of the network: whole variables, or single rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rnnparse.errors import ConfigError
from rnnparse.models.parameters import Parameters
from rnnparse.optim.name_patterns import match_names


class FrozenWeights(NamedTuple):
    """The variables, and rows of variables, of a CVG that are excluded from training.

    Attributes:
        variables: completely frozen fields of `Parameters`.
        rows: frozen rows of other fields, int32, ascending.
    """

    variables: frozenset[str]
    rows: dict[str, np.ndarray]


NOTHING = FrozenWeights(frozenset(), {})


def check_fields(patterns: Sequence[str]) -> FrozenWeights:
    """The variables that patterns freeze completely, before their rows are known.

    Raises:
        ConfigError: a pattern names no variable, or no weights remain to train.
    """
    # Each variable gets a single row without a name, which only whole variables match.
    return find_frozen(patterns, dict.fromkeys(Parameters._fields, ("",)), strict=False)


def find_frozen(
    patterns: Sequence[str], row_names: Mapping[str, Sequence[str]], strict: bool = True
) -> FrozenWeights:
    """The weights that match the patterns.

    Args:
        patterns: `vectors`, `W` or `v`, or any of them with a pattern for its rows: `W:NP,*` are
            the matrices of pairs whose left child is an NP, `vectors:the` is a word. `*` matches
            any characters, `?` one character, `[...]` one of those in brackets.
        row_names: for each field of `Parameters` the names of its rows.
        strict: whether a pattern for rows must match a row.

    Raises:
        ConfigError: a pattern matches nothing, or no weights remain to train.
    """
    frozen = {name: np.zeros(len(row_names[name]), bool) for name in Parameters._fields}
    for pattern in patterns:
        field, colon, rows = pattern.partition(":")
        fields = np.flatnonzero(match_names([field], Parameters._fields, "variable"))
        for name in (Parameters._fields[i] for i in fields):
            if not colon:
                frozen[name][:] = True
                continue
            try:
                frozen[name] |= match_names([rows], row_names[name], f"row of {name}")
            except ConfigError:
                if strict:
                    raise
    whole = frozenset(name for name, rows in frozen.items() if rows.all())
    if len(whole) == len(frozen):
        raise ConfigError("all weights are frozen, so that none can be trained; freeze fewer")
    return FrozenWeights(
        whole,
        {
            name: np.flatnonzero(rows).astype(np.int32)
            for name, rows in frozen.items()
            if rows.any() and name not in whole
        },
    )

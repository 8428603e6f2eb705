"""Grammars as NumPy arrays without objects, for `numpy.load(allow_pickle=False)`.

A list of strings is stored as `NAME.utf8` (uint8, all strings joined) and `NAME.offsets` (int64,
one more than strings): string i is utf8[offsets[i]:offsets[i+1]], whatever characters it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from rnnparse.array_invariants import CLOSING, LEXICON, PCFG, TAGGER, Array, Table, check
from rnnparse.grammar.cell_closing import CellClosing
from rnnparse.grammar.lexicon import Lexicon
from rnnparse.grammar.pcfg import Pcfg
from rnnparse.grammar.unknown import UnknownWordTagger, WordVectors
from rnnparse.trees.heads import HeadTable

Arrays = Mapping[str, np.ndarray]

_STRINGS: Table = {
    "utf8": Array("N", np.uint8),
    "offsets": Array("S+1", np.int64, order="offsets N"),
}
_LISTS = (
    "pcfg.symbols",
    "pcfg.categories",
    "lexicon.words",
    "tagger.features",
    "tagger.vector_words",
    "heads",
)
_ALL = {
    *(f"{name}.{part}" for name in _LISTS for part in _STRINGS),
    *(f"pcfg.{name}" for name in PCFG),
    *(f"lexicon.{name}" for name in (*LEXICON, "log_unknown")),
    *(f"tagger.{name}" for name in TAGGER),
}
_CLOSING = {f"closing.{name}" for name in (*CLOSING, "threshold")}


def grammar_to_arrays(
    pcfg: Pcfg, lexicon: Lexicon, heads: HeadTable, closing: CellClosing | None
) -> dict[str, np.ndarray]:
    """All parts of a grammar; equal grammars give equal arrays in equal order."""
    tagger = lexicon.tagger
    return {
        **strings_to_arrays("pcfg.symbols", pcfg.symbols),
        **strings_to_arrays("pcfg.categories", pcfg.categories),
        **{f"pcfg.{name}": getattr(pcfg, name) for name in PCFG},
        **strings_to_arrays("lexicon.words", lexicon.words),
        **{f"lexicon.{name}": getattr(lexicon, name) for name in LEXICON},
        "lexicon.log_unknown": np.array([lexicon.log_unknown], np.float64),
        **strings_to_arrays("tagger.features", tagger.features),
        "tagger.weights": tagger.weights,
        **strings_to_arrays("tagger.vector_words", tagger.vectors.words),
        "tagger.vectors": tagger.vectors.matrix,
        **strings_to_arrays("heads", [heads.to_text()]),
        **_closing_to_arrays(closing),
    }


def grammar_from_arrays(
    arrays: Arrays,
) -> tuple[Pcfg, Lexicon, HeadTable, CellClosing | None]:
    """The inverse of `grammar_to_arrays`.

    Raises:
        KeyError: an array is missing.
        ValueError, ConfigError: an array violates `rnnparse.array_invariants`, or is not one
            that grammars have.
    """
    tagger = UnknownWordTagger(
        strings_from_arrays("tagger.features", arrays),
        arrays["tagger.weights"],
        WordVectors(strings_from_arrays("tagger.vector_words", arrays), arrays["tagger.vectors"]),
    )
    lexicon = Lexicon(
        strings_from_arrays("lexicon.words", arrays),
        **{name: arrays[f"lexicon.{name}"] for name in LEXICON},
        log_unknown=_number("lexicon.log_unknown", arrays),
        tagger=tagger,
    )
    pcfg = Pcfg(
        symbols=strings_from_arrays("pcfg.symbols", arrays),
        categories=strings_from_arrays("pcfg.categories", arrays),
        **{name: arrays[f"pcfg.{name}"] for name in PCFG},
    )
    (text,) = strings_from_arrays("heads", arrays)
    heads = HeadTable.from_text(text, "the model's heads")
    if heads.to_text() != text:
        raise ValueError("heads: the table is not in canonical form")
    closing = _closing_from_arrays(arrays)
    if len(arrays) != len(_ALL) + (len(_CLOSING) if closing else 0):
        raise ValueError(f"{min(arrays.keys() - _ALL - _CLOSING)}: not an array of a grammar")
    return pcfg, lexicon, heads, closing


def _closing_to_arrays(closing: CellClosing | None) -> dict[str, np.ndarray]:
    if closing is None:
        return {}
    threshold = np.array([closing.threshold], np.float64)
    return {"closing.weights": closing.weights, "closing.threshold": threshold}


def _closing_from_arrays(arrays: Arrays) -> CellClosing | None:
    """None for grammars of few trees, and of earlier versions."""
    if not _CLOSING & arrays.keys():
        return None
    return CellClosing(arrays["closing.weights"], _number("closing.threshold", arrays))


def strings_to_arrays(name: str, strings: Sequence[str]) -> dict[str, np.ndarray]:
    """A list of strings as arrays `NAME.utf8` and `NAME.offsets`."""
    encoded = [s.encode("utf-8", "surrogatepass") for s in strings]
    return {
        f"{name}.utf8": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}.offsets": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
    }


def strings_from_arrays(name: str, arrays: Arrays) -> tuple[str, ...]:
    """The inverse of `strings_to_arrays`.

    Raises:
        KeyError: an array is missing.
        ValueError: an array violates `rnnparse.array_invariants`, or is not UTF-8.
    """
    parts = {part: arrays[f"{name}.{part}"] for part in _STRINGS}
    check(name, _STRINGS, parts)
    joined, offsets = parts["utf8"].tobytes(), parts["offsets"].tolist()
    return tuple(joined[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets))


def _number(name: str, arrays: Arrays) -> float:
    check(name, {"value": Array("1", np.float64)}, {"value": arrays[name]})
    return float(arrays[name][0])

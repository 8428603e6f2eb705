"""Every array that enters is checked: by the table, by constructors, and where a batch is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rnnparse.array_invariants import Array, check, rising
from rnnparse.errors import ModelError
from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.objective import loss_gradients
from rnnparse.models.scorer import Scorer
from rnnparse.models.vocabulary import Vocabulary
from tests.small_parser import small_parser

TOKENS = ["They", "ate", "udon", "with", "forks", "."]
TABLE = {
    "offsets": Array("S+1", np.int64, order="parts N"),
    "value": Array("N d", (np.float32, np.float64), -1, 1),
    "place": Array("N", np.int32, 0, "2S-1"),
}


def arrays() -> dict[str, Any]:
    return {
        "offsets": np.array([0, 2, 3]),
        "value": np.zeros((3, 4), np.float32),
        "place": np.array([0, 3, 1], np.int32),
    }


def test_sizes_come_from_the_first_array_that_has_them() -> None:
    assert check("x", TABLE, arrays()) == {"S": 2, "N": 3, "d": 4}
    assert check("x", TABLE, arrays(), d=4)["S"] == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("offsets", [0, 3], "x.offsets must be an array, not list"),
        ("offsets", np.array([0, 2, 3], np.int32), "x.offsets must be of type int64, not int32"),
        ("offsets", np.array([0, 2, 3], ">i8"), "x.offsets must be of type int64, not >i8"),
        ("offsets", np.array([0, 2, 2]), "x.offsets must rise from 0 to 2"),
        ("offsets", np.array([0, 4, 3]), "x.offsets must rise from 0 to 3"),
        ("offsets", np.array([1, 2, 3]), "x.offsets must rise"),
        ("offsets", np.array([], np.int64), "x.offsets has the shape"),
        ("value", np.zeros((2, 4)), r"x.value has the shape \[2, 4\], not \[N = 3, d = 4\]"),
        ("value", np.zeros(3), r"x.value has the shape \[3\]"),
        ("value", np.full((3, 4), np.nan), "x.value has the value nan"),
        ("value", np.full((3, 4), -np.inf), "x.value has the value -inf, not at least -1"),
        ("value", np.full((3, 4), 1.5), "x.value has the value 1.5, not at most 1"),
        ("place", np.array([0, -1, 0], np.int32), "x.place has the value -1, not at least 0"),
        ("place", np.array([0, 4, 0], np.int32), "x.place has the value 4, not at most 3"),
        ("place", np.zeros((), np.int32), r"x.place has the shape \[\]"),
    ],
)
def test_each_entry_is_checked(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check("x", TABLE, arrays() | {name: value})


def test_rows_rise_column_by_column() -> None:
    assert rising(np.array([[0, 5], [1, 0], [1, 2]]))
    assert not rising(np.array([[0, 5], [0, 5]]))
    assert not rising(np.array([[1, 0], [0, 5]]))
    assert rising(np.empty((0, 2)))


# -- grammars ----------------------------------------------------------------------------------


def _swap(array: np.ndarray) -> np.ndarray:
    """The first two entries that differ change places."""
    changed = array.copy()
    other = int(np.flatnonzero(array != array[0])[0])
    changed[[0, other]] = changed[[other, 0]]
    return changed


def _put(place: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def put(array: np.ndarray) -> np.ndarray:
        changed = array.copy()
        changed[place] = value
        return changed

    return put


# What crashed, gave other words, no tree or other trees, without a word.
GRAMMAR_CHANGES: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = [
    ("lexicon.state_symbol", _put(0, 10**6)),
    ("lexicon.state_symbol", _put(0, -1)),
    ("lexicon.state_symbol", lambda a: a[::-1].copy()),
    ("lexicon.symbol", _put(0, 10**6)),
    ("lexicon.symbol", _put(0, -7)),
    ("lexicon.symbol", _swap),
    ("lexicon.symbol", lambda a: np.random.default_rng(0).permutation(a)),
    ("lexicon.symbol", lambda a: a[:-1]),
    ("lexicon.logp", _put(0, np.nan)),
    ("lexicon.logp", _put(0, np.inf)),
    ("lexicon.logp", _put(0, -1e300)),
    ("lexicon.ptr", _put(1, -1)),
    ("lexicon.ptr", _put(-1, 10**9)),
    ("lexicon.ptr", _put(1, 2**62)),
    ("lexicon.tag_ptr", _put(1, 0)),
    ("lexicon.state_logp", _put(0, np.nan)),
    ("lexicon.log_unknown", _put(0, np.nan)),
    ("lexicon.log_unknown", lambda a: a[0]),
    ("lexicon.log_unknown", lambda a: a[:0]),
    ("pcfg.binary", _put((0, 0), 10**6)),
    ("pcfg.binary", _put((0, 1), -1)),
    ("pcfg.binary", lambda a: a[::-1].copy()),
    ("pcfg.binary", lambda a: a.astype(np.int64)),
    ("pcfg.binary", lambda a: a.T.copy()),
    ("pcfg.unary", _put((0, 1), 10**6)),
    ("pcfg.unary", _put((0, 0), -2)),
    ("pcfg.link", np.logical_not),
    ("pcfg.binary_logp", _put(0, np.nan)),
    ("pcfg.binary_logp", _put(0, 1.0)),
    ("pcfg.binary_logp", lambda a: np.zeros_like(a)),
    ("pcfg.binary_logp", lambda a: a - 5),
    ("pcfg.unary_logp", _put(0, -np.inf)),
    ("pcfg.category", _swap),
    ("pcfg.category", lambda a: np.random.default_rng(0).permutation(a)),
    ("pcfg.category", lambda a: np.zeros_like(a)),
    ("pcfg.category", _put(0, -1)),
    ("pcfg.categories.utf8", lambda a: a[::-1].copy()),
    ("pcfg.categories.offsets", _put(1, 10**9)),
    ("pcfg.symbols.utf8", lambda a: a[::-1].copy()),
    ("pcfg.symbols.offsets", lambda a: a[:-1]),
    ("tagger.weights", _put((0, 0), np.nan)),
    ("tagger.weights", lambda a: a[:, :-1].copy()),
    ("tagger.weights", lambda a: a * np.float32(1e30)),
    ("tagger.features.offsets", lambda a: np.zeros_like(a)),
    ("heads.offsets", lambda a: np.array([0])),
    ("heads.utf8", lambda a: np.frombuffer(b"nonsense" + a.tobytes()[8:], np.uint8)),
]


@pytest.mark.parametrize("number", range(len(GRAMMAR_CHANGES)))
def test_a_changed_array_of_a_grammar_is_refused(number: int) -> None:
    name, change = GRAMMAR_CHANGES[number]
    whole = small_parser().grammar.to_arrays()
    Grammar.from_arrays(whole)
    with pytest.raises(ModelError, match="damaged"):
        Grammar.from_arrays({**whole, name: change(whole[name])})


def test_an_array_that_grammars_do_not_have_is_refused() -> None:
    with pytest.raises(ModelError, match="damaged"):
        Grammar.from_arrays({**small_parser().grammar.to_arrays(), "more": np.zeros(1)})


# -- constructors ------------------------------------------------------------------------------


def test_constructors_check_for_callers_of_the_library() -> None:
    parser = small_parser()
    pcfg = parser.grammar.pcfg
    with pytest.raises(ValueError, match=r"pcfg\.category"):
        replace(pcfg, category=pcfg.category + np.int32(1000))
    with pytest.raises(ValueError, match="sorted"):
        replace(pcfg, binary=pcfg.binary[::-1].copy())
    with pytest.raises(ValueError, match="TOP"):
        replace(pcfg, symbols=tuple(name.lower() for name in pcfg.symbols))
    with pytest.raises(ValueError, match="pairs"):
        CategoryPairs(parser.category_pairs.categories[:2], parser.category_pairs.pairs)
    with pytest.raises(ValueError, match="sorted"):
        CategoryPairs(parser.category_pairs.categories, parser.category_pairs.pairs[::-1].copy())
    for classes, words in ((("UNK",), ("a", "a")), ((), ("a",)), (("UNK",), ("a\nb",))):
        with pytest.raises(ValueError, match="vocabulary"):
            Vocabulary(classes, words)
    for name, value in (
        ("beta", float("nan")),
        ("candidates", 0),
        ("candidates", True),
        ("about", []),
    ):
        with pytest.raises(ValueError, match=name):
            replace(parser, **{name: value})
    nan = parser.parameters._replace(v=parser.parameters.v * np.float32(np.nan))
    with pytest.raises(ValueError, match=r"weights\.v has the value nan"):
        replace(parser, parameters=nan)


def forest() -> Forest:
    return Decoder(small_parser().grammar).parse(TOKENS, 10).forest


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("left", lambda a: a + np.int32(1)),
        ("right", _put(-1, 10**6)),
        ("root", _put(0, 10**6)),
        ("root", _put(0, -1)),
        ("end", _put(0, 5)),
        ("start", _put(-1, 3)),
        ("cat", _put(0, -1)),
        ("logp", _put(0, np.nan)),
        ("logp", lambda a: a[:-1]),
        ("cat", lambda a: a.astype(np.int64)),
    ],
)
def test_forests_are_sound(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    whole = vars(forest())
    Forest(**whole)
    with pytest.raises(ValueError, match="forest"):
        Forest(**{**whole, name: change(whole[name])})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("key", _put(0, 5)),
        ("word", _put(0, -1)),
        ("left", lambda a: a[::-1].copy()),
        ("height", _put(-1, 1)),
        ("root", _put(0, 10**6)),
        ("gold", _put(0, 99)),
        ("node_offsets", _put(1, 1)),
        ("root_offsets", _put(-1, 10**6)),
        ("cost", _put(0, np.nan)),
    ],
)
def test_stores_are_sound(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    parser, one_forest = small_parser(), forest()
    rows = parser.vocabulary.rows(TOKENS)
    whole = vars(
        ForestDataset.from_forests([one_forest, one_forest], [rows, rows], parser.category_pairs)
    )
    ForestDataset(**whole)
    with pytest.raises(ValueError, match="store"):
        ForestDataset(**{**whole, name: change(whole[name])})


def test_a_store_has_the_sentences_that_it_is_asked_for() -> None:
    parser, one_forest = small_parser(), forest()
    rows = parser.vocabulary.rows(TOKENS)
    store = ForestDataset.from_forests([one_forest], [rows], parser.category_pairs)
    for sentence in (1, -1, 10**9):
        with pytest.raises(IndexError, match="from 0 to 0"):
            store.batch([sentence])
    with pytest.raises(ValueError, match="more words than its sentence has rows"):
        ForestDataset.from_forests([one_forest], [rows[:-1]], parser.category_pairs)


@pytest.mark.parametrize(
    "change",
    [
        {"left": lambda a: a + np.int32(10**6)},
        {"right": _put(-1, 10**6)},
        {"key": lambda a: a + np.int32(10**6)},
        {"key": lambda a: a[:-3].copy()},
        {"rows": lambda a: a + np.int32(10**6)},
        {"rows": lambda a: a - np.int32(10**6)},
    ],
)
def test_kernels_refuse_batches_that_point_outside(change: dict[str, Any]) -> None:
    parser = small_parser()
    rows = parser.vocabulary.rows(TOKENS)
    batch = ForestDataset.from_forests([forest()], [rows], parser.category_pairs).batch([0])
    ((name, edit),) = change.items()
    broken = batch._replace(**{name: edit(getattr(batch, name))})
    with pytest.raises(ValueError, match="batch"):
        Scorer(parser.parameters).scores(broken)
    with pytest.raises(ValueError, match="batch"):
        loss_gradients(broken, parser.parameters)

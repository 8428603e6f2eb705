"""Latent grammars: the same for the same seed, from any treebank, saved and loaded."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.array_invariants import LATENT
from rnnparse.errors import ModelError, TreebankError
from rnnparse.grammar.latent import LatentGrammar, estimate_latent, latent_cycles
from rnnparse.threads import in_order
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees

HEADS = HeadTable.english()


def labels(treebank: list[Tree]) -> tuple[str, ...]:
    """The categories of trees."""
    return tuple(sorted({part.label() for tree in treebank for part in tree.subtrees()}))


@lru_cache(maxsize=1)
def latent() -> LatentGrammar:
    """Two cycles on 60 trees of the embedded treebank."""
    return estimate_latent(trees(60), HEADS, labels(trees(60)), cycles=2)


def same(one: LatentGrammar, other: LatentGrammar) -> bool:
    a, b = one.to_arrays(), other.to_arrays()
    return list(a) == list(b) and all(
        a[name].dtype == b[name].dtype and a[name].tobytes() == b[name].tobytes() for name in a
    )


def test_equal_seeds_give_equal_bytes_on_any_thread() -> None:
    names = labels(trees(60))
    grammars = list(
        in_order(lambda s: estimate_latent(trees(60), HEADS, names, cycles=2, seed=s), (0, 0, 1), 2)
    )
    assert same(grammars[0], latent()) and same(grammars[1], latent())
    assert not same(grammars[2], latent())


def test_cycles_add_substates() -> None:
    names = labels(trees(60))
    first, second = islice(latent_cycles(trees(60), HEADS, names), 2)
    assert same(second, latent())
    assert first.substates.sum() < second.substates.sum()
    assert first.substates.max() == 2 and second.substates.max() == 4
    root = names.index("TOP")
    assert second.substates[root] == 1
    assert repr(first).startswith(f"LatentGrammar({first.substates.sum()} substates of")


def test_counts_of_words_are_those_of_the_treebank() -> None:
    grammar, names = latent(), labels(trees(60))
    seen: dict[tuple[str, str], int] = {}
    for tree in trees(60):
        for word, tag in tree.pos():
            seen[word, tag] = seen.get((word, tag), 0) + 1
    ends = np.append(0, np.cumsum(grammar.substates[grammar.tag]))
    word = np.repeat(np.arange(len(grammar.words)), np.diff(grammar.ptr))
    counted = {
        (grammar.words[word[e]], names[grammar.tag[e]]): grammar.count[ends[e] : ends[e + 1]].sum()
        for e in range(len(grammar.tag))
    }
    assert counted == pytest.approx(seen, rel=1e-5)
    assert [grammar.number(word) for word in grammar.words] == list(range(len(grammar.words)))
    assert grammar.number("quux") is None
    first = grammar.state_ptr
    for tag in np.unique(grammar.tag):
        states = slice(first[tag], first[tag + 1])
        assert grammar.usual[states].sum() == pytest.approx(1.0)
        assert grammar.usual_rare[states].sum() == pytest.approx(1.0)


def test_small_and_odd_treebanks() -> None:
    one_word = Tree("TOP", [Tree("NN", ["rain"])])
    whole = Tree("TOP", [Tree("S", [Tree("NP", [Tree("NN", ["rain"])]), Tree("VB", ["falls"])])])
    deep = Tree("X", ["rain"])
    for level in range(5000):
        deep = Tree("S" if level % 3 else "NP", [deep, Tree("X", ["falls"])][: 1 + level % 2])
    for treebank in ([one_word], [whole], [one_word, whole], [Tree("TOP", [deep])]):
        names = set()
        for tree in treebank:
            pending = [tree]
            while pending:
                node = pending.pop()
                names.add(node.label())
                pending.extend(child for child in node if isinstance(child, Tree))
        grammar = estimate_latent(treebank, HEADS, sorted(names), cycles=2)
        assert (grammar.probability > 0).all()


def test_wrong_arguments() -> None:
    with pytest.raises(TreebankError, match="no trees"):
        estimate_latent([], HEADS, ("TOP",))
    with pytest.raises(ValueError, match="at least one cycle"):
        estimate_latent(trees(2), HEADS, labels(trees(2)), cycles=0)


def test_the_inverse_of_saving() -> None:
    again = LatentGrammar.from_arrays(latent().to_arrays())
    assert same(again, latent())
    assert again.words == latent().words


def test_missing_arrays_are_a_model_error() -> None:
    whole = latent().to_arrays()
    for name in whole:
        with pytest.raises(ModelError, match="a latent grammar is damaged"):
            LatentGrammar.from_arrays({key: whole[key] for key in whole if key != name})


@pytest.mark.parametrize("name", LATENT)
def test_damaged_arrays_are_a_model_error(name: str) -> None:
    whole = latent().to_arrays()
    array = whole[f"latent.{name}"]
    changed = [array[:-1], array[None], array.astype(np.float16), array + array.dtype.type(1)]
    changed += [-array - array.dtype.type(1)]
    if name not in ("probability", "count"):
        changed.append(np.roll(array, 1, axis=0))
    if array.dtype.kind == "f":
        changed.append(np.full_like(array, np.nan))
    if name == "count":  # any other positive counts are counts, too
        changed = [array[:-1], array[None], -array - 1, array * 0, np.full_like(array, np.nan)]
    for damaged in changed:
        with pytest.raises(ModelError, match="a latent grammar is damaged"):
            LatentGrammar.from_arrays({**whole, f"latent.{name}": damaged})


def test_words_out_of_order_are_a_model_error() -> None:
    whole = latent().to_arrays()
    text = whole["latent.words.utf8"].copy()
    text[:] = text[0]
    with pytest.raises(ModelError, match="words are not sorted"):
        LatentGrammar.from_arrays({**whole, "latent.words.utf8": text})

"""A grammar saved and loaded again is the same grammar, byte by byte."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.errors import ModelError
from rnnparse.grammar.grammar import Grammar, estimate
from rnnparse.inference.decoder import Decoder
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees, vectors


def saved(grammar: Grammar) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **grammar.to_arrays())
    return stream.getvalue()


def loaded(data: bytes) -> Grammar:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Grammar.from_arrays(arrays)


def same_parses(one: Grammar, other: Grammar, sentences: list[list[str]]) -> bool:
    a, b = Decoder(one), Decoder(other)
    for tokens in sentences:
        p, q = a.parse(tokens, 20), b.parse(tokens, 20)
        if p.glued != q.glued:
            return False
        for name in ("cat", "left", "right", "start", "end", "root", "logp"):
            if getattr(p.forest, name).tobytes() != getattr(q.forest, name).tobytes():
                return False
    return True


def test_round_trip_gives_the_same_bytes_and_parses(grammar: Grammar) -> None:
    data = saved(grammar)
    again = loaded(data)
    assert saved(again) == data
    sentences = [tree.leaves() for tree in trees(8, "dev")]
    sentences += [["Xyzzy", "gladly", "1\u20092", "."], ["?"], ["--", "the", "the", "New York"]]
    assert same_parses(grammar, again, sentences)
    assert again.heads == grammar.heads
    assert again.lexicon.tagger.vectors.words == vectors().words


def test_equal_treebanks_give_equal_bytes(grammar: Grammar) -> None:
    again = estimate(trees(60), HeadTable.english(), vectors=vectors())
    assert again is not grammar
    assert saved(again) == saved(grammar)


def test_words_with_strange_characters_stay_whole() -> None:
    words = ["1\u20092", "a b", "", "c\nd", "\u00e9\u0301", "\U0001f600", "e\x00f"]
    tag = "\u03b1\u20091"
    treebank = [Tree("TOP", [Tree("X", [Tree(tag, [w]), Tree(".", ["."])])]) for w in words]
    grammar = estimate(treebank, HeadTable.left())
    again = loaded(saved(grammar))
    assert set(again.lexicon.words) == {*words, "."}
    assert again.pcfg.categories == grammar.pcfg.categories
    assert same_parses(grammar, again, [[w, "."] for w in words])


def test_a_grammar_without_vectors(tmp_path: Path) -> None:
    grammar = estimate(trees(10), HeadTable.right())
    path = tmp_path / "grammar.npz"
    np.savez(path, **grammar.to_arrays())
    with np.load(path, allow_pickle=False) as arrays:
        again = Grammar.from_arrays(arrays)
    assert again.heads.default == "right"
    assert same_parses(grammar, again, [["unseen", "words", "."]])


def test_a_missing_or_damaged_array_is_a_model_error(grammar: Grammar) -> None:
    whole = grammar.to_arrays()
    for name in whole:
        with pytest.raises(ModelError, match="damaged"):
            Grammar.from_arrays({key: whole[key] for key in whole if key != name})
    with pytest.raises(ModelError, match="damaged"):
        Grammar.from_arrays({**whole, "pcfg.symbols.utf8": whole["pcfg.symbols.utf8"] | 0x80})

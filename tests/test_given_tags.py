"""Sentences whose tags are given: the trees have these tags, and no others are searched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.cli import main
from rnnparse.given_tags import TaggedWord, TagLexicon
from rnnparse.grammar.lexicon import Lexicon
from rnnparse.inference.search import Search
from rnnparse.parser import Parser
from rnnparse.trees.cleaning import tags
from tests.small_parser import small_parser

PLAIN = "They ate udon with the man"


def usual(sentence: str) -> list[tuple[str, str]]:
    tree = small_parser().parse(sentence.split())
    return list(zip(sentence.split(), tags(tree), strict=True))


def lexicon() -> TagLexicon:
    parser = small_parser()
    return TagLexicon(parser.grammar.lexicon, parser.grammar.pcfg)


def test_the_tags_that_the_parser_would_choose_change_nothing() -> None:
    parser = small_parser()
    given = usual(PLAIN)
    (tagged,) = parser.parse_many([given])
    (free,) = parser.parse_many([PLAIN.split()])
    assert tagged.tokens == free.tokens
    assert tagged.trees[0] == free.trees[0]  # its scores, too
    assert all(type(word) is str for word in tagged.trees[0].tree.leaves())


@pytest.mark.parametrize("place", range(6))
def test_every_tree_has_the_given_tags(place: int) -> None:
    parser = small_parser()
    given = usual(PLAIN)
    for tag in ("NN", "VBD", "IN", "NNP"):
        given[place] = (given[place][0], tag)
        trees = parser.parse_n_best(given, 5)
        assert {tuple(tags(scored.tree)) for scored in trees} == {tuple(t for _, t in given)}
        assert all(
            bracket.label == tag or bracket.probability == 0 or bracket.label not in lexicon().tags
            for bracket in parser.marginals(given)
            if (bracket.start, bracket.end) == (place, place + 1)
        )


def test_a_word_has_all_states_of_its_tag_and_no_others() -> None:
    tagged = lexicon()
    category = small_parser().grammar.pcfg.category
    free = Lexicon.emissions(tagged, ["ate", "the"])
    for word, tag in (("ate", "VBD"), ("ate", "NN"), ("zyx", "NN"), ("zyx", "VBD")):
        marked = tagged.mark(["the", word], ["DT", tag])
        emissions = tagged.emissions(marked)
        second = slice(emissions.ptr[1], emissions.ptr[2])
        number = small_parser().grammar.pcfg.categories.index(tag)
        assert set(category[emissions.symbol[second]]) == {number}
        every = {s for s in tagged.states() if category[s] == number}
        assert set(emissions.symbol[second]) <= every
        if (word, tag) == ("ate", "NN"):  # never seen: all states of the tag
            assert set(emissions.symbol[second]) == every & set(tagged.state_symbol)
            assert np.isfinite(emissions.logp[second]).all()
    seen = slice(free.ptr[0], free.ptr[1])
    kept = tagged.emissions(tagged.mark(["ate", "the"], ["VBD", "DT"]))
    assert set(kept.logp[: kept.ptr[1]]) <= set(free.logp[seen])


def test_unknown_tags_are_errors_that_name_token_and_tags() -> None:
    parser = small_parser()
    message = r"the model has no tag 'XYZ' \(token 2, 'ate'\); its tags: .*VBD"
    with pytest.raises(ValueError, match=message):
        parser.parse([("They", "PRP"), ("ate", "XYZ")])
    with pytest.raises(ValueError, match="no tag 'NP'"):  # a phrase
        parser.parse([("They", "NP")])
    with pytest.raises(TypeError, match="must all have tags or none, but token 2 differs"):
        parser.parse([("They", "PRP"), "ate"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must all have tags or none, but token 2 differs"):
        parser.parse(["They", ("ate", "VBD")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="token 1 is tuple"):
        parser.parse([("They", "PRP", "x")])  # type: ignore[list-item]


def test_tokens_of_divided_sentences_and_of_processes_keep_their_tags() -> None:
    parser = small_parser()
    given = [(word, "NN") for word in (PLAIN + " , " + PLAIN).split()]
    small = Parser(**parser.__getstate__() | {"search": Search(max_length=5)})
    (divided,) = small.parse_many([given])
    assert divided.divided and set(tags(divided.trees[0].tree)) == {"NN"}
    import pickle

    word = pickle.loads(pickle.dumps(TaggedWord("ate", 3)))
    assert (word, word.tag, type(word)) == ("ate", 3, TaggedWord)


def parse(trained: Path, tmp_path: Path, capsys: Any, text: str, *options: str) -> Any:
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    assert main(["parse", str(trained), str(tmp_path / "in.txt"), "--tagged", *options]) == 0
    return capsys.readouterr()


def test_the_command_divides_words_and_tags_at_the_last_slash(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "They/PRP ate/VBD 1\\/2/NN a/b/NN //NN 😀/NN (/NN\n\nThey/PRP ate\nThey/PRP /VBD x/FOO\n"
    text += "They/PRP ate/FOO\n"
    printed = parse(model, tmp_path, capsys, text, "--json")
    first, empty, *bad = map(json.loads, printed.out.splitlines())
    assert first["tokens"] == ["They", "ate", "1\\/2", "a/b", "/", "😀", "("]
    assert first["offsets"] == [[0, 4], [9, 12], [17, 21], [25, 28], [32, 33], [37, 38], [42, 43]]
    found = [node["label"] for node in first["trees"][0]["constituents"] if node["is_tag"]]
    assert found == ["PRP", "VBD", *["NN"] * 5]
    assert empty["trees"] == [] and "error" not in empty
    assert [line["error"].split(";")[0] for line in bad] == [
        "token 2, 'ate', is not word/TAG",
        "token 2, '/VBD', is not word/TAG",
        "the model has no tag 'FOO' (token 2, 'ate')",
    ]
    assert "warning: 3 line(s) of " in printed.err
    assert ": 3, 4, 5; the first: token 2" in printed.err

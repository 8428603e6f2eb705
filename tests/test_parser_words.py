"""Words and marks as people type them get the trees of the treebank's own forms."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from rnnparse.evaluation import EvalbParams, evaluate
from rnnparse.grammar.grammar import estimate
from rnnparse.parser import Parser
from rnnparse.trees.brackets import read_trees, unescape_token
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.heads import HeadTable
from tests.small_parser import make_parser

PEOPLE, FOOD, VERBS = ("Anna", "Tom", "They"), ("udon", "rice", "pie"), ("ate", "saw", "liked")
CLAUSES = (
    "(S (NP (NN {0})) (VP (VBD {1}) (NP (NN {2}))) {3})",
    "(S (`` ``) (S (NP (NN {0})) (VP (VBD {1}))) (, ,) ('' '') (NP (NN {0})) (VP (VBD {1})) {3})",
    "(S (NP (NN {0})) (PRN (: --) (NP (NN {2})) (: --)) (VP (VBD {1}) (NP (NN {2}))) {3})",
    "(S (NP (NN {0})) (PRN (-LRB- -LRB-) (NP (NN {2})) (-RRB- -RRB-)) (VP (VBD {1})) {3})",
    "(S (S (NP (NN {0})) (VP (VBD {1}))) (: ;) (S (NP (NN {0})) (VP (VBD {1}))) (: ...))",
    "(S (NP (NN {0})) (VP (VBD {1}) (NP (QP (CD 3\\/4) (CD 1\\/2)) (NN {2}))) {3})",
    "(S (NP (NN {0})) (VP (VBD {1}) (NP (` `) (NN {2}) (' '))) {3})",
)
TYPED = {
    "``": "“„«〝", "''": "”»″", "`": "‘‹‛", "'": "’›", "--": "—–―−-", "...": "…⋯", ";": "；",
    ",": "，、", ".": "。．", "?": "？¿", "-LRB-": "(（[", "-RRB-": ")）]",
}  # fmt: skip


def sentences(count: int, seed: int) -> list[Tree]:
    choose = random.Random(seed).choice
    ends = ("(. .)", "(. ?)")
    made = (
        choose(CLAUSES).format(choose(PEOPLE), choose(VERBS), choose(FOOD), choose(ends))
        for _ in range(count)
    )
    return [Tree("TOP", [Tree.fromstring(text)]) for text in made]


@lru_cache(maxsize=2)
def parser(escape: bool = True) -> Parser:
    treebank = sentences(150, 0)
    if not escape:
        treebank = [Tree.fromstring(str(tree).replace("\\/", "/")) for tree in treebank]
    return make_parser(estimate(treebank, HeadTable.english()), treebank)


def without_words(tree: Tree) -> str:
    bare = tree.copy(deep=True)
    for position in bare.treepositions("leaves"):
        bare[position] = "w"
    return str(bare)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_typed_marks_get_the_tree_of_the_treebanks_own(seed: int, data: st.DataObject) -> None:
    (tree,) = sentences(1, seed)
    own = words(tree)
    typed = [data.draw(st.sampled_from(TYPED.get(word, [word]))) for word in own]
    expected = parser().parse_n_best(own, 5)
    scored = parser().parse_n_best(typed, 5)
    for one, other in zip(expected, scored, strict=True):
        assert without_words(one.tree) == without_words(other.tree)
        assert (one.score, one.log_probability) == (other.score, other.log_probability)
        assert [unescape_token(word) for word in words(other.tree)] == [
            unescape_token(word) for word in typed
        ]
        assert parser().score(other.tree) == parser().score(one.tree) == one.rnn_score
        assert (parser().embed(other.tree) == parser().embed(one.tree)).all()


def test_straight_quotation_marks_among_tokens() -> None:
    own = ["``", "Anna", "ate", ",", "''", "Anna", "ate", "."]
    typed = [word if word not in ("``", "''") else '"' for word in own]
    tree = parser().parse(typed)
    assert without_words(tree) == without_words(parser().parse(own))
    assert tree.leaves() == typed


def test_raw_text_with_typographic_marks() -> None:
    """The tokenizer cuts them off, whether there is space around them or not."""
    expected = without_words(parser().parse(["Anna", "--", "udon", "--", "ate", "rice", "."]))
    for text in ("Anna—udon—ate rice.", "Anna — udon — ate rice.", "Anna -- udon -- ate rice."):
        assert without_words(parser().parse(text)) == expected
    quoted = without_words(parser().parse(["``", "Anna", "ate", ",", "''", "Anna", "ate", "."]))
    for text in ("“Anna ate,” Anna ate.", '"Anna ate," Anna ate.', "«Anna ate,» Anna ate."):
        assert without_words(parser().parse(text)) == quoted


@pytest.mark.parametrize("escape", [True, False])
def test_slashes_are_written_as_the_treebank_has_them(escape: bool) -> None:
    written = "3\\/4" if escape else "3/4"
    own = ["Anna", "ate", written, "1\\/2" if escape else "1/2", "rice", "."]
    plain = [word.replace("\\", "") for word in own]
    tree = parser(escape).parse(plain)
    assert tree == parser(escape).parse(own)
    assert tree.leaves() == own
    assert "(QP (CD" in str(tree)
    # Words that training never saw are written in the same way.
    assert parser(escape).parse(["9/16", "*"]).leaves() == (
        ["9\\/16", "\\*"] if escape else ["9/16", "*"]
    )


def test_trees_of_either_form_score_the_same() -> None:
    texts = ["(S (NP (NN Anna)) (VP (VBD ate) (NP (CD {}) (NN {}))))".format(*p) for p in (
        ("3\\/4", "-LRB-"), ("3/4", "-LRB-"))]  # fmt: skip
    escaped, plain = map(Tree.fromstring, texts)
    assert parser().score(escaped) == parser().score(plain) != 0.0
    ranked = parser().rerank([plain, escaped])
    assert ranked[0].score == ranked[1].score and [r.tree for r in ranked] == [plain, escaped]
    other = Tree.fromstring(texts[0].replace("3\\/4", "1\\/2"))
    assert parser().score(other) != parser().score(escaped)  # or the words would not count


def test_all_dev_sentences_with_slashes_count(shared: Path) -> None:
    """Typed with plain slashes, they come out as the treebank's gold trees have them."""
    folder = shared / "treebanks" / "wsj-sample"
    cleaned = [clean(tree) for tree in islice(read_trees(folder / "train.mrg"), 250)]
    treebank = [tree for tree in cleaned if tree is not None]
    assert any("\\/" in word for tree in treebank for word in words(tree))
    model = make_parser(estimate(treebank, HeadTable.english()), treebank)
    gold = [tree for tree in read_trees(folder / "dev.mrg") if any("\\/" in w for w in words(tree))]
    assert len(gold) == 14
    tokens = [[word.replace("\\/", "/") for word in words(clean(tree) or tree)] for tree in gold]
    test = [result.trees[0].tree for result in model.parse_many(tokens, scorer="pcfg")]
    assert all("\\/" in str(tree) for tree in test)
    params = replace(EvalbParams.collins(), delete_by="gold")  # the tags of punctuation apart
    assert evaluate(gold, test, params).totals().valid == 14

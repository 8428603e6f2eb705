"""Words as people and treebanks write them, and punctuation that training never saw."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rnnparse.grammar.forms import WordForms
from rnnparse.trees.brackets import unescape_token

PENN_WORDS = "the dog don n't 's , . ? ! : ; -- ... `` '' ` ' $ % -LRB- -RRB- 3\\/4 -LCB-"
PENN = WordForms(PENN_WORDS.split(" "))
WEB = WordForms(["the", "dog", "n’t", ",", ".", "?", "-", "…", '"', "'", "(", ")", "and/or", "["])


def looked_up(forms: WordForms, text: str) -> str:
    return " ".join(forms.lookup(text.split()))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("“ the dog ”", "`` the dog ''"),
        ("« the dog »", "`` the dog ''"),
        ("„ the dog “ “ dog ”", "`` the dog '' `` dog ''"),
        ("‘ the ‚ dog ’ ‹ the ›", "` the ` dog ' ` the '"),
        ("the — dog – the ― dog - the --- dog −", "the -- dog -- the -- dog -- the -- dog --"),
        ("the … dog ⋯ .... ‥", "the ... dog ... ... ..."),
        ("5 ″ ′", "5 '' '"),
        ("（ the ） ， 。 ！ ？ ： ； ＂ dog ＂ ％ ＄", "( the ) , . ! ? : ; `` dog '' % $"),
        ("[ the ] 【 dog 】 { the }", "( the ) ( dog ) { the )"),
        ("!!! ?! ?? ‽ ‼ ¿", "! ? ? ? ! ?"),
        ("€ £ ￥", "$ $ $"),
        # Not in the table: by their Unicode class (Pd, Pi, Pf, Ps, Pe, Po).
        ("〜 ⹂ ⸂ ⸃ ⸨ ⸩ ※", "-- ( `` '' ( ) ;"),
        # Signs that stand for words, symbols and pictures are left to the tagger of unknown words.
        ("& @ # / * + = < > ~ _ § 👩‍🔬 →", "& @ # / * + = < > ~ _ § 👩‍🔬 →"),
        ("do n’t O’Neill the dog’s", "do n't O'Neill the dog's"),
        ("1993–94 well‑known ＮＥＣ", "1993-94 well-known NEC"),
        ("3/4 3\\/4 -LRB- ( -LCB- 5/8 \\*", "3/4 3/4 ( ( { 5/8 *"),
    ],
)
def test_the_nearest_mark_that_training_knows(typed: str, expected: str) -> None:
    assert looked_up(PENN, typed) == expected


def test_marks_that_training_saw_are_left_alone() -> None:
    text = "the dog n’t - … \" ' ( ) [ don’t"
    assert looked_up(WEB, text) == text
    assert looked_up(WEB, "`` dog '' “ dog ” ` ‘ ’ -- — ... -LSB-") == (
        '" dog " " dog " \' \' \' - - … ['
    )


def test_straight_quotation_marks_open_and_close_in_turn() -> None:
    assert looked_up(PENN, '" the " , " dog "') == "`` the '' , `` dog ''"
    assert looked_up(PENN, '“ the dog "') == "`` the dog ''"
    assert looked_up(PENN, '" the dog ”') == "`` the dog ''"
    assert looked_up(PENN, 'the dog "') == "the dog ''"  # nothing follows that it could open


def test_without_any_mark_the_token_stays() -> None:
    none = WordForms(["the", "dog"])
    text = "“ — … ( ) , . € x"
    assert looked_up(none, text) == text


@pytest.mark.parametrize("forms", [PENN, WEB, WordForms([])])
@example(tokens=[":ʼ"])
@given(tokens=st.lists(st.text(min_size=1, max_size=4), max_size=8))
def test_looking_up_keeps_words_and_is_done_once(forms: WordForms, tokens: list[str]) -> None:
    looked_up_forms = forms.lookup(tokens)
    assert len(looked_up_forms) == len(tokens) and forms.lookup(looked_up_forms) == looked_up_forms
    for token, form in zip(tokens, looked_up_forms, strict=True):
        if token.isascii() and any(character.isalnum() for character in token):
            assert form == unescape_token(token)


@given(st.characters(categories=["Pd", "Pi", "Pf", "Ps", "Pe"]))
def test_every_dash_quotation_mark_and_bracket_finds_a_mark(mark: str) -> None:
    (form,) = PENN.lookup([mark])
    wanted = {"Pd": "--", "Pi": "`` `", "Pf": "'' '", "Ps": "( `` ` {", "Pe": ") ''"}
    assert form in wanted[unicodedata.category(mark)].split()


def test_words_are_written_as_the_treebank_has_them() -> None:
    assert PENN.write(["3/4", "3\\/4", "**", "(", "{", "}", "[", "-LSB-", "a"]) == [
        "3\\/4", "3\\/4", "\\*\\*", "-LRB-", "-LCB-", "-RCB-", "[", "-LSB-", "a",
    ]  # fmt: skip
    assert WEB.write(["3/4", "3\\/4", "*", "(", "{", "["]) == [
        "3/4", "3\\/4", "*", "-LRB-", "{", "[",
    ]  # fmt: skip
    # What most words have decides.
    assert WordForms(["1\\/2", "1/4", "3/4"]).write(["7/8"]) == ["7/8"]
    assert WordForms(["1\\/2", "\\*", "3/4"]).write(["7/8"]) == ["7\\/8"]
    assert WordForms([]).write(["7/8"]) == ["7/8"]


@given(st.text(st.sampled_from("ab(){}[]/*\\-LRBSC"), min_size=1))
def test_written_words_are_read_back(word: str) -> None:
    for forms in (PENN, WEB, WordForms(["[x]", "-LSB-", "\\/"])):
        (written,) = forms.write([word])
        assert unescape_token(written) == unescape_token(word)
        assert forms.write([written]) == [written]

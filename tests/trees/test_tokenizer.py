"""Raw text to tokens: nothing lost, and the conventions of the treebanks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.trees.brackets import escape_token, read_trees, unescape_token
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.tokenizer import tokenize

DOUBLE, SINGLE = '"“”„‟', "‘’‚‛`"
SHAPELESS = [chr(code) for code in (*range(32), *range(0x7F, 0xA0), 0x200B, 0xFEFF)]
SHAPELESS += ["\xad", "\u200e", "\u200f", "\u2060", *map(chr, range(0x202A, 0x202F))]
SHAPELESS += [chr(code) for code in range(0x2066, 0x206A)]

EXAMPLES = {
    "They ate udon with forks.": "They ate udon with forks .",
    'He said, "I can\'t (really) go."': "He said , `` I ca n't ( really ) go . ''",
    "Solano(r) called (713)853-7041 at 3:30 p.m. today.": (
        "Solano(r) called (713)853-7041 at 3:30 p.m. today ."
    ),
    "It cost $5,000.50, i.e. 10% -- or US$3!": "It cost $ 5,000.50 , i.e. 10 % -- or US$ 3 !",
    "“It’s ‘fine’,” they’d said—don’t ask…": ("`` It 's ` fine ' , '' they 'd said — do n't ask …"),
    "'Tis the dogs' bone, 'he said', '90s": "'T is the dogs ' bone , ` he said ' , '90s",
    "He 'likes' 'em; I'd've shouldn't've.": "He ` likes ' 'em ; I 'd 've should n't 've .",
    "You cannot. I'm gonna.": "You can not . I 'm gon na .",
    "Mr. J. Smith Jr. of Ford Motor Co. paid No. 5.": (
        "Mr. J. Smith Jr. of Ford Motor Co. paid No. 5 ."
    ),
    "The answer is no. He left the U.S. on Nov. 5 approx. ten years ago.": (
        "The answer is no . He left the U.S. on Nov. 5 approx. ten years ago ."
    ),
    '("Go." "Stay.") and "so" on': "( `` Go . '' `` Stay . '' ) and `` so '' on",
    "See http://x.org/a?b=c(d)&e. Or www.y.com, or me@z.co.uk.": (
        "See http://x.org/a?b=c(d)&e . Or www.y.com , or me@z.co.uk ."
    ),
    "He waited.... And S&P's 62%-owned book(s)?!": (
        "He waited ... . And S&P 's 62%-owned book(s) ? !"
    ),
    "„Hallo“ «ça» l'homme 5'10\" tall": "`` Hallo '' « ça » l'homme 5'10 '' tall",
    "‹so› 5′10″ •one word – word, 1993–94": "‹ so › 5′10 ″ • one word – word , 1993–94",
    "-LRB- already tokenized -RRB- `` ca n't ''": "-LRB- already tokenized -RRB- `` ca n't ''",
    "O'Neill's y'all rock'n'roll rock 'n' roll": "O'Neill 's y'all rock'n'roll rock 'n' roll",
    "a\xa0b\u2009c\u200bd\0e": "a b c d e",
    "co\xadoperate 日本語。 naïve 👩‍🔬": "cooperate 日本語。 naïve 👩‍🔬",
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples(text: str) -> None:
    assert tokenize(text) == EXAMPLES[text].split()


@pytest.mark.parametrize("text", EXAMPLES.values())
def test_tokens_joined_by_spaces_are_tokenized_to_themselves(text: str) -> None:
    assert tokenize(text) == text.split()


@pytest.mark.parametrize("text", ["", "  \t\r\n", "\ufeff", "\0\x1f", "\xad"])
def test_nothing_visible_gives_no_tokens(text: str) -> None:
    assert tokenize(text) == []


def visible(text: str) -> str:
    """The text without white space and shapeless characters, quotation marks in one form."""
    for mark in DOUBLE:
        text = text.replace(mark, "''")
    for mark in SINGLE:
        text = text.replace(mark, "'")
    for character in SHAPELESS:
        text = text.replace(character, "")
    return "".join(text.split())


WORDS = [
    "n't",
    "'s",
    "cannot",
    "Mr.",
    "U.S.",
    "a",
    "http://",
    "(713)853-7041",
    "'tis",
    "x(r)",
    "1",
    "B",
    "...",
    "--",
    "\xad",
    "\u200b",
    "é",
]
pieces = st.sampled_from([*DOUBLE, *SINGLE, *"'.,;:?!()[]{}<>$%#&@/-—–… \t", *WORDS])


@given(st.lists(pieces | st.characters(exclude_categories=["Cs"]), max_size=30).map("".join))
def test_every_visible_character_is_kept_in_order(text: str) -> None:
    tokens = tokenize(text)
    assert visible("".join(tokens)) == visible(text)
    for token in tokens:
        assert unescape_token(escape_token(token)) == unescape_token(token)


def test_bytes_that_are_no_text_do_not_reach_the_trees() -> None:
    assert tokenize("caf\udce9 au lait") == ["caf", "au", "lait"]


PIECES = ["a--", "(", "'", '"', "a.", "1,", "a-", "'a", "@", "www.", "$", "'s", "a's", "'ll", "n't"]
PIECES += ["'d've", ".", "..", "a.a.", "-", "''", "``", "#a", "a@", "a@b.", "http://", "62%", ".)"]


@pytest.mark.parametrize("piece", PIECES)
def test_long_lines_take_time_in_proportion_to_their_length(piece: str) -> None:
    started = time.process_time()
    tokens = tokenize(piece * 20_000)
    assert time.process_time() - started < 2
    assert visible("".join(tokens)) == visible(piece * 20_000)


def test_agrees_with_the_treebank(shared: Path) -> None:
    """Words of gold trees, written as text, come out as the treebank has them."""
    agree = total = 0
    for tree in read_trees(shared / "treebanks/wsj-sample/dev.mrg"):
        cleaned = clean(tree)
        assert cleaned is not None
        gold = [unescape_token(word) for word in words(cleaned)]
        agree += tokenize(written(gold)) == gold
        total += 1
    assert agree / total > 0.97


def written(tokens: list[str]) -> str:
    """Tokens as a newspaper prints them."""
    text = " ".join(tokens).replace("`` ", '"').replace(" ''", '"').replace(" ` ", " '")
    for clitic in ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'"):
        text = text.replace(f" {clitic} ", f"{clitic} ")
    for mark in ",.;:?!%)":
        text = text.replace(f" {mark}", mark)
    for mark in "($#":
        text = text.replace(f"{mark} ", mark)
    return text

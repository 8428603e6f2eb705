"""Small grammars that the tests of rules, lexicon and decoder share."""

from __future__ import annotations

import pytest

from rnnparse.grammar.grammar import Grammar
from tests.grammar.small import small_grammar


@pytest.fixture(scope="session")
def grammar() -> Grammar:
    """A grammar of 60 trees of the embedded treebank, with vectors for some words."""
    return small_grammar()

"""Checks across the arrays of a grammar, which every estimated grammar passes.

If, say, the categories of the symbols in a file were shuffled, each array would be valid, but the
parser would return wrong trees. Loading therefore checks the arrays of a grammar against each
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rnnparse.array_invariants import LOG_ONE
from rnnparse.grammar.annotate import BACKOFF
from rnnparse.grammar.lexicon import Lexicon
from rnnparse.grammar.pcfg import Pcfg, category_names
from rnnparse.trees.brackets import unescape_token

_AFTER_STEM = "^|~'"  # what may follow the category in the name of a symbol


def check_estimated(pcfg: Pcfg, lexicon: Lexicon) -> None:
    """Raise ValueError if `estimate` cannot have made these rules and this lexicon."""
    for name in ("symbols", "categories"):
        _require(_sorted(getattr(pcfg, name)), f"pcfg.{name} are not sorted")
    _check_names(pcfg)
    _check_rules(pcfg)
    _check_sums(pcfg)
    _check_states(pcfg, lexicon)
    _check_words(lexicon)


def _check_names(pcfg: Pcfg) -> None:
    """A symbol is named after its category."""
    stems = category_names(pcfg.categories)
    for symbol, category in zip(pcfg.symbols, pcfg.category.tolist(), strict=True):
        rest = symbol.removeprefix(stems[category])
        named = symbol.startswith(stems[category]) and (not rest or rest[0] in _AFTER_STEM)
        _require(named, f"pcfg.category: {symbol!r} does not have the category {stems[category]!r}")


def _check_rules(pcfg: Pcfg) -> None:
    """Intermediate symbols stay within their phrase, and links lead to back-offs."""
    size = len(pcfg.categories)
    partial, basic = pcfg.partial, pcfg.category % size
    parent, left, right = pcfg.binary.T
    for child in (left, right):
        within = ~partial[child] | (basic[child] == basic[parent])
        _require(within.all(), "pcfg.binary: an intermediate symbol leaves its phrase")
    _require(not (partial[left] & partial[right]).any(), "pcfg.binary: two intermediate children")
    parent, child = pcfg.unary.T
    backoff = np.array([name.rstrip("'").endswith(BACKOFF) for name in pcfg.symbols], np.bool_)
    links = (pcfg.category[parent] == pcfg.category[child]) & backoff[child]
    _require(np.array_equal(links, pcfg.link), "pcfg.link does not mark the back-offs")
    whole = ~partial[parent] & ~partial[child]
    _require((links | whole).all(), "pcfg.unary: an intermediate symbol of one child")
    used = np.zeros(len(pcfg.symbols), np.bool_)
    used[[pcfg.root, *left, *right, *child]] = True
    _require(used.all(), "pcfg.symbols: one occurs in no rule")


def _check_sums(pcfg: Pcfg) -> None:
    """A symbol's rules, apart from its link, have probabilities that sum to at most 1.

    With the link they sum to at least 1. Without one they may sum to less, since back-offs leave
    out rare rules.
    """
    size = len(pcfg.symbols)
    own = ~pcfg.link
    total = np.bincount(pcfg.binary[:, 0], np.exp(pcfg.binary_logp), size)
    total = total + np.bincount(pcfg.unary[own, 0], np.exp(pcfg.unary_logp[own]), size)
    link = np.bincount(pcfg.unary[pcfg.link, 0], np.exp(pcfg.unary_logp[pcfg.link]), size)
    linked = np.bincount(pcfg.unary[pcfg.link, 0], minlength=size)
    _require(linked.max(initial=0) <= 1, "pcfg.link: a symbol has two back-offs")
    fits = (total <= 1 + LOG_ONE) & ((linked == 0) | (total >= 1 - link - LOG_ONE))
    _require(fits.all(), "pcfg: the probabilities of a symbol's rules do not sum to 1")


def _check_states(pcfg: Pcfg, lexicon: Lexicon) -> None:
    """The states of a tag are symbols of one category, in order, each of one tag."""
    states = lexicon.state_symbol
    child = np.zeros(len(pcfg.symbols), np.bool_)
    child[pcfg.binary[:, 1:]] = True
    child[pcfg.unary[:, 1]] = True
    _require(child[states].all(), "lexicon.state_symbol: a state that is in no rule")
    _require(len(np.unique(states)) == len(states), "lexicon.state_symbol: a state of two tags")
    inner = np.ones(len(states), np.bool_)
    inner[lexicon.tag_ptr[:-1]] = False
    inner = inner[1:]
    _require((np.diff(states)[inner] > 0).all(), "lexicon.state_symbol is not sorted")
    same = np.diff(pcfg.category[states])[inner] == 0
    _require(same.all(), "lexicon.tag_ptr: a tag with states of two categories")


def _check_words(lexicon: Lexicon) -> None:
    """Words are sorted, and each has all states of its tags, tag by tag."""
    unescaped = [unescape_token(word) for word in lexicon.words]
    # Models of older versions have them in the order of their escaped forms.
    _require(_sorted(unescaped) or _sorted(lexicon.words), "lexicon.words are not sorted")
    _require(_sorted(lexicon.tagger.features), "tagger.features are not sorted")
    place = np.full(lexicon.symbol.max(initial=0) + lexicon.state_symbol.max(initial=0) + 1, -1)
    place[lexicon.state_symbol] = np.arange(len(lexicon.state_symbol))
    places = place[lexicon.symbol]
    begins = np.zeros(len(lexicon.state_symbol) + 1, np.bool_)
    begins[lexicon.tag_ptr] = True
    first = np.zeros(len(places) + 1, np.bool_)
    first[lexicon.ptr] = True
    first, last = first[:-1], first[1:]
    before = np.append(-1, places[:-1])
    _require((places >= 0).all(), "lexicon.symbol: a state that no tag has")
    begin = begins[places]
    _require((begin | (~first & (places == before + 1))).all(), "lexicon.symbol: half a tag")
    _require((first | (places > before)).all(), "lexicon.symbol: tags out of order")
    _require((begins[places + 1] | ~last).all(), "lexicon.symbol: half a tag")
    followed = begins[places[:-1] + 1] | (places[1:] == places[:-1] + 1)
    _require((followed | last[:-1]).all(), "lexicon.symbol: half a tag")


def _sorted(strings: Sequence[str]) -> bool:
    """Whether strings are in order, each once."""
    return all(a < b for a, b in pairwise(strings))


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ValueError(message)

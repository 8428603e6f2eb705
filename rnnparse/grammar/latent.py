"""`LatentGrammar`: a PCFG over categories with latent substates, estimated from the same trees.

It is too large to search. It scores the rule applications that the grammar has found likely; see
`rnnparse.inference.max_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.array_invariants import LATENT, check, rising
from rnnparse.errors import ModelError, TreebankError
from rnnparse.grammar.latent_layout import offsets
from rnnparse.grammar.latent_trees import TreebankArrays, treebank_arrays
from rnnparse.grammar.storage import strings_from_arrays, strings_to_arrays
from rnnparse.threads import apart
from rnnparse.trees.cleaning import ROOT
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.grammar.latent_training import Trainer

RARE = 2  # words of at most this count show how substates spread in unknown words
ROUNDING = 1e-4  # of sums of float32


@dataclass(frozen=True, repr=False)
class LatentGrammar:
    """Rules over D = 2C categories, basic and intermediate ones, and their substates.

    Categories have the numbers of the grammar's (`Pcfg.category`). A rule whose parent and children
    have X, Y and Z substates (Z = 1 if there is one child) may have X Y Z probabilities
    P(x → y z | x); the one of x, y, z has place (x Y + y) Z + z. Those that are 0 are left out.

    Attributes:
        words: the known words, W of them, unescaped and sorted.
        substates [D] int32: number of substates of each category.
        rules [R, 3] int32: parent and children, sorted; the last is -1 in a unary rule.
        rule_ptr [R+1] int64: rule r has the entries rule_ptr[r]:rule_ptr[r+1], sorted by place.
        place [P] int32, probability [P] float32: of each entry.
        ptr [W+1] int64: word w has the tags tag[ptr[w]:ptr[w+1]], sorted.
        tag [E] int32: categories.
        count [N] float32: the expected number of occurrences of each substate of each tag of each
            word, end to end.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.LATENT`; an order is another, a
            length does not suit the numbers of substates, or probabilities do not sum to 1.
    """

    words: tuple[str, ...]
    substates: np.ndarray
    rules: np.ndarray
    rule_ptr: np.ndarray
    place: np.ndarray
    probability: np.ndarray
    ptr: np.ndarray
    tag: np.ndarray
    count: np.ndarray

    def __post_init__(self) -> None:
        sizes = check("latent", LATENT, vars(self), W=len(self.words))
        _require(sizes["D"] % 2 == 0, "substates: not an even number of categories")
        _require(all(a < b for a, b in pairwise(self.words)), "words are not sorted")
        _require((self.rules[:, :2] >= 0).all(), "rules: a rule without a child")
        _require(rising(self.rules), "rules must be sorted, each rule once")
        rule = np.repeat(np.arange(sizes["R"], dtype=np.int64), np.diff(self.rule_ptr))
        _require(rising(np.stack([rule, self.place], axis=1)), "place must rise within a rule")
        size = self.sizes.prod(axis=1)
        _require((self.place < size[rule]).all(), "place: no such substates")
        _require((self.tag < sizes["D"] // 2).all(), "tag: an intermediate category")
        word = np.repeat(np.arange(sizes["W"], dtype=np.int32), np.diff(self.ptr))
        _require(rising(np.stack([word, self.tag], axis=1)), "tag must be sorted, each once a word")
        ends = offsets(self.substates[self.tag])
        _require(len(self.count) == ends[-1], "count: a wrong length")
        seen = np.add.reduceat(self.count, ends[:-1]) if len(self.tag) else self.count
        _require((seen > 0.0).all(), "count: a word without occurrences")
        self._check_sums(rule)

    def __repr__(self) -> str:
        return (
            f"LatentGrammar({self.substates.sum()} substates of {len(self.substates)} categories, "
            f"{len(self.rules)} rules, {len(self.probability)} probabilities)"
        )

    def _check_sums(self, rule: np.ndarray) -> None:
        """Rules of a substate sum to 1, or to less where it is a word's."""
        owner = self.state_ptr[self.rules[rule, 0]] + self.states()[0]
        total = np.bincount(owner, self.probability, self.state_ptr[-1])
        inner = np.zeros(len(self.substates), np.bool_)
        inner[self.rules[:, 0]] = True
        inner[self.tag] = False
        least = np.repeat(np.where(inner, 1.0 - ROUNDING, 0.0), self.substates)
        fits = (total <= 1.0 + ROUNDING) & (total >= least)
        _require(fits.all(), "the probabilities of a substate's rules do not sum to 1")

    @property
    def sizes(self) -> np.ndarray:
        """[R, 3] int64: numbers of substates, 1 where there is no child."""
        sizes: np.ndarray = np.where(self.rules < 0, 1, self.substates[self.rules])
        return sizes.astype(np.int64)

    @property
    def state_ptr(self) -> np.ndarray:
        """[D+1] int64: the first of each category's S substates."""
        return offsets(self.substates)

    def states(self) -> np.ndarray:
        """[3, P] int64: the substates of the parent and of the children of each entry."""
        _, left, right = np.repeat(self.sizes, np.diff(self.rule_ptr), axis=0).T
        rest, z = np.divmod(self.place, right)
        return np.stack([*np.divmod(rest, left), z])

    def number(self, word: str) -> int | None:
        """The place of an unescaped word in `words`, None for an unknown one."""
        return self._numbers.get(word)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: w for w, word in enumerate(self.words)}

    @cached_property
    def usual(self) -> np.ndarray:
        """[S] float64: P(substate | tag) of all substates, end to end; 0 if it is not a tag."""
        return self._shares(self.count, 0.0)

    @cached_property
    def usual_rare(self) -> np.ndarray:
        """[S] float64: the same for rare words, smoothed by `usual`."""
        per_tag = np.add.reduceat(self.count, offsets(self.substates[self.tag])[:-1])
        rare = np.add.reduceat(per_tag, self.ptr[:-1]) <= RARE + ROUNDING
        of_tag = np.repeat(rare, np.diff(self.ptr))
        return self._shares(self.count * np.repeat(of_tag, self.substates[self.tag]), self.usual)

    def _shares(self, count: np.ndarray, prior: np.ndarray | float) -> np.ndarray:
        """The share of each substate in its category, by the counts of tags and words."""
        size = self.substates[self.tag]
        entry = np.repeat(np.arange(len(self.tag)), size)
        state = np.arange(len(count)) - offsets(size)[entry]
        places = self.state_ptr[self.tag[entry]] + state
        total = np.bincount(places, count, self.state_ptr[-1]) + prior
        whole = np.repeat(np.add.reduceat(total, self.state_ptr[:-1]), self.substates)
        shares: np.ndarray = total / np.where(whole > 0.0, whole, 1.0)
        return shares

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The grammar as NumPy arrays; equal grammars give equal bytes."""
        arrays = {f"latent.{name}": getattr(self, name) for name in LATENT}
        return {**strings_to_arrays("latent.words", self.words), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LatentGrammar:
        """The inverse of `to_arrays`; `arrays` may be what `numpy.load` gives.

        Raises:
            ModelError: an array is missing or violates what the class demands.
        """
        try:
            words = strings_from_arrays("latent.words", arrays)
            grammar = cls(words, **{name: arrays[f"latent.{name}"] for name in LATENT})
        except (KeyError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ModelError(f"a latent grammar is damaged: {reason}") from error
        return grammar


def estimate_latent(
    trees: Sequence[Tree],
    heads: HeadTable,
    categories: Sequence[str],
    *,
    cycles: int = 4,
    seed: int = 0,
    rule_smoothing: float = 0.01,
    word_smoothing: float = 0.1,
) -> LatentGrammar:
    """Train substates by splitting and merging; see `rnnparse.grammar.latent_training`.

    Several threads may train grammars at the same time. The trees may be deep.

    Args:
        trees: cleaned trees.
        heads: for the binarization.
        categories: names of the basic categories, which all labels are among.
        cycles: each at most doubles the number of substates; at least 1.
        seed: of the noise that breaks the symmetry between new substates.
        rule_smoothing, word_smoothing: how far the probabilities of rules, and of words given
            tags, are drawn towards their mean over the substates of a category; from 0 to 1.

    Raises:
        TreebankError: `trees` is empty.
        ValueError: a label is not among the categories; there is no cycle.
        Abandoned: the result is no longer needed; see `rnnparse.threads`.
    """
    grammars = latent_cycles(
        trees, heads, categories, seed=seed, rule_smoothing=rule_smoothing,
        word_smoothing=word_smoothing,
    )
    if cycles < 1:
        raise ValueError(f"expected at least one cycle, not {cycles}")
    return next(islice(grammars, cycles - 1, None))


def latent_cycles(
    trees: Sequence[Tree],
    heads: HeadTable,
    categories: Sequence[str],
    *,
    seed: int = 0,
    rule_smoothing: float = 0.01,
    word_smoothing: float = 0.1,
) -> Iterator[LatentGrammar]:
    """The grammars after one, two, three … cycles; see `estimate_latent`."""
    if not trees:
        raise TreebankError("cannot estimate a latent grammar: there are no trees")
    from rnnparse.grammar.latent_training import Trainer  # numba takes long to load

    bank = treebank_arrays(trees, heads, categories)
    smoothing = np.where(bank.word < 0, rule_smoothing, word_smoothing)
    rng = np.random.default_rng(seed)
    trainer = Trainer(bank, list(categories).index(ROOT), rng, smoothing)
    while True:
        apart(trainer.cycle)()
        yield _grammar_of(trainer, bank)


def _grammar_of(trainer: Trainer, bank: TreebankArrays) -> LatentGrammar:
    """What a trainer has learned."""
    layout, rules = trainer.layout, bank.rules
    order = np.lexsort(rules.T[::-1])  # unary rules come between binary ones
    order = order[rules[order, 1] >= 0]
    length = np.diff(layout.ptr)[order]
    entry = np.repeat(layout.ptr[order] - (np.cumsum(length) - length), length)
    entry += np.arange(len(entry))
    (tagged,) = np.nonzero(bank.word >= 0)
    size = layout.substates[rules[tagged, 0]]
    count = np.zeros(size.sum())
    own = layout.rule >= tagged[0]
    first = offsets(size)[layout.rule[own] - tagged[0]]
    count[first + layout.states[0, own]] = trainer.counts[own]
    return LatentGrammar(
        bank.words,
        layout.substates.astype(np.int32),
        rules[order],
        offsets(length),
        layout.place[entry].astype(np.int32),
        trainer.probability[entry].astype(np.float32),
        np.searchsorted(bank.word[tagged], np.arange(len(bank.words) + 1)).astype(np.int64),
        rules[tagged, 0].copy(),
        count.astype(np.float32),
    )


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ValueError(f"latent.{message}")

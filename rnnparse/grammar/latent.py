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

    Categories have the numbers of the grammar's (`Pcfg.category`). A rule with the categories
    (a, b, c), which have X, Y and Z substates, has X Y Z probabilities P(x → y z | x), those of z
    running fastest; the probabilities of all rules are end to end.

    Attributes:
        words: the known words, W of them, unescaped and sorted.
        substates [D] int32: number of substates of each category.
        binary [R, 3], unary [U, 2] int32: parent and children, sorted.
        binary_probability, unary_probability: float32.
        ptr [W+1] int64: word w has the tags tag[ptr[w]:ptr[w+1]], sorted.
        tag [E] int32: categories.
        count: float32, the expected number of occurrences of each substate of each tag of each
            word, end to end.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.LATENT`; an order is another, a
            length does not suit the numbers of substates, or probabilities do not sum to 1.
    """

    words: tuple[str, ...]
    substates: np.ndarray
    binary: np.ndarray
    binary_probability: np.ndarray
    unary: np.ndarray
    unary_probability: np.ndarray
    ptr: np.ndarray
    tag: np.ndarray
    count: np.ndarray

    def __post_init__(self) -> None:
        sizes = check("latent", LATENT, vars(self), W=len(self.words))
        _require(sizes["D"] % 2 == 0, "substates: not an even number of categories")
        _require(all(a < b for a, b in pairwise(self.words)), "words are not sorted")
        for name in ("binary", "unary"):
            rules, length = getattr(self, name), len(getattr(self, f"{name}_probability"))
            _require(rising(rules), f"{name} must be sorted, each rule once")
            _require(length == self.offsets(rules)[-1], f"{name}_probability: a wrong length")
        _require((self.tag < sizes["D"] // 2).all(), "tag: an intermediate category")
        word = np.repeat(np.arange(sizes["W"], dtype=np.int32), np.diff(self.ptr))
        _require(rising(np.stack([word, self.tag], axis=1)), "tag must be sorted, each once a word")
        ends = self.offsets(self.tag[:, None])
        _require(len(self.count) == ends[-1], "count: a wrong length")
        seen = np.add.reduceat(self.count, ends[:-1]) if len(self.tag) else self.count
        _require((seen > 0.0).all(), "count: a word without occurrences")
        self._check_sums()

    def __repr__(self) -> str:
        return (
            f"LatentGrammar({self.substates.sum()} substates of {len(self.substates)} categories, "
            f"{len(self.binary)} binary rules, {len(self.unary)} unary rules)"
        )

    def _check_sums(self) -> None:
        """Rules of a substate sum to 1, or to less where it is a word's."""
        first = self.offsets(np.arange(len(self.substates))[:, None])
        total = np.zeros(first[-1])
        for name in ("binary", "unary"):
            rules, p = getattr(self, name), getattr(self, f"{name}_probability")
            size = self.substates[rules].astype(np.int64)
            rule = np.repeat(np.arange(len(rules)), size.prod(axis=1))
            place = np.arange(len(p)) - self.offsets(rules)[rule]
            state = place // size[:, 1:].prod(axis=1)[rule]
            total += np.bincount(first[rules[rule, 0]] + state, p, len(total))
        inner = np.zeros(len(self.substates), np.bool_)
        inner[self.binary[:, 0]] = inner[self.unary[:, 0]] = True
        inner[self.tag] = False
        least = np.repeat(np.where(inner, 1.0 - ROUNDING, 0.0), self.substates)
        fits = (total <= 1.0 + ROUNDING) & (total >= least)
        _require(fits.all(), "the probabilities of a substate's rules do not sum to 1")

    def offsets(self, rules: np.ndarray) -> np.ndarray:
        """[R+1] int64: where the probabilities of each rule begin, of rules [R, columns]."""
        size = self.substates[rules].astype(np.int64).prod(axis=1)
        return np.concatenate([[0], np.cumsum(size)]).astype(np.int64)

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
        per_tag = np.add.reduceat(self.count, self.offsets(self.tag[:, None])[:-1])
        rare = np.add.reduceat(per_tag, self.ptr[:-1]) <= RARE + ROUNDING
        of_tag = np.repeat(rare, np.diff(self.ptr))
        return self._shares(self.count * np.repeat(of_tag, self.substates[self.tag]), self.usual)

    def _shares(self, count: np.ndarray, prior: np.ndarray | float) -> np.ndarray:
        """The share of each substate in its category, by the counts of tags and words."""
        first = self.offsets(np.arange(len(self.substates))[:, None])
        entry = np.repeat(np.arange(len(self.tag)), self.substates[self.tag])
        state = np.arange(len(count)) - self.offsets(self.tag[:, None])[entry]
        total = np.bincount(first[self.tag[entry]] + state, count, first[-1]) + prior
        whole = np.repeat(np.add.reduceat(total, first[:-1]), self.substates)
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
    layout, arity = trainer.layout, (bank.rules >= 0).sum(axis=1)
    entry = np.repeat(arity, np.diff(layout.ptr))
    probability = trainer.probability.astype(np.float32)
    tagged = arity == 1
    return LatentGrammar(
        bank.words,
        layout.substates.astype(np.int32),
        bank.rules[arity == 3],
        probability[entry == 3],
        np.ascontiguousarray(bank.rules[arity == 2, :2]),
        probability[entry == 2],
        np.searchsorted(bank.word[tagged], np.arange(len(bank.words) + 1)).astype(np.int64),
        np.ascontiguousarray(bank.rules[tagged, 0]),
        trainer.counts[entry == 1].astype(np.float32),
    )


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ValueError(f"latent.{message}")

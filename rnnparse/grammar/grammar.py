"""The grammar as a whole: rules, lexicon and head table, estimated from cleaned trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.errors import ConfigError, ModelError, TreebankError
from rnnparse.grammar.annotate import SPLITS, Annotator, Rule, TaggedWord
from rnnparse.grammar.cell_closing import CellClosing
from rnnparse.grammar.coarse import coarse_grammar
from rnnparse.grammar.consistency import check_estimated
from rnnparse.grammar.lexicon import Lexicon, estimate_lexicon
from rnnparse.grammar.pcfg import Pcfg, estimate_rules
from rnnparse.grammar.storage import grammar_from_arrays, grammar_to_arrays
from rnnparse.grammar.unknown import WordVectors
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True, repr=False)
class Grammar:
    """A PCFG with its lexicon and head table: everything that the decoder needs.

    Attributes:
        closing: the chart cells that the decoder need not fill; None if it is to fill all.

    Raises:
        ValueError: the lexicon has a symbol that no rule has, or an intermediate symbol.
    """

    pcfg: Pcfg
    lexicon: Lexicon
    heads: HeadTable
    closing: CellClosing | None = None

    def __post_init__(self) -> None:
        states = self.lexicon.states()
        if states.max(initial=-1) >= len(self.pcfg.symbols) or self.pcfg.partial[states].any():
            raise ValueError("a state of the lexicon is not a whole symbol of the grammar")

    def __repr__(self) -> str:
        pcfg = self.pcfg
        return (
            f"Grammar({len(pcfg.symbols)} symbols, {len(pcfg.binary)} binary rules, "
            f"{len(pcfg.unary)} unary rules)"
        )

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The grammar as NumPy arrays; equal grammars give equal bytes."""
        return grammar_to_arrays(self.pcfg, self.lexicon, self.heads, self.closing)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Grammar:
        """The inverse of `to_arrays`; `arrays` may be what `numpy.load` gives.

        Raises:
            ModelError: an array is missing, violates `rnnparse.array_invariants`, or contradicts
                another, so that `estimate` cannot have made it.
        """
        try:
            grammar = cls(*grammar_from_arrays(arrays))
            check_estimated(grammar.pcfg, grammar.lexicon)
        except (KeyError, ValueError, ConfigError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            message = f"the grammar is damaged or of another version: {reason}"
            raise ModelError(message) from error
        return grammar


def estimate(
    trees: Sequence[Tree],
    heads: HeadTable,
    *,
    splits: Sequence[str] = SPLITS,
    rare: int = 3,
    kappa: float = 1.0,
    vectors: WordVectors | None = None,
    seed: int = 0,
) -> Grammar:
    """Estimate a grammar from cleaned trees.

    Args:
        trees: cleaned trees (`rnnparse.trees.clean`).
        heads: head table of the treebank's language.
        splits: state splits, from `annotate.SPLITS`.
        rare: symbols seen fewer times than this lose annotations.
        kappa: pseudo-counts with which rules are smoothed towards a less annotated parent.
        vectors: pre-trained word vectors, which help to tag unknown words.
        seed: random seed of the unknown-word tagger.

    Raises:
        ConfigError: a state split is unknown.
        TreebankError: `trees` is empty.
    """
    if not trees:
        raise TreebankError("cannot estimate a grammar: there are no trees")
    annotator = Annotator(heads, splits, rare, trees)
    rules: Counter[Rule] = Counter()
    words: list[TaggedWord] = []
    for tree in trees:
        for occurrence in annotator.occurrences(tree):
            if isinstance(occurrence, Rule):
                rules[occurrence] += 1
            else:
                words.append(occurrence)
    pcfg = estimate_rules(rules, annotator.category, annotator.backoff, kappa)
    number = {symbol: i for i, symbol in enumerate(pcfg.symbols)}
    lexicon = estimate_lexicon(words, annotator.word_tag, number, vectors, seed)
    from rnnparse.grammar.cell_training import estimate_closing  # numba takes long to load

    coarse = coarse_grammar(pcfg, lexicon.states())
    return Grammar(pcfg, lexicon, heads, estimate_closing(trees, heads, lexicon, coarse))

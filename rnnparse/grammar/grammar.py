"""The grammar as a whole: rules, lexicon and head table, estimated from cleaned trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from nltk.tree import Tree

from rnnparse.errors import ConfigError, ModelError, TreebankError
from rnnparse.grammar.annotate import SPLITS, Annotator, Rule, TaggedWord
from rnnparse.grammar.consistency import check_estimated
from rnnparse.grammar.lexicon import Lexicon, estimate_lexicon
from rnnparse.grammar.pcfg import Pcfg, estimate_rules
from rnnparse.grammar.storage import grammar_from_arrays, grammar_to_arrays
from rnnparse.grammar.unknown import WordVectors
from rnnparse.trees.heads import HeadTable


@dataclass(frozen=True)
class Grammar:
    """What the decoder needs.

    Raises:
        ValueError: the lexicon has a symbol that the rules do not have, or an intermediate one.
    """

    pcfg: Pcfg
    lexicon: Lexicon
    heads: HeadTable

    def __post_init__(self) -> None:
        states = self.lexicon.states()
        if states.max(initial=-1) >= len(self.pcfg.symbols) or self.pcfg.partial[states].any():
            raise ValueError("a state of the lexicon is not a whole symbol of the grammar")

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The grammar as arrays of plain types; the same bytes for an equal grammar."""
        return grammar_to_arrays(self.pcfg, self.lexicon, self.heads)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Grammar:
        """The inverse of `to_arrays`; `arrays` may be what `numpy.load` gives.

        Raises:
            ModelError: an array is missing, is not as `rnnparse.invariants` has it, or contradicts
                another, so that `estimate` cannot have made it.
        """
        try:
            grammar = cls(*grammar_from_arrays(arrays))
            check_estimated(grammar.pcfg, grammar.lexicon)
        except (KeyError, ValueError, ConfigError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else error
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
        trees: cleaned trees (`trees.cleaning.clean`).
        heads: the head table of the treebank's language.
        splits: state splits, out of `annotate.SPLITS`.
        rare: symbols seen fewer times lose marks.
        kappa: smoothing of rules towards a less annotated parent, in pseudo-counts.
        vectors: given word vectors, which help to tag unknown words.
        seed: of the unknown-word tagger.

    Raises:
        ConfigError: a state split is unknown.
        TreebankError: no trees.
    """
    if not trees:
        raise TreebankError("there is no tree to estimate a grammar from")
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
    return Grammar(pcfg, lexicon, heads)

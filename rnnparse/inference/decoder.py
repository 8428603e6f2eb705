"""`Decoder`: from tokens to a forest of the k best trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from rnnparse.array_invariants import trusted
from rnnparse.errors import OutOfMemoryError
from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decode_kernel import best_forest
from rnnparse.inference.forest import Forest
from rnnparse.inference.rules import rule_arrays
from rnnparse.threads import Abandoned, apart, stop_flag

WINDOW_FACTOR = 1.7
SHOWN = 6  # tokens of a sentence in a message
EFFORT = 50  # derivations per token and tree; newspaper text needs at most 8


def first_window(n: int, k: int) -> float:
    """An estimate of how far (in nats) the k-th best tree of n tokens lies below the best."""
    return 0.5 + 36.0 * log(k) / (n + 4)


@dataclass(frozen=True)
class Parse:
    """The k best trees of a sentence; `glued` if the grammar cannot span it."""

    forest: Forest
    glued: bool


class Decoder:
    """Exact k-best parsing with a grammar. Threads may share a decoder.

    Args:
        grammar: rules, lexicon and heads.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._rules = rule_arrays(grammar.pcfg)
        self._heads = grammar.heads.compile(grammar.pcfg.categories).arrays

    @apart
    def parse(self, tokens: Sequence[str], k: int) -> Parse:
        """The k best distinct trees of a sentence; fewer if the grammar has fewer.

        Args:
            tokens: at least one token, escaped as in trees.
            k: at least 1.

        Raises:
            OutOfMemoryError: there is too little memory for the sentence.
            ValueError: there are no tokens, or k < 1.
        """
        if not tokens or k < 1:
            raise ValueError(f"cannot list the {k} best trees of {len(tokens)} tokens")
        try:
            return self._parse(tokens, k)
        except MemoryError:
            start = " ".join(tokens[:SHOWN])
            raise OutOfMemoryError(
                f"out of memory at the sentence of {len(tokens)} tokens that begins with: {start}"
            ) from None

    def _parse(self, tokens: Sequence[str], k: int) -> Parse:
        stop = stop_flag()
        emissions = self.grammar.lexicon.emissions(tokens)
        (cat, left, right, start, end, root), logp, glued = best_forest(
            len(tokens),
            k,
            emissions.ptr,
            emissions.symbol,
            emissions.logp,
            self._rules,
            first_window(len(tokens), k),
            WINDOW_FACTOR,
            EFFORT * k * (len(tokens) + 10),
            len(self.grammar.pcfg.categories),
            self._heads,
            stop,
        )
        if stop[0]:
            raise Abandoned
        forest = trusted(
            Forest, cat=cat, left=left, right=right, start=start, end=end, root=root, logp=logp
        )
        return Parse(forest, glued)

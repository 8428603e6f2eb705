"""Where a parser loses F1: in its candidate lists, in choosing from them, at unknown words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import candidate_as
from rnnparse.inference.search import Search
from rnnparse.threads import in_order
from rnnparse.training.candidate_brackets import bracket_counts
from rnnparse.training.dev_selection import f1_of
from rnnparse.trees.cleaning import tags, words
from rnnparse.trees.node import Node

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.parser import Parser

SHORT = 12  # tokens of a sentence that is also searched exactly
MOST_SHORT = 200  # such sentences


@dataclass(frozen=True)
class ListScores:
    """F1 in per cent of three choices from candidate lists, with the gold tags' punctuation.

    Attributes:
        pcfg: of the most probable trees.
        cvg: of the trees that the parser chooses.
        oracle: of the best trees in the lists.
    """

    pcfg: float
    cvg: float
    oracle: float

    @property
    def list_errors(self) -> float:
        """Points of F1 that the lists lack."""
        return 100.0 - self.oracle

    @property
    def choice_errors(self) -> float:
        """Points of F1 that the parser loses in choosing from them."""
        return self.oracle - self.cvg


@dataclass(frozen=True)
class ErrorSources:
    """What different errors of a parser cost.

    Attributes:
        now: of the parser as it is.
        tagged: when each word that training never saw is given its gold tag.
        candidates: length of the lists.
        unknown, words: words that training never saw, and all words.
        short, pruned: sentences of at most `SHORT` tokens (the first `MOST_SHORT`), and how many of
            them have another list when nothing is pruned.
        pcfg_trees: the most probable tree of each sentence.
    """

    now: ListScores
    tagged: ListScores
    candidates: int
    unknown: int
    words: int
    short: int
    pruned: int
    pcfg_trees: list[Node] = field(repr=False)

    def rows(self) -> list[tuple[str, float, float]]:
        """Names, and scores now and with gold tags of unknown words."""
        pairs = (
            ("base PCFG F1", "pcfg"),
            ("CVG F1", "cvg"),
            (f"oracle F1 of {self.candidates}-best lists", "oracle"),
            ("lost by the lists", "list_errors"),
            ("lost by the choice", "choice_errors"),
        )
        return [(name, getattr(self.now, key), getattr(self.tagged, key)) for name, key in pairs]


def error_sources(parser: Parser, gold: Sequence[Tree], n_jobs: int = 0) -> ErrorSources:
    """Parse sentences in several ways and compare the scores.

    Args:
        parser: the parser.
        gold: cleaned trees, of which the parser gets the words.
        n_jobs: threads; 0 for one per core.
    """
    knows = parser.grammar.lexicon.knows
    tokens = [words(tree) for tree in gold]
    now, trees = _scores(parser, gold, tokens, n_jobs)
    tagged, _ = _scores(parser, gold, [_with_tags(parser, tree) for tree in gold], n_jobs)
    short = [sentence for sentence in tokens if len(sentence) <= SHORT][:MOST_SHORT]
    return ErrorSources(
        now,
        tagged,
        parser.candidates,
        sum(not knows(token) for sentence in tokens for token in sentence),
        sum(map(len, tokens)),
        len(short),
        _pruned(parser, short, n_jobs),
        trees,
    )


def _scores(
    parser: Parser, gold: Sequence[Tree], tokens: Sequence[Sequence[str]], n_jobs: int
) -> tuple[ListScores, list[Node]]:
    """The scores of lists, and the most probable trees."""
    names = parser.grammar.pcfg.categories

    def counted(pair: tuple[Tree, Sequence[str]]) -> tuple[np.ndarray, Node]:
        tree, sentence = pair
        ranking = parser._rank(sentence, 1, parser.candidates, "cvg")
        counts = bracket_counts(ranking.forest, tree, names)
        chosen = [0, int(ranking.order[0]), int(counts.f1().argmax())]
        rows = [(counts.matched[k], counts.test[k], counts.gold) for k in chosen]
        return np.array(rows), candidate_as(Node, ranking.forest, 0, words(tree), names)

    total, trees = np.zeros((3, 3), np.int64), []
    for rows, tree in in_order(counted, zip(gold, tokens, strict=True), n_jobs):
        total += rows
        trees.append(tree)
    pcfg, cvg, oracle = (float(f1_of(row)) for row in total)
    return ListScores(pcfg, cvg, oracle), trees


def _with_tags(parser: Parser, tree: Tree) -> list[str]:
    """The words of a tree; those that training never saw carry tags that the model has."""
    lexicon = parser._lexicon
    return [
        word if lexicon.knows(word) or tag not in lexicon.tags else lexicon.mark([word], [tag])[0]
        for word, tag in zip(words(tree), tags(tree), strict=True)
    ]


def _pruned(parser: Parser, sentences: Sequence[Sequence[str]], n_jobs: int) -> int:
    """How many sentences have another list by exact search."""
    exact = Decoder(parser.grammar, Search(exact=True))

    def differs(sentence: Any) -> bool:
        pruned, whole = (
            decoder.parse(sentence, parser.candidates).forest.logp
            for decoder in (parser._decoder, exact)
        )
        return len(pruned) != len(whole) or not np.allclose(pruned, whole, rtol=0, atol=1e-9)

    return sum(in_order(differs, sentences, n_jobs))

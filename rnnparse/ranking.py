"""The n best trees of many sentences, ranked on threads, processes or clusters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rnnparse.executors import open_remote
from rnnparse.inference.forest import Forest, candidate_as, forest_of
from rnnparse.input_sentences import windows
from rnnparse.parse_results import Constituent, ParseResult, ScoredTree
from rnnparse.threads import in_order

CHUNK = 16  # sentences in one task


class Ranking(NamedTuple):
    """The n best candidates of a sentence, best first.

    Pickled, it has no other candidates.

    Attributes:
        forest: the candidates.
        order: int64 [n], numbers of the best ones.
        score, log_probability, rnn_score, span_score: float64 [n]; see `ScoredTree`.
        glued, divided: see `ParseResult`.
    """

    forest: Forest
    order: np.ndarray
    score: np.ndarray
    log_probability: np.ndarray
    rnn_score: np.ndarray
    span_score: np.ndarray
    glued: bool
    divided: bool

    def __reduce__(self) -> Any:
        forest = forest_of(self.forest, self.order.tolist())
        return Ranking, (forest, np.arange(len(self.order)), *self[2:])

    def result(
        self,
        sentence: ReadSentence,
        categories: Sequence[str],
        tree_type: type,
        describe: Callable[[ScoredTree], tuple[Constituent, ...]],
    ) -> ParseResult:
        """The ranking as trees of a type.

        Args:
            sentence: the sentence.
            categories: names of the basic categories.
            tree_type: `Node` or NLTK's `Tree`.
            describe: finds the constituents of a tree.
        """
        numbers = (self.order, self.score, self.log_probability, self.rnn_score, self.span_score)
        words = list(map(str, sentence.written))  # without their tags
        trees = tuple(
            ScoredTree(
                candidate_as(tree_type, self.forest, r, words, categories),
                score,
                logp,
                rnn,
                spans,
                describe,
            )
            for r, score, logp, rnn, spans in zip(
                *(array.tolist() for array in numbers), strict=True
            )
        )
        offsets = None if sentence.offsets is None else tuple(sentence.offsets)
        tokens = tuple(sentence.tokens)
        return ParseResult(tokens, trees, self.glued, divided=self.divided, offsets=offsets)


class ReadSentence(NamedTuple):
    """A sentence for the decoder.

    Attributes:
        tokens: of the sentence.
        written: the same, escaped as in trees, each with its tag if that is given.
        offsets: see `ParseResult`.
    """

    tokens: Sequence[str]
    written: Sequence[str]
    offsets: Sequence[tuple[int, int]] | None


Read = ReadSentence | TypeError | ValueError
"""A sentence, or the reason why it cannot be parsed."""


def results(
    rank: Callable[[Sequence[str]], Ranking],
    read: Callable[[Any], Read],
    finish: Callable[[ReadSentence, Ranking], ParseResult],
    sentences: Iterator[Any],
    *,
    n_jobs: int,
    backend: str,
    address: str | None,
    keep: bool,
) -> Iterator[ParseResult]:
    """The results of sentences, in order.

    Args:
        rank: ranks the candidates of a sentence of escaped tokens, on workers. For other backends
            than threads it can be pickled.
        read: reads a sentence, on a thread of this process.
        finish: makes a result of a sentence and its ranking, on such a thread.
        sentences: what `read` takes.
        n_jobs, backend, address: as for `rnnparse.executors.open_remote`.
        keep: whether errors of `read` are kept as results, or raised in their turn.
    """
    size = 1 if n_jobs == 1 and backend == "threads" else CHUNK
    rank_all = functools.partial(_rank_all, rank)
    with open_remote(rank_all, n_jobs, backend, address) as (rank_there, threads):

        def parse(part: list[Any]) -> list[ParseResult | Exception]:
            given = [read(sentence) for sentence in part]
            sound = [one for one in given if not isinstance(one, Exception)]
            made = zip(sound, rank_there([one.written for one in sound]), strict=True)
            answers = (finish(one, ranking) for one, ranking in made)
            return [one if isinstance(one, Exception) else next(answers) for one in given]

        for part in in_order(parse, windows(sentences, size), threads):
            for result in part:
                if not isinstance(result, Exception):
                    yield result
                elif keep:
                    yield ParseResult((), (), False, str(result))
                else:
                    raise result


def _rank_all(
    rank: Callable[[Sequence[str]], Ranking], sentences: Sequence[Sequence[str]]
) -> list[Ranking]:
    return [rank(written) for written in sentences]

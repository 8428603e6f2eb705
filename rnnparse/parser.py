"""The parser that people use: load, parse, score, rerank, embed. No TensorFlow at parse time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from nltk.tree import Tree

from rnnparse.inference.decode import Decoder
from rnnparse.inference.forest import Forest, ForestBuilder, candidate_tree
from rnnparse.model_folder import FORMAT_VERSION, Model, load_model, save_model
from rnnparse.models.scorer import Scorer
from rnnparse.models.store import ForestStore
from rnnparse.threads import in_order
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.style import AS_GIVEN
from rnnparse.trees.tokenize import tokenize

if TYPE_CHECKING:
    from nltk.parse.api import ParserI

CHUNK = 16  # sentences that a thread takes at a time
SCORERS = ("cvg", "pcfg")


@dataclass(frozen=True)
class ScoredTree:
    """A candidate tree.

    Attributes:
        tree: over all tokens (escaped, `-LRB-` for a bracket), root TOP.
        score: what candidates are ranked by: rnn_score + β · log_probability.
        log_probability: natural log of its best derivation's probability under the base PCFG;
            None for a tree that did not come from it.
        rnn_score: the SU-RNN's score, the sum over its nodes.
    """

    tree: Tree
    score: float
    log_probability: float | None
    rnn_score: float


@dataclass(frozen=True)
class ParseResult:
    """The best trees of a sentence, best first.

    `glued` says that the grammar could not span the sentence, so that its root holds pieces.
    """

    tokens: tuple[str, ...]
    trees: tuple[ScoredTree, ...]
    glued: bool


@dataclass(frozen=True, eq=False)
class Parser(Model):
    """A trained Compositional Vector Grammar.

    Its parts are those of `rnnparse.model_folder.Model`.

    Example:
        >>> parser = Parser.load("model")
        >>> print(parser.parse("They ate udon with forks."))
    """

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.grammar)

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.parameters)

    # -- parsing -------------------------------------------------------------------------------

    def parse(self, sentence: str | Sequence[str]) -> Tree:
        """The best tree of a sentence.

        Args:
            sentence: raw text, which is tokenized, or tokens as people write them.

        Raises:
            ValueError: no token, an empty one, or one with white space in it.
        """
        return self.parse_kbest(sentence, 1)[0].tree

    def parse_kbest(self, sentence: str | Sequence[str], k: int | None = None) -> list[ScoredTree]:
        """The k best trees by the CVG's score, best first; fewer where there are no more.

        Args:
            sentence: raw text or tokens.
            k: how many; default all candidates.

        Raises:
            ValueError: no token, an empty one or one with white space in it; k below 1.
        """
        wanted = self.kbest if k is None else k
        return list(self._parse(sentence, wanted, max(wanted, self.kbest), "cvg").trees)

    def parse_many(
        self,
        sentences: Sequence[str | Sequence[str]],
        *,
        k: int = 1,
        kbest: int | None = None,
        scorer: str = "cvg",
        jobs: int = 1,
    ) -> Iterator[ParseResult]:
        """Parse sentences in order, on several threads; none is dropped.

        Args:
            sentences: raw text or tokens of each.
            k: trees wanted of each.
            kbest: candidates considered; default the model's own number.
            scorer: `cvg`, or `pcfg` for the base grammar alone.
            jobs: threads, 0 for one a processor core.

        Returns:
            One result a sentence, each as soon as it and those before it are done.

        Raises:
            ValueError: an unknown scorer, at once; otherwise as `parse_kbest`, in its turn.
        """
        if scorer not in SCORERS:
            raise ValueError(f"the scorer must be one of {', '.join(SCORERS)}, not {scorer!r}")
        considered = max(k, (self.kbest if kbest is None else kbest) if scorer == "cvg" else k)

        def chunk(start: int) -> list[ParseResult]:
            part = sentences[start : start + CHUNK]
            return [self._parse(sentence, k, considered, scorer) for sentence in part]

        starts = range(0, len(sentences), CHUNK)
        return (result for results in in_order(chunk, starts, jobs) for result in results)

    def _parse(self, sentence: str | Sequence[str], k: int, kbest: int, scorer: str) -> ParseResult:
        tokens = tokenize(sentence) if isinstance(sentence, str) else sentence
        if not tokens:
            raise ValueError("a sentence needs at least one token")
        if k < 1:
            raise ValueError(f"k, the number of trees, must be at least 1, not {k}")
        written = self.grammar.lexicon.forms.write(tokens)
        found = self._decoder.parse(written, kbest)
        rnn = self._rnn_scores(found.forest, written)
        logp = found.forest.logp
        total = logp if scorer == "pcfg" else rnn + (self.beta * logp if self.beta else 0.0)
        order = np.argsort(-total, kind="stable")[:k]
        names = self.grammar.pcfg.categories
        trees = tuple(
            ScoredTree(
                candidate_tree(found.forest, int(r), written, names),
                float(total[r]),
                float(logp[r]),
                float(rnn[r]),
            )
            for r in order
        )
        return ParseResult(tuple(tokens), trees, found.glued)

    def _rnn_scores(self, forest: Forest, tokens: Sequence[str]) -> np.ndarray:
        scores = self._scorer.scores(self._store(forest, tokens).batch([0]))
        return np.asarray(scores, np.float64)

    def _store(self, forest: Forest, tokens: Sequence[str]) -> ForestStore:
        """The forest of one sentence with the rows of its words."""
        rows = self.vocabulary.rows(self.grammar.lexicon.forms.lookup(tokens))
        return ForestStore.from_forests([forest], [rows], self.keys)

    # -- given trees ---------------------------------------------------------------------------

    def score(self, tree: Tree) -> float:
        """The SU-RNN's score s(x, y) of any tree; it is cleaned first, and never unscorable.

        Raises:
            ValueError: the tree has no word.
            TreebankError: a word that does not stand alone under its tag.
        """
        forest, tokens, _ = self._forest_of([tree])
        return float(self._rnn_scores(forest, tokens)[0])

    def rerank(self, trees: Sequence[Tree]) -> list[ScoredTree]:
        """Order trees of one sentence, from any parser, by the SU-RNN's score, best first.

        Raises:
            ValueError: no tree, a tree without a word, or trees over different words.
            TreebankError: a word that does not stand alone under its tag.
        """
        forest, tokens, places = self._forest_of(trees)
        scores = self._rnn_scores(forest, tokens)
        ranked = [
            ScoredTree(tree, float(scores[p]), None, float(scores[p]))
            for tree, p in zip(trees, places, strict=True)
        ]
        return sorted(ranked, key=lambda scored: -scored.score)

    def embed(self, tree: Tree) -> np.ndarray:
        """The vector of a tree's root, float32 [n]; errors as for `score`."""
        forest, tokens, _ = self._forest_of([tree])
        batch, node = self._store(forest, tokens).batch_with_nodes([0])
        vectors = self._scorer.node_vectors(batch)
        return np.asarray(vectors[node[forest.root[0]]])

    def _forest_of(self, trees: Sequence[Tree]) -> tuple[Forest, list[str], list[int]]:
        """A forest of the given trees, its tokens, and which candidate each tree is."""
        cleaned = [_cleaned(tree) for tree in trees]
        if not cleaned:
            raise ValueError("expected at least one tree")
        tokens = words(cleaned[0])
        written = [unescape_token(token) for token in tokens]
        if any([unescape_token(word) for word in words(tree)] != written for tree in cleaned):
            raise ValueError("trees of one sentence must have the same words")
        builder = ForestBuilder(self.grammar.pcfg.categories, self.grammar.heads)
        places = [builder.add(tree, 0.0) for tree in cleaned]
        return builder.forest(), tokens, places

    def as_nltk(self) -> ParserI:
        """The same parser behind NLTK's interface (`parse`, `parse_all`, `parse_one` …)."""
        from rnnparse.nltk_parser import NltkParser

        return NltkParser(self)

    # -- files ---------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Sizes, settings and scores, for people and for JSON."""
        pcfg = self.grammar.pcfg
        own = {
            "format_version": FORMAT_VERSION,
            "symbols": len(pcfg.symbols),
            "categories": len(pcfg.categories),
            "binary_rules": len(pcfg.binary),
            "unary_rules": len(pcfg.unary),
            "vocabulary": len(self.vocabulary),
            "keys": len(self.keys),
            "dim": self.parameters.dim,
            "parameters": int(sum(array.size for array in self.parameters)),
            "kbest": self.kbest,
            "beta": self.beta,
        }
        return {**own, **self.about, **own}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model folder; see `rnnparse.model_folder.save_model`.

        Args:
            path: the folder; its parents are made.
            overwrite: whether to replace a model that is there. Anything else is never replaced.

        Raises:
            ModelError: `path` is in use, or cannot be written.
        """
        save_model(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Parser:
        """Read a model folder; never executes code from it.

        Raises:
            ModelError: no such folder, a file that is damaged or that no training could have
                written, or another format version.
        """
        return cls(**vars(load_model(path)))


def load(path: str | os.PathLike[str]) -> Parser:
    """Read a model folder; see `Parser.load`."""
    return Parser.load(path)


def _cleaned(tree: Tree) -> Tree:
    cleaned = clean(tree, AS_GIVEN)
    if cleaned is None:
        raise ValueError("the tree has no word")
    return cleaned

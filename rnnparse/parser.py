"""The parser that people use: load, parse, score, rerank, embed. No TensorFlow at parse time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from nltk.tree import Tree

from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest, ForestBuilder, candidate_tree
from rnnparse.model_folder import FORMAT_VERSION, Model, load_model, save_model
from rnnparse.models.forest_dataset import ForestStore
from rnnparse.models.scorer import Scorer
from rnnparse.sentences import (
    require_tree,
    require_trees,
    sentence_iterator,
    sentence_tokens,
    whole_number,
    windows,
)
from rnnparse.threads import in_order
from rnnparse.trees.binarization import binarize, post_order_labels
from rnnparse.trees.brackets import unescape_token
from rnnparse.trees.cleaning import clean, words
from rnnparse.trees.style import AS_GIVEN

if TYPE_CHECKING:
    from nltk.parse.api import ParserI

CHUNK = 16  # sentences that a thread takes at a time
WINDOW = 512  # sentences that several threads share; so many are held at a time
SCORERS = ("cvg", "pcfg")
ERRORS = ("keep", "raise")


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

    Attributes:
        tokens: of the sentence, as they were given or as the tokenizer made them.
        trees: at least one, but for a sentence that cannot be parsed.
        glued: whether the grammar could not span the sentence, so that its root holds pieces.
        error: why a sentence cannot be parsed, None where it can; then it has no tokens and trees.
    """

    tokens: tuple[str, ...]
    trees: tuple[ScoredTree, ...]
    glued: bool
    error: str | None = None


@dataclass(frozen=True)
class NodeScore:
    """What the SU-RNN gives one node of a tree.

    Attributes:
        label: the node's category; `@NP` for a node that binarization adds inside an NP.
        span: its first word, counted from 0, and the word after its last one.
        score: v · p of the node alone.
    """

    label: str
    span: tuple[int, int]
    score: float


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

    def parse(self, sentence: str | Iterable[str]) -> Tree:
        """The best tree of a sentence.

        Args:
            sentence: raw text, which is tokenized, or tokens as people or treebanks write them.

        Raises:
            TypeError: neither a string nor a sequence of strings.
            ValueError: no token, an empty one, one with white space in it, or more than 1,000.
        """
        return self.parse_kbest(sentence, 1)[0].tree

    def parse_kbest(self, sentence: str | Iterable[str], k: int | None = None) -> list[ScoredTree]:
        """The k best trees by the CVG's score, best first; fewer where there are no more.

        Args:
            sentence: raw text or tokens.
            k: how many; default all candidates.

        Raises:
            TypeError, ValueError: as `parse`; k is no whole number, or below 1.
        """
        wanted = self.kbest if k is None else whole_number(k, "k")
        result = self._parse(sentence, wanted, max(wanted, self.kbest), "cvg")
        if isinstance(result, Exception):
            raise result
        return list(result.trees)

    def parse_many(
        self,
        sentences: Iterable[str | Iterable[str]],
        *,
        k: int = 1,
        kbest: int | None = None,
        scorer: str = "cvg",
        jobs: int = 1,
        errors: str = "keep",
    ) -> Iterator[ParseResult]:
        """Parse sentences in order, on several threads; every one is answered.

        Sentences are taken as they are needed, at most 512 ahead (none with one thread), so that a
        generator may go on for ever.

        Args:
            sentences: raw text or tokens of each; any iterable.
            k: trees wanted of each.
            kbest: candidates considered; default the model's own number.
            scorer: `cvg`, or `pcfg` for the base grammar alone.
            jobs: threads, 0 for one a processor core.
            errors: `keep` answers a sentence that `parse` would refuse by a result with `error`
                and without trees; `raise` raises that error after the results before it.

        Returns:
            One result a sentence, each as soon as it and those before it are done.

        Raises:
            TypeError, ValueError: a wrong argument, at once; with `errors="raise"` as `parse`.
        """
        for value, known, name in ((scorer, SCORERS, "scorer"), (errors, ERRORS, "errors")):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        wanted, jobs = whole_number(k, "k"), whole_number(jobs, "jobs", 0)
        considered = self.kbest if kbest is None else whole_number(kbest, "kbest")
        considered = max(wanted, considered) if scorer == "cvg" else wanted

        def parse_part(part: list[Any]) -> list[ParseResult | Exception]:
            return [self._parse(sentence, wanted, considered, scorer) for sentence in part]

        return _answers(parse_part, sentence_iterator(sentences), jobs, errors == "keep")

    def _parse(
        self, sentence: Any, k: int, kbest: int, scorer: str
    ) -> ParseResult | TypeError | ValueError:
        """The result of one sentence, or the error where it is none that can be parsed."""
        try:
            tokens = sentence_tokens(sentence)
            written = self.grammar.lexicon.forms.write(tokens)
        except (TypeError, ValueError) as error:
            return error
        parse = self._decoder.parse(written, kbest)
        rnn = self._rnn_scores(parse.forest, written)
        logp = parse.forest.logp
        total = logp if scorer == "pcfg" else rnn + (self.beta * logp if self.beta else 0.0)
        order = np.argsort(-total, kind="stable")[:k]
        names = self.grammar.pcfg.categories
        trees = tuple(
            ScoredTree(
                candidate_tree(parse.forest, int(r), written, names),
                float(total[r]),
                float(logp[r]),
                float(rnn[r]),
            )
            for r in order
        )
        return ParseResult(tuple(tokens), trees, parse.glued)

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
            TypeError: no `nltk.Tree`.
            ValueError: the tree has no word.
            TreebankError: a word that does not stand alone under its tag.
        """
        forest, tokens, _ = self._forest_of([require_tree(tree)])
        return float(self._rnn_scores(forest, tokens)[0])

    def score_nodes(self, tree: Tree) -> list[NodeScore]:
        """The SU-RNN's score of each node above the tags, which add up to `score(tree)`.

        The nodes are those of the tree when it is cleaned and binarized, in pre-order: a node of
        more than two children holds further ones, labelled `@NP` within an NP.

        Raises:
            As `score`.
        """
        cleaned = _cleaned(require_tree(tree))
        forest, tokens, _ = self._forest_of([cleaned])
        batch, place = self._store(forest, tokens).batch_with_nodes([0])
        scores = self._scorer.node_scores(batch)[place]
        # A forest of one tree has its nodes in post-order.
        labels = post_order_labels(binarize(cleaned, self.grammar.heads))
        spans = list(zip(forest.start.tolist(), forest.end.tolist(), strict=True))
        inner = np.flatnonzero(forest.left >= 0).tolist()
        inner.sort(key=lambda v: (spans[v][0], -spans[v][1], -v))
        return [NodeScore(labels[v], spans[v], float(scores[v])) for v in inner]

    def rerank(self, trees: Iterable[Tree]) -> list[ScoredTree]:
        """Order trees of one sentence, from any parser, by the SU-RNN's score, best first.

        Raises:
            TypeError: no sequence of `nltk.Tree`.
            ValueError: no tree, a tree without a word, or trees over different words.
            TreebankError: a word that does not stand alone under its tag.
        """
        trees = require_trees(trees)
        forest, tokens, places = self._forest_of(trees)
        scores = self._rnn_scores(forest, tokens)
        ranked = [
            ScoredTree(tree, float(scores[p]), None, float(scores[p]))
            for tree, p in zip(trees, places, strict=True)
        ]
        return sorted(ranked, key=lambda scored: -scored.score)

    def embed(self, tree: Tree) -> np.ndarray:
        """The vector of a tree's root, float32 [n]; errors as for `score`."""
        forest, tokens, _ = self._forest_of([require_tree(tree)])
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


def _answers(
    parse_part: Callable[[list[Any]], list[ParseResult | Exception]],
    sentences: Iterator[Any],
    jobs: int,
    keep: bool,
) -> Iterator[ParseResult]:
    """The results of all sentences in order; an error in its turn, kept as a result or raised."""
    for window in windows(sentences, 1 if jobs == 1 else WINDOW):
        parts = [window[i : i + CHUNK] for i in range(0, len(window), CHUNK)]
        for results in in_order(parse_part, parts, jobs):
            for result in results:
                if not isinstance(result, Exception):
                    yield result
                elif keep:
                    yield ParseResult((), (), False, str(result))
                else:
                    raise result


def _cleaned(tree: Tree) -> Tree:
    cleaned = clean(tree, AS_GIVEN)
    if cleaned is None:
        raise ValueError("the tree has no word")
    return cleaned

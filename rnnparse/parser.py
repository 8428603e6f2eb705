"""`Parser`: load a model, parse, score, rerank, embed. Nothing here imports TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.constituents import Describer
from rnnparse.errors import EncoderError
from rnnparse.executors import check_backend
from rnnparse.given_tags import TagLexicon
from rnnparse.given_trees import cleaned_tree, forest_of_trees
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest
from rnnparse.inference.posteriors import Bracket
from rnnparse.inference.search import Search
from rnnparse.input_sentences import (
    read_sentence,
    require_trees,
    sentence_iterator,
    whole_number,
)
from rnnparse.losses.cost import labelled_spans
from rnnparse.mixture import MixtureDecoder
from rnnparse.model_folder import Model, load_model, model_info, save_model
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.scorer import Scorer
from rnnparse.parse_results import NodeScore, ParseResult, ScoredTree
from rnnparse.ranking import Ranking, Read, ReadSentence, results
from rnnparse.rule_scores import RuleScores
from rnnparse.trees.binarization import binarize, post_order_labels
from rnnparse.trees.cleaning import words
from rnnparse.trees.node import Node

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.encoder import Encoder
    from rnnparse.nltk_parser import NltkParser

Sentence = str | Iterable[str] | Iterable[tuple[str, str]]
"""Raw text, tokens, or tokens with their tags."""

SCORERS = ("cvg", "pcfg")
ERRORS = ("keep", "raise")


@dataclass(frozen=True, eq=False, repr=False)
class Parser(Model):
    """A trained Compositional Vector Grammar.

    `rnnparse.load` and `rnnparse.train` make parsers; the attributes are those of `Model`, and
    `search`. A parser may be used by several threads at once.

    Attributes:
        search: how far to search for the trees of a sentence, and its budget. It is not part of
            the model folder.
        encoder: gives token vectors, if the model was trained with one; None loads the encoder
            that the model names when it is needed.

    Example:
        >>> parser = Parser.load("model", search=Search(max_seconds=5))
        >>> print(parser.parse("They ate udon with forks."))
    """

    search: Search = field(default_factory=Search)
    encoder: Encoder | None = None

    def __repr__(self) -> str:
        return (
            f"Parser({len(self.grammar.pcfg.categories)} categories, {len(self.vocabulary)} words, "
            f"dim={self.parameters.dim}, candidates={self.candidates}, beta={self.beta:.4g})"
        )

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(replace(self.grammar, lexicon=self._lexicon), self.search)

    @cached_property
    def _mixture(self) -> MixtureDecoder:
        grammar = replace(self.grammar, lexicon=self._lexicon)
        return MixtureDecoder(grammar, self.latent, self.spans, self.beta, self.search)

    @cached_property
    def _lexicon(self) -> TagLexicon:
        return TagLexicon(self.grammar.lexicon, self.grammar.pcfg)

    @cached_property
    def _rule_scores(self) -> RuleScores:
        return RuleScores(self.grammar.pcfg)

    @cached_property
    def _scorer(self) -> Scorer:
        return Scorer(self.parameters)

    # -- parsing -------------------------------------------------------------------------------

    def parse(self, sentence: Sentence) -> Tree:
        """The best tree of a sentence.

        Args:
            sentence: raw text, which is tokenized; tokens; or pairs (word, tag) of tokens with
                the tags that they must have. Brackets may be escaped as in treebanks.

        Raises:
            TypeError: the sentence is neither a string nor a sequence of strings or of pairs.
            ValueError: it has no token, an empty token, a token with white space in it, a tag
                that the model does not have, or more than 1,048,576 characters.
        """
        return self.parse_n_best(sentence, 1)[0].tree

    def parse_n_best(
        self, sentence: Sentence, n_best: int | None = None
    ) -> list[ScoredTree]:
        """The n best trees by the CVG's score, best first; fewer if there are fewer candidates.

        Args:
            sentence: as for `parse`.
            n_best: number of trees; default all candidates.

        Raises:
            TypeError, ValueError: as `parse`; or `n_best` is not a whole number of at least 1.
        """
        from nltk.tree import Tree

        wanted = self.candidates if n_best is None else whole_number(n_best, "n_best")
        read = self._read(sentence)
        if isinstance(read, Exception):
            raise read
        ranking = self._rank(read.written, wanted, max(wanted, self.candidates), "cvg")
        return list(self._result(Tree, False, read, ranking).trees)

    def parse_many(
        self,
        sentences: Iterable[Sentence],
        *,
        n_best: int = 1,
        candidates: int | None = None,
        scorer: str = "cvg",
        n_jobs: int = 1,
        errors: str = "keep",
        backend: str = "threads",
        address: str | None = None,
        posteriors: bool = False,
    ) -> Iterator[ParseResult]:
        """Parse many sentences in parallel; yield one result for each, in order.

        Sentences are read as they are needed, at most 64 ahead for each worker (none with one
        thread), so that `sentences` may be an endless generator. The model is sent to each worker
        once. Results are the same with all backends.

        Args:
            sentences: each as for `parse`; any iterable.
            n_best: trees in each result.
            candidates: length of the candidate list that is reranked; default the model's.
            scorer: `cvg`, or `pcfg` to rank by the base grammar alone.
            n_jobs: threads or other workers; 0 or -1 for one per processor core.
            errors: `keep` turns a sentence that cannot be parsed into a result with `error` and
                without trees; `raise` raises the error after the results before it.
            backend: `threads`; `loky` for processes on this machine; or `ray` or `dask` for a
                cluster.
            address: of a cluster that runs; None starts one on this machine.
            posteriors: whether the constituents of the trees have posteriors.

        Returns:
            An iterator over results; each is available as soon as it and those before it are done.

        Raises:
            TypeError, ValueError: a wrong argument, at once; with `errors="raise"` as `parse`.
            ConfigError: a wrong backend, or an address that does not fit it, at once.
            MissingExtraError: the package of the backend is not installed.
            WorkersError: the cluster does not answer, or a worker has died.
        """
        from nltk.tree import Tree

        finish = partial(self._result, Tree, posteriors)
        return self._parse_many(
            sentences, finish, n_best, candidates, scorer, n_jobs, errors, backend, address
        )

    def _parse_many(
        self,
        sentences: Iterable[Any],
        finish: Callable[[ReadSentence, Ranking], ParseResult],
        n_best: int,
        candidates: int | None,
        scorer: str,
        n_jobs: int,
        errors: str,
        backend: str,
        address: str | None,
    ) -> Iterator[ParseResult]:
        for value, known, name in ((scorer, SCORERS, "scorer"), (errors, ERRORS, "errors")):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        wanted, threads = whole_number(n_best, "n_best"), whole_number(n_jobs, "n_jobs", -1)
        listed = self.candidates if candidates is None else whole_number(candidates, "candidates")
        listed = max(wanted, listed) if scorer == "cvg" else wanted
        check_backend(backend, threads, address)
        return results(
            partial(self._rank, n_best=wanted, candidates=listed, scorer=scorer),
            self._read,
            finish,
            sentence_iterator(sentences),
            n_jobs=threads,
            backend=backend,
            address=address,
            keep=errors == "keep",
        )

    def pipe(self, texts: Iterable[Sentence], *, n_jobs: int = 1) -> Iterator[Tree]:
        """The best tree of each text, lazily and in order, like spaCy's `pipe`.

        A text that cannot be parsed gives a tree without children, `Tree("", [])`, so that trees
        and texts stay in step; `parse_many` also gives the reason.

        Args:
            texts: one sentence each, as for `parse`; any iterable.
            n_jobs: threads; 0 or -1 for one per processor core.
        """
        from nltk.tree import Tree

        for result in self.parse_many(texts, n_jobs=n_jobs):
            yield result.trees[0].tree if result.trees else Tree("", [])

    def parse_sents(self, sents: Iterable[Sentence]) -> Iterator[Iterator[Tree]]:
        """For each sentence an iterator over its trees, best first, like NLTK's `parse_sents`.

        Raises:
            TypeError, ValueError: as `parse`.
        """
        for result in self.parse_many(sents, n_best=self.candidates, errors="raise"):
            yield (scored.tree for scored in result.trees)

    def _read(self, sentence: Any) -> Read:
        """A sentence as the decoder needs it, or why it cannot be parsed."""
        try:
            given = read_sentence(sentence)
            written = self.grammar.lexicon.forms.write(given.tokens)
            if given.tags is not None:
                written = self._lexicon.mark(written, given.tags)
        except (TypeError, ValueError) as error:
            return error
        return ReadSentence(given.tokens, written, given.offsets)

    def _result(
        self, tree_type: type, posteriors: bool, sentence: ReadSentence, ranking: Ranking
    ) -> ParseResult:
        """The result of a sentence, with trees of a type."""
        written, offsets = sentence.written, sentence.offsets
        describe = Describer(self, written, offsets, ranking.glued, posteriors)
        return ranking.result(sentence, self.grammar.pcfg.categories, tree_type, describe)

    def _rank(self, written: Sequence[str], n_best: int, candidates: int, scorer: str) -> Ranking:
        """List the candidates of a sentence and rank them; see `parse_many`.

        Args:
            written: tokens, escaped as in trees.
            n_best: length of the ranking.
            candidates: length of the list.
            scorer: `cvg` or `pcfg`.
        """
        parse: Parse
        if scorer == "cvg" and self.is_mixture:
            parse = mixed = self._mixture.parse(written, candidates, self._encoded(written))
            spans, weight = mixed.span_score, self.rnn_weight
        else:
            parse = self._decoder.parse(written, candidates)
            spans, weight = np.zeros(len(parse.forest.logp)), 1.0
        rnn = self._rnn_scores(parse.forest, written)
        logp = parse.forest.logp
        total = logp
        if scorer == "cvg":
            total = spans + weight * rnn + (self.beta * logp if self.beta else 0.0)
        order = np.argsort(-total, kind="stable")[:n_best]
        scores = (total[order], logp[order], rnn[order], spans[order])
        return Ranking(parse.forest, order, *scores, parse.glued, parse.divided)

    def _encoded(self, written: Sequence[str]) -> np.ndarray | None:
        """The encoder's vectors of a sentence, if the model uses an encoder."""
        if self.encoder_name is None:
            return None
        from rnnparse.encoder import token_vectors

        return token_vectors(self._encoder, [written])[0]

    @cached_property
    def _encoder(self) -> Encoder:
        """The given encoder, or the one that the model names.

        Raises:
            EncoderError: it is missing, or is not the one that the model was trained with.
        """
        assert self.encoder_name is not None
        encoder = self.encoder
        if encoder is None:
            from rnnparse.encoder import load_encoder

            encoder = load_encoder(self.encoder_name)
        if encoder.checksum != self.encoder_checksum:
            raise EncoderError(
                f"the encoder {self.encoder_name} is not the one that the model was trained with: "
                "its checksum differs; give the right one with encoder="
            )
        return encoder

    def __getstate__(self) -> dict[str, Any]:
        """The parts of the model, for pickle. What is derived from them is made again."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def _rnn_scores(self, forest: Forest, tokens: Sequence[str]) -> np.ndarray:
        scores = self._scorer.forest_scores(forest, self._rows(tokens), self.category_pairs)
        return scores.astype(np.float64)

    def _store(self, forest: Forest, tokens: Sequence[str]) -> ForestDataset:
        """The forest of one sentence with the rows of its words."""
        return ForestDataset.from_forests([forest], [self._rows(tokens)], self.category_pairs)

    def _rows(self, tokens: Sequence[str]) -> np.ndarray:
        return self.vocabulary.rows(self.grammar.lexicon.forms.lookup(tokens))

    # -- probabilities ------------------------------------------------------------------------

    def marginals(self, sentence: Sentence) -> list[Bracket]:
        """The probability of every phrase and tag of a sentence under the base grammar.

        It sums over the trees near the best one; the network has no part in it.

        Returns:
            The most probable first. None crosses the parts of a sentence that has to be divided.

        Raises:
            TypeError, ValueError: as `parse`.
        """
        read = self._read(sentence)
        if isinstance(read, Exception):
            raise read
        return self._brackets(read.written)

    def _brackets(self, written: Sequence[str]) -> list[Bracket]:
        brackets = [
            replace(bracket, start=bracket.start + first, end=bracket.end + first)
            for first, graph in self._decoder.hypergraphs(written)
            for bracket in graph.brackets()
        ]
        return sorted(brackets, key=lambda bracket: -bracket.probability)

    def confidence(self, tree: Tree) -> float:
        """The share of a tree's labelled spans expected to be right: the mean of their marginals.

        Args:
            tree: from any parser, with this model's labels. The root and tags do not count.

        Returns:
            From 0 to 1; 1 for a tree without other nodes.

        Raises:
            As `score`.
        """
        cleaned = cleaned_tree(tree)
        spans = labelled_spans(cleaned)
        chance = {(b.label, b.start, b.end): b.probability for b in self.marginals(words(cleaned))}
        return sum(chance.get(span, 0.0) for span in spans) / len(spans) if spans else 1.0

    # -- given trees ---------------------------------------------------------------------------

    def score(self, tree: Tree) -> float:
        """The SU-RNN's score s(x, y) of any tree, whatever its labels; the tree is cleaned first.

        Raises:
            TypeError: the argument is not an `nltk.Tree`.
            ValueError: the tree has no words.
            TreebankError: a preterminal has more than one child, or a phrase mixes words and
                phrases.
        """
        forest, tokens, _ = forest_of_trees([cleaned_tree(tree)], self.grammar)
        return float(self._rnn_scores(forest, tokens)[0])

    def score_nodes(self, tree: Tree) -> list[NodeScore]:
        """The SU-RNN's score of each node above the tags; the scores add up to `score(tree)`.

        The nodes are those of the cleaned and binarized tree in pre-order. Binarization adds nodes
        below a node of more than two children; inside an NP they are labelled `@NP`.

        Raises:
            As `score`.
        """
        cleaned = cleaned_tree(tree)
        forest, tokens, _ = forest_of_trees([cleaned], self.grammar)
        batch, place = self._store(forest, tokens).batch_with_nodes([0])
        scores = self._scorer.node_scores(batch)[place]
        # A forest of one tree has its nodes in post-order.
        labels = post_order_labels(binarize(cleaned, self.grammar.heads))
        spans = list(zip(forest.start.tolist(), forest.end.tolist(), strict=True))
        inner = np.flatnonzero(forest.left >= 0).tolist()
        inner.sort(key=lambda v: (spans[v][0], -spans[v][1], -v))
        return [NodeScore(labels[v], spans[v], float(scores[v])) for v in inner]

    def rerank(self, trees: Iterable[Tree]) -> list[ScoredTree]:
        """Sort trees of one sentence, from any parser, by the SU-RNN's score, best first.

        Raises:
            TypeError: the argument is not a sequence of `nltk.Tree`.
            ValueError: the list is empty, a tree has no words, or the trees have different words.
            TreebankError: as `score`.
        """
        trees = require_trees(trees)
        cleaned = [cleaned_tree(tree) for tree in trees]
        forest, tokens, places = forest_of_trees(cleaned, self.grammar)
        scores = self._rnn_scores(forest, tokens)
        ranked = [
            ScoredTree(tree, float(scores[p]), None, float(scores[p]))
            for tree, p in zip(trees, places, strict=True)
        ]
        return sorted(ranked, key=lambda scored: -scored.score)

    def embed(self, tree: Tree) -> np.ndarray:
        """The vector of a tree's root, float32 [n]; errors as for `score`."""
        forest, tokens, _ = forest_of_trees([cleaned_tree(tree)], self.grammar)
        batch, node = self._store(forest, tokens).batch_with_nodes([0])
        vectors = self._scorer.node_vectors(batch)
        return np.asarray(vectors[node[forest.root[0]]])

    def as_nltk(self) -> NltkParser:
        """This parser with NLTK's interface: `parse`, `parse_sents`, `parse_all`, `parse_one`."""
        from rnnparse.nltk_parser import NltkParser

        return NltkParser(self.parse_n_best)

    # -- files ---------------------------------------------------------------------------------

    def info(self) -> dict[str, Any]:
        """Sizes, settings and scores as a dict that JSON can hold."""
        return model_info(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model folder; see `rnnparse.model_folder.save_model`.

        Args:
            path: the folder; its parents are made.
            overwrite: whether to replace an existing model. Nothing else is ever replaced.

        Raises:
            ModelError: `path` exists, or cannot be written.
        """
        save_model(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, search: Search | None = None) -> Parser:
        """Read a model folder. No code in it is executed.

        Args:
            path: the folder.
            search: how far to search for the trees of a sentence, and its budget; None for the
                defaults.

        Raises:
            ModelError: the folder does not exist, a file is damaged or has contents that training
                never writes, or the format version differs.
        """
        return cls(**vars(load_model(path)), search=search or Search())


def load(path: str | os.PathLike[str], *, search: Search | None = None) -> Parser:
    """Read a model folder; see `Parser.load`."""
    return Parser.load(path, search=search)


def parse_nodes(
    parser: Parser,
    sentences: Iterable[Any],
    *,
    n_best: int = 1,
    scorer: str = "cvg",
    n_jobs: int = 1,
    backend: str = "threads",
    address: str | None = None,
    constituents: bool = False,
    posteriors: bool = False,
) -> Iterator[ParseResult]:
    """`Parser.parse_many` for the command line; trees are of type `rnnparse.trees.node.Node`.

    Args:
        sentences: also `Line`s of text.
        constituents: whether they are computed together with the trees, by the same threads.
    """

    def finish(sentence: ReadSentence, ranking: Ranking) -> ParseResult:
        result = parser._result(Node, posteriors, sentence, ranking)
        if constituents:
            for scored in result.trees:
                scored.constituents  # noqa: B018 (it is kept)
        return result

    return parser._parse_many(
        sentences, finish, n_best, None, scorer, n_jobs, "keep", backend, address
    )

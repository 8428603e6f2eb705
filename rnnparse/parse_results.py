"""What a parser returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rnnparse.trees.brackets import format_tree

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True)
class Constituent:
    """A node of a tree that a parser returned: where it is, and its part of the tree's score.

    Attributes:
        label: a category, or a tag.
        span: position of its first token, counted from 0, and of the token after its last.
        characters: the same in characters (code points) of the text; None if tokens were given.
        is_tag: whether the node is a tag.
        rnn_score: the SU-RNN's score of the node, and of those that binarization adds below it;
            0 for a tag. The scores add up to the tree's `rnn_score`.
        log_probability: natural log of the probability of the rules that made the node in the
            tree's best derivation, with those of the binarization below it; for a tag, of its word.
            They add up to the tree's `log_probability`: that of the root is the remainder, which
            for a tree of partial trees includes the penalty. None if the grammar has no derivation,
            or if latent grammars or a span scorer have a part in the score.
        posterior: the probability of the label and span under the grammar, as in
            `Parser.marginals`; None unless it was asked for.
    """

    label: str
    span: tuple[int, int]
    characters: tuple[int, int] | None
    is_tag: bool
    rnn_score: float
    log_probability: float | None
    posterior: float | None = None


@dataclass(frozen=True)
class ScoredTree:
    """A candidate tree with its scores.

    Attributes:
        tree: covers all tokens; its root is TOP, and brackets among the tokens are escaped
            (`-LRB-`).
        score: ranks the candidates; rnn_score + β · log_probability, or with a span scorer
            span_score + γ · rnn_score + β · log_probability (the model's `beta` and `rnn_weight`).
        log_probability: natural log of the probability of the tree's best derivation under the
            base PCFG, or with latent grammars the sum of the log posteriors of its rules under all
            grammars; None if the tree came from elsewhere.
        rnn_score: sum of the SU-RNN's node scores.
        span_score: sum of the span scorer's scores of labelled spans; 0 without one.
    """

    tree: Tree
    score: float
    log_probability: float | None
    rnn_score: float
    span_score: float = 0.0
    _describe: Callable[[ScoredTree], tuple[Constituent, ...]] | None = field(
        default=None, compare=False
    )

    @cached_property
    def constituents(self) -> tuple[Constituent, ...]:
        """All nodes in pre-order, tags too, computed when they are first read.

        Empty for a tree that a parser only reranked.
        """
        return () if self._describe is None else self._describe(self)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: the fields, and the constituents instead of the parser to compute them."""
        state = {part.name: getattr(self, part.name) for part in fields(self)}
        return state | {"_describe": None, "constituents": self.constituents}

    def _repr_svg_(self) -> str | None:
        """The tree in a notebook, if svgling is installed (the extra `draw`)."""
        from rnnparse.trees.drawing import shown_svg

        return shown_svg(self.tree)

    def __repr__(self) -> str:
        return f"ScoredTree({_shortened(format_tree(self.tree))}, score={self.score:.4g})"


@dataclass(frozen=True)
class ParseResult:
    """The n best trees of a sentence, best first.

    Attributes:
        tokens: the given tokens, or those that the tokenizer made.
        trees: at least one tree; none if the sentence cannot be parsed.
        glued: True if the root joins partial trees, because the grammar cannot span the sentence
            or because the sentence was divided.
        error: why the sentence cannot be parsed, else None. With an error, `tokens` and `trees`
            are empty.
        divided: True if the sentence exceeded the budget of `rnnparse.Search` and was parsed in
            parts; there is one tree then.
        offsets: of each token, its first character (code point) in the text, counted from 0, and
            the one after its last; None if tokens were given. A token's characters are those of
            the text, whatever form the tokenizer gives it, as with quotation marks.
    """

    tokens: tuple[str, ...]
    trees: tuple[ScoredTree, ...]
    glued: bool
    error: str | None = None
    divided: bool = False
    offsets: tuple[tuple[int, int], ...] | None = None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"ParseResult(error={self.error!r})"
        sentence = _shortened(" ".join(self.tokens))
        flags = f"glued={self.glued}, divided={self.divided}"
        return f"ParseResult({sentence!r}, {len(self.trees)} trees, {flags})"


    def _repr_svg_(self) -> str | None:
        """The best tree in a notebook, if svgling is installed (the extra `draw`)."""
        return self.trees[0]._repr_svg_() if self.trees else None

    def _repr_html_(self) -> str | None:
        """All trees with their scores in a notebook, if svgling is installed."""
        drawings = [scored._repr_svg_() for scored in self.trees]
        if not drawings or None in drawings:
            return None
        parts = [
            f"<figure><figcaption>score {scored.score:.4g}</figcaption>{drawing}</figure>"
            for scored, drawing in zip(self.trees, drawings, strict=True)
        ]
        return "".join(parts)


@dataclass(frozen=True)
class NodeScore:
    """The SU-RNN's score of one node of a tree.

    Attributes:
        label: the node's category; `@NP` for a node that binarization adds inside an NP.
        span: position of its first word, counted from 0, and of the word after its last.
        score: v · p of this node.
    """

    label: str
    span: tuple[int, int]
    score: float


def _shortened(shown: str, width: int = 60) -> str:
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"

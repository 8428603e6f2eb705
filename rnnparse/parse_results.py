"""What a parser returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rnnparse.trees.brackets import format_tree

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True)
class ScoredTree:
    """A candidate tree with its scores.

    Attributes:
        tree: covers all tokens; its root is TOP, and brackets among the tokens are escaped
            (`-LRB-`).
        score: ranks the candidates; rnn_score + β · log_probability.
        log_probability: natural log of the probability of the tree's best derivation under the
            base PCFG; None if the tree came from elsewhere.
        rnn_score: sum of the SU-RNN's node scores.
    """

    tree: Tree
    score: float
    log_probability: float | None
    rnn_score: float

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
    """

    tokens: tuple[str, ...]
    trees: tuple[ScoredTree, ...]
    glued: bool
    error: str | None = None
    divided: bool = False

    def __repr__(self) -> str:
        if self.error is not None:
            return f"ParseResult(error={self.error!r})"
        sentence = _shortened(" ".join(self.tokens))
        flags = f"glued={self.glued}, divided={self.divided}"
        return f"ParseResult({sentence!r}, {len(self.trees)} trees, {flags})"


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

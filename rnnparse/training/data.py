"""The data of a training run: cleaned trees, the held-out part, word vectors."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.errors import TreebankError
from rnnparse.grammar.unknown import WordVectors
from rnnparse.models.vectors import read_vectors
from rnnparse.trees.brackets import format_tree
from rnnparse.trees.corpus import read_clean
from rnnparse.trees.embedded import embedded_treebank
from rnnparse.trees.node import Node
from rnnparse.trees.style import DEFAULT_STYLE, TreebankStyle

if TYPE_CHECKING:
    from nltk.tree import Tree

_LOG = logging.getLogger("rnnparse")
HELD_OUT = 10  # without a dev set, one tree in so many is held out


def load_clean(source: str, style: TreebankStyle = DEFAULT_STYLE) -> list[Tree]:
    """Read a treebank and clean its trees; `read_clean` says which trees are left out.

    Raises:
        TreebankError: the treebank cannot be read, or has no tree with a word.
    """
    from nltk.tree import Tree

    return _load_clean(source, style, Tree)


def _load_clean(source: str, style: TreebankStyle, tree_type: type = Node) -> list[Tree]:
    pairs = read_clean(source, style, tree_type=tree_type)
    trees = [cleaned for _, cleaned in pairs if cleaned is not None]
    if not trees:
        raise TreebankError("expected at least one tree, found none", source)
    return trees


def read_data(config: TrainingConfig) -> tuple[list[Tree], list[Tree], WordVectors | None]:
    """The training trees, development trees (none with folds) and word vectors of a run.

    Raises:
        RnnparseError: a file cannot be read, or there are too few trees.
    """
    dev: list[Tree] = []
    if config.treebank is None:
        trees = _load_clean(str(embedded_treebank("train")), DEFAULT_STYLE)
        if not config.dev and not config.folds:
            dev = _load_clean(str(embedded_treebank("dev")), DEFAULT_STYLE)
    else:
        trees = _load_clean(config.treebank, config.style)
    if config.dev:
        dev = _load_clean(config.dev, config.style)
    elif config.folds:
        require_two(trees)
    elif not dev:
        trees, dev = hold_out(trees, config.seed)
    return trees, dev, read_word_vectors(config)


def read_word_vectors(config: TrainingConfig) -> WordVectors | None:
    """The given word vectors, or None; warns if their size is not the model's."""
    if not config.vectors:
        return None
    names, matrix = read_vectors(config.vectors)
    if matrix.shape[1] != config.dim:
        _LOG.warning(
            "%s: vectors of %d components are fitted to --dim %d%s",
            config.vectors,
            matrix.shape[1],
            config.dim,
            " by PCA" if matrix.shape[1] > config.dim else "",
        )
    return WordVectors(tuple(names), matrix)


def hold_out(trees: Sequence[Tree], seed: int) -> tuple[list[Tree], list[Tree]]:
    """Split a treebank into a training part and a contiguous tenth for tuning.

    Sentences of a document stay together, because F1 on sentences whose neighbours are in the
    training part is too high. The seed chooses the place.

    Raises:
        TreebankError: there are fewer than two trees.
    """
    require_two(trees)
    size = max(1, len(trees) // HELD_OUT)
    start = int(np.random.default_rng([seed, 0]).integers(len(trees) - size + 1))
    return [*trees[:start], *trees[start + size :]], [*trees[start : start + size]]


def blocks(sentences: int, number: int) -> list[range]:
    """Divide a treebank into contiguous blocks of nearly equal size.

    Args:
        sentences: S.
        number: of blocks, at most S.

    Returns:
        The sentences of each block; none is empty.
    """
    edges = [sentences * block // number for block in range(number + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


def require_two(trees: Sequence[Tree]) -> None:
    """Raise TreebankError unless there are trees both to train and to tune on."""
    if len(trees) < 2:
        raise TreebankError(
            "a treebank of one tree leaves nothing to tune on; give more trees or --dev"
        )


def fingerprint(*parts: object) -> str:
    """A hash of the content of trees, arrays and settings."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, list):
            for tree in part:
                digest.update(format_tree(tree).encode() + b"\n")
        elif isinstance(part, np.ndarray):
            digest.update(str((part.shape, part.dtype)).encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:20]

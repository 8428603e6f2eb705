"""Read gold trees and parse their words, for the commands that score a parser."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rnnparse.cli.console_text import Numbers, warn, warn_of_failed, warn_of_partial
from rnnparse.cli.treebank_style import given_style
from rnnparse.errors import TreebankError

if TYPE_CHECKING:
    from nltk.tree import Tree

    from rnnparse.parser import Parser
    from rnnparse.trees.style import TreebankStyle


@dataclass(frozen=True)
class Gold:
    """Gold trees in their order.

    Attributes:
        trees: as EVALB sees them; without children if they have no words.
        cleaned: as a parser prints them; None if they have no words.
    """

    trees: list[Tree]
    cleaned: list[Tree | None]


def style_of(args: argparse.Namespace) -> TreebankStyle:
    """The conventions that the options of a command give."""
    from rnnparse.trees.style import TreebankStyle

    return TreebankStyle.from_dict(given_style(args).get("style", {}))


def read_gold(path: str, style: TreebankStyle) -> Gold:
    """Gold trees without traces, their roots renamed to TOP.

    The parser's trees have the root TOP, which the COLLINS parameters delete.
    """
    from rnnparse.trees.cleaning import ROOT, prune
    from rnnparse.trees.corpus import read_clean
    from rnnparse.trees.node import Node
    from rnnparse.trees.scanner import ROOT_LABELS

    gold = Gold([], [])
    for tree, cleaned in read_clean(path, style, keep_empty=True):
        pruned = prune(tree, style) or Node(ROOT, [])
        if pruned.label() in ROOT_LABELS:
            pruned.set_label(ROOT)
        gold.trees.append(pruned)
        gold.cleaned.append(cleaned)
    if not any(gold.cleaned):
        raise TreebankError("none of its trees has words", path)
    return gold


def parse_gold(
    model: Parser, gold: Gold, scorer: str, n_jobs: int
) -> tuple[list[Tree], dict[str, Any]]:
    """The best tree of each sentence, and how the parsing went."""
    from tqdm import tqdm

    from rnnparse.parser import parse_nodes
    from rnnparse.trees.cleaning import set_words, words
    from rnnparse.trees.node import Node

    started = time.perf_counter()
    places = [place for place, tree in enumerate(gold.cleaned) if tree is not None]
    sentences = [words(tree) for tree in gold.cleaned if tree is not None]
    results = parse_nodes(model, sentences, scorer=scorer, n_jobs=n_jobs)
    test = [Node("", []) for _ in gold.trees]
    glued: list[int] = []
    divided: list[int] = []
    failed: dict[int, str] = {}
    progress = tqdm(results, total=len(sentences), unit=" sentences", disable=None)
    for place, sentence, result in zip(places, sentences, progress, strict=True):
        if result.error is not None:
            failed[place + 1] = result.error
            continue
        test[place] = result.trees[0].tree
        set_words(test[place], sentence)  # EVALB compares words byte by byte
        if result.glued:
            glued.append(place + 1)
        if result.divided:
            divided.append(place + 1)
    empty = sorted(set(range(len(test))) - set(places))
    if empty:
        warn(
            f"{len(empty)} gold tree(s) without words do not count: "
            f"{Numbers(place + 1 for place in empty)}"
        )
    warn_of_partial(Numbers(sorted(set(glued).difference(divided))), Numbers(divided))
    warn_of_failed(Numbers(failed), next(iter(failed.values()), ""), "gold sentence(s)")
    seconds = time.perf_counter() - started
    return test, {"scorer": scorer, "glued": glued, "divided": divided, "seconds": seconds}

"""EVALB's bracket counts of all candidates of a sentence at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.evaluation.bracketing import trim_label
from rnnparse.evaluation.evalb import spans
from rnnparse.evaluation.params import EvalbParams
from rnnparse.inference.forest import Forest
from rnnparse.losses.cost import span_costs
from rnnparse.trees.cleaning import tags

if TYPE_CHECKING:
    from nltk.tree import Tree


@dataclass(frozen=True)
class BracketCounts:
    """EVALB's bracket counts of all K candidates of a sentence, with COLLINS parameters.

    Attributes:
        matched, test: matched brackets and brackets of each candidate, int64 [K].
        gold: number of brackets of the gold tree.
    """

    matched: np.ndarray
    test: np.ndarray
    gold: int

    def f1(self) -> np.ndarray:
        """F1 of each candidate, float64 [K] from 0 to 1; 1 if neither tree has a bracket."""
        total = self.test + self.gold
        return np.where(total > 0, 2 * self.matched / np.maximum(total, 1), 1.0)


@dataclass(frozen=True)
class _Relabelled:
    """A forest as EVALB sees it: spans do not count deleted words, and equal labels are one."""

    cat: np.ndarray
    left: np.ndarray
    right: np.ndarray
    start: np.ndarray
    end: np.ndarray
    root: np.ndarray


def bracket_counts(forest: Forest, gold: Tree, categories: Sequence[str]) -> BracketCounts:
    """Count the brackets of all candidates at once; the gold tags decide which words are deleted.

    This fast form selects β and the epoch; the final scores of a run apply EVALB's rules to whole
    trees. The two agree if a candidate and the gold tree tag the same words as punctuation. If
    they do not, EVALB skips the sentence, while this function uses the gold tags.
    """
    params = EvalbParams.collins()
    number, relabel, is_counted = _label_numbers(tuple(categories))
    deleted = np.array([tag in params.deleted_tags for tag in tags(gold)])
    place = np.concatenate([[0], np.cumsum(~deleted)]).astype(np.int32)
    start, end = place[forest.start], place[forest.end]
    # Brackets around deleted words only do not count, and neither do intermediate nodes.
    none = len(is_counted) - 1
    basic = (forest.cat < len(categories)) & (start < end)
    view = _Relabelled(
        cat=np.where(basic, relabel[np.where(basic, forest.cat, 0)], none).astype(np.int32),
        left=forest.left,
        right=forest.right,
        start=start,
        end=end,
        root=forest.root,
    )
    wanted = np.array(
        [(number.get(label, -1), start, end) for label, start, end in spans(gold, params)], np.int32
    ).reshape(-1, 3)
    test = span_costs(view, np.empty((0, 3), np.int32), is_counted).astype(np.int64)
    wrong = span_costs(view, wanted, is_counted).astype(np.int64)
    return BracketCounts(test - wrong, test, len(wanted))


@lru_cache(maxsize=8)
def _label_numbers(categories: tuple[str, ...]) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """Number the labels so that labels that EVALB treats as equal share a number.

    Returns:
        The number of each label, the numbers of the categories (int32 [C]), and which numbers EVALB
        counts (bool [C + 1]; the last number is not counted, and no label has it).
    """
    params = EvalbParams.collins()
    trimmed = [trim_label(label) for label in categories]
    number: dict[str, int] = {}
    for label in trimmed:
        same = next((known for known in number if params.labels_equal(known, label)), label)
        number[label] = number.get(same, len(number))
    is_counted = np.zeros(len(categories) + 1, np.bool_)
    for label, n in number.items():
        is_counted[n] = label not in params.deleted_brackets
    return number, np.array([number[label] for label in trimmed], np.int32), is_counted

"""The base PCFG: smoothed rule probabilities of annotated symbols, as arrays for the kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rnnparse.array_invariants import PCFG, check, rising
from rnnparse.grammar.annotate import Rule
from rnnparse.trees.binarization import INTERMEDIATE
from rnnparse.trees.cleaning import ROOT

BACKOFF_COUNT = 2  # rarer rules are not part of the back-off, for speed


@dataclass(frozen=True)
class Pcfg:
    """A binarized grammar over S symbols, C basic categories, R binary and U unary rules.

    Attributes:
        symbols: names of the annotated symbols.
        categories: names of the basic categories (labels and tags). Category C + c is the
            intermediate category of the binarization that belongs to category c.
        category [S] int32: the category of each symbol, 0 to 2C - 1.
        binary [R, 3] int32: parent, left child, right child; sorted by left child.
        binary_logp [R] float64: natural log of the probability.
        unary [U, 2] int32: parent, child; sorted by child.
        unary_logp [U] float64.
        link [U] bool: whether the rule leads to a smoothing back-off and leaves no tree node.

    Raises:
        ValueError: an array violates `rnnparse.array_invariants.PCFG`; names that are not
            distinct; no symbol for the root.
    """

    symbols: tuple[str, ...]
    categories: tuple[str, ...]
    category: np.ndarray
    binary: np.ndarray
    binary_logp: np.ndarray
    unary: np.ndarray
    unary_logp: np.ndarray
    link: np.ndarray

    def __post_init__(self) -> None:
        sizes = {"S": len(self.symbols), "C": len(self.categories)}
        check("pcfg", PCFG, vars(self), **sizes)
        for name, rules in (("binary", self.binary), ("unary", self.unary)):
            if not rising(np.roll(rules, -1, axis=1)):  # the parent counts last
                raise ValueError(f"pcfg.{name} must be sorted, each rule once")
        for name in ("symbols", "categories"):
            if len(set(getattr(self, name))) < sizes[name[0].upper()]:
                raise ValueError(f"pcfg.{name} must be distinct")
        if ROOT not in self.symbols or self.category[self.root] >= len(self.categories):
            raise ValueError(f"pcfg.symbols must contain {ROOT}, which must be a basic category")

    @property
    def root(self) -> int:
        """The number of the root symbol."""
        return self.symbols.index(ROOT)

    @property
    def partial(self) -> np.ndarray:
        """[S] bool: whether a symbol is an intermediate one of the binarization."""
        return self.category >= len(self.categories)


def category_names(categories: Sequence[str]) -> list[str]:
    """Names of all 2C categories: the basic ones, then the intermediate ones with `@`."""
    return [*categories, *(INTERMEDIATE + name for name in categories)]


def estimate_rules(
    counts: Mapping[Rule, float],
    category_of: Mapping[str, tuple[str, bool]],
    backoff_of: Mapping[str, str],
    kappa: float,
) -> Pcfg:
    """Relative frequencies, smoothed towards a less annotated parent.

    P(r | B) = (c(B → r) + κ P(r | A)) / (c(B) + κ), where A is the back-off of B. Unseen rules of B
    are not stored: B has a link of probability κ / (c(B) + κ) to a symbol for A, which rewrites
    with P(r | A). The direct probability of a seen rule is larger than that through the link, so
    the best derivation has the smoothed probability of every rule. Rules of A with counts below
    `BACKOFF_COUNT` are not part of the back-off. Hence the probabilities of all rewrites of B sum
    to 1 minus κ / (c(B) + κ) times the share of those rules that B was not seen with.

    Args:
        counts: occurrences of each rule.
        category_of: the basic category of each symbol and whether it is an intermediate one.
        backoff_of: the back-off symbol of each symbol that has one.
        kappa: the weight of the back-off, in pseudo-counts; 0 turns smoothing off.
    """
    own: defaultdict[str, float] = defaultdict(float)
    back_rule: defaultdict[Rule, float] = defaultdict(float)
    back_total: defaultdict[str, float] = defaultdict(float)
    back_of = backoff_of if kappa > 0 else {}
    for rule, count in counts.items():
        own[rule.parent] += count
        if rule.parent in back_of:
            back_rule[rule._replace(parent=back_of[rule.parent])] += count
            back_total[back_of[rule.parent]] += count
    logp = {
        rule: float(np.log(count / back_total[rule.parent]))
        for rule, count in back_rule.items()
        if count >= BACKOFF_COUNT
    }
    rewritten = {rule.parent for rule in logp}
    links: dict[tuple[str, str], float] = {}
    for rule, count in counts.items():
        back = back_of.get(rule.parent)
        total = own[rule.parent]
        if back is None:
            logp[rule] = float(np.log(count / total))
        else:
            smooth = kappa * back_rule[rule._replace(parent=back)] / back_total[back]
            logp[rule] = float(np.log((count + smooth) / (total + kappa)))
            if back in rewritten:
                links[rule.parent, back] = float(np.log(kappa / (total + kappa)))
    return _arrays(logp, links, category_of)


def _arrays(
    logp: Mapping[Rule, float],
    links: Mapping[tuple[str, str], float],
    category_of: Mapping[str, tuple[str, bool]],
) -> Pcfg:
    symbols = _order({ROOT}, *({r.parent, r.left, r.right} - {""} for r in logp))
    categories = _order(*({category_of[s][0]} for s in symbols))
    number = {s: i for i, s in enumerate(symbols)}
    place = {c: i for i, c in enumerate(categories)}
    binary = sorted(
        (number[r.left], number[r.right], number[r.parent], p) for r, p in logp.items() if r.right
    )
    unary = sorted(
        [(number[r.left], number[r.parent], p, False) for r, p in logp.items() if not r.right]
        + [(number[back], number[symbol], p, True) for (symbol, back), p in links.items()]
    )
    return Pcfg(
        symbols=tuple(symbols),
        categories=tuple(categories),
        category=np.array(
            [
                place[name] + partial * len(place)
                for name, partial in (category_of[s] for s in symbols)
            ],
            np.int32,
        ),
        binary=np.array([(p, a, b) for a, b, p, _ in binary], np.int32).reshape(-1, 3),
        binary_logp=np.array([x for *_, x in binary], np.float64),
        unary=np.array([(p, a) for a, p, *_ in unary], np.int32).reshape(-1, 2),
        unary_logp=np.array([x for _, _, x, _ in unary], np.float64),
        link=np.array([x for *_, x in unary], np.bool_),
    )


def _order(*groups: set[str]) -> Sequence[str]:
    """All members in sorted order, so that equal treebanks give equal arrays."""
    return sorted(set().union(*groups))

"""Rule probabilities: by hand, and that they sum to what they should."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.grammar.annotate import SPLITS, Annotator, Rule
from rnnparse.grammar.grammar import estimate
from rnnparse.grammar.pcfg import BACKOFF_COUNT, Pcfg, estimate_rules
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees


def probabilities(pcfg: Pcfg) -> tuple[dict[Rule, float], dict[str, tuple[str, float]]]:
    """Probability of every rule, and of each symbol its link and that one's probability."""
    name = pcfg.symbols
    rules = {
        Rule(name[p], name[a], name[b]): math.exp(x)
        for (p, a, b), x in zip(pcfg.binary.tolist(), pcfg.binary_logp, strict=True)
    }
    links = {}
    for (p, a), x, link in zip(pcfg.unary.tolist(), pcfg.unary_logp, pcfg.link, strict=True):
        if link:
            assert name[p] not in links
            links[name[p]] = name[a], math.exp(x)
        else:
            rules[Rule(name[p], name[a], "")] = math.exp(x)
    return rules, links


def test_smoothing_by_hand() -> None:
    counts = {
        Rule("B1", "x", "y"): 3, Rule("B1", "x", ""): 1,
        Rule("B2", "x", "y"): 1, Rule("B2", "z", "y"): 2, Rule("B2", "z", ""): 1,
        Rule("TOP", "B1", "B2"): 4,
    }
    category = {s: ("B" if s[0] in "BA" else s, False) for s in ("B1", "B2", "A", "x", "y", "z")}
    category["TOP"] = "TOP", False
    pcfg = estimate_rules(counts, category, {"B1": "A", "B2": "A"}, kappa=2.0)
    rules, links = probabilities(pcfg)
    assert rules == pytest.approx(
        {
            Rule("TOP", "B1", "B2"): 1.0,
            Rule("B1", "x", "y"): (3 + 2 * 4 / 8) / 6,
            Rule("B1", "x", ""): (1 + 2 * 1 / 8) / 6,
            Rule("B2", "x", "y"): (1 + 2 * 4 / 8) / 6,
            Rule("B2", "z", "y"): (2 + 2 * 2 / 8) / 6,
            Rule("B2", "z", ""): (1 + 2 * 1 / 8) / 6,
            Rule("A", "x", "y"): 4 / 8,
            Rule("A", "z", "y"): 2 / 8,  # rules seen once are left out of the back-off
        }
    )
    assert links == {"B1": ("A", pytest.approx(2 / 6)), "B2": ("A", pytest.approx(2 / 6))}
    assert pcfg.categories == ("B", "TOP", "x", "y", "z")
    assert not pcfg.partial.any()


def test_arrays_are_in_the_order_that_they_promise() -> None:
    pcfg = estimate(trees(60), HeadTable.english()).pcfg
    assert (np.diff(pcfg.binary[:, 1]) >= 0).all()
    assert (np.diff(pcfg.unary[:, 1]) >= 0).all()
    assert pcfg.symbols == tuple(sorted(pcfg.symbols))
    assert pcfg.symbols[pcfg.root] == "TOP"
    for array in (pcfg.binary, pcfg.unary, pcfg.category):
        assert array.dtype == np.int32
    assert (pcfg.binary_logp <= 0).all()
    assert (pcfg.unary_logp <= 0).all()
    assert pcfg.partial.any()
    for symbol, partial in zip(pcfg.symbols, pcfg.partial, strict=True):
        assert symbol.startswith("@") == partial


def test_without_smoothing_rules_are_relative_frequencies() -> None:
    treebank = trees(40)
    pcfg = estimate(treebank, HeadTable.english(), kappa=0).pcfg
    rules, links = probabilities(pcfg)
    assert not links
    annotator = Annotator(HeadTable.english(), SPLITS, 3, treebank)
    counts = Counter(e for t in treebank for e in annotator.occurrences(t) if isinstance(e, Rule))
    totals: Counter[str] = Counter()
    for rule, count in counts.items():
        totals[rule.parent] += count
    assert rules == pytest.approx({r: c / totals[r.parent] for r, c in counts.items()})


@pytest.mark.parametrize("kappa", [0.5, 1.0, 10.0])
def test_rewrites_of_a_symbol_sum_to_one_but_for_what_the_back_off_leaves_out(kappa: float) -> None:
    """With links unfolded.

    A rule that a symbol B was seen with has two derivations, its own and the one over the link.
    The better of them is its probability, which is the smoothed one, and its own is the better.
    What is missing from 1 is κ / (c(B) + κ) times the share of the rules that B was not seen with
    and that its back-off was seen with fewer than `BACKOFF_COUNT` times.
    """
    treebank = trees(80)
    annotator = Annotator(HeadTable.english(), SPLITS, 3, treebank)
    counts = Counter(e for t in treebank for e in annotator.occurrences(t) if isinstance(e, Rule))
    back_counts: Counter[Rule] = Counter()
    totals: Counter[str] = Counter()
    for rule, count in counts.items():
        totals[rule.parent] += count
        if back := annotator.backoff.get(rule.parent):
            back_counts[rule._replace(parent=back)] += count
            totals[back] += count
    rules, links = probabilities(estimate(treebank, HeadTable.english(), kappa=kappa).pcfg)
    whole: defaultdict[str, dict[Rule, float]] = defaultdict(dict)
    for rule, p in rules.items():
        whole[rule.parent][rule] = p
    assert links
    for symbol in {rule.parent for rule in counts}:
        rewrites = dict(whole[symbol])
        missing = 0.0
        if symbol in annotator.backoff:
            back = annotator.backoff[symbol]
            through = kappa / (totals[symbol] + kappa)
            for rule, count in back_counts.items():
                own = rule._replace(parent=symbol)
                if rule.parent != back:
                    continue
                if own in rewrites:
                    assert rewrites[own] >= through * whole[back].get(rule, 0.0)
                    smoothed = counts[own] + kappa * count / totals[back]
                    assert rewrites[own] == pytest.approx(smoothed / (totals[symbol] + kappa))
                elif count >= BACKOFF_COUNT:
                    assert links[symbol] == (back, pytest.approx(through))
                    rewrites[own] = through * whole[back][rule]
                else:
                    assert rule not in whole[back]
                    missing += through * count / totals[back]
        assert sum(rewrites.values()) == pytest.approx(1 - missing, abs=1e-12)


def test_an_empty_treebank_is_refused() -> None:
    with pytest.raises(TreebankError, match="no tree"):
        estimate([], HeadTable.english())


def test_only_the_root_may_lack_a_rule_above_it() -> None:
    pcfg = estimate([Tree.fromstring("(TOP (A (B b)))")], HeadTable.english()).pcfg
    assert len(pcfg.binary) == 0
    assert sorted(pcfg.symbols) == ["A", "B", "TOP"]
    assert pcfg.unary_logp.tolist() == [0.0, 0.0]

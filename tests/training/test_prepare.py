"""Targets, margins and keys against plain code on whole trees."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.evaluation import evaluate
from rnnparse.grammar.grammar import estimate
from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest, candidate_tree, forest_of
from rnnparse.losses.cost import structured_cost
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.forest_file import ForestFile
from rnnparse.training import prepare
from rnnparse.training.data import blocks
from rnnparse.training.prepare import (
    PAIR_COUNT,
    Lists,
    Problem,
    _best,
    _example,
    head_table,
    make_lists,
    make_problem,
)
from rnnparse.trees.binarization import binarize
from rnnparse.trees.cleaning import words
from rnnparse.trees.heads import HeadTable
from tests.grammar.small import trees
from tests.training.problems import small_config, small_lists, small_problem
from tests.training.test_candidate_brackets import pasted

COUNT = 40


@lru_cache(maxsize=4)
def lists_and_problem(target: str = "gold", jackknife: int = 0) -> tuple[Lists, Problem]:
    lists = small_lists(COUNT, jackknife=jackknife)
    config = small_config(target=target)
    return lists, make_problem(lists, trees(COUNT), trees(6, "dev"), None, config)


def candidates(forest: Forest, tree: Tree, lists: Lists) -> list[Tree]:
    """All candidate trees of a sentence."""
    names = lists.grammar.pcfg.categories
    return [candidate_tree(forest, k, words(tree), names) for k in range(len(forest.root))]


def plain_keys(tree: Tree, heads: HeadTable) -> Counter[str]:
    """The keys of a tree's nodes, by their names."""
    return Counter(
        ",".join(child.label() for child in node)
        for node in binarize(tree, heads).subtrees()
        if isinstance(node[0], Tree)
    )


# -- targets and margins -----------------------------------------------------------------------


@pytest.mark.parametrize("jackknife", [0, 3])
def test_the_gold_tree_is_the_target_and_margins_are_counted_from_it(jackknife: int) -> None:
    lists, problem = lists_and_problem("gold", jackknife)
    store, added = problem.store, 0
    for i, (parse, gold) in enumerate(zip(lists.train, trees(COUNT), strict=True)):
        before = candidates(parse.forest, gold, lists)
        forest, place, costs = _example(parse.forest, gold, lists.grammar)
        after = candidates(forest, gold, lists)
        assert after == before if gold in before else after == [*before, gold]
        assert after[place] == gold
        assert costs.tolist() == [structured_cost(tree, gold, 1.0) for tree in after]
        assert costs[place] == 0
        added += gold not in before
        a, b = store.root_offsets[i : i + 2]
        np.testing.assert_array_equal(store.cost[a:b], costs)
        assert store.gold[i] == place
        np.testing.assert_array_equal(
            store.logp[a:b], [*parse.forest.logp, *[-np.inf] * (len(after) - len(before))]
        )
    assert added < COUNT and (added > 0 or not jackknife)


def test_the_best_candidate_may_be_the_target() -> None:
    lists, problem = lists_and_problem("oracle", 3)
    best = _best(lists, trees(COUNT))
    below = 0
    for i, (parse, gold) in enumerate(zip(lists.train, trees(COUNT), strict=True)):
        forest, place, costs = _example(parse.forest, gold, lists.grammar, best[i])
        assert forest is parse.forest
        after = candidates(forest, gold, lists)
        tags = [tag for _, tag in gold.pos()]
        rows = evaluate([gold] * len(after), [pasted(tree, tags) for tree in after]).sentences
        f1 = [2 * row.matched / (row.test + row.gold) for row in rows]
        assert place == f1.index(max(f1))
        assert costs.tolist() == [structured_cost(tree, after[place], 1.0) for tree in after]
        assert problem.store.gold[i] == place
        below += max(f1) < 1
    assert below > 0


def test_a_forest_of_one_candidate_is_its_tree_alone() -> None:
    lists, _ = lists_and_problem()
    names = lists.grammar.pcfg.categories
    for parse, gold in zip(lists.train[:10], trees(10), strict=True):
        for k, tree in enumerate(candidates(parse.forest, gold, lists)):
            alone = forest_of(parse.forest, [k])
            assert candidate_tree(alone, 0, words(gold), names) == tree
            # Every node belongs to the tree, and children stand before their parents.
            assert len(alone.cat) == len(list(binarize(tree, lists.grammar.heads).subtrees()))
            assert np.all(alone.left < np.arange(len(alone.cat)))
            assert alone.logp.tolist() == [parse.forest.logp[k]]


# -- jackknifed lists --------------------------------------------------------------------------


def test_jackknifed_lists_come_from_grammars_that_have_not_seen_the_sentence() -> None:
    lists, _ = lists_and_problem("gold", 3)
    config, everything = small_config(), trees(COUNT)
    differ, renumbered = 0, False
    for block in blocks(COUNT, 3):
        others = [*everything[: block.start], *everything[block.stop :]]
        grammar = estimate(others, HeadTable.english(), seed=config.seed)
        decoder = Decoder(grammar)
        renumbered |= grammar.pcfg.categories != lists.grammar.pcfg.categories
        for i in block:
            forest = decoder.parse(words(everything[i]), config.candidates).forest
            expected = [
                candidate_tree(forest, k, words(everything[i]), grammar.pcfg.categories)
                for k in range(len(forest.root))
            ]
            listed = candidates(lists.train[i].forest, everything[i], lists)
            assert listed == expected
            np.testing.assert_array_equal(lists.train[i].forest.logp, forest.logp)
            own = Decoder(lists.grammar).parse(words(everything[i]), config.candidates).forest
            differ += not np.array_equal(own.logp, forest.logp)
    assert differ > 0 and renumbered


def test_more_folds_than_trees_leave_out_one_tree_each(tmp_path: Path) -> None:
    few = trees(3)
    config = small_config(jackknife=10)
    lists = make_lists(few, [], None, config, tmp_path, n_jobs=1, progress=False)
    assert [len(words(tree)) for tree in few] == [int(p.forest.end.max()) for p in lists.train]
    assert lists.dev == []


# -- keys, words, weights ----------------------------------------------------------------------


def test_keys_of_their_own_are_those_that_targets_have_often_enough() -> None:
    lists, problem = lists_and_problem()
    counts: Counter[str] = Counter()
    for tree in trees(COUNT):
        counts += plain_keys(tree, lists.grammar.heads)
    frequent = {key for key, count in counts.items() if count >= PAIR_COUNT}
    assert set(problem.category_pairs.names[1:]) == frequent
    assert len(frequent) < len(counts)  # some keys share the back-off weights


def test_every_node_has_the_weights_of_its_key() -> None:
    lists, problem = lists_and_problem()
    store, names = problem.store, np.array(problem.category_pairs.names)
    known = set(names[1:])
    for i, gold in enumerate(trees(COUNT)):
        forest, place, _ = _example(lists.train[i].forest, gold, lists.grammar)
        a, b = store.node_offsets[i : i + 2]
        numbered = replace(forest, cat=np.arange(len(forest.cat), dtype=np.int32))
        alone = forest_of(numbered, [place])
        used = store.key[a:b][alone.cat]
        rows = Counter(names[row] for row in used if row >= 0)
        expected: Counter[str] = Counter()
        for key, count in plain_keys(gold, lists.grammar.heads).items():
            expected[key if key in known else "<rare>"] += count
        assert rows == expected
        tokens = problem.vocabulary.rows(words(gold))
        assert sorted(store.word[a:b][alone.cat][used < 0]) == sorted(tokens.tolist())


def test_weights_begin_as_the_paper_says() -> None:
    _, problem = lists_and_problem()
    vectors, W, v = problem.initial
    assert vectors.shape == (len(problem.vocabulary), 5)
    assert W.shape == (len(problem.category_pairs), 11, 5) and v.shape == (
        len(problem.category_pairs),
        5,
    )
    unary = problem.category_pairs.is_unary
    assert unary.any() and not unary.all()
    mean = np.concatenate([np.eye(5) / 2, np.eye(5) / 2, np.zeros((1, 5))])
    copy = np.concatenate([np.eye(5), np.zeros((6, 5))])
    np.testing.assert_allclose(W[~unary], np.broadcast_to(mean, W[~unary].shape), atol=0.0011)
    np.testing.assert_allclose(W[unary], np.broadcast_to(copy, W[unary].shape), atol=0.0011)


def test_given_vectors_are_fitted_to_the_size_and_kept_unless_pruned() -> None:
    rng = np.random.default_rng(0)
    seen = words(trees(1)[0])
    names = ("unheard", *dict.fromkeys(seen))
    vectors = WordVectors(names, rng.normal(size=(len(names), 8)).astype(np.float32))
    lists = small_lists(12)
    arguments = (lists, trees(12), trees(6, "dev"), vectors)
    whole = make_problem(*arguments, small_config(dim=3))
    assert whole.vocabulary.is_known("unheard")
    assert whole.initial.vectors.shape == (len(whole.vocabulary), 3)
    pruned = make_problem(*arguments, small_config(dim=3, prune_vectors=True))
    assert not pruned.vocabulary.is_known("unheard")
    same = make_problem(*arguments, small_config(dim=8))
    row = same.vocabulary.rows([seen[0]])[0]
    np.testing.assert_array_equal(same.initial.vectors[row], vectors.matrix[names.index(seen[0])])


# -- the dev set -------------------------------------------------------------------------------


def test_labels_that_only_the_dev_set_has_are_no_obstacle() -> None:
    lists = small_lists(COUNT)
    dev = [Tree.fromstring("(TOP (NEW (ODD (NN Anna)) (NEWTAG ate)) (-X- (. .)))")]
    parse = Decoder(lists.grammar).parse(words(dev[0]), 10)
    problem = make_problem(replace(lists, dev=[parse]), trees(COUNT), dev, None, small_config())
    assert problem.dev is not None
    (counts,) = problem.dev.counts
    assert counts.gold == 2  # `-X-` stands over punctuation alone
    assert counts.matched.tolist() == [0] * len(parse.forest.root)


def test_without_dev_there_is_nothing_to_tune_on() -> None:
    lists = small_lists(12, 0)
    problem = make_problem(lists, trees(12), [], None, small_config())
    assert problem.dev is None


def test_the_dev_store_holds_the_dev_forests() -> None:
    lists, problem = lists_and_problem()
    assert problem.dev is not None
    expected = ForestDataset.from_forests(
        [parse.forest for parse in lists.dev],
        [problem.vocabulary.rows(words(tree)) for tree in trees(6, "dev")],
        problem.category_pairs,
    )
    for name, array in vars(expected).items():
        np.testing.assert_array_equal(array, getattr(problem.dev.store, name))


# -- forests in a file -------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "jackknife"), [("gold", 0), ("gold", 3), ("oracle", 3)])
def test_forests_in_a_file_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, jackknife: int
) -> None:
    monkeypatch.setattr(prepare, "AT_ONCE", 7)
    _, whole = lists_and_problem(target, jackknife)
    config = small_config(target=target, jackknife=jackknife)
    train, dev = trees(COUNT), trees(6, "dev")
    lists = make_lists(train, dev, None, config, tmp_path, n_jobs=1, progress=False)
    problem = make_problem(lists, train, dev, None, config, tmp_path)
    assert isinstance(problem.store, ForestFile) and isinstance(whole.store, ForestDataset)
    stored = vars(problem.store.select(range(COUNT)))
    for name, array in vars(whole.store).items():
        np.testing.assert_array_equal(stored[name], array)
    assert vars(problem.vocabulary) == vars(whole.vocabulary)
    assert problem.category_pairs.names == whole.category_pairs.names


def test_forests_without_room_on_the_disk_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*args: object) -> ForestFile:
        raise OSError(errno.ENOSPC, "No space left on device")

    lists, whole = lists_and_problem()
    monkeypatch.setattr(prepare, "ForestFile", full)
    config = small_config()
    problem = make_problem(lists, trees(COUNT), trees(6, "dev"), None, config, tmp_path)
    for name, array in vars(whole.store).items():
        np.testing.assert_array_equal(getattr(problem.store, name), array)
    assert caplog.messages == [
        f"cannot write the forests to the folder {tmp_path} (No space left on device); "
        "keeping them in memory"
    ]


# -- settings ----------------------------------------------------------------------------------


def test_head_tables_by_name_and_from_files(tmp_path: Path) -> None:
    (tmp_path / "own.heads").write_text("* right\nNP left NN\n")
    table = head_table(str(tmp_path / "own.heads"))
    assert table.find("NP", ["DT", "NN", "PP"]) == 1
    assert table.find("VP", ["A", "B", "C"]) == 2
    assert head_table("left").find("VP", ["A", "B", "C"]) == 0
    assert head_table("english").to_text() == HeadTable.english().to_text()


def test_equal_settings_give_equal_problems() -> None:
    one, other = small_problem(12), small_problem(12)
    for a, b in zip(one.initial, other.initial, strict=True):
        np.testing.assert_array_equal(a, b)
    for name, array in vars(one.store).items():
        np.testing.assert_array_equal(array, getattr(other.store, name))


def test_glued_sentences_have_targets_too() -> None:
    """Where the grammar cannot span a sentence, the gold tree is added all the same."""
    lists = small_lists(12)
    tokens = ["."] * 4
    parse = Decoder(lists.grammar).parse(tokens, 5)
    assert isinstance(parse, Parse) and parse.glued
    gold = Tree("TOP", [Tree("S", [Tree(".", [token]) for token in tokens])])
    forest, place, costs = _example(parse.forest, gold, lists.grammar)
    assert candidates(forest, gold, lists)[place] == gold
    assert costs[place] == 0


def test_the_cache_tells_lists_apart(tmp_path: Path) -> None:
    """By grammar, k and sentences; folds by all of the training set."""
    train, dev = trees(12), trees(3, "dev")

    def make(train: list[Tree], dev: list[Tree], **settings: object) -> Lists:
        arguments = (train, dev, None, small_config(**settings), tmp_path)
        return make_lists(*arguments, n_jobs=1, progress=False)

    def made() -> int:
        return len(list(tmp_path.rglob("*.npz")))

    one = make(train, dev)
    assert made() == 2
    assert [len(p.forest.root) for p in make(train, dev).train] == [
        len(p.forest.root) for p in one.train
    ]
    assert made() == 2
    make(train, dev[:2])  # new: dev
    assert made() == 3
    make(train[::-1], dev)  # the same grammar but the training sentences in another order
    assert made() == 4
    make(train, dev, candidates=9)
    assert made() == 6
    make(train[:-1], dev)
    assert made() == 8
    make(train, dev, heads="right")
    assert made() == 10
    make(train, dev, seed=1)  # another tagger of unknown words
    assert made() == 12
    make(train, dev, jackknife=2)
    assert made() == 14
    make(train, dev, jackknife=3)
    assert made() == 17
    make(train[::-1], dev, jackknife=3)
    assert made() == 20
    make(train, dev, exact=True)
    assert made() == 22

"""Whole runs: what is reported is what the saved model does, and what cannot work says why."""

from __future__ import annotations

import gzip
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.config import TrainingConfig
from rnnparse.errors import TreebankError
from rnnparse.evaluation import evaluate
from rnnparse.parser import Parser, load
from rnnparse.training import pipeline
from rnnparse.training.data import hold_out, load_clean
from rnnparse.training.dev_selection import BETAS, f1_of
from rnnparse.training.prepare import make_problem
from rnnparse.training.report import TrainingReport
from rnnparse.trees.brackets import write_trees
from rnnparse.trees.cleaning import tags, words
from tests.grammar.small import trees
from tests.training.problems import small_config, train_network
from tests.training.runs import TINY, logs, run, write_bracketed, write_treebank
from tests.training.test_candidate_brackets import pasted


def f1(gold: Sequence[Tree], test: Sequence[Tree]) -> float:
    value = evaluate(gold, test).summary()["f1"]
    return 0.0 if value is None else value


def parsed(parser: Parser, gold: Sequence[Tree], scorer: str) -> list[Tree]:
    results = parser.parse_many([words(tree) for tree in gold], scorer=scorer)
    return [result.trees[0].tree for result in results]


def best_of(parser: Parser, gold: Sequence[Tree]) -> list[Tree]:
    """The best candidate of each sentence, by EVALB's rules."""
    best = []
    for tree in gold:
        candidates = [
            scored.tree
            for result in parser.parse_many([words(tree)], n_best=parser.candidates, scorer="pcfg")
            for scored in result.trees
        ]
        rows = evaluate(
            [tree] * len(candidates), [pasted(c, tags(tree)) for c in candidates]
        ).sentences
        scores = [2 * r.matched / max(r.test + r.gold, 1) for r in rows]
        best.append(candidates[scores.index(max(scores))])
    return best


def assert_report_holds(report: TrainingReport, dev: Sequence[Tree]) -> None:
    """The saved model, loaded again, does on dev what the report says."""
    parser = load(report.model)
    assert report.dev_sentences == len(dev)
    assert report.base_f1 == f1(dev, parsed(parser, dev, "pcfg"))
    assert report.cvg_f1 == f1(dev, parsed(parser, dev, "cvg"))
    assert report.oracle_f1 == f1(dev, best_of(parser, dev))
    assert report.beta == parser.beta
    scores = {name: getattr(report, name) for name in ("base_f1", "cvg_f1", "oracle_f1")}
    assert parser.about["dev_scores"] == scores


# -- the report --------------------------------------------------------------------------------


def test_the_saved_model_parses_dev_as_reported(tmp_path: Path) -> None:
    report = run(
        tmp_path,
        treebank=write_treebank(tmp_path / "train.mrg", 40),
        dev=write_treebank(tmp_path / "dev.mrg", 30, "dev"),
        learning_rate=0.1,
    )
    dev = load_clean(str(tmp_path / "dev.mrg"))
    assert_report_holds(report, dev)
    assert report.base_f1 < report.oracle_f1
    assert report.base_f1 != report.cvg_f1
    assert (report.sentences, report.epochs, len(report.history)) == (40, 2, 2)
    assert report.beta == report.history[report.best_epoch - 1]["beta"]
    assert report.best_epoch in (1, 2)


def test_a_held_out_tenth_is_parsed_as_reported(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 40)
    report = run(tmp_path, treebank=treebank, seed=5)
    _, dev = hold_out(load_clean(treebank), 5)
    assert_report_holds(report, dev)
    assert (report.sentences, report.dev_sentences) == (36, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "oracle", "jackknife": 3},
        {"tie": "uniform", "averaging": False, "heads": "right"},
    ],
)
def test_other_settings_keep_the_report_true(tmp_path: Path, settings: dict[str, Any]) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 24)
    dev = write_treebank(tmp_path / "dev.mrg", 6, "dev")
    report = run(tmp_path, treebank=treebank, dev=dev, **settings)
    assert_report_holds(report, load_clean(dev))


def test_the_report_and_logs_lie_in_the_model(tmp_path: Path) -> None:
    report = run(tmp_path, treebank=write_treebank(tmp_path / "train.mrg", 20))
    model = tmp_path / "model"
    written = json.loads((model / "report.json").read_text())
    assert written == json.loads(json.dumps(report.to_dict()))
    stages = ["reading", "grammar and lists", "forests", "SU-RNN", "saving"]
    assert list(written["seconds"]) == stages
    lines = [json.loads(line) for line in (model / "network.jsonl").read_text().splitlines()]
    assert lines == written["history"]
    table = report.format_table()
    for part in (f"{report.base_f1:.2f}", f"{report.cvg_f1:.2f}", f"{report.oracle_f1:.2f}"):
        assert part in table
    assert all(stage in table for stage in stages) and str(model) in table
    assert not (tmp_path / "model.partial").exists()


UNSPANNED = "(TOP (FRAG (IN with) (IN with)))"  # by grammars that have not seen it


@pytest.mark.parametrize(
    ("odd_in_train", "odd_in_dev", "settings", "glued"),
    [
        (False, False, {}, (0, 0)),
        (False, True, {}, (0, 1)),
        (True, True, {}, (0, 0)),
        (True, False, {"jackknife": 3}, (1, 0)),
        (True, False, {"folds": 3}, (0, 1)),
    ],
)
def test_glued_lists_are_counted(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    odd_in_train: bool,
    odd_in_dev: bool,
    settings: dict[str, Any],
    glued: tuple[int, int],
) -> None:
    plain = [str(tree) for tree in trees(20)] * 3  # each tree is in each third
    train = write_bracketed(tmp_path / "train.mrg", *plain, *[UNSPANNED] * odd_in_train)
    dev = write_bracketed(tmp_path / "dev.mrg", *plain[:3], *[UNSPANNED] * odd_in_dev)
    settings = {
        "dev": None if "folds" in settings else dev,
        "epochs": 1,
        "candidates": 2,
        **settings,
    }
    report = run(tmp_path, treebank=train, **settings)
    assert (report.glued, report.dev_glued) == glued
    row = f"^glued lists, train / dev +{glued[0]} / {glued[1]}$"
    assert re.search(row, report.format_table(), re.MULTILINE)
    written = json.loads((tmp_path / "model" / "report.json").read_text())
    assert (written["glued"], written["dev_glued"]) == glued
    warnings = [r.getMessage() for r in caplog.records if "does not span" in r.getMessage()]
    expected = f"the grammar does not span {glued[0]} of {report.sentences} training and {glued[1]}"
    assert [w.startswith(expected) for w in warnings] == ([True] if any(glued) else [])


def test_the_model_says_how_it_was_made(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    run(tmp_path, treebank=treebank, l2=0.5, seed=3)
    about = load(tmp_path / "model").about
    assert about["config"]["l2"] == 0.5
    assert about["config"]["treebank"] == treebank
    # What has no effect on the model is not in it, so that equal runs give equal bytes.
    assert not {"n_jobs", "cache", "tensorboard"} & set(about["config"])
    known = TrainingConfig.from_dict(about["config"])
    assert (known.seed, known.candidates) == (3, TINY["candidates"])
    assert about["sentences"] == 18


# -- cross-validation --------------------------------------------------------------------------


def test_folds_choose_epoch_and_beta_and_train_on_everything(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 24)
    config = small_config(folds=3, averaging=False, learning_rate=0.1)
    values = {k: v for k, v in config.to_dict().items() if k not in ("cache", "treebank")}
    report = run(tmp_path, treebank=treebank, **values)
    everything, totals = load_clean(treebank), np.zeros((2, len(BETAS), 3), np.int64)
    base, oracle = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for start in (0, 8, 16):
        rest = everything[:start] + everything[start + 8 :]
        held = everything[start : start + 8]
        lists = small_lists_of(rest, held, config, tmp_path)
        problem = make_problem(lists, rest, held, None, config)
        arguments = (problem.initial, problem.store, problem.dev, config)
        history = train_network(*arguments, epochs=2).history
        totals += [entry["dev_brackets"] for entry in history]
        assert problem.dev is not None
        for counts in problem.dev.counts:
            best = int(counts.f1().argmax())
            base += [counts.matched[0], counts.test[0], counts.gold]
            oracle += [counts.matched[best], counts.test[best], counts.gold]
    scores = f1_of(totals)
    epoch, beta = np.unravel_index(int(scores.argmax()), scores.shape)
    assert (report.best_epoch, report.beta) == (epoch + 1, BETAS[beta])
    assert report.cvg_f1 == scores.max()
    assert (report.base_f1, report.oracle_f1) == (f1_of(base), f1_of(oracle))
    assert report.dev_sentences == report.sentences == 24
    lists = small_lists_of(everything, [], config, tmp_path)
    problem = make_problem(lists, everything, [], None, config)
    arguments = (problem.initial, problem.store, None, config)
    final = train_network(*arguments, epochs=int(epoch) + 1)
    for ours, theirs in zip(load(report.model).parameters, final.best, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert sorted(logs(report.model)) == [
        "fold-1.jsonl",
        "fold-2.jsonl",
        "fold-3.jsonl",
        "network.jsonl",
    ]


def small_lists_of(
    train: list[Tree], dev: list[Tree], config: TrainingConfig, folder: Path
) -> pipeline.Lists:
    return pipeline.make_lists(
        train, dev, None, config, folder / "other cache", n_jobs=1, progress=False
    )


# -- small and odd treebanks -------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"folds": 2}])
def test_one_tree_is_too_few(tmp_path: Path, settings: dict[str, Any]) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 1)
    with pytest.raises(TreebankError, match="one tree leaves nothing to tune on"):
        run(tmp_path, treebank=treebank, **settings)


def test_one_tree_with_a_dev_set_will_do(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 1)
    dev = write_treebank(tmp_path / "dev.mrg", 3, "dev")
    assert_report_holds(run(tmp_path, treebank=treebank, dev=dev), load_clean(dev))


@pytest.mark.parametrize(
    ("count", "settings"),
    [(2, {}), (2, {"folds": 2}), (5, {"folds": 2}), (5, {"jackknife": 10}), (3, {"folds": 10})],
)
def test_a_handful_of_trees_trains(tmp_path: Path, count: int, settings: dict[str, Any]) -> None:
    report = run(tmp_path, treebank=write_treebank(tmp_path / "train.mrg", count), **settings)
    parser = load(report.model)
    assert words(parser.parse(["Anna", "sings"])) == ["Anna", "sings"]


@pytest.mark.parametrize("settings", [{}, {"folds": 2}, {"jackknife": 2}, {"target": "oracle"}])
def test_trees_of_one_token(tmp_path: Path, settings: dict[str, Any]) -> None:
    texts = [f"(TOP ({tag} {word}))" for tag, word in zip("ABAC", "abcd", strict=True)]
    report = run(tmp_path, treebank=write_bracketed(tmp_path / "t.mrg", *texts), **settings)
    assert 0 <= report.cvg_f1 <= 100
    assert words(load(report.model).parse(["a"])) == ["a"]


def test_sentences_of_punctuation_alone(tmp_path: Path) -> None:
    texts = ["(TOP (S (: --) (. .)))", "(TOP (S (. .)))", "(TOP (S (: --)))", "(TOP (X (, ,)))"]
    report = run(tmp_path, treebank=write_bracketed(tmp_path / "t.mrg", *texts))
    assert report.cvg_f1 == 0.0  # EVALB finds no bracket that counts


ODD = """
(TOP (@S (@NP|x (N§ ä) (\\N b)) (VP+ (-LRB- -LRB-) (V.1 c) (#$% d) (2C e) (-RRB- -RRB-)) (. .)))
(TOP (@S (=NP (N§ ä)) (VP+ (V.1 c) (@NP|x (\\N b) (\\N b) (N§ e) (@ f))) (. .)))
(TOP (-X- (\\N g\u20091) (VP+ (V.1 c) (@ f\u00a0h) (2C e) (2C 3.5)) (. !)))
(TOP (@S (@@ (@ @x)) (\\\\ (V.1 \\x) (V.1 ^) (V.1 <) (V.1 ~)) (. ?)))
"""


@pytest.mark.parametrize("heads", ["english", "left", "right"])
def test_labels_and_words_of_odd_characters(tmp_path: Path, heads: str) -> None:
    treebank = tmp_path / "odd.mrg"
    treebank.write_text(ODD * 3, encoding="utf-8")
    report = run(tmp_path, treebank=str(treebank), heads=heads, seed=1)
    _, dev = hold_out(load_clean(str(treebank)), 1)
    assert_report_holds(report, dev)
    parser = load(report.model)
    for tree in load_clean(str(treebank))[:4]:
        assert parser.parse(words(tree)) == tree  # each was seen three times, or nearly


def test_dev_labels_that_training_never_saw(tmp_path: Path) -> None:
    dev = tmp_path / "dev.mrg"
    dev.write_text(
        "(S (NEW (ODD (QQ Anna)) (NEWTAG ate)) (-X- (. .)))\n"
        "(HEADING (NML (XX zzz)) (HYPH -) (YY qqq))\n(TOP (ZZ w))\n"
    )
    report = run(tmp_path, treebank=write_treebank(tmp_path / "train.mrg", 24), dev=str(dev))
    assert_report_holds(report, load_clean(str(dev)))


def test_words_that_are_all_unknown_and_a_long_sentence(tmp_path: Path) -> None:
    dev = tmp_path / "dev.mrg"
    dev.write_text(f"(S {' '.join(f'(NN w{i})' for i in range(120))})\n")
    report = run(
        tmp_path, treebank=write_treebank(tmp_path / "train.mrg", 24), dev=str(dev), candidates=3
    )
    assert_report_holds(report, load_clean(str(dev)))


def test_given_vectors_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    seen = sorted({word for tree in trees(20) for word in words(tree)})
    names = [*seen[:30], "unheard"]
    with gzip.open(tmp_path / "v.txt.gz", "wt") as file:
        for name in names:
            file.write(f"{name} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}\n")
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    with caplog.at_level(logging.WARNING):
        report = run(tmp_path, treebank=treebank, vectors=str(tmp_path / "v.txt.gz"))
    assert "vectors of 8 components are fitted to --dim 5 by PCA" in caplog.text
    assert load(report.model).vocabulary.is_known("unheard")
    settings = {"vectors": str(tmp_path / "v.txt.gz"), "prune_vectors": True}
    report = run(tmp_path, overwrite=True, treebank=treebank, **settings)
    assert not load(report.model).vocabulary.is_known("unheard")


# -- TensorBoard -------------------------------------------------------------------------------


def test_curves_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    board = tmp_path / "board"
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    run(tmp_path, treebank=treebank, tensorboard=str(board))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(board / "network"))
    events.Reload()
    (log,) = logs(tmp_path / "model").values()
    for curve in ("loss", "objective", "violated", "dev_f1", "beta"):
        points = [
            (event.step, float(tensor_util.make_ndarray(event.tensor_proto)))
            for event in events.Tensors(curve)
        ]
        assert points == [(e["epoch"], pytest.approx(e[curve])) for e in log]


# -- real treebanks ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_embedded_treebank_is_the_default(tmp_path: Path) -> None:
    report = run(tmp_path, epochs=1, candidates=20)
    assert report.sentences > 1000 and report.dev_sentences > 100
    assert report.cvg_f1 > report.base_f1


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"folds": 2, "heads": "right"}])
def test_another_treebank_needs_no_special_case(
    tmp_path: Path, shared: Path, settings: dict[str, Any]
) -> None:
    """CRAFT: labels and tags that Penn's set does not know, long sentences."""
    everything = load_clean(str(shared / "treebanks" / "craft" / "dev.mrg"))
    part = tmp_path / "part.mrg"
    longest = max(everything, key=lambda tree: len(words(tree)))
    write_trees([*everything[:240:2], longest], part)
    dev = tmp_path / "dev.mrg"
    write_trees(everything[1:60:2], dev)
    more = settings if "folds" in settings else {"dev": str(dev)}
    report = run(tmp_path, treebank=str(part), n_jobs=2, epochs=1, **more | settings)
    if not settings:
        assert_report_holds(report, load_clean(str(dev)))
    parser = load(report.model)
    (result,) = parser.parse_many([words(longest)])
    assert words(result.trees[0].tree) == words(longest)

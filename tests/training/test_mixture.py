"""Runs with latent grammars and a span scorer, and the selection of their weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError, EncoderError, ModelError
from rnnparse.parser import Parser, load
from rnnparse.training import mixture_stage
from rnnparse.training.data import load_clean
from rnnparse.training.mixture_stage import best_weights
from rnnparse.trees.cleaning import words
from tests.training.runs import run, write_treebank
from tests.training.test_pipeline import f1, parsed

SETTINGS: dict[str, Any] = {
    "scorer": "span", "latent_grammars": 2, "cycles": 1, "span_epochs": 2, "epochs": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    train = write_treebank(folder / "train.mrg", 40)
    dev = write_treebank(folder / "dev.mrg", 20, "dev")
    run(folder, treebank=train, dev=dev, **SETTINGS)
    return folder / "model"


def test_the_saved_model_parses_dev_as_reported(model: Path) -> None:
    parser, dev = load(model), load_clean(str(model.parent / "dev.mrg"))
    assert len(parser.latent) == 2 and parser.spans is not None
    scores = parser.about["dev_scores"]
    assert scores["base_f1"] == f1(dev, parsed(parser, dev, "pcfg"))
    assert scores["cvg_f1"] == f1(dev, parsed(parser, dev, "cvg"))


def test_the_score_of_a_tree_is_the_weighted_sum_of_its_parts(model: Path) -> None:
    parser = load(model)
    trees = parser.parse_n_best(["They", "ate", "udon", "with", "forks", "."], 5)
    assert len(trees) > 1
    for scored in trees:
        assert scored.log_probability is not None
        expected = scored.span_score + parser.rnn_weight * scored.rnn_score
        expected += parser.beta * scored.log_probability
        assert scored.score == pytest.approx(expected)
        assert scored.rnn_score == pytest.approx(parser.score(scored.tree), abs=1e-5)
    assert [s.score for s in trees] == sorted((s.score for s in trees), reverse=True)


def test_a_run_that_is_killed_goes_on_to_the_same_bytes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    save = mixture_stage.save_span_state

    def dies(path: Path, state: Any, key: str) -> None:
        save(path, state, key)
        raise Killed

    paths = {name: str(model.parent / f"{name}.mrg") for name in ("treebank", "dev")}
    paths["treebank"] = str(model.parent / "train.mrg")
    with monkeypatch.context() as patch:
        patch.setattr(mixture_stage, "save_span_state", dies)
        with pytest.raises(Killed):
            run(tmp_path, **paths, **SETTINGS)
    run(tmp_path, resume=True, **paths, **SETTINGS)
    for name in ("spans.npz", "latent-1.npz", "latent-2.npz", "weights.npz"):
        assert (tmp_path / "model" / name).read_bytes() == (model / name).read_bytes(), name
    assert not list(tmp_path.glob("*.partial"))


def test_sentences_of_any_kind_have_a_tree_over_all_tokens(model: Path) -> None:
    parser = load(model)
    for tokens in (["."], ["("], ["zzz", "¡"], ["a", "b", ","] * 60, words(_first(parser, model))):
        tree = parser.parse(tokens)
        assert len(tree.leaves()) == len(tokens)


def _first(parser: Parser, model: Path) -> Any:
    return load_clean(str(model.parent / "dev.mrg"))[0]


def test_folds_select_the_weights(tmp_path: Path) -> None:
    train = write_treebank(tmp_path / "train.mrg", 24)
    report = run(tmp_path, treebank=train, folds=2, **{**SETTINGS, "latent_grammars": 1})
    parser = load(tmp_path / "model")
    assert 0 < report.cvg_f1 <= report.oracle_f1
    assert any(parser.beta * 2 == pytest.approx(beta) for beta in mixture_stage.BETAS)
    assert parser.rnn_weight in mixture_stage.RNN_WEIGHTS


def test_latent_grammars_alone_are_an_option(tmp_path: Path) -> None:
    train = write_treebank(tmp_path / "train.mrg", 24)
    dev = write_treebank(tmp_path / "dev.mrg", 10, "dev")
    settings = {"latent_grammars": 1, "cycles": 1, "epochs": 1}
    report = run(tmp_path, treebank=train, dev=dev, **settings)
    parser = load(tmp_path / "model")
    assert parser.spans is None and parser.rnn_weight == 1.0
    assert report.cvg_f1 == f1(load_clean(dev), parsed(parser, load_clean(dev), "cvg"))


def test_the_best_weights_have_good_neighbours() -> None:
    weights = [(beta, rnn) for beta in (0.1, 0.2, 0.3, 0.4) for rnn in (0.0, 1.0)]
    f1 = np.array([[50, 50], [90, 50], [80, 85], [84, 84]])
    brackets = np.stack([f1, np.full_like(f1, 100), np.full_like(f1, 100)], axis=-1)
    place = best_weights(weights, brackets.reshape(-1, 3))
    assert weights[place][0] == 0.4  # not the single peak at 0.2


@pytest.mark.parametrize("damage", ["missing", "renamed", "another's"])
def test_damaged_parts_of_a_mixture_are_errors(model: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    if damage == "missing":
        (copy / "latent-2.npz").unlink()
    elif damage == "renamed":
        (copy / "latent-2.npz").rename(copy / "latent-3.npz")
    else:
        (copy / "spans.npz").write_bytes((copy / "latent-1.npz").read_bytes())
    with pytest.raises(ModelError):
        load(copy)


def test_an_encoder_needs_the_span_scorer() -> None:
    with pytest.raises(ConfigError, match="span scorer"):
        TrainingConfig(encoder="somewhere")


def test_a_missing_encoder_is_an_error(tmp_path: Path) -> None:
    train = write_treebank(tmp_path / "train.mrg", 12)
    settings = {**SETTINGS, "latent_grammars": 0, "encoder": str(tmp_path / "absent")}
    with pytest.raises(EncoderError, match="absent"):
        run(tmp_path, treebank=train, **settings)

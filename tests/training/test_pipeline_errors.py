"""What cannot work says why before the work begins; what was interrupted goes on."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rnnparse.errors import ConfigError, MissingExtraError, ModelError, TreebankError
from rnnparse.training import pipeline
from tests.small_parser import small_parser
from tests.training.runs import logs, model_bytes, run, write_treebank

# -- what cannot work --------------------------------------------------------------------------


def test_errors_come_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 4)

    def fail(*args: Any, **more: Any) -> None:
        pytest.fail("work was begun")

    monkeypatch.setattr(pipeline, "make_lists", fail)
    with pytest.raises(ConfigError, match="unknown optimizer 'adagrat'"):
        run(tmp_path, treebank=treebank, optimizer="adagrat")
    with pytest.raises(ConfigError, match=r"absent\.heads"):
        run(tmp_path, treebank=treebank, heads=str(tmp_path / "absent.heads"))
    with pytest.raises(TreebankError, match="absent"):
        run(tmp_path, treebank=str(tmp_path / "absent.mrg"))
    with pytest.raises(TreebankError, match="absent"):
        run(tmp_path, treebank=treebank, dev=str(tmp_path / "absent.mrg"))
    find_spec = importlib.util.find_spec

    def without(name: str, *more: Any) -> Any:
        return None if name == "tensorboard" else find_spec(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(MissingExtraError, match=r"rnnparse\[tensorboard\]"):
        run(tmp_path, treebank=treebank, tensorboard=str(tmp_path / "board"))


def test_what_is_no_model_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelError, match="is not a model"):
        run(tmp_path, treebank=write_treebank(tmp_path / "train.mrg", 4))
    assert (tmp_path / "model" / "thesis.tex").read_text() == "years of work"
    assert not (tmp_path / "model.partial").exists()


# -- going on ----------------------------------------------------------------------------------


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was interrupted after its first epoch."""
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    original = pipeline.save_state

    def save_state(*args: Any) -> None:
        original(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "save_state", save_state)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, treebank=treebank)
    monkeypatch.undo()
    assert not (tmp_path / "model").exists()
    return Path(treebank)


def test_an_interrupted_run_goes_on(tmp_path: Path, interrupted: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    whole = run(other, treebank=str(interrupted))
    resumed = run(tmp_path, treebank=str(interrupted), resume=True)
    assert model_bytes(resumed.model) == model_bytes(whole.model)
    assert logs(resumed.model) == logs(whole.model)
    assert len(logs(resumed.model)["network.jsonl"]) == 2


def test_the_same_trees_elsewhere_are_the_same_run(tmp_path: Path, interrupted: Path) -> None:
    moved = tmp_path / "elsewhere.mrg"
    interrupted.rename(moved)
    report = run(tmp_path, treebank=str(moved), resume=True, n_jobs=2, cache=str(tmp_path / "new"))
    assert report.epochs == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 6}, "dim was 5, is 6"),
        ({"seed": 1}, "seed was 0, is 1"),
        ({"epochs": 9}, "epochs was 2, is 9"),
        ({"heads": "left"}, "head rules was"),
        ({"folds": 2}, "folds was 0, is 2"),
    ],
)
def test_other_settings_are_another_run(
    tmp_path: Path, interrupted: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, treebank=str(interrupted), resume=True, **settings)
    assert run(tmp_path, treebank=str(interrupted), resume=True).epochs == 2


def test_other_trees_are_another_run(tmp_path: Path, interrupted: Path) -> None:
    write_treebank(interrupted, 19)
    with pytest.raises(ConfigError, match="training trees was"):
        run(tmp_path, treebank=str(interrupted), resume=True)


def test_a_damaged_state_says_what_to_do(tmp_path: Path, interrupted: Path) -> None:
    state = tmp_path / "model.partial" / "network.npz"
    with zipfile.ZipFile(state) as archive:
        largest = max(archive.infolist(), key=lambda member: member.compress_size)
    content = bytearray(state.read_bytes())
    content[largest.header_offset + 100 + largest.compress_size // 2] ^= 1  # within its data
    state.write_bytes(content)
    with pytest.raises(ModelError, match=r"damaged checkpoint .*train without --resume"):
        run(tmp_path, treebank=str(interrupted), resume=True)
    assert run(tmp_path, treebank=str(interrupted)).epochs == 2


def test_a_new_run_over_an_old_one_replaces_it(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    run(tmp_path, treebank=treebank, folds=2)
    assert "fold-1.jsonl" in logs(tmp_path / "model")
    run(tmp_path, overwrite=True, treebank=treebank)
    first = model_bytes(tmp_path / "model")
    assert sorted(logs(tmp_path / "model")) == ["network.jsonl"]
    # With nothing to go on from, --resume simply trains.
    run(tmp_path, treebank=treebank, resume=True, overwrite=True)
    assert model_bytes(tmp_path / "model") == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "model", "train.mrg"]


@pytest.mark.parametrize("resume", [True, False])
def test_a_model_that_is_there_is_an_error_before_anything_else(
    tmp_path: Path, resume: bool
) -> None:
    small_parser().save(tmp_path / "model")
    for name, message in (("", "--overwrite"), ("thesis.tex", "thesis.tex is not part of a model")):
        if name:
            (tmp_path / "model" / name).write_text("years of work")
        with pytest.raises(ModelError, match=message):
            run(tmp_path, treebank="absent.mrg", resume=resume, overwrite=bool(name))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_cache_is_used_and_may_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    run(tmp_path, overwrite=True, treebank=treebank)
    first = model_bytes(tmp_path / "model")
    parts = sorted((tmp_path / "cache").rglob("*.npz"))
    assert len(parts) == 2
    parts[0].write_bytes(parts[0].read_bytes()[:99])
    parts[1].unlink()
    run(tmp_path, overwrite=True, treebank=treebank)
    assert model_bytes(tmp_path / "model") == first

    def fail(*args: Any) -> None:
        pytest.fail("a sentence was parsed again")

    monkeypatch.setattr("rnnparse.inference.decoder.Decoder.parse", fail)
    run(tmp_path, treebank=treebank, epochs=1, overwrite=True)

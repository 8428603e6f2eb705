from __future__ import annotations

import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse.errors import ConfigError, ModelError
from rnnparse.files import read_arrays, write_arrays
from rnnparse.models.parameters import Parameters
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.run_directory import RunDirectory, is_written

HISTORY: list[dict[str, Any]] = [
    {
        "loss": 0.5,
        "objective": 0.75,
        "violated": 0.5,
        "epoch": 1,
        "beta": 0.0,
        "dev_f1": 50.0,
        "dev_brackets": [[1, 2, 2], [1, 2, 2]],
        "seconds": 1.5,
    }
]


def weights(value: float) -> Parameters:
    return Parameters(
        np.full((4, 3), value, np.float32),
        np.full((2, 7, 3), value, np.float32),
        np.full((2, 3), value, np.float32),
    )


@pytest.fixture
def state() -> TrainingState:
    optimizer = [np.array(3), np.array(0.5, np.float32), np.ones((4, 3), np.float32)]
    return TrainingState(1, HISTORY, weights(1), weights(2), weights(3), optimizer)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _work(out: Path, held: Any, done: Any) -> None:
    work = RunDirectory(out, resume=False)
    held.set()
    done.wait(60)
    work.close()


# -- states ------------------------------------------------------------------------------------


def test_a_state_comes_back(tmp_path: Path, state: TrainingState) -> None:
    save_state(tmp_path / "a.npz", state, "key")
    loaded = load_state(tmp_path / "a.npz", "key", weights(1), betas=2)
    assert loaded is not None
    assert (loaded.epoch, loaded.history) == (1, HISTORY)
    for which in ("parameters", "mean", "best"):
        for one, other in zip(getattr(loaded, which), getattr(state, which), strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(loaded.optimizer, state.optimizer, strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)


def test_no_file_is_no_state(tmp_path: Path) -> None:
    assert load_state(tmp_path / "a.npz", "key", weights(1), betas=2) is None


def test_a_state_of_another_run_is_refused(tmp_path: Path, state: TrainingState) -> None:
    save_state(tmp_path / "a.npz", state, "key")
    with pytest.raises(ModelError, match="other data or settings"):
        load_state(tmp_path / "a.npz", "another", weights(1), betas=2)


def test_a_damaged_state_is_refused_with_the_way_out(tmp_path: Path, state: TrainingState) -> None:
    file = tmp_path / "a.npz"
    save_state(file, state, "key")
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(np.float32(1).tobytes() * 3)] ^= 4
    for damaged in (b"", whole[:100], whole[:-1], bytes(flipped), b"text" * 99):
        file.write_bytes(damaged)
        with pytest.raises(ModelError, match=r"a\.npz: damaged checkpoint .*without --resume"):
            load_state(file, "key", weights(1), betas=2)
    write_arrays(file, {"about": np.frombuffer(b"[1, 2]", np.uint8)})
    with pytest.raises(ModelError, match="damaged checkpoint"):
        load_state(file, "key", weights(1), betas=2)


def _edit(**values: Any) -> Callable[[dict[str, np.ndarray]], None]:
    """A change of what a checkpoint keeps as JSON."""

    def edit(arrays: dict[str, np.ndarray]) -> None:
        about = json.loads(arrays["about"].tobytes()) | values
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)

    return edit


def _entry(**values: Any) -> Callable[[dict[str, np.ndarray]], None]:
    return _edit(history=[HISTORY[0] | values])


def _array(name: str, value: np.ndarray) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda arrays: arrays.update({name: value})


@pytest.mark.parametrize(
    "edit",
    [
        _edit(epoch=2),
        _edit(epoch=True),
        _edit(epoch=-1),
        _edit(history=[]),
        _edit(history=HISTORY * 2),
        _edit(history={"epoch": 1}),
        _edit(history=[3]),
        _edit(history=[{}]),
        _edit(telemetry=[{"epoch": 2}]),
        _edit(telemetry=[{}]),
        _edit(telemetry=3),
        _edit(more=1),
        _entry(dev_f1="50"),
        _entry(dev_f1=True),
        _entry(dev_f1=float("nan")),
        _entry(loss=1e300),
        _entry(dev_brackets=[[1, 2, 2]]),
        _entry(dev_brackets=[[1, 2], [1, 2]]),
        _entry(dev_brackets=[[1, 2, 10**400], [1, 2, 2]]),
        _entry(dev_brackets=3),
        _entry(beta=None),
        _entry(more=1.0),
        _array("now_W", np.ones((2, 7, 4), np.float32)),
        _array("best_v", np.full((2, 3), np.nan, np.float32)),
        _array("mean_vectors", np.ones((5, 3), np.float32)),
        _array("now_v", np.ones((2, 3), np.float64)),
        _array("optimizer_1", np.array(np.inf, np.float32)),
        _array("optimizer_7", np.ones(3)),
        _array("about", np.array(3)),
        _array("about", np.frombuffer(b"[" * 99999, np.uint8)),
    ],
)
def test_a_state_that_no_run_writes_is_refused(
    tmp_path: Path, state: TrainingState, edit: Callable[[dict[str, np.ndarray]], None]
) -> None:
    file = tmp_path / "a.npz"
    save_state(file, state, "key")
    arrays = read_arrays(file)
    edit(arrays)
    write_arrays(file, arrays)
    with pytest.raises(ModelError, match=r"a\.npz: damaged checkpoint .*without --resume"):
        load_state(file, "key", weights(1), betas=2)


# -- the folder --------------------------------------------------------------------------------


def test_a_new_run_begins_with_nothing_and_says_so(
    tmp_path: Path, state: TrainingState, caplog: pytest.LogCaptureFixture
) -> None:
    work = RunDirectory(tmp_path / "model", resume=False)
    work.check_description({"dim": 1})
    assert caplog.messages == []
    work.log("network", HISTORY)
    save_state(work.state_file("network"), state, "key")
    (work.folder / ".network.npz.0123abcd.tmp").write_bytes(b"half")
    work.close()
    with caplog.at_level(logging.WARNING):
        again = RunDirectory(tmp_path / "model", resume=False)
    assert "unfinished run is discarded" in caplog.text
    assert names(again.folder) == ["lock"]
    again.close()


def test_what_is_resumed_is_kept(tmp_path: Path, state: TrainingState) -> None:
    work = RunDirectory(tmp_path / "model", resume=True)
    assert names(work.folder) == ["lock"]
    work.check_description({"dim": 1})
    save_state(work.state_file("network"), state, "key")
    work.close()
    again = RunDirectory(tmp_path / "model", resume=True)
    again.check_description({"dim": 1})
    assert load_state(again.state_file("network"), "key", weights(1), betas=2) is not None
    again.close()


def test_another_run_is_told_what_differs(tmp_path: Path) -> None:
    work = RunDirectory(tmp_path / "model", resume=False)
    work.check_description({"dim": 25, "l2": 0.1, "seed": 0, "old": None})
    with pytest.raises(ConfigError) as error:
        work.check_description({"dim": 50, "l2": 0.1, "seed": 0, "new": 1})
    text = str(error.value)
    assert "dim was 25, is 50" in text
    assert "new was None, is 1" in text
    assert "seed" not in text and "l2" not in text
    assert "train without --resume" in text
    for damaged in (b"{", b"[1]", b"\xff", b"3"):
        (work.folder / "run.json").write_bytes(damaged)
        with pytest.raises(ModelError, match=r"run\.json: damaged"):
            work.check_description({"dim": 25})
    work.close()


def test_a_run_of_an_earlier_version_goes_on_under_its_own_description(tmp_path: Path) -> None:
    """Its checkpoints are named by a hash of that description."""
    work = RunDirectory(tmp_path / "model", resume=True)
    earlier = {"kbest": 20, "seed": 0}
    assert work.check_description(earlier) == earlier
    assert work.check_description({"candidates": 20, "seed": 0}) == earlier
    with pytest.raises(ConfigError, match="candidates was 20, is 30"):
        work.check_description({"candidates": 30, "seed": 0})


def test_logs_go_to_the_model_and_the_folder_goes(tmp_path: Path, state: TrainingState) -> None:
    model = tmp_path / "model"
    model.mkdir()
    work = RunDirectory(model, resume=False)
    work.check_description({})
    work.log("network", HISTORY)
    save_state(work.state_file("network"), state, "key")
    work.copy_logs(model)
    assert is_written(model)
    work.log("network", [*HISTORY, *HISTORY])
    assert not is_written(model)
    work.finish()
    work.close()
    assert names(tmp_path) == ["model"]
    assert (model / "network.jsonl").read_text() == json.dumps(HISTORY[0]) + "\n"


def test_files_of_others_are_never_removed(tmp_path: Path, state: TrainingState) -> None:
    folder = tmp_path / "model.partial"
    folder.mkdir()
    mine = ["notes.txt", "vectors.npz", "log.jsonl", ".thesis.tmp", ".x.0123abcd.tmp"]
    for name in mine:
        (folder / name).write_text("mine")
    for resume in (True, False):
        work = RunDirectory(tmp_path / "model", resume)
        work.check_description({})
        save_state(work.state_file("network"), state, "key")
        work.close()
    work = RunDirectory(tmp_path / "model", resume=True)
    work.finish()
    work.close()
    assert names(folder) == sorted(mine)


@pytest.mark.parametrize("name", ["network.npz", "run.json", "fold-2.jsonl"])
def test_a_folder_in_which_no_run_has_worked_is_not_taken_over(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model.partial"
    folder.mkdir()
    (folder / name).write_text("mine")
    for resume in (True, False):
        with pytest.raises(ConfigError, match=f"{name} in it was not written by a run"):
            RunDirectory(tmp_path / "model", resume)
    assert names(folder) == [name]


@pytest.mark.skipif(os.name != "posix", reason="POSIX has such files")
def test_a_pipe_in_the_place_of_a_state_is_an_error(tmp_path: Path) -> None:
    """Reading or writing it would wait for ever."""
    RunDirectory(tmp_path / "model", resume=False).close()
    os.mkfifo(tmp_path / "model.partial" / "network.npz")
    with pytest.raises(ConfigError, match=r"network\.npz in it was not written by a run"):
        RunDirectory(tmp_path / "model", resume=False)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    process = context.Process(target=_work, args=(tmp_path / "model", held, done))
    process.start()
    try:
        assert held.wait(60)
        for resume in (True, False):
            with pytest.raises(ConfigError, match="another run is using this folder"):
                RunDirectory(tmp_path / "model", resume)
    finally:
        process.kill()
        process.join()
    RunDirectory(tmp_path / "model", resume=True).close()  # a killed run holds nothing


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "model.partial").write_text("text")
    for out in (tmp_path / "file" / "model", tmp_path / "model"):
        with pytest.raises(ConfigError, match="cannot write to"):
            RunDirectory(out, resume=False)

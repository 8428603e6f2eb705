"""Studies for TensorBoard: what its HParams dashboard reads of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rnnparse.errors import MissingExtraError
from rnnparse.study.curve import Curve
from rnnparse.study.records import RECORDS
from rnnparse.study.report.hparams import write_hparams
from rnnparse.study.report.results import load_results
from tests.study.made_up import QUICK, study_folder
from tests.study.report.studies import plain_study


def test_tensorboard_shows_settings_and_what_they_gave(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    failing = {"failed": {"optimizer": "sgd"}}
    folder = study_folder(tmp_path, QUICK, examples=500, failing=failing)
    for _ in range(2):  # the second takes the place of the first
        groups = _session_groups(write_hparams(folder))
    results = load_results(folder)
    assert len(groups) == len(results.records) == 9
    for trial, record in enumerate(results.records):
        (session,) = groups[record["id"]].sessions
        hparams = groups[record["id"]].hparams
        assert hparams["optimizer"].string_value == record["config"]["optimizer"]
        assert hparams["learning_rate"].number_value == record["config"]["learning_rate"]
        assert hparams["diagnosis"].string_value == results.diagnoses[trial].label
        values = {value.name.tag: value.value for value in session.metric_values}
        expected = results.value(trial, "dev_f1")
        if expected is None:
            assert "final/dev_f1" not in values
        else:
            assert values["final/dev_f1"] == pytest.approx(expected)


def _session_groups(logs: Path) -> dict[str, object]:
    """What the HParams dashboard lists, by trial."""
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(logs))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(logs))
    board = base_plugin.TBContext(logdir=str(logs), data_provider=provider)
    backend = backend_context.Context(board)
    statuses = [api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE]
    request = api_pb2.ListSessionGroupsRequest(slice_size=100, allowed_statuses=statuses)
    backend = backend_context.Context(board)
    handler = list_session_groups.Handler(context.RequestContext(), backend, "", request)
    return {group.name: group for group in handler.run().session_groups}


def test_tensorboard_has_the_curves(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    long = np.linspace(5.0, 1.0, 3000).tolist()

    def run(config: dict[str, int], seed: int) -> Curve:
        return Curve({"objective": long}, [{"val_loss": 2.0}, {"val_loss": None}])

    logs = write_hparams(plain_study(tmp_path, {"x": [1]}, run))
    (folder,) = [path for path in logs.iterdir() if path.is_dir()]
    events = accumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    scalars = events.Scalars("update/objective")
    assert 500 < len(scalars) <= 1000
    assert scalars[0].step == 1 and scalars[-1].step == 3000
    assert scalars[0].value == pytest.approx(5.0)
    assert scalars[-1].value == pytest.approx(1.0, abs=0.01)
    assert [event.step for event in events.Scalars("epoch/val_loss")] == [1]


def test_epochs_may_be_counted_in_halves(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator
    epochs = [{"epoch": (i + 1) / 2, "loss": 1.0 / (i + 1)} for i in range(4)]
    logs = write_hparams(plain_study(tmp_path, {"x": [1]}, lambda c, s: Curve({}, epochs)))
    run = accumulator(str(next(path for path in logs.iterdir() if path.is_dir())))
    run.Reload()
    assert [event.step for event in run.Scalars("epoch/loss")] == [1, 2, 3, 4]


def test_values_of_any_kind_become_hyperparameters(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    axes = {"layers": [[8], [8, 8]], "flag": [True, False], "mixed": [None, 1, "x"]}
    folder = plain_study(tmp_path, axes, lambda config, seed: Curve({"loss": [2.0, 1.0]}))
    assert len(_session_groups(write_hparams(folder))) == 12


def test_tensorboard_logs_can_be_written_before_a_trial_has_ended(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = study_folder(tmp_path, QUICK)
    (folder / RECORDS).write_text("")
    assert _session_groups(write_hparams(folder)) == {}


def test_tensorboard_logs_need_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = plain_study(tmp_path, {"x": [1]}, lambda config, seed: Curve())
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"tensorboard.*rnnparse\[tensorboard\]"):
        write_hparams(folder)

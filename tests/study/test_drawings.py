"""Studies as SVG and for TensorBoard: what others read of them."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from rnnparse.errors import MissingExtraError
from rnnparse.study.curve import Curve
from rnnparse.study.hparams import write_hparams
from rnnparse.study.layout import ColourScale, map_axes, panels
from rnnparse.study.plots import write_svg
from rnnparse.study.records import RECORDS
from rnnparse.study.results import load_results, title
from tests.study.made_up import QUESTION, QUICK, study_folder
from tests.study.test_report import plain_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study of the 81 settings, with few sentences and updates."""
    path = tmp_path_factory.mktemp("question")
    failing = {"failed": {"optimizer": "sgd", "learning_rate": 0.1}}
    return study_folder(path, QUESTION, examples=800, sentences=20, failing=failing)


def texts(path: Path) -> list[str]:
    """The texts of a drawing."""
    root = ElementTree.parse(path).getroot()
    return ["".join(element.itertext()).strip() for element in root.iter() if "text" in element.tag]


def test_the_map_has_rates_by_optimisers_in_panels(folder: Path) -> None:
    results = load_results(folder)
    rows, columns = map_axes(results)
    assert [results.axes[i].name for i in (rows, columns)] == ["optimizer", "learning_rate"]
    found = panels(results)
    assert [panel.name for panel in found][:3] == [
        f"batch size 256, L2 {value}" for value in ("0.001", "0.01", "0.1")
    ]
    assert len(found) == 9 and all(len(panel.cells) == 9 for panel in found)
    for panel in found:
        for (row, column), settings in panel.cells.items():
            (setting,) = settings
            config = results.settings[setting]["config"]
            assert config["optimizer"] == results.axes[rows].values[row]
            assert config["learning_rate"] == results.axes[columns].values[column]


def test_drawings_are_svg_with_names_values_and_diagnoses(folder: Path) -> None:
    map_, curves = write_svg(folder)
    results = load_results(folder)
    shown = texts(map_)
    for text in ("sgd", "adagrad", "adam", "0.001", "0.1", "batch size 512, L2 0.01", "failed"):
        assert text in shown
    best = max(mean for mean, _ in results.means[0] if mean is not None)
    assert f"{best:.4g}" in shown
    assert {"sgd", "learning rate", "update", "objective"} <= set(texts(curves))
    assert any(text.startswith("made up: batch size") for text in texts(curves))


def test_equal_studies_give_equal_drawings(tmp_path: Path) -> None:
    folder = study_folder(tmp_path, {"learning_rate": (0.1, 0.01)}, examples=200)
    first = [path.read_bytes() for path in write_svg(folder)]
    assert [path.read_bytes() for path in write_svg(folder)] == first


def test_dollars_and_angle_brackets_are_only_text(tmp_path: Path) -> None:
    names = ["$x^2$", "<b>&"]
    folder = plain_study(
        tmp_path,
        {"kind": names, "$n_1$": [1, 2]},
        lambda config, seed: Curve({"objective": [3.0, 2.0, 1.0]}),
        name="$\\frac$",
    )
    for path in write_svg(folder):
        assert set(names) <= set(texts(path))


@pytest.mark.parametrize("values", [[], [1.0], [float("inf"), 1.0], [1.0, None, None]])
def test_studies_with_hardly_any_curve_can_be_drawn(tmp_path: Path, values: list[float]) -> None:
    folder = plain_study(tmp_path, {"x": [1]}, lambda config, seed: Curve({"objective": values}))
    assert [path.name for path in write_svg(folder)] == ["map.svg", "curves.svg"]


def test_a_study_without_trials_has_no_drawing(tmp_path: Path) -> None:
    folder = plain_study(tmp_path, {"x": [1]}, lambda config, seed: Curve())
    (folder / RECORDS).write_text("")
    assert write_svg(folder) == []


def test_many_further_values_are_not_drawn_side_by_side(tmp_path: Path) -> None:
    axes = {"rate": [10.0**-i for i in range(8)], "name": ["a", "b"], "n": list(range(20))}
    folder = plain_study(tmp_path, axes, lambda config, seed: Curve({"objective": [2.0, 1.0]}))
    (panel,) = panels(load_results(folder))
    assert panel.name == "" and len(panel.cells) == 40  # numbers of which there are most, words
    assert all(len(settings) == 8 for settings in panel.cells.values())


def test_colours_go_from_the_worst_to_the_best() -> None:
    f1 = ColourScale.of([80.0, 84.0, 86.0, 88.0], higher=True)
    assert (f1.share(88.0), f1.share(80.0), f1.share(84.0)) == (1.0, 0.0, 0.5)
    objective = ColourScale.of([1.0, 10.0, 100.0], higher=False)
    assert objective.share(10.0) == pytest.approx(0.5)
    # One that is far off must not make the others alike.
    scale = ColourScale.of([1.0, 2.0, 4.0, 1e9], higher=False)
    assert scale.share(2.0) > 0.5 and scale.share(1e9) == 0.0
    assert ColourScale.of([3.0, 3.0], higher=False).share(3.0) == 1.0
    assert ColourScale.of([-2.0, 0.0, 1.0], higher=False).share(-2.0) == 1.0


def test_drawings_need_matplotlib(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib.*rnnparse\[study\]"):
        write_svg(folder)


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
    found = events.Scalars("update/objective")
    assert 500 < len(found) <= 1000
    assert found[0].step == 1 and found[-1].step == 3000
    assert found[0].value == pytest.approx(5.0) and found[-1].value == pytest.approx(1.0, abs=0.01)
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


def test_tensorboard_logs_need_tensorboard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"tensorboard.*rnnparse\[tensorboard\]"):
        write_hparams(folder)


def test_names_are_as_people_read_them() -> None:
    assert [title(name) for name in ("dev_f1", "l2", "learning_rate")] == [
        "dev F1",
        "L2",
        "learning rate",
    ]

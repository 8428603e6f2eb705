"""Studies as SVG and for TensorBoard: what others read of them."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from rnnparse.errors import MissingExtraError, StudyError
from rnnparse.study.curve import Curve
from rnnparse.study.records import RECORDS
from rnnparse.study.report.curve_plots import FEWEST_BANDED, draw_curves
from rnnparse.study.report.hparams import write_hparams
from rnnparse.study.report.layout import ColourScale, map_axes, panels
from rnnparse.study.report.plots import write_svg
from rnnparse.study.report.results import load_results, title
from tests.study.made_up import QUESTION, QUICK, study_folder
from tests.study.report.test_page import further_settings, plain_study, study_axes


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
    assert f"{best:.2f}" in shown
    assert {"sgd", "learning rate", "update", "objective"} <= set(texts(curves))
    assert any(text.startswith("made up: batch size") for text in texts(curves))


def test_settings_beyond_the_grid_are_a_list_under_the_map(tmp_path: Path) -> None:
    further = further_settings(tmp_path, 2)
    folder = study_folder(tmp_path / "x", QUESTION, examples=600, further=further, sentences=20)
    results = load_results(folder)
    found = panels(results)
    assert len(found) == 9 and all(len(panel.cells) == 9 for panel in found)
    assert set(results.beyond).isdisjoint(
        setting for panel in found for settings in panel.cells.values() for setting in settings
    )
    shown = texts(write_svg(folder)[0])
    assert "Beyond the grid" in shown
    for setting in results.beyond:
        label = results.settings[setting]["label"]
        assert any(t.endswith(f"{label}: {results.name(setting)}") for t in shown)


def test_a_grid_of_one_rate_is_no_map_of_epochs(tmp_path: Path) -> None:
    axes = {**QUICK, "learning_rate": (0.01,)}
    first = {name: values[0] for name, values in {**study_axes(tmp_path), **axes}.items()}
    further = [{**first, "epochs": 9, "patience": 4}]
    results = load_results(study_folder(tmp_path / "x", axes, examples=600, further=further))
    rows, columns = map_axes(results)
    assert [results.settings[i]["config"]["epochs"] for i in results.beyond] == [9]
    assert rows == -1 and results.axes[columns].name == "optimizer"


def seeds_study(folder: Path, count: int, spread: float = 0.1) -> Path:
    """A study of an accuracy near 1 whose seeds differ."""

    def run(config: dict[str, float], seed: int) -> Curve:
        values = [min(1.0, config["x"] + spread * (seed % 2) * (i % 3) / 2) for i in range(8)]
        return Curve({}, [{"val_accuracy": value} for value in values])

    return plain_study(folder, {"x": [0.8, 0.9]}, run, seeds=tuple(range(count)))


def test_the_interval_of_two_seeds_does_not_widen_the_axis(tmp_path: Path) -> None:
    (axes,) = draw_curves(load_results(seeds_study(tmp_path, 2))).axes
    low, high = axes.get_ylim()
    assert 0.75 < low < 0.8 and high == 1.0
    thin = [line for line in axes.lines if line.get_linewidth() < 1]
    assert len(axes.lines) == 6 and len(thin) == 4 and not axes.collections
    assert sorted(map(tuple, (line.get_ydata() for line in thin)))[0] == (0.8,) * 8


def test_many_seeds_have_a_band_of_their_interval(tmp_path: Path) -> None:
    (axes,) = draw_curves(load_results(seeds_study(tmp_path, FEWEST_BANDED))).axes
    low, high = axes.get_ylim()
    assert 0.75 < low < 0.8 and high == 1.0
    assert len(axes.lines) == 2 and len(axes.collections) == 2


def test_means_on_a_logarithmic_axis_are_those_of_logarithms(tmp_path: Path) -> None:
    folder = plain_study(
        tmp_path,
        {"x": [1]},
        lambda config, seed: Curve({"objective": [100.0, 1.0 if seed else 25.0]}),
        seeds=(0, 1),
    )
    (axes,) = draw_curves(load_results(folder)).axes
    assert axes.get_yscale() == "log"
    assert axes.lines[0].get_ydata() == pytest.approx([100.0, 5.0])


def growing_study(folder: Path) -> Path:
    """A study with a trial that diverges, and one that does not."""
    return plain_study(
        folder,
        {"factor": [0.9, 2.0], "kind": ["a"]},
        lambda config, seed: Curve({"objective": [config["factor"] ** i for i in range(30)]}),
    )


def test_a_mark_tells_how_far_a_line_goes_that_leaves_the_drawing(tmp_path: Path) -> None:
    figure = draw_curves(load_results(growing_study(tmp_path)))
    (axes,) = figure.axes
    top = axes.get_ylim()[1]
    assert 10 < top < 200
    marks = [text.get_text() for text in axes.texts]
    assert marks == ["↑", "5.37e8"]  # 2 to the 29th
    place = axes.texts[0].get_position()[0]
    at = axes.transAxes.transform((place, 0))[0]
    leaves = axes.transData.transform((math.ceil(math.log2(top)) + 1, top))[0]
    assert at == pytest.approx(leaves, abs=20)
    assert "↑" in texts(write_svg(tmp_path)[1])


def test_what_rises_as_it_should_is_drawn_whole(tmp_path: Path) -> None:
    def run(config: dict[str, float], seed: int) -> Curve:
        epochs = [{"val_accuracy": 0.01 + 0.09 * i, "loss": 1.0 + i} for i in range(10)]
        return Curve({}, epochs)

    metric = {"name": "val_accuracy", "maximize": True}
    for name, axes in {"one": [1], "two": [1, 2]}.items():
        folder = plain_study(tmp_path / name, {"x": axes}, run, metric=metric)
        (axes,) = draw_curves(load_results(folder)).axes
        assert not axes.texts


def test_numbers_of_axes_have_no_exponent_apart(tmp_path: Path) -> None:
    def run(config: dict[str, float], seed: int) -> Curve:
        return Curve({"objective": [-5e7 + 1e6 * i * config["x"] for i in range(20)]})

    figure = draw_curves(load_results(plain_study(tmp_path, {"x": [1, 2]}, run)))
    figure.canvas.draw()
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert "-5e7" in labels and "-2e7" in labels


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


def test_drawings_replace_no_file_of_something_else(tmp_path: Path) -> None:
    folder = plain_study(tmp_path, {"x": [1]}, lambda config, seed: Curve({"loss": [2.0, 1.0]}))
    (folder / "curves.svg").write_text("<svg/>")
    with pytest.raises(StudyError, match=r"curves.svg: rnnparse did not write this file"):
        write_svg(folder)
    assert not (folder / "map.svg").exists()


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

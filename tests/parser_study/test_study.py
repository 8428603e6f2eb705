"""Studies of the parser: what they cost, and which settings are trained to their plateau."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rnnparse.config import TrainingConfig
from rnnparse.errors import StudyError
from rnnparse.parser_study.grid import Grid
from rnnparse.parser_study.study import (
    ParserStudy,
    Size,
    list_seconds,
    plateau_settings,
    training_seconds,
)
from rnnparse.parser_study.train_command import train_command
from rnnparse.study.curve import Curve
from rnnparse.study.manifest import write_study
from rnnparse.study.records import RecordFile, make_record
from rnnparse.study.report.csv_table import write_csv
from rnnparse.study.report.page import write_report
from tests.training.runs import write_treebank

WSJ = Size(sentences=3253, words=86_000)


ABOUT: dict[str, Any] = {
    **{
        "name": "t",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {},
        "data": {},
        "gold": None,
    },
    "space": {"axes": {}, "seeds": [0], "fixed": {}},
}


def record(optimizer: str, rate: float, *f1: float, **more: Any) -> dict[str, Any]:
    config = {"optimizer": optimizer, "learning_rate": rate, "epochs": len(f1), "patience": 9}
    epochs = [{"epoch": i, "dev_f1": value} for i, value in enumerate(f1, 1)]
    curve = Curve({"objective": [1.0, 0.9, 0.8, 0.7]}, epochs)
    if more.get("status") == "failed":
        more["error"] = {"type": "E", "message": ""}
    return make_record(config, more.pop("seed", 0), more.pop("status", "finished"), curve, **more)


# -- the plateau ---------------------------------------------------------------------------------


def test_the_best_setting_of_each_optimizer_goes_on() -> None:
    records = [
        record("sgd", 0.1, 80, 81),
        record("sgd", 0.01, 83, 70),  # its best epoch counts
        record("adam", 0.1, 99, status="diverged"),
        record("adam", 0.01, 85, 84),
        record("adagrad", 0.1, status="failed"),
    ]
    result = plateau_settings(records, None, 40, 5)
    assert result == [
        {"optimizer": "sgd", "learning_rate": 0.01, "epochs": 40, "patience": 5},
        {"optimizer": "adam", "learning_rate": 0.01, "epochs": 40, "patience": 5},
    ]


def test_seeds_are_pooled_to_choose_the_best() -> None:
    one = [record("sgd", 0.1, f1, seed=seed) for seed, f1 in enumerate((90, 70))]
    other = [record("sgd", 0.01, f1, seed=seed) for seed, f1 in enumerate((82, 81))]
    assert plateau_settings(one + other, None, 9, 1)[0]["learning_rate"] == 0.01


def test_of_equals_the_first_in_the_order_of_the_grid_goes_on(tmp_path: Path) -> None:
    """Whatever order the trials ended in, so that a study that was killed ends as any other."""
    grid = Grid.from_options({"learning_rate": "0.1,0.2,0.3", "epochs": 1})
    records = [
        make_record(trial.config, 0, "finished", Curve(epochs=[{"epoch": 1, "dev_f1": 80.0}]))
        for trial in grid.trials()
    ]
    result = plateau_settings(records, None, 40, 5)
    assert result[0]["learning_rate"] == grid.trials()[0].config["learning_rate"]


def test_of_settings_within_noise_the_one_with_the_least_loss_goes_on() -> None:
    gold = [10] * 200

    def scored(rate: float, missed: int, loss: float, **more: Any) -> dict[str, Any]:
        """A trial that misses a bracket in so many sentences."""
        counts = [[9 if i < missed else 10, 10] for i in range(len(gold))]
        epoch = {"epoch": 1, "dev_f1": 100 - missed / 20, "dev_counts": counts, "loss": loss}
        config = {"optimizer": "sgd", "learning_rate": rate, "kappa": 0.1, **more}
        curve = Curve({"objective": [1.0, 0.9, 0.8, 0.7]}, [epoch])
        return make_record(config, 0, "finished", curve)

    records = [
        scored(0.1, 3, 0.8),
        scored(0.2, 4, 0.5),  # a bracket of 2000 is noise
        scored(0.3, 4, 0.6),
        scored(0.4, 150, 0.1),  # this is not
        scored(0.5, 4, 0.01, kappa=0.05),  # another margin, another loss
    ]
    assert plateau_settings(records, gold, 9, 1)[0]["learning_rate"] == 0.2
    assert plateau_settings(records, None, 9, 1)[0]["learning_rate"] == 0.1  # noise is not known
    diverged = scored(0.2, 4, 0.0) | {"seed": 1, "status": "diverged", "epochs": []}
    assert plateau_settings([*records, diverged], gold, 9, 1)[0]["learning_rate"] == 0.2


# -- what it costs -------------------------------------------------------------------------------


def test_what_takes_more_work_is_expected_to_take_longer() -> None:
    def seconds(**changed: Any) -> float:
        config = {"optimizer": "sgd", "batch_size": 256, "dim": 25, "epochs": 5, **changed}
        size = Size(config.pop("sentences", 3253), config.pop("words", 86_000))
        return training_seconds(config, size, config.pop("candidates", 100))

    assert seconds(epochs=10) == pytest.approx(2 * seconds())
    for more in (
        {"dim": 50},
        {"words": 100_000},
        {"batch_size": 25},
        {"optimizer": "adam"},
        {"candidates": 200},
        {"optimizer": "nadam"},
    ):
        assert seconds() < seconds(**more) < 4 * seconds()
    assert list_seconds(WSJ) > 60


def study(folder: Path, **more: Any) -> ParserStudy:
    fixed = {"treebank": write_treebank(folder / "t.mrg", 40), "candidates": 10}
    grid = Grid.from_options({"dim": 5}, preset="quick", fixed=fixed)
    return ParserStudy(grid, folder / "study", cache=str(folder / "cache"), **more)


def test_a_plan_needs_no_forests(tmp_path: Path) -> None:
    result = study(tmp_path, n_jobs=2)
    size = result.size()
    assert size.sentences == 36 and 200 < size.words < 800
    plan, plateau = result.plan(size)
    assert (len(plan.trials), plan.ended, plan.n_jobs, plateau) == (9, 0, 2, 0.0)
    assert plan.seconds is not None and plan.seconds > 0
    assert not (tmp_path / "cache").exists() and not (tmp_path / "study").exists()


def test_the_plateau_is_in_the_plan(tmp_path: Path) -> None:
    short, long = (study(tmp_path, plateau=n).plan(WSJ)[1] for n in (10, 40))
    assert 0 < short < long


def test_a_plateau_that_has_been_reached_takes_no_time(tmp_path: Path) -> None:
    result = study(tmp_path, plateau=10)
    write_study(tmp_path / "study", ABOUT)
    with RecordFile(tmp_path / "study") as file:
        for trial in result.grid.trials():
            epochs = [{"epoch": 1, "dev_f1": trial.config["learning_rate"]}]
            file.append(make_record(trial.config, 0, "finished", Curve({}, epochs), seconds=1.0))
        assert result.plan(WSJ)[1] > 0
        best = plateau_settings(file.load(), None, 10, 5)
        for config in best:
            file.append(make_record(config, 0, "finished", Curve(), seconds=1.0))
    assert len(best) == 3 and result.plan(WSJ)[1] == 0


def test_a_plan_rests_on_the_trials_that_have_ended(tmp_path: Path) -> None:
    result = study(tmp_path, n_jobs=1)
    rough = result.plan(WSJ)[0].seconds
    with RecordFile(tmp_path / "study") as file:
        for trial in result.grid.trials()[:3]:
            file.append(make_record(trial.config, 0, "finished", Curve(), seconds=1000.0))
    plan, _ = result.plan(WSJ)
    assert plan.ended == 3 and len(plan.trials) == 6
    assert rough is not None and plan.seconds is not None
    assert 3000 < plan.seconds < 12_000


def test_a_plan_for_other_data_than_the_study_has_is_refused(tmp_path: Path) -> None:
    result = study(tmp_path)
    size = result.size()
    assert (size.sentences, size.data is None) == (36, False)
    fixed = result.grid.to_dict()["fixed"]
    space = {**ABOUT["space"], "fixed": {**fixed, "treebank": "where it was before"}}
    about = {**ABOUT, "data": size.data, "space": space}
    write_study(tmp_path / "study", about)
    assert result.plan(size)[0].ended == 0
    others = [({**(size.data or {}), "dev": "0"}, "other data: dev was 0"), ({}, "train was None")]
    for data, problem in others:
        write_study(tmp_path / "study", {**about, "data": data})
        with pytest.raises(StudyError, match=problem):
            result.plan(size)
    # Paths may change, as long as what they name does not.
    write_study(tmp_path / "study", {**about, "space": {**space, "fixed": {"candidates": 11}}})
    with pytest.raises(StudyError, match="other settings: candidates was 11, now it is 10"):
        result.plan(size)
    # So may the names of settings.
    write_study(tmp_path / "study", {**about, "space": {**space, "fixed": {"kbest": 10}}})
    assert result.plan(size)[0].ended == 0


def test_a_study_that_runs_elsewhere_is_refused_before_lists_are_made(tmp_path: Path) -> None:
    result = study(tmp_path)
    with RecordFile(tmp_path / "study"), pytest.raises(StudyError, match="another process runs"):
        result.run(progress=False)
    assert not (tmp_path / "cache").exists()


# -- running -------------------------------------------------------------------------------------


def test_what_the_trials_share_is_what_the_grid_fixes(tmp_path: Path) -> None:
    result = study(tmp_path, n_jobs=3)
    expected = {**result.grid.fixed, "cache": str(tmp_path / "cache"), "n_jobs": 3, "dim": 5}
    assert result.config == TrainingConfig(**expected)
    # Cores of this machine, not of the cluster.
    assert study(tmp_path, n_jobs=3, backend="ray").config.n_jobs == 0


def test_a_study_with_a_plateau_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trials run in this process, without training, and the driver is stopped once."""
    import rnnparse.parser_study.study as module

    started: list[tuple[str, int]] = []

    class InThisProcess:
        """A `Study` that leaves made-up records, and stops after some of them."""

        left = 4

        def __init__(self, grid: Grid, trial: Any, folder: Path, **more: Any) -> None:
            self.grid, self.file = grid, RecordFile(folder)
            assert more["data"] and len(more["gold"]) == 4 and more["maximize"]
            assert more["sizes"] == {"train": 36, "dev": 4}
            alone, best = more["baselines"].values()
            assert 0 < alone <= best <= 100

        def plan(self) -> Any:
            return module.Plan(self.grid.trials(), 0, 1, None)

        def run(self, progress: bool) -> list[dict[str, Any]]:
            with self.file:
                ended = {entry.id for entry in self.file.entries()}
                for trial in self.grid.trials():
                    if trial.id in ended:
                        continue
                    if not InThisProcess.left:
                        raise KeyboardInterrupt
                    InThisProcess.left -= 1
                    started.append((trial.config["optimizer"], trial.config["epochs"]))
                    epochs = [{"epoch": 1, "dev_f1": 100 * trial.config["learning_rate"]}]
                    self.file.append(make_record(trial.config, 0, "finished", Curve({}, epochs)))
                records = {record["id"]: record for record in self.file.load()}
            return [records[trial.id] for trial in self.grid.trials()]

    monkeypatch.setattr(module, "Study", InThisProcess)
    result = study(tmp_path, plateau=7)
    notes: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        result.run(progress=False, note=notes.append)
    InThisProcess.left = 100
    records = result.run(progress=False, note=notes.append)
    assert [epochs for _, epochs in started] == [4] * 9 + [7] * 3
    assert {name for name, epochs in started if epochs == 7} == {"sgd", "adagrad", "adam"}
    assert len(records) == 12
    last = [record["config"] for record in records if record["config"]["epochs"] == 7]
    assert {(c["learning_rate"], c["patience"]) for c in last} == {(1.0, 5), (0.1, 5), (0.03, 5)}
    assert notes[0] == "9 trials to go, 0 have ended" and "up to 7 epochs" in notes[-1]


def test_studies_of_a_former_optimizer_are_still_reported(tmp_path: Path) -> None:
    """Version 0.1 also trained the parser by Levenberg–Marquardt, with a damping as its rate."""
    axes = {"optimizer": ["adam", "levenberg-marquardt"], "learning_rate": [0.01]}
    rates = {"levenberg-marquardt": [100.0]}
    space = {"axes": axes, "seeds": [0], "fixed": {}, "rates": rates, "further": []}
    write_study(tmp_path, {**ABOUT, "space": space})
    with RecordFile(tmp_path) as file:
        file.append(record("adam", 0.01, 80.0, 81.0, seconds=1.0))
        file.append(record("levenberg-marquardt", 100.0, 80.0, 82.0, seconds=1.0))
    write_report(tmp_path)
    assert "levenberg-marquardt,100" in write_csv(tmp_path).read_text("utf-8")
    assert train_command({"optimizer": "levenberg-marquardt", "learning_rate": 100.0})

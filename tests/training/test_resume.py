"""A run that is killed, at whatever moment, goes on to the same bytes."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import TINY, logs, model_bytes, run_scenarios, write_treebank

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork")

Kills = list[tuple[str, int]]

# The files of a run: run.json, six of lists, for each of two epochs a state and a log, the model.
SINGLE: list[Kills] = [
    [],
    [("interrupted list", 20), ("interrupted step", 6)],
    [("replaced", 2), ("step", 2), ("step", 5), ("writing", 2), ("renaming", 1), ("renamed", 1)],
]
MORE_OF_SINGLE: list[Kills] = [
    [],
    [("replaced", 1)],
    [("writing", 4)],
    [("step", 6)],
    [("replacing", 8)],
    [("replaced", 11)],
    [("renamed", 1)],
    [("milliseconds", 250)],
]
FOLDS: list[Kills] = [[], [("step", 4), ("replaced", 1), ("step", 1)]]
MORE_OF_FOLDS: list[Kills] = [[], [("replaced", 25)]]
REPLACING: list[Kills] = [[], [("renaming", 1), ("renamed", 1)]]
MORE_OF_REPLACING: list[Kills] = [[], [("renaming", 1)], [("renamed", 1)], [("removing", 1)]]


def scenarios(tmp_path: Path, kills: list[Kills], **settings: Any) -> list[dict[str, Any]]:
    """One run for each list of kills, each with a cache of its own."""
    folders = [str(tmp_path / f"run{i}" / "model") for i in range(len(kills))]
    return [
        {
            "settings": TINY | {"cache": str(Path(out).with_name("cache"))} | settings,
            "out": out,
            "kills": kill,
        }
        for out, kill in zip(folders, kills, strict=True)
    ]


def assert_all_like_the_first(results: list[dict[str, Any]]) -> None:
    """The first run was left alone."""
    expected = model_bytes(results[0]["out"])
    expected_logs = logs(results[0]["out"])
    names = sorted(path.name for path in Path(results[0]["out"]).iterdir())
    for result in results:
        what = f"{result['kills']}: {result['statuses']}"
        assert result["statuses"][-1] == 0, what
        assert model_bytes(result["out"]) == expected, what
        assert logs(result["out"]) == expected_logs, what
        folder = Path(result["out"])
        assert sorted(path.name for path in folder.iterdir()) == names, what
        assert sorted(path.name for path in folder.parent.iterdir()) == ["cache", "model"], what


def was_stopped(result: dict[str, Any]) -> bool:
    """Whether each stop came before the end, which one by the clock need not."""
    by_the_clock = any(event == "milliseconds" for event, _ in result["kills"])
    expected = [130 if event.startswith("interrupted") else -9 for event, _ in result["kills"]]
    return by_the_clock or result["statuses"] == [*expected, 0]


Results = dict[str, list[dict[str, Any]]]


def results_of(
    tmp_path: Path,
    single: list[Kills],
    folds: list[Kills],
    replacing: list[Kills],
    others: list[tuple[Kills, dict[str, Any]]],
) -> Results:
    """All runs in one process, which has to be started but once."""
    treebank = write_treebank(tmp_path / "train.mrg", 40)
    few = write_treebank(tmp_path / "few.mrg", 20)
    jackknifed: dict[str, Any] = {"folds": 2, "jackknife": 2, "telemetry": True}
    older: list[Kills] = [[] for _ in replacing]
    runs = {
        "single": scenarios(tmp_path / "single", single, treebank=treebank),
        "folds": scenarios(tmp_path / "folds", folds, treebank=few, **jackknifed),
        "older": scenarios(tmp_path / "older", older, treebank=few, dim=3),
        "newer": [
            {**run, "overwrite": True}
            for run in scenarios(tmp_path / "older", replacing, treebank=few)
        ],
        "others": scenarios(tmp_path / "others", [kills for kills, _ in others], treebank=treebank),
    }
    for run, (_, change) in zip(runs["others"], others, strict=True):
        run["settings"] |= change
    done = iter(run_scenarios([run for group in runs.values() for run in group]))
    return {name: [next(done) for _ in group] for name, group in runs.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The runs of all quick tests of this file."""
    others: list[tuple[Kills, dict[str, Any]]] = [
        ([("interrupted list", 20)], {"n_jobs": 2}),
        ([], {"seed": 1}),
    ]
    return results_of(tmp_path_factory.mktemp("resume"), SINGLE, FOLDS, REPLACING, others)


@pytest.mark.parametrize("group", ["single", "folds"])
def test_a_killed_run_goes_on_to_the_same_bytes(results: Results, group: str) -> None:
    assert_all_like_the_first(results[group])
    assert all(map(was_stopped, results[group])), results[group]


def test_an_older_model_is_replaced_whenever_the_run_is_killed(results: Results) -> None:
    assert all(result["statuses"] == [0] for result in results["older"])
    assert_all_like_the_first(results["newer"])
    assert all(map(was_stopped, results["newer"])), results["newer"]


def test_what_does_not_matter_changes_nothing(results: Results) -> None:
    """More threads and another place of the cache; but the seed does matter."""
    first = model_bytes(results["single"][0]["out"])
    assert all(map(was_stopped, results["others"]))
    two, other_seed = (model_bytes(result["out"]) for result in results["others"])
    assert two == first
    assert other_seed["weights.npz"] != first["weights.npz"]


@pytest.mark.slow
def test_more_runs_are_killed_and_go_on(tmp_path: Path) -> None:
    all_cores: list[tuple[Kills, dict[str, Any]]] = [([], {"n_jobs": 0})]
    results = results_of(tmp_path, MORE_OF_SINGLE, MORE_OF_FOLDS, MORE_OF_REPLACING, all_cores)
    for group in ("single", "folds", "newer"):
        assert_all_like_the_first(results[group])
        assert all(map(was_stopped, results[group])), results[group]
    single, cores = (model_bytes(results[group][0]["out"]) for group in ("single", "others"))
    assert cores == single


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "every"),
    [({}, 1), ({"folds": 2, "telemetry": True}, 3), ({"jackknife": 3, "n_jobs": 2}, 4)],
)
def test_killed_at_every_event(tmp_path: Path, settings: dict[str, Any], every: int) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 30)
    kills: list[Kills] = [[]]
    for event in ("replacing", "replaced", "writing", "step"):
        kills += [[(event, at)] for at in range(1, 31, every)]
    kills += [[("unlinked", at)] for at in range(1, 6)]
    runs = scenarios(tmp_path, kills, treebank=treebank, **settings)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert sum(was_stopped(result) for result in results) > 50 / every


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 60)
    rng = random.Random(0)
    kills: list[Kills] = [[]]
    for _ in range(20):
        kills.append([("milliseconds", rng.randrange(20, 1500)) for _ in range(4)])
    runs = scenarios(tmp_path, kills, treebank=treebank, folds=2, epochs=3, n_jobs=2)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert sum(-9 in result["statuses"] for result in results) > 10

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

SINGLE: list[Kills] = [
    [],
    # run.json, six files of lists, for each of two epochs a state and a log, then the model.
    [("replaced", 1)],
    [("replacing", 3)],
    [("writing", 4)],
    [("step", 1)],
    [("step", 6)],
    [("writing", 9)],
    [("replaced", 9)],
    [("replaced", 11)],
    [("renaming", 1)],
    [("renamed", 1)],
    [("unlinked", 1)],
    [("milliseconds", 250)],
    # Several times over.
    [("replaced", 2), ("step", 2), ("step", 5), ("writing", 2), ("renaming", 1)],
]


def scenarios(
    tmp_path: Path, kills: list[Kills], **settings: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """One run for each list of kills, each with a cache of its own; the folders of the models."""
    folders = [str(tmp_path / f"run{i}" / "model") for i in range(len(kills))]
    return [
        {
            "settings": TINY | {"cache": str(Path(out).with_name("cache"))} | settings,
            "out": out,
            "kills": kill,
        }
        for out, kill in zip(folders, kills, strict=True)
    ], folders


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


def was_killed(result: dict[str, Any]) -> bool:
    """Whether all kills came before the end; one at a time by the clock may come too late."""
    by_the_clock = any(event == "milliseconds" for event, _ in result["kills"])
    return by_the_clock or all(status == -9 for status in result["statuses"][:-1])


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 40)
    runs, _ = scenarios(tmp_path, SINGLE, treebank=treebank)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert all(map(was_killed, results)), [(r["kills"], r["statuses"]) for r in results]


def test_folds_and_jackknife_resume_too(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 24)
    kills: list[Kills] = [
        [],
        [("step", 4)],
        [("step", 7), ("replaced", 1), ("step", 1)],
        [("replaced", 25)],
        [("milliseconds", 700)],
    ]
    runs, _ = scenarios(tmp_path, kills, treebank=treebank, folds=2, jackknife=2)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert all(map(was_killed, results)), [(r["kills"], r["statuses"]) for r in results]


def test_an_older_model_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 20)
    kills: list[Kills] = [[], [("renaming", 1)], [("renamed", 1)], [("renamed", 2)]]
    kills += [[("removing", 1)], [("removing", 1), ("removing", 1)]]
    first, folders = scenarios(tmp_path, [[]] * len(kills), treebank=treebank, dim=3)
    second, _ = scenarios(tmp_path, kills, treebank=treebank)
    run_scenarios(first)
    old = model_bytes(folders[0])
    results = run_scenarios(second)
    assert_all_like_the_first(results)
    assert model_bytes(folders[0]) != old
    assert all(map(was_killed, results)), [(r["kills"], r["statuses"]) for r in results]


def test_what_does_not_matter_changes_nothing(tmp_path: Path) -> None:
    """The same seed again, more threads, another place of the cache, the same trees elsewhere."""
    treebank = write_treebank(tmp_path / "train.mrg", 40)
    runs, folders = scenarios(tmp_path, [[], [], [], []], treebank=treebank)
    runs[1]["settings"]["jobs"] = 2
    runs[2]["settings"]["jobs"] = 0
    runs[3]["settings"]["seed"] = 1
    assert all(result["statuses"] == [0] for result in run_scenarios(runs))
    first, *others = map(model_bytes, folders)
    assert others[0] == others[1] == first
    assert others[2]["weights.npz"] != first["weights.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"folds": 2}, {"jackknife": 3, "jobs": 2}])
def test_killed_at_every_event(tmp_path: Path, settings: dict[str, Any]) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 30)
    kills: list[Kills] = [[]]
    for event in ("replacing", "replaced", "writing", "step"):
        kills += [[(event, at)] for at in range(1, 31)]
    kills += [[("unlinked", at)] for at in range(1, 6)]
    runs, _ = scenarios(tmp_path, kills, treebank=treebank, **settings)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert sum(was_killed(result) for result in results) > 40


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    treebank = write_treebank(tmp_path / "train.mrg", 60)
    rng = random.Random(0)
    kills: list[Kills] = [[]]
    for _ in range(40):
        kills.append([("milliseconds", rng.randrange(20, 1500)) for _ in range(4)])
    runs, _ = scenarios(tmp_path, kills, treebank=treebank, folds=2, epochs=3, jobs=2)
    results = run_scenarios(runs)
    assert_all_like_the_first(results)
    assert sum(-9 in result["statuses"] for result in results) > 20

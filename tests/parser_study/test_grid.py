"""Axes from text, TOML and options; the trials that they span, and their order."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.parser_study.axis_values import parse_values
from rnnparse.parser_study.grid import AXES, PRESETS, Grid
from rnnparse.study.records import trial_id
from rnnparse.study.search_space import Space, overview

# -- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("0.1,0.01", float, [0.1, 0.01]),
        (" 1 , 2e-3 ", float, [1.0, 0.002]),
        ("256,512", int, [256, 512]),
        ("1e3", int, [1000]),
        ("sgd,adam", str, ["sgd", "adam"]),
        ("log:1e-3:1:4", float, [0.001, 0.01, 0.1, 1.0]),
        (
            "log:1e-4:1:9",
            float,
            [0.0001, 0.000316, 0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0],
        ),
        ("log:1:0.01:3", float, [1.0, 0.1, 0.01]),
        ("log:16:256:5", int, [16, 32, 64, 128, 256]),
        ("log:214000001:214000002:3", float, [214000001.0, 214000001.5, 214000002.0]),
        ("lin:0:1:11", float, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        ("lin:-1:1:3", float, [-1.0, 0.0, 1.0]),
        ("lin:1:5:5", int, [1, 2, 3, 4, 5]),
        ("5,log:0.01:0.1:3,7", float, [5.0, 0.01, 0.0316, 0.1, 7.0]),
    ],
)
def test_text_names_values(text: str, kind: type, expected: list[Any]) -> None:
    result = parse_values(text, kind)
    assert result == expected
    assert all(type(value) is kind for value in result)


@given(
    st.floats(1e-9, 1e9), st.floats(1e-9, 1e9), st.integers(2, 30), st.sampled_from(["log", "lin"])
)
def test_ranges_have_their_ends_and_their_count_and_are_monotone(
    first: float, last: float, count: int, name: str
) -> None:
    if abs(first - last) < 1e-9 * max(first, last):
        return
    result = parse_values(f"{name}:{first!r}:{last!r}:{count}", float)
    assert (result[0], result[-1], len(result)) == (first, last, count)
    steps = np.diff(result) * np.sign(last - first)
    assert (steps > 0).all()
    exact = (np.geomspace if name == "log" else np.linspace)(first, last, count)
    np.testing.assert_allclose(result, exact, rtol=6e-3 if name == "log" else 1e-9)


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("0.1,,0.2", float, "'' is not a number; expected a,b,c or log:FIRST"),
        ("a", float, "'a' is not a number"),
        ("nan", float, "not a number"),
        ("inf", float, "not a number"),
        ("1_000", int, "not a number"),
        ("1.5", int, "1.5 is not a whole number"),
        ("sgd,,adam", str, "a value is missing"),
        ("log:1:2", float, "not a range; expected log:FIRST:LAST:COUNT"),
        ("lin:1:2:3:4", float, "not a range; expected lin:FIRST:LAST:COUNT"),
        ("log:0:1:3", float, "must be positive"),
        ("log:-1:-2:3", float, "must be positive"),
        ("log:1:2:1", float, "at least two values"),
        ("log:1:2:2.5", float, "2.5 is not a whole number"),
        ("lin:1:1.0:2", float, "the ends are equal"),
        ("lin:0.5:4:2", int, "0.5 is not a whole number"),
        ("log:1e-5:1:10001", float, "a range can have at most 10,000 values"),
        ("log:1e-5:1:1e999999999", float, "1e999999999 is too large"),
        ("1e999999999", int, "1e999999999 is too large"),
    ],
)
def test_bad_text_says_what_was_expected(text: str, kind: type, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_values(text, kind)


# -- spaces --------------------------------------------------------------------------------------


def test_a_space_has_all_combinations_for_each_seed() -> None:
    space = Space({"rate": [0.1, 0.01, 0.1], "name": ["a", "b"], "deep": [[1, 2], [1]]}, (3, 1))
    result = [(*trial.config.values(), trial.seed) for trial in space.trials()]
    assert [seed for *_, seed in result] == [3] * 8 + [1] * 8
    assert sorted(map(str, result)) == sorted(
        map(str, product([0.1, 0.01], ["a", "b"], [[1, 2], [1]], [3, 1]))
    )
    assert [t.config for t in space.trials()[:8]] == [t.config for t in space.trials()[8:]]
    assert json.loads(json.dumps(space.to_dict())) == {
        "axes": {"rate": [0.1, 0.01], "name": ["a", "b"], "deep": [[1, 2], [1]]},
        "seeds": [3, 1],
        "fixed": {},
    }


def test_values_of_numpy_are_plain_ones() -> None:
    space = Space({"a": np.linspace(0, 1, 3), "b": np.arange(2), "c": np.float32([0.1])})
    assert space.axes == {"a": (0.0, 0.5, 1.0), "b": (0, 1), "c": (0.1,)}
    assert len(space.trials()) == 6
    assert Space({"a": iter([1, 2])}).trials()[0].config["a"] in (1, 2)


def test_a_space_without_axes_is_one_trial() -> None:
    assert [(t.config, t.seed) for t in Space({}, (0, 5)).trials()] == [({}, 0), ({}, 5)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (({"a": []},), "a has no values"),
        (({"a": 1},), "a must be a list of values, not 1"),
        (({"a": "text"},), "a must be a list of values, not 'text'"),
        (({"a": [float("nan")]},), "a: nan is not a finite number"),
        (({"a": [object]},), "a: cannot be recorded: <class 'object'>"),
        (({"a": [1]}, ()), "seeds has no values"),
        (({"a": [1]}, (-1,)), "seeds must be non-negative whole numbers, not -1"),
        (({"a": [1]}, (0.5,)), "seeds must be non-negative whole numbers, not 0.5"),
        (({"a": [1]}, (True,)), "seeds must be non-negative whole numbers, not True"),
        (({"a": [1]}, (0,), {"f": print}), "f: cannot be recorded"),
    ],
)
def test_bad_spaces_are_refused(arguments: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Space(*arguments)


def test_ids_depend_on_values_alone() -> None:
    assert trial_id({"a": 1, "b": 0.1}, 0) == trial_id({"b": 0.1, "a": 1}, 0)
    ids = {trial_id({"a": a}, seed) for a in (1, 1.5, "1", [1], None) for seed in (0, 1)}
    assert len(ids) == 10
    # Studies that were begun by other versions go on.
    assert trial_id({"optimizer": "adam", "learning_rate": 0.01}, 3) == "0cafb136c47914d3"


def pairs_met(configs: list[dict[str, Any]]) -> set[Any]:
    return {pair for config in configs for pair in combinations(config.items(), 2)}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), max_size=4), st.randoms(use_true_random=False))
def test_an_overview_has_all_settings_and_does_not_depend_on_their_order(
    sizes: list[int], random: Any
) -> None:
    configs = Space({chr(97 + i): range(size) for i, size in enumerate(sizes)}).configs()
    ordered = overview(configs)
    assert sorted(map(str, ordered)) == sorted(map(str, configs))
    random.shuffle(configs)
    assert overview(configs) == ordered


@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (3, 9, 3, 3), (5, 5, 2, 3), (4, 4, 4, 4)])
def test_few_trials_have_tried_every_pair_of_values(sizes: tuple[int, ...]) -> None:
    ordered = Space({chr(97 + i): range(size) for i, size in enumerate(sizes)}).configs()
    every = pairs_met(ordered)
    few = max(a * b for a, b in combinations(sizes, 2))
    result = overview(ordered)
    assert len(pairs_met(result[:few])) > 0.8 * len(every)
    assert pairs_met(result[: 2 * few]) == every
    # The first trials try every value.
    assert len({item for config in result[: 2 * max(sizes)] for item in config.items()}) == sum(
        sizes
    )


# -- grids ---------------------------------------------------------------------------------------


def test_the_question_has_81_settings_of_5_epochs() -> None:
    trials = Grid.from_options({}, preset="question").trials()
    assert len({trial.id for trial in trials}) == len(trials) == 81
    for name, values in PRESETS["question"].items():
        assert {trial.config[name] for trial in trials} == set(values)
    assert all(list(trial.config) == [*AXES, "patience"] for trial in trials)
    assert all(trial.config["epochs"] == 5 and trial.seed == 0 for trial in trials)
    # Each is a training run.
    assert all(TrainingConfig.from_dict({**t.config, "seed": t.seed}) for t in trials)


def test_options_go_before_those_of_the_preset() -> None:
    grid = Grid.from_options(
        {"l2": "0.5", "learning_rate": "log:1e-4:1:9", "seeds": "0,1", "dim": None, "epochs": 3},
        preset="question",
        fixed={"candidates": 50},
    )
    assert grid.axes["l2"] == (0.5,) and grid.axes["epochs"] == (3,) and grid.axes["dim"] == (25,)
    assert len(grid.trials()) == 3 * 9 * 3 * 2
    assert grid.fixed == {"candidates": 50} and grid.seeds == (0, 1)


def test_values_have_the_types_of_their_axes() -> None:
    from_values = Grid.from_options(
        {"learning_rate": [1, np.float32(0.1)], "batch_size": [np.int64(256)], "l2": 0}
    )
    from_text = Grid.from_options({"learning_rate": "1,0.1", "batch_size": "256", "l2": "0"})
    mixed = Grid.from_options({"learning_rate": ["1", 0.1], "batch_size": 256, "l2": ["0"]})
    assert from_values == from_text == mixed
    assert from_text.trials() == mixed.trials()
    assert type(from_values.axes["learning_rate"][0]) is float


def test_optimizers_may_have_rates_of_their_own() -> None:
    grid = Grid.from_options(
        {
            "optimizer": "sgd,SGD,adam,momentum",
            "learning_rate": {"default": "1", "Adam": [0.001, "0.01,0.1"]},
        }
    )
    result = [(t.config["optimizer"], t.config["learning_rate"]) for t in grid.trials()]
    assert sorted(result) == [
        *(("adam", rate) for rate in (0.001, 0.01, 0.1)),
        ("momentum", 1.0),
        ("sgd", 1.0),
    ]
    assert grid.to_dict()["rates"] == {"adam": [0.001, 0.01, 0.1]}


def test_nothing_stops_early_unless_a_patience_is_given() -> None:
    grid = Grid.from_options({"epochs": "5,9"})
    assert {(c["epochs"], c["patience"]) for c in grid.configs()} == {(5, 5), (9, 9)}
    grid = Grid.from_options({"epochs": "5,9"}, fixed={"patience": 2})
    assert {(c["epochs"], c["patience"]) for c in grid.configs()} == {(5, 2), (9, 2)}


def test_the_quick_preset_has_rates_for_each_optimizer() -> None:
    rates = {"sgd": (1.0, 0.3, 0.1), "adagrad": (0.1, 0.03, 0.01), "adam": (0.03, 0.01, 0.003)}
    grid = Grid.from_options({}, preset="quick")
    result = [(c["optimizer"], c["learning_rate"]) for c in grid.configs()]
    assert result == [(name, rate) for name, values in rates.items() for rate in values]
    # What is given goes before it.
    few = Grid.from_options({"optimizer": "adam,momentum"}, preset="quick")
    assert few.rates == {"adam": rates["adam"]}
    assert {c["learning_rate"] for c in few.configs()} == {*rates["adam"], 0.02}
    own = Grid.from_options({"learning_rate": {"sgd": [2.0]}}, preset="quick")
    assert own.rates == rates | {"sgd": (2.0,)}
    assert Grid.from_options({"learning_rate": "0.5"}, preset="quick").rates == {}


def test_further_settings_are_trials_too() -> None:
    grid = Grid.from_options({"optimizer": "sgd,adam"}, preset="quick")
    longer = {**grid.configs()[0], "epochs": 40}
    more = replace(grid, further=(longer, grid.configs()[1]))
    assert more.configs() == [*grid.configs(), longer]
    assert {t.id for t in grid.trials()} < {t.id for t in more.trials()}
    assert Grid(**json.loads(json.dumps(more.to_dict()))).trials() == more.trials()


def test_any_optimizer_of_keras_may_be_named() -> None:
    assert Grid.from_options({"optimizer": "AdamW"}).axes["optimizer"] == ("adamw",)
    with pytest.raises(ConfigError, match=r"unknown optimizer 'adem'; known are .*adam"):
        Grid.from_options({"optimizer": "adem"})


@pytest.mark.parametrize(
    ("options", "more", "problem"),
    [
        ({"rate": "1"}, {}, "rate: no such axis; known are optimizer, learning_rate"),
        ({}, {"preset": "all"}, "preset must be one of question, quick, not 'all'"),
        ({}, {"fixed": {"dim": 3}}, "dim: no such training setting; known are treebank"),
        ({}, {"fixed": {"candidates": 0}}, "candidates must be at least 1"),
        ({"l2": "-1"}, {}, "l2 must not be negative"),
        ({"l2": "x"}, {}, "l2: 'x' is not a number"),
        ({"learning_rate": []}, {}, "learning_rate has no values"),
        ({"learning_rate": "lin:-1:1:3"}, {}, "learning_rate must be positive, not -1"),
        ({"batch_size": 2.5}, {}, "batch_size must be a whole number, not 2.5"),
        ({"objective": "hing"}, {}, "objective must be one of hinge"),
        ({"tie": "last"}, {}, "tie must be one of first"),
        ({"seeds": "a"}, {}, "seeds: 'a' is not a number"),
        ({"optimizer": "levenberg-marquardt"}, {}, "no longer .*: use adagrad or adam"),
        ({"learning_rate": {"sgd": ["x"]}, "optimizer": "sgd"}, {}, "^learning_rate: 'x' is not a"),
        ({"learning_rate": {"sgd": [0]}, "optimizer": "sgd"}, {}, "^learning_rate must be pos"),
        (
            {"learning_rate": {"sgd": [1]}},
            {},
            "^learning_rate: values for sgd, which is not among",
        ),
        ({}, {"fixed": {"freeze": ["Q"]}}, "no variable matches 'Q'; known are vectors, W, v"),
        ({}, {"fixed": {"freeze": ["*"]}}, "all weights are frozen"),
        ({"learning_rate": {"sgd": []}, "optimizer": "sgd"}, {}, "learning_rate has no values"),
    ],
)
def test_bad_grids_are_refused(options: dict[str, Any], more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Grid.from_options(options, **more)


def test_a_grid_too_large_to_be_run_is_refused_at_once() -> None:
    many = {"learning_rate": "log:1e-5:1:100", "l2": "log:1e-5:1:100", "kappa": "0,1"}
    assert len(Grid.from_options(many).seeds) == 1
    with pytest.raises(ConfigError, match="the grid has 100,000,000 trials, more than 100,000"):
        Grid.from_options({**many, "kappa": "lin:0:1:100", "dim": "lin:1:100:100"})
    with pytest.raises(ConfigError, match="the grid has 200,200 trials"):
        rates = {"sgd": "log:1e-5:1:1001", "default": "log:1e-5:1:1001"}
        Grid.from_options({"learning_rate": rates, "optimizer": "sgd,adam", "l2": many["l2"]})


# -- TOML ----------------------------------------------------------------------------------------

FILE = """\
preset = "question"

[grid]
optimizer = ["adam", "sgd"]
kappa = 0.1
batch_size = 1024
seeds = [0, 1, 2]
learning_rate = {adam = "log:1e-4:1e-2:5", sgd = 0.1}

[training]
candidates = 50
"""


def test_a_file_gives_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(FILE)
    grid = Grid.from_toml(path)
    assert len(grid.trials()) == (5 + 1) * 3 * 3
    assert grid.fixed == {"candidates": 50}
    assert grid.axes["l2"] == PRESETS["question"]["l2"]
    assert len(Grid.from_toml(path, {"seeds": "7", "l2": None}).trials()) == (5 + 1) * 3


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("batch_size = 1024", "batch_size = 0", r"grid.toml:6: batch_size must be at least 1"),
        ('"log:1e-4:1e-2:5"', '"log:1e-4"', r"grid.toml:8: learning_rate: .* not a range"),
        ("seeds = [0, 1, 2]", "sedes = [0]", r"grid.toml:7: sedes: no such axis; known are"),
        (
            "candidates = 50",
            'candidates = "50"',
            r"grid.toml:11: candidates must be a whole number",
        ),
        ("[training]", "[traning]", r"grid.toml:10: traning: no such key; known are preset, grid"),
        ('"question"', '"answer"', r"grid.toml:1: preset must be one of question"),
        ("candidates = 50", "candidates = ", r"grid.toml: .*\(at line 11"),
        ('preset = "question"', "training = 1", r"grid.toml: .*"),
    ],
)
def test_mistakes_in_a_file_are_found_by_line(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = tmp_path / "grid.toml"
    assert FILE.count(old) == 1
    path.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=problem):
        Grid.from_toml(path)


def test_a_file_may_begin_with_a_mark_but_not_be_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(FILE, encoding="utf-8-sig")
    assert Grid.from_toml(path).fixed == {"candidates": 50}
    path.write_text(FILE, encoding="utf-16")
    with pytest.raises(
        ConfigError, match=r"grid.toml: not UTF-8, as TOML must be; convert the file"
    ):
        Grid.from_toml(path)


def test_a_table_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text("grid = 3\n")
    with pytest.raises(ConfigError, match=r"grid.toml:1: grid must be a table: write \[grid\]"):
        Grid.from_toml(path)
    with pytest.raises(FileNotFoundError):
        Grid.from_toml(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("preset = [1]", r"grid.toml:1: preset must be one of question, quick, not \[1\]"),
        ('preset = ["x"]', "grid.toml:1: preset must be one of"),
        ("[grid]\nepochs = " + "9" * 5000, "a number has more than 4,300 digits"),
        ("[grid]\nl2 = " + "9" * 400, "grid.toml:2: l2"),
        ("[grid]\nl2 = 1e999", "grid.toml:2: l2"),
        ("[grid]\nl2 = 1979-05-27", "grid.toml:2: l2"),
        ("[grid]\nl2 = [[0.1]]", "grid.toml:2: l2"),
        ("[grid]\noptimizer = [{a = 1}]", "grid.toml:2: optimizer"),
        ("x = " + "[" * 20_000, "nested too deeply"),
        ("x = 1\nx = 2", "Cannot overwrite a value"),
        ("#" * 2**20 + "\n", "a grid must not have more than 1,048,576 bytes"),
        ("\0", "grid.toml"),
    ],
)
def test_files_that_break_readers_of_toml_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        Grid.from_toml(path)


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes with names")
def test_a_pipe_is_no_grid_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "grid.toml")
    with pytest.raises(OSError, match="is not a regular file"):
        Grid.from_toml(tmp_path / "grid.toml")

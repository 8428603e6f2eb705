"""The command that repeats a trial, read back by the command line."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnparse.cli import train
from rnnparse.cli.treebank_style import given_style
from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.parser_study.train_command import train_command, with_commands


def parsed(text: str) -> TrainingConfig:
    """The settings that a command line of `rnnparse train` gives."""
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    words = shlex.split(text)
    assert words[:2] == ["rnnparse", "train"]
    names = set(TrainingConfig().to_dict())
    args = parser.parse_args(words[2:])
    given = vars(args)
    settings = {name: given[name] for name in given if name in names}
    return TrainingConfig.from_dict({**settings, **given_style(args)})


def test_the_command_is_short_and_exact() -> None:
    config = {"optimizer": "adam", "learning_rate": 0.001, "batch_size": 256, "l2": 1e-05}
    fixed = {"treebank": "my trees/train.mrg", "candidates": 100, "freeze": ["vectors", "W:NP,*"]}
    assert train_command(config, seed=3, fixed=fixed, out="best") == (
        "rnnparse train 'my trees/train.mrg' --freeze vectors --freeze 'W:NP,*' --optimizer adam "
        "--learning-rate 0.001 --batch-size 256 --l2 1e-05 --seed 3 --out best"
    )


def test_a_command_for_what_training_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown settings width"):
        train_command({"width": 8})


@given(
    st.fixed_dictionaries(
        {
            "optimizer": st.sampled_from(["sgd", "momentum", "adagrad", "keras-adagrad", "adam"]),
            "learning_rate": st.floats(1e-12, 1e6),
            "batch_size": st.integers(1, 10_000),
            "l2": st.floats(0, 10),
            "kappa": st.floats(0, 10),
            "objective": st.sampled_from(["hinge", "mmi"]),
            "tie": st.sampled_from(["first", "gold"]),
            "epochs": st.integers(1, 100),
        }
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "treebank": st.sampled_from(["a.mrg", "nltk:treebank", "x y/*.mrg"]),
            "dev": st.sampled_from(["b.mrg"]),
            "candidates": st.sampled_from([50, 100]),
            "averaging": st.booleans(),
            "exact": st.booleans(),
            "prune_vectors": st.booleans(),
            "heads": st.sampled_from(["english", "left"]),
            "freeze": st.sampled_from([[], ["W"], ["v", "W:A,B"]]),
            "jackknife": st.sampled_from([0, 5]),
            "style": st.sampled_from(
                [
                    {},
                    {"encoding": "latin-1", "strict": True, "lemmas": True},
                    {"traces": [], "drop": ["X"], "separators": ["-", "##"]},
                ]
            ),
        },
    ),
    st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None)
def test_the_command_line_reads_back_the_same_settings(
    config: dict[str, Any], fixed: dict[str, Any], seed: int
) -> None:
    expected = TrainingConfig.from_dict({**fixed, **config, "seed": seed})
    assert parsed(train_command(config, seed=seed, fixed=fixed)) == expected


def test_trials_of_earlier_versions_get_their_commands() -> None:
    space = {"axes": {"optimizer": ["sgd"]}, "rates": {}, "fixed": {"kbest": 7}}
    about: dict[str, Any] = {"space": space}
    records = [
        {"id": "a", "seed": 3, "config": {"optimizer": "sgd", "learning_rate": 0.1}},
        {"id": "b", "seed": 0, "config": {"optimizer": "levenberg-marquardt"}},
    ]
    commands = with_commands(about, records)["commands"]
    assert list(commands) == ["a"]  # the parser no longer trains by the other optimizer
    settings = parsed(commands["a"])
    assert (settings.candidates, settings.learning_rate, settings.seed) == (7, 0.1, 3)
    named = {**about, "commands": {"a": "own"}}
    assert with_commands(named, records) is named
    more = [*records, {**records[0], "id": "c"}]
    assert with_commands(named, more)["commands"]["a"] == "own"
    assert "--learning-rate 0.1" in with_commands(named, more)["commands"]["c"]


def test_other_studies_with_an_optimizer_have_no_commands() -> None:
    about = {"space": {"axes": {"optimizer": ["adam"], "units": [8]}, "fixed": {}}}
    records = [{"id": "a", "seed": 0, "config": {"optimizer": "adam", "units": 8}}]
    assert with_commands(about, records) is about

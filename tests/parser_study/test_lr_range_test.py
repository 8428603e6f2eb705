"""Range tests of the parser's training."""

from __future__ import annotations

from typing import Any

import pytest

from rnnparse.config import TrainingConfig
from rnnparse.parser_study.lr_range_test import parser_range_test
from rnnparse.study.range_result import RangeTest
from tests.training.runs import write_treebank


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> TrainingConfig:
    folder = tmp_path_factory.mktemp("range")
    return TrainingConfig(
        treebank=write_treebank(folder / "train.mrg", 60),
        cache=str(folder / "cache"),
        candidates=10,
        dim=5,
        batch_size=20,
    )


def of_parser(config: TrainingConfig, **changed: Any) -> RangeTest:
    return parser_range_test(TrainingConfig(**{**config.to_dict(), **changed}), updates=80)


@pytest.mark.slow
def test_the_parser_has_rates_that_help_and_a_limit(config: TrainingConfig) -> None:
    for optimizer in ("adagrad", "adam"):
        result = of_parser(config, optimizer=optimizer)
        assert result.interval is not None and result.limit is not None
        assert min(result.smoothed) < 0.7 * result.start
        assert result == of_parser(config, optimizer=optimizer)


def test_adagrad_does_not_care_for_the_scale_of_the_loss(config: TrainingConfig) -> None:
    """Its steps depend on the signs and ratios of derivatives; those of the L2 term are left out.

    The perceptron's loss has no scale of its own, so that κ plays no part.
    """
    one = of_parser(config, optimizer="adagrad", l2=0.0, objective="perceptron")
    other = of_parser(config, optimizer="adagrad", l2=0.0, objective="perceptron", kappa=9.0)
    assert one == other

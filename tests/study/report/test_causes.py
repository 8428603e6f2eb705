"""What the settings of a study have in common."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.diagnosis.advice import Finding
from rnnparse.study.records import make_record
from rnnparse.study.report.causes import axis_shares, causes
from rnnparse.study.report.narrative import Trait, about_best, warnings
from rnnparse.study.report.results import Results
from tests.study.report.studies import results, trial

FALLING = [5.0 * 0.9**t for t in range(20)]


def scored(config: dict[str, Any], *f1: float, **series: Any) -> dict[str, Any]:
    return trial(config, *FALLING, f1=f1, updates=series)


def grid(f1: Callable[[int, int], float]) -> Results:
    """Four values on each of two axes, and the F1 of each setting."""
    settings = [{"a": a, "b": b} for a in range(1, 5) for b in range(1, 5)]
    return results([scored(s, f1(s["a"], s["b"])) for s in settings])


def only(results: Results, code: str) -> Mapping[str, Any]:
    """The values of the one finding, which has that code."""
    (finding,) = causes(results)
    assert finding.code == code
    return finding.values


# -- the axes ------------------------------------------------------------------------------------


def test_an_axis_that_decides_alone_explains_all() -> None:
    by_a = grid(lambda a, b: 80.0 + a)
    assert axis_shares(by_a) == pytest.approx({"a": 1.0, "b": 0.0}, abs=1e-12)
    assert causes(by_a)[-1] == Finding("axes_explain", metric="dev_f1", axes={"a": 100})


def test_shares_are_those_of_the_sums_of_squares() -> None:
    # a has the variance 5/4, b four times that; nothing is left to chance.
    shares = axis_shares(grid(lambda a, b: a + 2.0 * b))
    assert shares == {"a": pytest.approx(0.2), "b": pytest.approx(0.8)}
    # What is left, a term that neither explains, takes 3 of 9 degrees of freedom from each.
    odd = axis_shares(grid(lambda a, b: a + 2.0 * b + (1 if (a + b) % 2 else -1)))
    assert odd == {
        "a": pytest.approx((20 - 3 * 16 / 9) / 116),
        "b": pytest.approx((80 - 3 * 16 / 9) / 116),
    }


def test_axes_that_go_together_share_what_they_explain() -> None:
    """As in the preset `quick`, where each optimizer has rates of its own."""
    rates = {"sgd": (1.0, 0.3, 0.1), "adagrad": (0.1, 0.03, 0.01), "adam": (0.03, 0.01, 0.003)}
    settings = [{"optimizer": name, "rate": rate} for name in rates for rate in rates[name]]
    draw = random.Random(3)
    for _ in range(50):
        effect = {rate: draw.gauss(0, 1) for own in rates.values() for rate in own}
        records = [scored(s, 80.0 + effect[s["rate"]] + draw.gauss(0, 0.1)) for s in settings]
        study = results(records)
        shares = axis_shares(study)
        assert sum(shares.values()) <= 1 + 1e-9 and min(shares.values()) >= 0
        assert sum(causes(study)[-1].values["axes"].values()) <= 100


def test_batches_of_all_examples_are_one_value_for_every_part() -> None:
    f1 = {128: 81.0, 256: 83.0, 512: 83.0, 1024: 83.0}
    settings = [{"batch_size": b, "rate": r} for b in f1 for r in (0.1, 0.01, 0.001)]
    records = [scored(s, f1[s["batch_size"]] + s["rate"]) for s in settings]
    study = results(records, sizes={"train": 200, "dev": 20})
    told = {one.code: one.values for one in (*warnings(study), *about_best(study))}
    assert told["whole_batches"] == {"sizes": [256, 512, 1024], "examples": 200}
    assert told["edge"]["axis"] == "rate"  # no batch is larger
    same = [f"batch size {size}, rate 0.1" for size in (512, 1024)]
    assert told["same_in_effect"]["names"] == same
    few = results(records[:6], sizes={"train": 200})
    assert axis_shares(study) == axis_shares(few) == {}  # six settings, not twelve


@pytest.mark.slow
def test_noise_explains_nothing_in_the_mean() -> None:
    draw = random.Random(0)
    shares = []
    for _ in range(300):
        by_axis = axis_shares(grid(lambda a, b: draw.gauss(80, 1)))
        shares += list(by_axis.values())
    biased = 3 / 15  # what η² would be
    assert sum(shares) / len(shares) < biased / 2
    assert sum(share == 0 for share in shares) > len(shares) / 2


def test_one_setting_that_fell_apart_does_not_decide_all() -> None:
    def f1(a: int, b: int) -> float:
        return -1e6 if (a, b) == (1, 1) else 80.0 + 0.1 * b + 0.01 * a

    assert axis_shares(grid(f1))["b"] > 0.3


def test_settings_added_to_the_grid_do_not_count() -> None:
    grid = Grid({"batch_size": [1, 2, 3, 4], "dim": [1, 2, 3, 4]})
    records = [scored(config, 80.0 + config["dim"]) for config in grid.configs()]
    added = {**grid.configs()[0], "batch_size": 40}
    with_one = [*records, scored(added, 10.0)]

    def shares(records: list[dict[str, Any]], **more: Any) -> dict[str, float]:
        return axis_shares(results(records, space=replace(grid, **more)))

    assert shares(with_one, further=[added]) == shares(records)
    assert shares(with_one) != shares(records)


def test_what_does_not_compare_has_no_shares() -> None:
    few = [scored({"a": a, "b": b}, 80.0 + a) for a in (1, 2) for b in (1, 2)]
    assert axis_shares(results(few)) == {}
    alone = [scored({"a": a}, 80.0 + a) for a in range(9)]
    assert axis_shares(results(alone)) == {}
    # Objectives of other L2 weights are other objectives.
    axes = {"l2": [1, 2, 3], "b": [1, 2, 3]}
    other = [
        make_record({"l2": x, "b": b}, 0, "finished", Curve({"objective": [5.0, 1.0 * x]}))
        for x in axes["l2"]
        for b in axes["b"]
    ]
    assert axis_shares(results(other)) == {}
    assert math.isfinite(sum(axis_shares(grid(lambda a, b: 80.0)).values()))


# -- the rest ------------------------------------------------------------------------------------


def test_short_runs_and_updates_that_hardly_move_are_reported() -> None:
    slow = {"objective": [5.0 - 0.001 * t for t in range(20)], "update_ratio": [1e-5] * 20}
    records = [scored({"optimizer": "sgd", "b": b}, 80.0, **slow) for b in (1, 2)]
    fast = {"update_ratio": [0.05] * 20}
    records += [scored({"optimizer": "adam", "b": b}, 80.0, **fast) for b in (1, 2)]
    traits = [Trait(2, 2, (("optimizer", "sgd"),))]
    who = {"count": 2, "total": 4, "name": None, "traits": traits}
    assert causes(results(records)) == [
        Finding("updates_made", least=20, most=20),
        Finding("hardly_moved", share=0.01, **who),
    ]
    assert causes(results(records[2:])) == []


def test_l2_terms_that_dominate_are_reported_by_weight() -> None:
    def record(l2: Any, b: int, penalty: float, low: float) -> dict[str, Any]:
        loss = [1.0 - (1.0 - low) * t / 19 for t in range(20)]
        objective = [x + penalty * (1 - t / 40) for t, x in enumerate(loss)]
        return scored({"l2": l2, "b": b}, 80.0, objective=objective, loss=loss)

    records = [record(0.1, b, 40.0, 0.9) for b in (1, 2)]
    records += [record(0.001, b, 3.0, 0.25) for b in (1, 2)]
    values = only(results(records), "penalty_dominates")
    shares = [(weight, round(share, 3), round(loss, 2)) for weight, share, loss in values["parts"]]
    assert shares == [(0.001, 0.863, 0.25), (0.1, 0.959, 0.9)]
    assert values["of_fall"] and values["judge_by"] == ["loss", "dev_f1"]
    ((weight, share, _),) = only(results(records[:2]), "penalty_dominates")["parts"]
    assert (weight, share) == (0.1, pytest.approx(0.959, abs=1e-3))


def test_a_fall_of_the_loss_is_not_put_down_to_l2() -> None:
    loss = [4.0 * 0.7**t for t in range(20)]
    series = {"objective": [x + 1.0 for x in loss], "loss": loss}
    axes = ("none", 0.1)  # an axis may have words, too
    records = [make_record({"l2": x, "b": 1}, 0, "finished", Curve(series)) for x in axes]
    values = only(results(records), "penalty_dominates")
    assert not values["of_fall"] and values["judge_by"] == ["loss"]
    assert [weight for weight, *_ in values["parts"]] == ["none", 0.1]
    assert values["parts"][0][2] == pytest.approx(0.00456, rel=1e-3)


def test_dev_f1_at_rest_is_reported() -> None:
    rising = scored({"a": 1}, *(80.0 + i for i in range(12)))
    resting = scored({"a": 2}, 80.0, 85.0, *[84.9] * 5)
    who = {"count": 1, "total": 2, "name": "a 2", "traits": []}
    assert causes(results([rising, resting])) == [
        Finding("at_rest", metric="dev_f1", epochs=5, **who)
    ]
    assert causes(results([rising])) == []
    history = {"loss": [5.0 * 0.9**t for t in range(12)], "val_loss": [0.5, *[0.6] * 11]}
    keras = make_record({"a": 1}, 0, "finished", Curve.from_history(history))
    assert only(results([keras]), "at_rest")["metric"] == "validation loss"

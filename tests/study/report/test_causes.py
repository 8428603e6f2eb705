"""What the settings of a study have in common."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.diagnosis import diagnose_all
from rnnparse.study.records import make_record
from rnnparse.study.report.causes import axis_shares, causes
from rnnparse.study.report.narrative import best_card, warnings
from rnnparse.study.report.results import Results
from rnnparse.study.search_space import Space


def results(records: list[dict[str, Any]], axes: dict[str, Any]) -> Results:
    about = {"name": "made up", "gold": None, "space": Space(axes).to_dict()}
    return Results(Path(), about, records, diagnose_all(records))


def scored(config: dict[str, Any], f1: float, *more: float, **series: Any) -> dict[str, Any]:
    epochs = [{"epoch": i, "dev_f1": value} for i, value in enumerate((f1, *more), 1)]
    updates = {"objective": [5.0 * 0.9**t for t in range(20)], **series}
    return make_record(config, 0, "finished", Curve(updates, epochs))


def grid(f1: Any) -> Results:
    """Four values on each of two axes, and the F1 of each setting."""
    axes = {"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}
    settings = [{"a": a, "b": b} for a in axes["a"] for b in axes["b"]]
    return results([scored(s, f1(s["a"], s["b"])) for s in settings], axes)


# -- the axes ------------------------------------------------------------------------------------


def test_an_axis_that_decides_alone_explains_all() -> None:
    found = grid(lambda a, b: 80.0 + a)
    assert axis_shares(found) == {"a": pytest.approx(1.0), "b": 0.0}
    assert causes(found)[-1].startswith(
        "Of the differences in dev F1 between the settings, the axes explain: a 100 %; "
    )


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
    axes = {"optimizer": [*rates], "rate": sorted({x for own in rates.values() for x in own})}
    draw = random.Random(3)
    for _ in range(50):
        effect = {rate: draw.gauss(0, 1) for rate in axes["rate"]}
        records = [scored(s, 80.0 + effect[s["rate"]] + draw.gauss(0, 0.1)) for s in settings]
        found = results(records, axes)
        shares = axis_shares(found)
        assert sum(shares.values()) <= 1 + 1e-9 and min(shares.values()) >= 0
        told = [int(x) for x in re.findall(r" (\d+) %", causes(found)[-1])]
        assert sum(told) <= 100, causes(found)


def test_batches_of_all_examples_are_one_value_for_every_part() -> None:
    axes = {"batch_size": [128, 256, 512, 1024], "rate": [0.1, 0.01, 0.001]}
    settings = [{"batch_size": b, "rate": r} for b in axes["batch_size"] for r in axes["rate"]]
    f1 = {128: 81.0, 256: 83.0, 512: 83.0, 1024: 83.0}
    records = [scored(s, f1[s["batch_size"]] + s["rate"]) for s in settings]
    found = results(records, axes)
    found.about["sizes"] = {"train": 200, "dev": 20}  # type: ignore[index]
    told = " ".join([*causes(found), *warnings(found), *best_card(found)["sentences"]])  # type: ignore[index]
    assert "Batches of 256, 512 and 1024 are all 200 examples at once" in told
    assert "batch size: the best" not in told and "try 2" not in told
    assert "The same in effect: batch size 512, rate 0.1; batch size 1024, rate 0.1." in told
    few = results(records[:6], {**axes, "batch_size": [128, 256]})
    few.about["sizes"] = {"train": 200}  # type: ignore[index]
    assert axis_shares(found) == axis_shares(few) == {}  # six settings, not twelve


def test_noise_explains_nothing_in_the_mean() -> None:
    draw = random.Random(0)
    shares = []
    for _ in range(300):
        found = axis_shares(grid(lambda a, b: draw.gauss(80, 1)))
        shares += list(found.values())
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
        space = replace(grid, **more).to_dict()
        about = {"name": "made up", "gold": None, "space": space}
        return axis_shares(Results(Path(), about, records, diagnose_all(records)))

    assert shares(with_one, further=[added]) == shares(records)
    assert shares(with_one) != shares(records)


def test_what_does_not_compare_has_no_shares() -> None:
    few = [scored({"a": a, "b": b}, 80.0 + a) for a in (1, 2) for b in (1, 2)]
    assert axis_shares(results(few, {"a": [1, 2], "b": [1, 2]})) == {}
    alone = [scored({"a": a}, 80.0 + a) for a in range(9)]
    assert axis_shares(results(alone, {"a": list(range(9))})) == {}
    # Objectives of other L2 weights are other objectives.
    axes = {"l2": [1, 2, 3], "b": [1, 2, 3]}
    other = [
        make_record({"l2": x, "b": b}, 0, "finished", Curve({"objective": [5.0, 1.0 * x]}))
        for x in axes["l2"]
        for b in axes["b"]
    ]
    assert axis_shares(results(other, axes)) == {}
    assert math.isfinite(sum(axis_shares(grid(lambda a, b: 80.0)).values()))


# -- the rest ------------------------------------------------------------------------------------


def test_short_runs_and_updates_that_hardly_move_are_told_of() -> None:
    axes = {"optimizer": ["sgd", "adam"], "b": [1, 2]}
    slow = {"objective": [5.0 - 0.001 * t for t in range(20)], "update_ratio": [1e-5] * 20}
    fast = {"update_ratio": [0.05] * 20}
    records = [
        scored({"optimizer": name, "b": b}, 80.0, **(slow if name == "sgd" else fast))
        for name in axes["optimizer"]
        for b in axes["b"]
    ]
    found = causes(results(records, axes))
    assert found == [
        "Runs made 20 updates.",
        "In 2 of 4 settings all updates together moved the weights by less than 1 % of their "
        "length: both have sgd.",
    ]
    assert causes(results(records[2:], axes)) == []


def test_l2_terms_that_dominate_are_told_of_by_weight() -> None:
    def record(l2: float, b: int, penalty: float, low: float) -> dict[str, Any]:
        loss = [1.0 - (1.0 - low) * t / 19 for t in range(20)]
        objective = [x + penalty * (1 - t / 40) for t, x in enumerate(loss)]
        return scored({"l2": l2, "b": b}, 80.0, objective=objective, loss=loss)

    axes = {"l2": [0.1, 0.001], "b": [1, 2]}
    records = [record(0.1, b, 40.0, 0.9) for b in (1, 2)]
    records += [record(0.001, b, 3.0, 0.25) for b in (1, 2)]
    [found] = causes(results(records, axes))
    assert found == (
        "In the median, the L2 term ends as 86.3 % with L2 0.001 (lowest loss 0.25) and 95.9 % "
        "with L2 0.1 (lowest loss 0.9) of the objective: its fall is mostly that of the weights' "
        "length, so judge settings by loss and dev F1."
    )
    [one] = causes(results(records[:2], {"l2": [0.1], "b": [1, 2]}))
    assert one.startswith("In the median, the L2 term ends as 95.9 % (lowest loss 0.9) of the ")


def test_a_fall_of_the_loss_is_not_put_down_to_l2() -> None:
    loss = [4.0 * 0.7**t for t in range(20)]
    series = {"objective": [x + 1.0 for x in loss], "loss": loss}
    axes = {"l2": ["none", 0.1], "b": [1]}  # an axis may have words, too
    records = [make_record({"l2": x, "b": 1}, 0, "finished", Curve(series)) for x in axes["l2"]]
    [found] = causes(results(records, axes))
    assert found.startswith("In the median, the L2 term ends as ")
    assert " with L2 none (lowest loss 0.00456) and " in found
    assert found.endswith(" of the objective, so judge settings by loss.")


def test_dev_f1_at_rest_is_told_of() -> None:
    rising = scored({"a": 1}, *(80.0 + i for i in range(12)))
    resting = scored({"a": 2}, 80.0, 85.0, *[84.9] * 5)
    [found] = causes(results([rising, resting], {"a": [1, 2]}))
    assert found == "In 1 of 2 settings dev F1 had not risen for 5 epochs or more at the end: a 2."
    assert causes(results([rising], {"a": [1]})) == []
    history = {"loss": [5.0 * 0.9**t for t in range(12)], "val_loss": [0.5, *[0.6] * 11]}
    keras = make_record({"a": 1}, 0, "finished", Curve.from_history(history))
    [found] = causes(results([keras], {"a": [1]}))
    assert found.startswith("In 1 of 1 setting validation loss had not fallen for 5 epochs or more")

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.adagrad import AdaGrad
from rnnparse.optim.optimizers import known_optimizers
from rnnparse.optim.slots import rebuild_optimizer, variable_path, variable_slots

SHAPES = {"a": (3, 4), "b": (4,), "c": (4, 4)}
OPTIMIZERS = known_optimizers()


def variables(names: str = "abc", seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        keras.Variable(rng.standard_normal(SHAPES[name]), dtype="float32", name=name)
        for name in names
    ]


def steps(optimizer: Any, chosen: list[Any], seed: int, count: int = 3) -> None:
    """Gradients depend on the seed, the step and the variable's path, not on its place."""
    for step in range(count):
        gradients = [
            np.random.default_rng([seed, step, *v.path.encode()]).standard_normal(v.shape)
            for v in chosen
        ]
        optimizer.apply([tf.constant(g, tf.float32) for g in gradients], chosen)


def bytes_of(optimizer: Any, variable: Any) -> dict[str, bytes]:
    slots = {name: x.numpy().tobytes() for name, x in variable_slots(optimizer, variable).items()}
    return slots | {"": variable.numpy().tobytes()}


def multi() -> Any:
    known = {"b": keras.optimizers.SGD(0.1, momentum=0.9)}
    return keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(keras.optimizers.Adam(0.01), known)
    )


MAKERS = {name: lambda cls=cls: cls(learning_rate=0.01) for name, cls in OPTIMIZERS.items()} | {
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "centered rmsprop": lambda: keras.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "average": lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
    "accumulation": lambda: AdaGrad(0.1, gradient_accumulation_steps=2),
    "fixed loss scale": lambda: keras.optimizers.Adam(0.01, loss_scale_factor=8.0),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01), dynamic_growth_steps=2
    ),
    "decay": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), weight_decay=0.01
    ),
    "multi": multi,
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_variables_that_stay_go_on_as_if_nothing_had_happened(maker: Any) -> None:
    one, two = variables(), variables()
    kept, whole = maker(), maker()
    steps(kept, one, seed=1)
    steps(whole, two, seed=1)
    rebuilt = rebuild_optimizer(kept, [one[2], one[0]])
    steps(rebuilt, [one[2], one[0]], seed=2)
    steps(whole, two, seed=2)
    for i in (0, 2):
        assert bytes_of(rebuilt, one[i]) == bytes_of(whole, two[i])
    assert float(rebuilt.iterations) == float(whole.iterations)
    assert not variable_slots(rebuilt, one[1])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_variables_that_come_in_start_afresh(name: str) -> None:
    a, b, _ = variables()
    optimizer = OPTIMIZERS[name](learning_rate=0.01)
    steps(optimizer, [a], seed=1)
    before = bytes_of(optimizer, a)
    rebuilt = rebuild_optimizer(optimizer, [a, b])
    fresh = OPTIMIZERS[name](learning_rate=0.01)
    fresh.build([b])
    assert bytes_of(rebuilt, a) == before
    assert bytes_of(rebuilt, b) == bytes_of(fresh, b)


def test_the_old_optimiser_stays_as_it_is() -> None:
    chosen = variables()
    optimizer = keras.optimizers.Adam(0.01)
    steps(optimizer, chosen, seed=1)
    before = [x.numpy().tobytes() for x in optimizer.variables]
    steps(rebuild_optimizer(optimizer, chosen[1:]), chosen[1:], seed=2)
    assert [x.numpy().tobytes() for x in optimizer.variables] == before


def test_adams_first_step_on_a_late_variable_is_longer_than_the_rate() -> None:
    """As the documentation warns: the correction of the bias goes by the steps of all."""
    a, b, _ = variables()
    optimizer = keras.optimizers.Adam(0.01)
    steps(optimizer, [a], seed=1)
    optimizer.iterations.assign(100_000)
    rebuilt = rebuild_optimizer(optimizer, [a, b])
    before = b.numpy()
    rebuilt.apply([tf.ones(a.shape), tf.ones(b.shape)], [a, b])
    np.testing.assert_allclose(before - b.numpy(), 0.01 * (1 - 0.9) / np.sqrt(1 - 0.999), rtol=1e-4)


def test_a_moving_average_begins_at_the_present_value() -> None:
    a, b, _ = variables()
    optimizer = keras.optimizers.SGD(0.1, use_ema=True)
    steps(optimizer, [a], seed=1)
    rebuilt = rebuild_optimizer(optimizer, [a, b])
    (average,) = variable_slots(rebuilt, b).values()
    assert np.array_equal(average, b)
    before = variable_slots(optimizer, a)["_model_variables_moving_average"]
    assert np.array_equal(before, variable_slots(rebuilt, a)["_model_variables_moving_average"])


def test_settings_changed_since_are_kept() -> None:
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(variables())
    optimizer.learning_rate = 0.3
    optimizer.momentum = 0.5
    rebuilt = rebuild_optimizer(optimizer, variables("a"))
    assert float(rebuilt.learning_rate) == np.float32(0.3)
    assert rebuilt.momentum == 0.5
    assert rebuilt.name == optimizer.name


def quarter() -> float:
    return 0.25


def test_schedules_and_functions_of_the_rate_are_kept() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.4, 1, 0.5)
    chosen = variables()
    optimizer = AdaGrad(schedule)
    steps(optimizer, chosen, seed=1, count=2)
    assert float(rebuild_optimizer(optimizer, chosen[:1]).learning_rate) == np.float32(0.1)
    optimizer = AdaGrad(quarter)
    steps(optimizer, chosen, seed=1)
    assert rebuild_optimizer(optimizer, chosen[:1]).learning_rate == 0.25


def test_exclusions_from_weight_decay_are_kept() -> None:
    a, b, c = variables()
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[a])
    optimizer.build([a, b])
    rebuilt = rebuild_optimizer(optimizer, [a, b, c])
    before = [v.numpy() for v in (a, b)]
    rebuilt.apply([tf.zeros(v.shape) for v in (a, b)], [a, b])
    assert np.array_equal(a, before[0])
    assert np.abs(b.numpy()).sum() < np.abs(before[1]).sum()


def test_variables_of_the_same_name_are_not_confused() -> None:
    one, two = (keras.Variable(np.full(3, i), dtype="float32", name="kernel") for i in (0, 1))
    assert one.path == two.path
    optimizer = AdaGrad(0.1)
    optimizer.apply([tf.fill(3, 2.0), tf.fill(3, 3.0)], [one, two])
    rebuilt = rebuild_optimizer(optimizer, [two, one])
    sums = [variable_slots(rebuilt, v)["_sums"].numpy()[0] for v in (one, two)]
    assert sums == [4.0, 9.0]


def test_other_objects_with_the_same_path_take_the_slots_over() -> None:
    chosen, loaded = variables(), variables("cb", seed=5)
    optimizer = keras.optimizers.Adam(0.01)
    steps(optimizer, chosen, seed=1)
    rebuilt = rebuild_optimizer(optimizer, loaded)
    for old, new in ((chosen[2], loaded[0]), (chosen[1], loaded[1])):
        before, after = bytes_of(optimizer, old), bytes_of(rebuilt, new)
        assert before["_momentums"] == after["_momentums"]
        assert before["_velocities"] == after["_velocities"]


def test_other_objects_that_the_path_does_not_tell_apart_are_refused() -> None:
    optimizer = AdaGrad(0.1)
    optimizer.build(variables("ab"))
    with pytest.raises(ConfigError, match="several variables have the path a"):
        rebuild_optimizer(optimizer, [*variables("a"), *variables("a")])
    optimizer = AdaGrad(0.1)
    optimizer.build([*variables("a"), *variables("a")])
    with pytest.raises(ConfigError, match="several variables have the path a"):
        rebuild_optimizer(optimizer, variables("ab"))


def test_another_shape_under_the_same_path_is_refused() -> None:
    optimizer = AdaGrad(0.1)
    optimizer.build(variables("a"))
    with pytest.raises(ConfigError, match=r"a had the shape \(3, 4\) and has \(5,\) now"):
        rebuild_optimizer(optimizer, [keras.Variable(np.zeros(5), name="a")])


def test_tensorflows_variables_are_optimised_too() -> None:
    one, two = (tf.Variable([1.0, 2.0], name=name) for name in ("x", "y"))
    assert variable_path(one) == "x"
    optimizer = AdaGrad(0.1)
    optimizer.apply([tf.fill(2, 2.0), tf.fill(2, 3.0)], [one, two])
    rebuilt = rebuild_optimizer(optimizer, [two])
    assert variable_slots(rebuilt, two)["_sums"].numpy().tolist() == [9.0, 9.0]


class Hoarder(keras.optimizers.SGD):
    """Keeps its slots by path."""

    def build(self, variables: list[Any]) -> None:
        super().build(variables)
        self.by_path = {
            v.path: self.add_variable_from_reference(v, name="hoard") for v in variables
        }


def test_an_optimiser_whose_state_cannot_be_taken_along_is_refused() -> None:
    optimizer = Hoarder(0.1)
    optimizer.build(variables())
    with pytest.raises(ConfigError, match=r"hoarder cannot be rebuilt: hoarder/a_hoard"):
        rebuild_optimizer(optimizer, variables("a"))


def test_a_multi_optimiser_that_chooses_by_a_function_is_refused() -> None:
    inner = keras.optimizers.SGD(0.1)
    optimizer = keras.optimizers.MultiOptimizer(lambda variable: inner)
    optimizer.build(variables())
    with pytest.raises(ConfigError, match="use an OptimizerMap"):
        rebuild_optimizer(optimizer, variables("a"))


def test_an_optimiser_without_variables_can_be_rebuilt_and_get_some_again() -> None:
    chosen = variables()
    optimizer = AdaGrad(0.1)
    assert len(variable_slots(rebuild_optimizer(optimizer, chosen), chosen[0])) == 1
    steps(optimizer, chosen, seed=1)
    nothing = rebuild_optimizer(optimizer, [])
    assert len(nothing.variables) == 2
    again = rebuild_optimizer(nothing, chosen)
    assert float(again.iterations) == 3
    assert not np.any(variable_slots(again, chosen[0])["_sums"])

"""Options of least-squares fits: losses, bounds, masks, complex data, callbacks, validation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from rnnparse.errors import ConfigError
from rnnparse.optim.levenberg_marquardt import fit_monitor
from rnnparse.optim.levenberg_marquardt.fit import fit_least_squares
from tests.optim.levenberg_marquardt.test_fit import L, flat, sequential, waves


@pytest.fixture(autouse=True)
def _same_weights_each_time() -> None:
    keras.utils.set_random_seed(0)


def line() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """A linear model whose best weights are 1, −2 and a bias of 0.5, with noise and outliers."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (40, 2))
    y = x @ [1.0, -2.0] + 0.5 + rng.normal(0, 0.05, 40)
    y[::8] += 3.0
    model = keras.Sequential([keras.Input((2,)), L.Dense(1, dtype="float64", name="out")])
    return model, x, y


def scipy_line(x: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
    tight = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
    solution = scipy.optimize.least_squares(
        lambda b: x @ b[:2] + b[2] - y, np.full(3, 0.01), **tight, **options
    )
    return np.asarray(solution.x)


# -- losses and bounds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    ["cauchy", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("huber", "soft_l1"))],
)
def test_robust_fits_are_those_of_scipy(loss: str) -> None:
    model, x, y = line()
    fit_least_squares(model, x, y, loss=loss, loss_scale=0.1)
    expected = scipy_line(x, y, loss=loss, f_scale=0.1)
    np.testing.assert_allclose(flat(model), expected, rtol=1e-6)
    np.testing.assert_allclose(flat(model), [1, -2, 0.5], atol=0.1)


def test_weights_count_examples_under_robust_losses_too() -> None:
    """An example of weight 2 counts as two: weights are outside of the loss."""
    model, x, y = line()
    weight = np.arange(40) % 3
    fit_least_squares(model, x, y, loss="huber", loss_scale=0.1, sample_weight=weight)
    repeated = np.repeat(np.arange(40), weight)
    expected = scipy_line(x[repeated], y[repeated], loss="huber", f_scale=0.1)
    np.testing.assert_allclose(flat(model), expected, rtol=1e-6)


def test_bounds_by_pattern_are_those_of_scipy() -> None:
    model, x, y = line()
    fit_least_squares(model, x, y, bounds={"out/kernel": ([[-9], [-1.5]], 0.7), "bias": (0, 0.6)})
    expected = scipy_line(x, y, bounds=([-9, -1.5, 0], [0.7, 0.7, 0.6]))
    np.testing.assert_allclose(flat(model), expected, rtol=1e-6)
    assert flat(model)[1] == -1.5 and flat(model)[2] == 0.6


def test_bounds_that_cannot_be_meant_are_refused() -> None:
    model, x, y = line()
    with pytest.raises(ConfigError, match="no variable or layer matches 'kernal'; did you mean"):
        fit_least_squares(model, x, y, bounds={"kernal": (0, 1)})
    with pytest.raises(ConfigError, match=r"two patterns match .*kernel"):
        fit_least_squares(model, x, y, bounds={"out": (0, 1), "kernel": (0, 2)})
    with pytest.raises(ValueError, match=r"bounds of .*out/bias must be a pair"):
        fit_least_squares(model, x, y, bounds={"bias": 3.0})


def test_a_step_begins_at_the_weights_that_a_callback_has_set() -> None:
    class Reset(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.set_weights([np.zeros_like(each) for each in self.model.get_weights()])

    model, x, y = line()
    result = fit_least_squares(model, x, y, epochs=2, callbacks=[Reset()])
    assert result.history[1].cost_before == pytest.approx(0.5 * np.square(y).sum(), rel=1e-5)


# -- data --------------------------------------------------------------------------------------


def test_examples_of_weight_0_may_hold_anything() -> None:
    x, y = waves()
    weight = (np.arange(40) % 4 > 0).astype(float)
    model = sequential()
    model.build(x.shape)
    start, used = model.get_weights(), weight > 0
    expected = fit_least_squares(model, x[used], y[used], epochs=5)
    without = flat(model)
    bad = np.array([np.nan, np.inf, -np.inf])
    y[::4, 0], x[:12:4] = np.resize(bad, 10), bad[:, None]
    model.set_weights(start)
    result = fit_least_squares(model, x, y, sample_weight=weight, epochs=5)
    assert result == expected
    np.testing.assert_array_equal(flat(model), without)


def test_what_is_not_finite_is_named_by_argument_and_example() -> None:
    x, y = waves()
    y[7], y[9] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"y of example 7 .*2 in all.* sample_weight to 0"):
        fit_least_squares(sequential(), x, y)
    x[3, 1] = np.inf
    with pytest.raises(ValueError, match="x of example 3 is not finite"):
        fit_least_squares(sequential(), x, y)
    for weight, message in ((np.nan, "example 2 is nan"), (1j, "real"), (-1.0, "example 2 is -1")):
        weights = np.ones(40, type(weight))
        weights[2] = weight
        with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
            fit_least_squares(sequential(), *waves(), sample_weight=weights)
    with pytest.raises(ValueError, match="every sample_weight is 0"):
        fit_least_squares(sequential(), *waves(), sample_weight=np.zeros(40))


class Phase(keras.Model):
    """x ↦ exp(i (a x + b)), complex."""

    def __init__(self) -> None:
        super().__init__(dtype="float64")
        self.inner = L.Dense(1, dtype="float64")

    def call(self, x: Any) -> Any:
        angle = self.inner(x)
        return tf.complex(tf.cos(angle), tf.sin(angle))


def test_complex_targets_keep_their_imaginary_part() -> None:
    """cos alone would not tell the phase from its negative."""
    x = np.linspace(-1, 1, 30)[:, None]
    model = Phase()
    model(x)  # which builds it
    model.set_weights([np.array([[-1.0]]), np.array([0.3])])
    result = fit_least_squares(model, x, np.exp(1j * (-1.5 * x + 0.5)))
    assert result.cost < 1e-20
    np.testing.assert_allclose(flat(model), [-1.5, 0.5], rtol=1e-8)
    # Of real targets, the imaginary part of what is predicted counts, too.
    model.set_weights([np.array([[-1.0]]), np.array([0.3])])
    assert fit_least_squares(model, x, np.cos(x)).cost > 0.1


# -- what watches ------------------------------------------------------------------------------


class Recorder(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.calls.append(("begin", self.params["epochs"]))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("batch", batch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch", (epoch, sorted(logs))))

    def on_train_end(self, logs: Any = None) -> None:
        self.calls.append(("end", sorted(logs)))


def test_callbacks_are_called_as_by_keras() -> None:
    x, y = waves()
    record, seen = Recorder(), []
    model = sequential()
    result = fit_least_squares(
        model,
        x,
        y,
        batch_size=20,
        epochs=2,
        validation_data=(x[:9], y[:9]),
        callbacks=[record, lambda epoch, logs: seen.append((epoch, logs))],
    )
    epoch = [("batch", 0), ("batch", 1)]
    names = ["loss", "val_loss"]
    assert record.calls == [
        ("begin", 2),
        *epoch,
        ("epoch", (0, names)),
        *epoch,
        ("epoch", (1, names)),
        ("end", names),
    ]
    assert [number for number, _ in seen] == [0, 1]
    assert result.logs == {name: [logs[name] for _, logs in seen] for name in names}
    last = 0.5 * float(np.square(np.asarray(model(x[:9])) - y[:9]).sum()) / 9
    assert result.logs["val_loss"][-1] == pytest.approx(last, rel=1e-10)
    average = np.mean([step.cost for step in result.history[-2:]]) / 40
    assert result.logs["loss"][-1] == pytest.approx(average)


def test_callbacks_end_a_fit() -> None:
    x, y = waves()
    result = fit_least_squares(sequential(), x, y, callbacks=[lambda epoch, logs: epoch == 2])
    assert result.reason == "callback" and len(result.history) == 3
    # Other targets for validation, so that it gets worse at some time; Keras keeps the best.
    held_out = (x, y + np.random.default_rng(0).normal(0, 0.5, y.shape), np.ones(40))
    stop = keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True)
    model = sequential()
    result = fit_least_squares(model, x, y, validation_data=held_out, callbacks=[stop])
    best = min(result.logs["val_loss"])
    squares = np.square(np.asarray(model(x)) - held_out[1]).sum()
    assert 0.5 * squares / 40 == pytest.approx(best, rel=1e-9)


def test_what_cannot_watch_is_refused() -> None:
    x, y = waves()
    with pytest.raises(ValueError, match="callbacks must be"):
        fit_least_squares(sequential(), x, y, callbacks=[3])
    for data in ([x, y], (x,), x):
        with pytest.raises(ValueError, match="validation_data must be a tuple"):
            fit_least_squares(sequential(), x, y, validation_data=data)
    with pytest.raises(ValueError, match="validation_data: the targets have shape"):
        fit_least_squares(sequential(), x, y, validation_data=(x, x))


@pytest.mark.parametrize("progress", [True, False])
def test_a_bar_is_shown_for_long_fits(
    progress: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    x, y = waves()
    if progress:
        monkeypatch.setattr(fit_monitor, "_SECONDS", 1e9)
        fit_least_squares(sequential(), x, y, epochs=2)
        assert "step" not in capfd.readouterr().err
    monkeypatch.setattr(fit_monitor, "_SECONDS", 0.0)
    fit_least_squares(sequential(), x, y, epochs=3, progress=progress)
    shown = capfd.readouterr().err
    assert ("3/3" in shown and "loss=" in shown) == progress

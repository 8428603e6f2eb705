"""CPU milliseconds (user + system) of a training step with parts of a Keras model frozen.

    python benchmarks/bench_freezing.py [--repeats 15]

Medians; in brackets the part of what the step costs with nothing frozen. Columns:

    fit           Keras's own step in graph mode, AdaGrad, as `fit` takes it
    forward       the model alone in graph mode, which no freezing makes faster
    eager         loss and gradient, run eagerly, with the tape that Keras uses
    eager, told   the same with a tape that watches the trainable variables alone

In graph mode the part below the lowest trainable variable is not differentiated: what nobody asks
for is pruned. An eager tape records all variables as they are used and walks back through all of
them; told what to watch, it does not. Below the models, a step on one variable with rows frozen.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rnnparse._tensorflow import keras, tf
from rnnparse.optim import AdaGrad

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.optim import FrozenRows, freeze, unfreeze  # isort: skip

layers = keras.layers
CLASSES = 10
WARM_UP = 3


def dense_model() -> tuple[Any, np.ndarray]:
    """Six layers of 512 units; 256 examples."""
    hidden = [layers.Dense(512, activation="relu", name=f"dense_{i}") for i in range(6)]
    model = keras.Sequential([keras.Input((512,)), *hidden, layers.Dense(CLASSES, name="head")])
    return model, np.random.default_rng(0).standard_normal((256, 512)).astype(np.float32)


def convolutional_model() -> tuple[Any, np.ndarray]:
    """Four convolutions of 32 channels; 32 images of 32 × 32."""
    hidden = [
        layers.Conv2D(32, 3, padding="same", activation="relu", name=f"conv_{i}") for i in range(4)
    ]
    pool, head = layers.GlobalAveragePooling2D(), layers.Dense(CLASSES, name="head")
    model = keras.Sequential([keras.Input((32, 32, 3)), *hidden, pool, head])
    return model, np.random.default_rng(0).standard_normal((32, 32, 32, 3)).astype(np.float32)


def recurrent_model() -> tuple[Any, np.ndarray]:
    """Embeddings of 20,000 words and two LSTMs; 64 sequences of 32 words."""
    hidden = [
        layers.Embedding(20_000, 64, name="embedding"),
        layers.LSTM(64, return_sequences=True, name="lstm_0"),
        layers.LSTM(64, name="lstm_1"),
    ]
    words = keras.Input((32,), dtype="int32")
    model = keras.Sequential([words, *hidden, layers.Dense(CLASSES, name="head")])
    return model, np.random.default_rng(0).integers(0, 20_000, (64, 32)).astype(np.int32)


def milliseconds(function: Callable[[], Any], repeats: int) -> float:
    """Median CPU time; the first calls, which trace, do not count."""
    seconds = []
    for _ in range(repeats + WARM_UP):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return 1000 * float(np.median(seconds[WARM_UP:]))


def gradient(model: Any, x: tf.Tensor, y: tf.Tensor, told: bool) -> list[Any]:
    """Derivatives by the trainable variables."""
    chosen = [variable.value for variable in model.trainable_variables]
    with tf.GradientTape(watch_accessed_variables=not told) as tape:
        if told:
            tape.watch(chosen)
        loss = model.compute_loss(x, y, model(x, training=True))
    return tape.gradient(loss, chosen)


def time_model(make: Callable[[], tuple[Any, np.ndarray]], repeats: int) -> None:
    """Print the rows of one model."""
    model, inputs = make()
    x = tf.constant(inputs)
    y = tf.constant(np.random.default_rng(1).integers(0, CLASSES, len(inputs)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=AdaGrad(0.001), loss=loss, jit_compile=False)
    names = [layer.name for layer in model.layers if layer.weights]
    parts = {"nothing": [], "lower half": names[: len(names) // 2], "all but head": names[:-1]}
    forward = tf.function(lambda: model(x, training=True), autograph=False)
    functions: dict[str, Callable[[], Any]] = {
        "fit": lambda: model.train_on_batch(x, y),
        "forward": forward,
        "eager": lambda: gradient(model, x, y, told=False),
        "eager, told": lambda: gradient(model, x, y, told=True),
    }
    print(f"{make.__doc__}\n  {'frozen':<14}" + "".join(f"{name:>18}" for name in functions))
    base: dict[str, float] = {}
    for part, patterns in parts.items():
        unfreeze(model)
        freeze(model, patterns)
        line = f"  {part:<14}"
        for name, function in functions.items():
            found = milliseconds(function, repeats)
            base.setdefault(name, found)
            line += f"{found:>10.1f}  ({found / base[name]:.2f})"
        print(line, flush=True)


def time_rows(shape: tuple[int, ...], touched: int, repeats: int) -> None:
    """Print steps on one variable with some rows frozen; `touched` rows have derivatives."""
    rng = np.random.default_rng(0)
    value = rng.standard_normal(shape)
    derivative = tf.constant(value[:touched], tf.float32)
    if touched < shape[0]:
        rows = tf.constant(rng.permutation(shape[0])[:touched])
        derivative = tf.IndexedSlices(derivative, rows, tf.constant(shape))
    print(f"One variable {shape}, derivatives by {touched} rows")
    print(f"  {'rows frozen':<14}{'AdaGrad':>18}{'Adam':>18}")
    base: dict[str, float] = {}
    for count in (0, 2, shape[0] * 9 // 10):
        line = f"  {count:<14}"
        for name, make in (("AdaGrad", AdaGrad), ("Adam", keras.optimizers.Adam)):
            variable, optimizer = keras.Variable(value, dtype="float32"), make(0.01)
            optimizer.build([variable])
            frozen = FrozenRows([(variable, np.arange(count))])
            found = milliseconds(stepper(frozen, optimizer, derivative, variable), repeats)
            base.setdefault(name, found)
            line += f"{found:>10.1f}  ({found / base[name]:.2f})"
        print(line, flush=True)


def stepper(frozen: FrozenRows, optimizer: Any, derivative: Any, variable: Any) -> Any:
    """A step in graph mode."""
    return tf.function(lambda: frozen.apply(optimizer, [derivative], [variable]), autograph=False)


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="steps a row")
    options = parser.parse_args(arguments)
    for make in (dense_model, convolutional_model, recurrent_model):
        time_model(make, options.repeats)
    time_rows((1000, 51, 25), 1000, options.repeats)
    time_rows((47_000, 25), 500, options.repeats)


if __name__ == "__main__":
    main(sys.argv[1:])

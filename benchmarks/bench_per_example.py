"""What per-example gradients cost: CPU time beside the plain step, and peak memory.

    python benchmarks/bench_per_example.py [--sizes 8,32,128,512] [--repeats 7]

Time: the median CPU milliseconds (user + system) of a training step on a batch of B examples, and
how many times that a step takes in which each example's gradient is clipped (`clip_each`), for some
sizes of chunks. Both in one process, after the first two calls, which compile.

    dense       784-256-256-10, 269,322 weights
    conv        28 × 28, 2 convolutions of 16 and 32 filters, 10 classes
    embedding   20 words of a table 46,787 × 50, their mean, 10 classes
    CVG         some 500 nodes and 100 candidates a sentence (synthetic_forests.py), numba kernels

Memory: the peak of the process above what it took before the step, for the embedding model with
B = 512, each row in a process of its own (Linux only). `rows`: the table is differentiated by the
rows that a chunk reads; `whole`: by all of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_su_rnn import synthetic_store

from rnnparse._tensorflow import keras, tf
from rnnparse.models import CVG, CategoryPairs, ExampleSubgradients, initial_parameters
from rnnparse.optim import AdaGrad, PerExampleModel, clip_each

layers = keras.layers
WORDS, DIM, LENGTH = 46_787, 50, 20
CHUNKS = (1, 4, 8, 16, 64)
CHAIN = [clip_each(1.0)]


class Whole(layers.Embedding):
    """An embedding that is not read by rows, since its `call` is its own."""

    def call(self, inputs: Any) -> Any:
        return super().call(inputs)


def make(name: str, kind: type, table: type = layers.Embedding) -> Any:
    """A classifier of ten classes."""
    if name == "embedding":
        inputs = keras.Input((LENGTH,), dtype="int32")
        hidden = layers.GlobalAveragePooling1D()(table(WORDS, DIM)(inputs))
    elif name == "conv":
        inputs = keras.Input((28, 28, 1))
        hidden = layers.MaxPooling2D()(layers.Conv2D(16, 3, activation="relu")(inputs))
        hidden = layers.Conv2D(32, 3, activation="relu")(hidden)
        hidden = layers.GlobalAveragePooling2D()(hidden)
    else:
        inputs = keras.Input((784,))
        hidden = layers.Dense(256, activation="relu")(inputs)
        hidden = layers.Dense(256, activation="relu")(hidden)
    return kind(inputs, layers.Dense(10)(hidden))


def data(name: str, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """A batch; words follow Zipf's law."""
    rng = np.random.default_rng(0)
    shape = {"dense": (784,), "conv": (28, 28, 1), "embedding": (LENGTH,)}[name]
    if name == "embedding":
        x = np.minimum(rng.zipf(1.2, (size, *shape)), WORDS - 1).astype("int32")
    else:
        x = rng.standard_normal((size, *shape)).astype("float32")
    return tf.constant(x), tf.constant(rng.integers(0, 10, size))


def keras_step(name: str, size: int, chunk: int | None = None, **options: Any) -> Callable[[], Any]:
    """A training step; the plain one where no chunk is given."""
    model = make(name, keras.Model if chunk is None else PerExampleModel, **options)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    extra = {"jit_compile": False} if chunk is None else {"per_example": CHAIN, "chunk": chunk}
    model.compile(AdaGrad(0.01), loss, **extra)
    step, batch = tf.function(model.train_step, autograph=False), data(name, size)
    return lambda: step(batch)


class Network:
    """Training steps of the CVG."""

    def __init__(self, sentences: int) -> None:
        self.store, keys = synthetic_store(sentences)
        numbers = np.arange(keys - 1)
        table = CategoryPairs.count([str(i) for i in range(keys)], numbers, numbers)
        self.start = initial_parameters(table, 47_000, 25)

    def step(self, size: int, chunk: int | None = None) -> Callable[[], Any]:
        """A training step on the first sentences."""
        model, optimizer = CVG(self.start), AdaGrad(0.01)
        batch, variables = self.store.batch(range(size)), model.trainable_variables
        if chunk is None:
            return lambda: optimizer.apply(model.loss_gradients(batch)[1], variables)
        subgradients = ExampleSubgradients(model, chunk=chunk)
        return lambda: optimizer.apply(subgradients.mean(batch, CHAIN)[1], variables)


def milliseconds(step: Callable[[], Any], repeats: int) -> float:
    """The median CPU time of a step."""
    times = []
    for _ in range(repeats + 2):
        start = time.process_time()
        step()
        times.append(1000 * (time.process_time() - start))
    return float(np.median(times[2:]))


def time_table(sizes: list[int], repeats: int) -> None:
    """Print how many times a plain step each per-example step takes."""
    print("times the CPU time of a plain step, by chunk")
    print(f"{'model':<12}{'B':>5}{'plain ms':>10}" + "".join(f"{c:>8}" for c in CHUNKS))
    network = Network(max(sizes))
    for name in ("dense", "conv", "embedding", "CVG"):
        for size in sizes:

            def step(chunk: int | None = None, name: str = name, size: int = size) -> Any:
                return network.step(size, chunk) if name == "CVG" else keras_step(name, size, chunk)

            plain = milliseconds(step(), repeats)
            print(f"{name:<12}{size:>5}{plain:>10.1f}", end="")
            for chunk in CHUNKS:
                if chunk <= size:
                    ratio = milliseconds(step(chunk), min(repeats, 3)) / plain
                    print(f"{ratio:>8.1f}", end="", flush=True)
            print(flush=True)


def peak(table: str, chunk: int) -> float:
    """MB that two steps of the embedding model take above what there was before."""
    layer = Whole if table == "whole" else layers.Embedding
    step = keras_step("embedding", 512, chunk, table=layer)
    before = high_water()
    step()
    step()
    return high_water() - before


def high_water() -> float:
    """The most MB that this process has held so far; `getrusage` counts its parent's, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def memory_table() -> None:
    """Print the peaks, each from a process of its own."""
    megabytes = WORDS * DIM * 4 / 2**20
    print(f"\nMB above the start; table {WORDS} x {DIM} ({megabytes:.0f} MB), B = 512")
    print(f"one dense copy of all gradients would take {512 * megabytes:.0f} MB")
    for table, chunk in (("rows", 1), ("rows", 8), ("rows", 64), ("rows", 512), ("whole", 8)):
        command = [sys.executable, __file__, "--peak", table, "--chunk", str(chunk)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"  {table:<6} chunk {chunk:<4}{float(done.stdout.split()[-1]):>8.0f}", flush=True)


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="8,32,128,512", help="batches")
    parser.add_argument("--repeats", type=int, default=7, help="plain steps a row")
    parser.add_argument("--peak", choices=["rows", "whole"], help="measure this alone")
    parser.add_argument("--chunk", type=int, default=8, help="with --peak")
    options = parser.parse_args(arguments)
    if options.peak:
        print(peak(options.peak, options.chunk))
        return
    time_table([int(size) for size in options.sizes.split(",")], options.repeats)
    memory_table()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Forest nodes a CPU second (user + system) of the network, by engine.

    python benchmarks/bench_su_rnn.py [--store STORE.npz] [--dim 25] [--batch 25] [--l2 0.001]

Medians over minibatches of synthetic forests (see synthetic_forests.py), or of real ones: STORE.npz
holds the arrays of a `ForestDataset` under their names. Every row includes making the minibatch.

    batch               minibatch arrays alone
    forward             scores of all candidates
    all candidates      and derivatives through all of them
    two trees           forward on all, backward on the two trees of each violated example
    step, Keras …       two trees, L2 and a Keras optimiser on the model's variables
    step, … frozen      that step without word vectors, and without the matrices below the scores
    step, tape …        the same through GradientTape and structured_hinge, all candidates
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from synthetic_forests import CATEGORIES, Generator

from rnnparse._tensorflow import tf
from rnnparse.models import (
    CVG,
    CategoryPairs,
    ForestDataset,
    FrozenWeights,
    LevelBatch,
    Parameters,
    Scorer,
    initial_parameters,
    loss_gradients,
)
from rnnparse.optim import AdaGrad, make_optimizer

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.losses import structured_hinge  # isort: skip

WORDS = 47_000
KAPPA = 0.1


def synthetic_store(sentences: int) -> tuple[ForestDataset, int]:
    """A store, and the number of its keys."""
    generator = Generator(0)
    forests = [generator.forest() for _ in range(sentences)]
    rng = np.random.default_rng(0)
    rows = [np.minimum(rng.zipf(1.2, int(f.end.max())), WORDS - 1) for f in forests]
    costs = [rng.integers(1, 9, len(f.root)) * (np.arange(len(f.root)) > 0) for f in forests]
    keys = CategoryPairs.from_forests(CATEGORIES, forests, min_count=4)
    return ForestDataset.from_forests(forests, rows, keys, costs), len(keys)


class Bench:
    """Times functions of a minibatch on one store."""

    def __init__(self, store: ForestDataset, keys: int, options: argparse.Namespace) -> None:
        self.store, self.options = store, options
        # Which keys are unary does not matter for the time.
        table = CategoryPairs.count(
            [str(i) for i in range(keys)], np.arange(keys - 1), np.arange(keys - 1)
        )
        words = max(WORDS, int(store.word.max()) + 1)
        self.parameters = initial_parameters(table, words, options.dim)

    def minibatches(self) -> Iterator[np.ndarray]:
        """Different sentences each time, the same for every function."""
        rng = np.random.default_rng(1)
        for _ in range(self.options.repeats + 2):
            yield rng.permutation(len(self.store))[: self.options.batch]

    def time(self, name: str, function: Callable[[LevelBatch], object]) -> float:
        """Print the median rate; the first two calls, which compile, do not count."""
        rates = []
        for sentences in self.minibatches():
            start = time.process_time()
            batch = self.store.batch(sentences)
            function(batch)
            rates.append((len(batch.key)) / (time.process_time() - start))
        rate = float(np.median(rates[2:]))
        print(f"  {name:<28}{rate / 1e6:8.2f} M nodes a CPU second", flush=True)
        return rate

    def copy(self) -> Parameters:
        """The weights at their start, for functions that change them."""
        return Parameters(*(array.copy() for array in self.parameters))

    def arrays(self) -> None:
        """Kernels without TensorFlow."""
        self.time("batch", lambda batch: None)
        self.time("forward", Scorer(self.parameters).scores)
        self.time("two trees", lambda batch: loss_gradients(batch, self.parameters, "hinge", KAPPA))

    def engine(self, engine: str) -> dict[str, float]:
        """The model in one engine; rates by name."""
        model = CVG(self.copy(), engine)
        functions: dict[str, Callable[[LevelBatch], object]] = {
            "forward": model,
            "all candidates": lambda batch: self.tape(model, batch),
            "two trees": lambda batch: model.loss_gradients(batch, "hinge", KAPPA),
            "step, Keras AdaGrad (ours)": self.keras_step(model, AdaGrad(0.02)),
            "step, vectors frozen": self.frozen_step(engine, "vectors"),
            "step, vectors and W frozen": self.frozen_step(engine, "vectors", "W"),
            "step, Keras SGD": self.keras_step(model, make_optimizer("sgd", 0.02)),
            "step, tape, AdaGrad (ours)": self.tape_step(model, AdaGrad(0.02)),
        }
        return {name: self.time(name, function) for name, function in functions.items()}

    def tape(self, model: CVG, batch: LevelBatch) -> list[tf.Tensor]:
        """Derivatives of the mean hinge and the L2 term through all candidates."""
        variables = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            scores = tf.gather(model(batch), batch.candidates)
            costs = tf.cast(KAPPA * batch.cost[batch.candidates], scores.dtype)
            loss = tf.reduce_mean(structured_hinge(scores, costs, batch.gold, batch.mask))
            penalty = sum(tf.reduce_sum(tf.square(v)) for v in variables[1:])
            loss += 0.5 * self.options.l2 * penalty
        return tape.gradient(loss, variables)

    def tape_step(self, model: CVG, optimizer: AdaGrad) -> Callable[[LevelBatch], object]:
        """Everything by TensorFlow's own means."""
        return lambda batch: optimizer.apply(self.tape(model, batch), model.trainable_variables)

    def frozen_step(self, engine: str, *frozen: str) -> Callable[[LevelBatch], object]:
        """A step of a model of its own that does not train some variables."""
        model = CVG(self.copy(), engine)
        model.freeze(FrozenWeights(frozenset(frozen), {}))
        return self.keras_step(model, AdaGrad(0.02))

    def keras_step(self, model: CVG, optimizer: AdaGrad) -> Callable[[LevelBatch], object]:
        """The two-tree path and an optimiser in graph mode, which reuses its buffers."""
        optimizer.build(model.trainable_variables)

        @tf.function(reduce_retracing=True)
        def apply(derivatives: list[tf.Tensor]) -> None:
            optimizer.apply(derivatives, model.trainable_variables)

        l2 = self.options.l2
        return lambda batch: apply(model.loss_gradients(batch, "hinge", KAPPA, l2=l2)[1])


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--store", type=Path, help="arrays of a ForestDataset (.npz)")
    parser.add_argument("--dim", type=int, default=25)
    parser.add_argument("--batch", type=int, default=25, help="sentences a minibatch")
    parser.add_argument("--l2", type=float, default=0.001)
    parser.add_argument("--repeats", type=int, default=15, help="minibatches a row")
    parser.add_argument("--sentences", type=int, default=300, help="synthetic sentences")
    options = parser.parse_args(arguments)
    if options.store:
        store = ForestDataset(**np.load(options.store, allow_pickle=False))
        keys = int(store.key.max()) + 1
    else:
        store, keys = synthetic_store(options.sentences)
    nodes = np.diff(store.node_offsets)
    print(
        f"{len(store)} sentences, {nodes.mean():.0f} nodes and "
        f"{len(store.root) / len(store):.0f} candidates each; {keys} keys, n = {options.dim}, "
        f"{options.batch} sentences a minibatch"
    )
    bench = Bench(store, keys, options)
    print("arrays (numba, no TensorFlow):")
    bench.arrays()
    rates = {}
    for engine in ("numba", "tensorflow"):
        print(f"Keras model, engine {engine}:")
        rates[engine] = bench.engine(engine)
    print("numba / TensorFlow:")
    for name, rate in rates["numba"].items():
        print(f"  {name:<28}{rate / rates['tensorflow'][name]:8.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])

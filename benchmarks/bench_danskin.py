"""What Danskin's theorem saves: two trees differentiated, against all candidates.

    python benchmarks/bench_danskin.py [--treebank TRAIN.mrg] [--sentences 150] [--dim 25]

CPU milliseconds (user + system) a sentence for the loss and its subgradient, medians over the same
minibatches, by the number of candidates K; first with the weights of the start, where nearly every
sentence is violated, then with weights trained for a few epochs. The k-best lists are those of a
treebank's own sentences, or synthetic forests (see synthetic_forests.py) where there is none.

    nodes            of the forest, a sentence; and the part of them that the two trees have
    violated         sentences with a loss, which alone are differentiated
    TF all           scores by TensorFlow's engine, structured_hinge, a tape through everything
    TF two           scores by the same engine without a tape, then a tape through two trees
    numba all        kernels, backward through all candidates, as under MMI
    numba two        kernels, backward through two trees: what training does by default
    backward         the ratio of the two numba columns without the forward pass that they share

Both ways of TensorFlow's engine and the two trees of the kernels give the same subgradient, which
is checked on the way.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from synthetic_forests import CATEGORIES, Generator

from rnnparse import TrainingConfig
from rnnparse._tensorflow import tf
from rnnparse.grammar import estimate
from rnnparse.inference import Decoder
from rnnparse.models import (
    CVG,
    CategoryPairs,
    ForestDataset,
    LevelBatch,
    Parameters,
    danskin_batch,
    initial_parameters,
    kernels,
    loss_gradients,
    loss_of_scores,
)
from rnnparse.training import Lists, TrainingState, load_clean, make_problem, training_epochs
from rnnparse.trees import HeadTable, words

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.losses import structured_hinge  # isort: skip

KAPPA = 0.1
WARM_UP = 5
COLUMNS = ("TF all", "TF two", "numba two", "numba all")


def real_problems(options: argparse.Namespace) -> Callable[[int], tuple[ForestDataset, Parameters]]:
    """A function that gives the lists of K candidates of a treebank's first sentences."""
    trees = load_clean(str(options.treebank))
    decoder = Decoder(grammar := estimate(trees, HeadTable.english()))
    sample = trees[: options.sentences]

    def problem(k: int) -> tuple[ForestDataset, Parameters]:
        parses = [decoder.parse(words(tree), k) for tree in sample]
        config = TrainingConfig(candidates=k, dim=options.dim)
        made = make_problem(Lists(grammar, parses, []), sample, [], None, config)
        return made.store, made.initial

    return problem


def synthetic_problem(k: int, options: argparse.Namespace) -> tuple[ForestDataset, Parameters]:
    """The same with synthetic forests."""
    generator, rng = Generator(0, candidates=k), np.random.default_rng(0)
    forests = [generator.forest() for _ in range(options.sentences)]
    rows = [np.minimum(rng.zipf(1.2, int(f.end.max())), 4999) for f in forests]
    costs = [rng.integers(1, 9, len(f.root)) * (np.arange(len(f.root)) > 0) for f in forests]
    keys = CategoryPairs.from_forests(CATEGORIES, forests, min_count=4)
    store = ForestDataset.from_forests(forests, rows, keys, costs)
    return store, initial_parameters(keys, 5000, options.dim)


def trained(store: ForestDataset, start: Parameters, options: argparse.Namespace) -> Parameters:
    """The weights after some epochs of AdaGrad."""
    state = TrainingState.start(start)
    config = TrainingConfig(epochs=options.epochs, batch_size=options.batch, l2=0.0)
    for _ in training_epochs(state, store, config, progress=False):
        pass
    return state.parameters


class Ways:
    """The ways to a subgradient of the mean hinge by W, for one set of weights."""

    def __init__(self, weights: Parameters) -> None:
        self.weights, self.model = weights, CVG(weights, "tensorflow")

    def tensorflow_all(self, batch: LevelBatch) -> np.ndarray:
        """Through everything."""
        variables = [variable.value for variable in self.model.trainable_variables]
        with tf.GradientTape() as tape:
            scores = tf.gather(self.model(batch), batch.candidates)
            costs = tf.cast(KAPPA * batch.cost[batch.candidates], scores.dtype)
            loss = tf.reduce_mean(structured_hinge(scores, costs, batch.gold, batch.mask))
        slices = tape.gradient(loss, variables)[1]
        return scattered(batch, slices.indices, slices.values)

    def tensorflow_two(self, batch: LevelBatch) -> np.ndarray:
        """The two-tree path of the model."""
        slices = self.model.loss_gradients(batch, "hinge", KAPPA)[1][1]
        return scattered(batch, slices.indices, slices.values)

    def numba_two(self, batch: LevelBatch) -> np.ndarray:
        """The two-tree path of training."""
        gradients = loss_gradients(batch, self.weights, "hinge", KAPPA)[1]
        return scattered(batch, gradients.rows, gradients.W)

    def numba_all(self, batch: LevelBatch) -> np.ndarray:
        """The same code where every candidate has a weight."""
        gradients = loss_gradients(batch, self.weights, "mmi", KAPPA)[1]
        return scattered(batch, gradients.rows, gradients.W)

    def backward(self, batch: LevelBatch) -> tuple[float, float, float, float]:
        """CPU seconds of the kernel's backward pass through all candidates and through two trees.

        Also the part of the nodes that the two trees have, and of the sentences that have a loss.
        """
        leaves, W, v = self.weights.vectors[batch.words], self.weights.W, self.weights.v
        structure = (batch.rows, batch.key, batch.left, batch.right)
        vectors, totals = kernels.forward(leaves, W, v, *structure)

        def backward(weights: np.ndarray) -> Any:
            return kernels.backward(
                W, v, *structure, batch.root, vectors, len(leaves), weights, True
            )

        scores = totals[batch.root]
        losses, weights = loss_of_scores(batch, scores, "hinge", KAPPA)
        dense = loss_of_scores(batch, scores, "mmi", KAPPA)[1]
        part = danskin_batch(batch, weights)[0]
        nodes = len(part.key) / len(batch.key)
        return cpu(backward, dense)[0], cpu(backward, weights)[0], nodes, float(np.mean(losses > 0))


def scattered(batch: LevelBatch, rows: Any, values: Any) -> np.ndarray:
    """Derivatives by the rows of W that a batch has, from those by some of them."""
    dense = np.zeros((len(batch.rows), *values.shape[1:]), np.float32)
    dense[np.searchsorted(batch.rows, rows)] = values
    return dense


def cpu(function: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """CPU seconds, and the result."""
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def measure(
    store: ForestDataset, weights: Parameters, options: argparse.Namespace
) -> dict[str, Any]:
    """Medians over minibatches."""
    ways, rng, rows = Ways(weights), np.random.default_rng(1), []
    functions = (ways.tensorflow_all, ways.tensorflow_two, ways.numba_two, ways.numba_all)
    for _ in range(options.repeats + WARM_UP):
        batch = store.batch(rng.permutation(len(store))[: options.batch])
        timed = [cpu(function, batch) for function in functions]
        for _, derivative in timed[1:3]:
            np.testing.assert_allclose(derivative, timed[0][1], atol=1e-5)
        rows.append([*(seconds for seconds, _ in timed), *ways.backward(batch)])
    medians = np.median(rows[WARM_UP:], axis=0)
    times = dict(zip(COLUMNS, 1e3 * medians[:4] / options.batch, strict=True))
    return {
        **times,
        "backward": medians[4] / medians[5],
        "two": medians[6],
        "violated": medians[7],
    }


def main(arguments: list[str]) -> None:
    """Parse options, run, print."""
    sample = Path(__file__).resolve().parents[2] / "shared" / "treebanks" / "wsj-sample"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--treebank", type=Path, default=sample / "train.mrg")
    parser.add_argument("--candidates", type=int, nargs="+", default=[10, 50, 100, 200])
    parser.add_argument("--sentences", type=int, default=150)
    parser.add_argument("--dim", type=int, default=25)
    parser.add_argument("--batch", type=int, default=25, help="sentences a minibatch")
    parser.add_argument("--epochs", type=int, default=3, help="before the second measurement")
    parser.add_argument("--repeats", type=int, default=15, help="minibatches")
    options = parser.parse_args(arguments)
    tf.get_logger().setLevel("ERROR")  # of retracing, while it warms up
    if options.treebank.exists():
        problem = real_problems(options)
        print(f"lists of {options.sentences} sentences of {options.treebank}")
    else:
        print("synthetic forests")

        def problem(k: int) -> tuple[ForestDataset, Parameters]:
            return synthetic_problem(k, options)

    print(f"{'weights':<9}{'K':>4}{'nodes':>7}{'two':>6}{'violated':>10}", end="")
    print(f"{'TF all':>10}{'two':>7}{'ratio':>7}{'numba all':>12}{'two':>7}{'ratio':>7}", end="")
    print(f"{'backward':>10}")
    for k in options.candidates:
        store, start = problem(k)
        for name in ("start", "trained"):
            weights = start if name == "start" else trained(store, start, options)
            print_row(name, k, store, measure(store, weights, options))


def print_row(name: str, k: int, store: ForestDataset, figures: dict[str, Any]) -> None:
    """One row of the table."""
    all_tf, two_tf, two_numba, all_numba = (figures[column] for column in COLUMNS)
    nodes = len(store.key) / len(store)
    print(f"{name:<9}{k:>4}{nodes:>7.0f}{figures['two']:>6.0%}{figures['violated']:>10.0%}", end="")
    print(f"{all_tf:>10.2f}{two_tf:>7.2f}{all_tf / two_tf:>7.1f}", end="")
    print(f"{all_numba:>12.3f}{two_numba:>7.3f}{all_numba / two_numba:>7.1f}", end="")
    print(f"{figures['backward']:>10.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

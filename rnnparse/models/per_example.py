"""The subgradient of each sentence's structured loss by the network's weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rnnparse._tensorflow import tf
from rnnparse.models import kernels
from rnnparse.models.batch import LevelBatch, restrict
from rnnparse.models.cvg import CVG
from rnnparse.models.objective import loss_of_scores
from rnnparse.models.parameters import Gradients, Parameters
from rnnparse.optim.gradient_transforms import GradientTransform, batch_weights, cut_chain
from rnnparse.optim.per_example_gradients import (
    ExampleGradients,
    add,
    divide,
    sum_over_parts,
)


class ExampleSubgradients:
    """Per-example subgradients, transformed and averaged; the counterpart of `CVG.loss_gradients`.

    By Danskin's theorem only the trees with a weight are differentiated: under the hinges, two per
    violated sentence. Derivatives are kept only for the rows of `vectors`, `W` and `v` that these
    trees use, so that memory grows with `chunk` and not with the tables. Under the engine `numba`
    each sentence has its own rows, [B, U], padded with row 0 and derivative 0; under `tensorflow`
    (by `tape.jacobian`) it has the rows of its chunk, [U].

    Args:
        model: the network. Frozen rows, and variables that are not trainable, have no derivative.
        objective, kappa, tie: as for `CVG.loss_gradients`.
        chunk: sentences in memory at once.

    Example:
        >>> subgradients = ExampleSubgradients(model)
        >>> losses, derivatives = subgradients.mean(batch, [clip_each(1.0)])
        >>> optimizer.apply(derivatives, model.trainable_variables)
    """

    def __init__(
        self,
        model: CVG,
        objective: str = "hinge",
        kappa: float = 0.1,
        tie: str = "first",
        chunk: int = 32,
    ) -> None:
        if chunk < 1:
            raise ValueError(f"chunk must be a number of sentences, not {chunk}")
        self._model, self._chunk = model, chunk
        self._objective = objective, kappa, tie
        self._derivatives = tf.function(model.derivatives_by_tape, _signature(model.v.dtype))

    def mean(
        self, batch: LevelBatch, chain: Sequence[GradientTransform] = (), l2: float = 0.0
    ) -> tuple[np.ndarray, list[Any]]:
        """The mean of the transformed subgradients, plus the gradient of the L2 term.

        Args:
            batch: B sentences, as NumPy arrays.
            chain: see `rnnparse.optim.gradient_transforms`.
            l2: λ of λ/2 (‖W‖² + ‖v‖²).

        Returns:
            Losses [B], and derivatives for `optimizer.apply(…, model.trainable_variables)`.
        """
        losses, weights = self._losses(batch)
        if not len(losses):
            return self._model.loss_gradients(batch, *self._objective, l2)
        fixed = batch_weights(chain, tf.constant(losses))

        def part(start: Any) -> list[Any]:
            start, stop = int(start), int(start) + self._chunk
            gradients = self._differentiate(batch, losses, weights, start)
            return gradients.through(cut_chain(chain, fixed, start, stop)).sum()

        total = divide(sum_over_parts(part, len(losses), self._chunk), tf.constant(len(losses)))
        if l2:
            total = [
                g if variable is self._model.vectors else add(g, l2 * variable.value)
                for variable, g in zip(self._model.trainable_variables, total, strict=True)
            ]
        return losses, total

    def chunks(self, batch: LevelBatch) -> Iterator[ExampleGradients]:
        """The subgradients of the sentences in their order, `chunk` of them at a time.

        Args:
            batch: B sentences, as NumPy arrays.
        """
        losses, weights = self._losses(batch)
        for start in range(0, len(losses), self._chunk):
            yield self._differentiate(batch, losses, weights, start)

    def _losses(self, batch: LevelBatch) -> tuple[np.ndarray, np.ndarray]:
        """Losses [B], and the derivatives of each by the scores of its candidates [T]."""
        return loss_of_scores(batch, np.asarray(self._model(batch)), *self._objective)

    def _differentiate(
        self, batch: LevelBatch, losses: np.ndarray, weights: np.ndarray, start: int
    ) -> ExampleGradients:
        """Sentences start … start + chunk - 1."""
        stop = min(start + self._chunk, len(losses))
        first = np.concatenate([[0], np.cumsum(batch.mask.sum(axis=1))])
        chosen = first[start] + np.flatnonzero(weights[first[start] : first[stop]])
        trees = restrict(batch, chosen[:, None], np.zeros(len(chosen)))
        example = np.searchsorted(first, chosen, side="right") - 1 - start
        example = example.astype(np.int32)
        by_arrays = self._model.engine == "numba"
        differentiate = self._by_arrays(trees) if by_arrays else self._by_tape
        parts = []
        for i in range(stop - start):
            own = np.flatnonzero(example == i)
            part = restrict(trees, own[:, None], np.zeros(len(own)))
            parts.append(differentiate(part, weights[chosen[own]]))
        gradients = Gradients(*(_padded(arrays) for arrays in zip(*parts, strict=True)))
        variables = self._model.trainable_variables
        rows = {"vectors": gradients.words, "W": gradients.rows, "v": gradients.rows}
        frozen = {variable.name: frozen for variable, frozen in self._model.frozen_rows()}
        values = []
        for x in variables:
            kept = ~np.isin(rows[x.name], frozen.get(x.name, []))
            kept = kept.reshape(*kept.shape, *[1] * (len(x.shape) - 1))
            values.append(tf.constant(np.where(kept, getattr(gradients, x.name), 0), x.dtype))
        places = [tf.constant(rows[x.name], tf.int64) for x in variables]
        return ExampleGradients(tf.constant(losses[start:stop]), variables, values, places)

    def _by_arrays(self, trees: LevelBatch) -> Callable[[LevelBatch, np.ndarray], Gradients]:
        """A function that differentiates the weighted trees of a sentence by the kernels."""
        model = self._model
        leaves = np.asarray(tf.gather(model.vectors.value, trees.words))
        W, v = (np.asarray(x.value.read_value()) for x in (model.W, model.v))
        wanted = model.W.trainable, model.vectors.trainable

        def differentiate(part: LevelBatch, weights: np.ndarray) -> Gradients:
            words = leaves[np.searchsorted(trees.words, part.words)]
            structure = (part.rows, part.key, part.left, part.right)
            vectors, _ = kernels.forward(words, W, v, *structure)
            _, by_W, by_v, by_words = kernels.backward(
                W, v, *structure, part.root, vectors, len(words), weights, False, *wanted
            )
            return Gradients(part.rows, by_W, by_v, part.words, by_words)

        return differentiate

    def _by_tape(self, trees: LevelBatch, weights: np.ndarray) -> Gradients:
        """The derivatives of a sentence's weighted trees by TensorFlow."""
        none = np.zeros(0, weights.dtype)
        values: dict[str, Any] = dict.fromkeys(Parameters._fields, none)
        names = [variable.name for variable in self._model.trainable_variables]
        derivatives = self._derivatives(trees, weights)
        values.update(zip(names, map(np.asarray, derivatives), strict=True))
        return Gradients(trees.rows, values["W"], values["v"], trees.words, values["vectors"])


def _padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays [U_i, …] as one array [B, max U_i, …], padded with zeros."""
    shape = (len(arrays), max(len(x) for x in arrays), *arrays[0].shape[1:])
    padded = np.zeros(shape, arrays[0].dtype)
    for row, x in zip(padded, arrays, strict=True):
        row[: len(x)] = x
    return padded


def _signature(dtype: str) -> list[Any]:
    """Types of the arguments of `CVG.derivatives_by_tape`, for one graph with all sizes."""
    fields = {name: tf.TensorSpec([None], tf.int32) for name in LevelBatch._fields}
    fields["logp"] = fields["cost"] = tf.TensorSpec([None], tf.float64)
    fields["candidates"] = tf.TensorSpec([None, None], tf.int32)
    fields["mask"] = tf.TensorSpec([None, None], tf.bool)
    return [LevelBatch(**fields), tf.TensorSpec([None], dtype)]

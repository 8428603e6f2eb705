"""One step of the training of the span scorer on a minibatch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rnnparse._tensorflow import tf
from rnnparse.models.span_features import FIRST_WORD, SpanFeatures
from rnnparse.models.span_inputs import SpanInputs, join_inputs
from rnnparse.models.span_network import SpanNetwork
from rnnparse.models.span_parameters import SpanParameters
from rnnparse.models.span_scorer import Dropout, span_scores
from rnnparse.optim.optimizers import make_optimizer
from rnnparse.threads import apart
from rnnparse.training.span_examples import Prepared, hinge

if TYPE_CHECKING:
    from rnnparse.training.span_training import SpanSettings

WORDS, TOKENS, VECTORS, HIDDEN = 0.25, 0.3, 0.2, 0.2
"""Rates of dropout; a word of count c is dropped with the probability 0.25 / (0.25 + c)."""

NORM = 5.0
"""The gradient is scaled to this norm if it is greater."""


class SpanStep:
    """A step along a subgradient with Adam (Kingma & Ba 2015).

    All vertices are scored, but only those of one of the two trees of each example, the maximizer
    and the target, are differentiated.

    Args:
        parameters: starting values.
        features: the tables of words and tags.
        settings: the settings.
        steps: number of steps of an epoch.
    """

    def __init__(
        self,
        parameters: SpanParameters,
        features: SpanFeatures,
        settings: SpanSettings,
        steps: int,
    ) -> None:
        self.network = SpanNetwork(parameters, features)
        self.settings, self.steps = settings, steps
        self.optimizer = make_optimizer("adam", settings.learning_rate)
        self.optimizer.build(self.network.trainable_variables)
        # As a graph, which takes a quarter of the time: Adam has many small operations.
        self._update = tf.function(self._clip_and_step, autograph=False)
        counts = np.concatenate([np.full(FIRST_WORD, np.inf), features.counts])
        self._word_rate = (WORDS / (WORDS + counts)).astype(np.float32)

    def __call__(self, examples: Sequence[Prepared], epoch: int, place: int) -> np.ndarray:
        """Take one step; return the losses of the examples before it, [B].

        Args:
            examples: B of them.
            epoch, place: number of the epoch, and of the step in it.
        """
        number = epoch * self.steps + place
        inputs = join_inputs([example.with_vectors() for example in examples])
        dropout = self._dropout(inputs, np.random.default_rng([self.settings.seed, 4, number]))
        with tf.GradientTape() as tape:
            projected = self.network.projected(inputs, dropout)
            losses, slope = self._losses(examples, inputs, projected.numpy(), dropout)
            chosen = np.flatnonzero(slope)
            part, spans = inputs.part(chosen)
            weights = tf.constant(slope[chosen] / len(examples), self.network.dtype)
            kept = dropout._replace(hidden=dropout.hidden[spans])
            value = tf.reduce_sum(self.network.span_scores(projected, part, kept) * weights)
        self._apply(tape.gradient(value, self.network.trainable_variables), number)
        return losses

    @apart
    def _losses(
        self,
        examples: Sequence[Prepared],
        inputs: SpanInputs,
        projected: np.ndarray,
        dropout: Dropout,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses [B], and a subgradient of their sum by the scores of vertices [M].

        If weights have diverged, so that not all scores are finite, all losses are NaN.
        """
        values = span_scores(self.network.parameters(), projected, inputs, dropout)
        losses, slopes, first = np.full(len(examples), np.nan), np.zeros(len(values)), 0
        if not (np.isfinite(projected).all() and np.isfinite(values).all()):
            return losses, slopes
        for i, example in enumerate(examples):
            own = slice(first, first + len(example.inputs.vertex))
            scores = np.zeros(len(example.cost))
            scores[example.inputs.vertex] = values[own]
            losses[i], slope = hinge(example, scores, self.settings.weight, self.settings.kappa)
            slopes[own] = slope[example.inputs.vertex]
            first = own.stop
        return losses, slopes

    def _dropout(self, inputs: SpanInputs, rng: np.random.Generator) -> Dropout:
        parameters = self.network.parameters()
        n, d = len(inputs.word), parameters.treebank_dim
        shape = (len(parameters.conv) + 1 if d else 0, n, d)
        kept = _kept((len(inputs.span), len(parameters.bias)), HIDDEN, rng)
        return Dropout(
            rng.random(n, np.float32) < self._word_rate[inputs.word],
            _kept(shape, TOKENS, rng).astype(self.network.dtype) * _factor(TOKENS),
            _kept((n, len(parameters.project)), VECTORS, rng).astype(self.network.dtype)
            * _factor(VECTORS),
            kept,
            _factor(HIDDEN),
        )

    def _apply(self, gradients: Sequence[tf.Tensor], number: int) -> None:
        rate = self.settings.rate(number, self.settings.epochs * self.steps)
        self.optimizer.learning_rate = rate
        self._update([tf.convert_to_tensor(gradient) for gradient in gradients])

    def _clip_and_step(self, gradients: Sequence[tf.Tensor]) -> None:
        clipped, _ = tf.clip_by_global_norm(gradients, NORM)
        self.optimizer.apply(clipped, self.network.trainable_variables)

    def parameters(self) -> SpanParameters:
        """Copies of the weights."""
        return SpanParameters(*(array.copy() for array in self.network.parameters()))

    def state(self) -> list[np.ndarray]:
        """The optimizer's variables, in its order."""
        return [variable.value.numpy() for variable in self.optimizer.variables]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Restore what `state` returned, for the same settings."""
        for variable, value in zip(self.optimizer.variables, state, strict=True):
            variable.assign(value)


def _kept(shape: tuple[int, ...], rate: float, rng: np.random.Generator) -> np.ndarray:
    """False with the given probability, rounded to 1/256.

    A byte decides on each: a float would take five times as long.
    """
    bytes_ = np.frombuffer(rng.bytes(math.prod(shape)), np.uint8)
    return bytes_.reshape(shape) >= round(256 * rate)


def _factor(rate: float) -> float:
    """What the kept ones are multiplied by, so that the mean stays."""
    return 256 / (256 - round(256 * rate))

"""The span scorer as a Keras model, for training: the same function as `span_scorer`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rnnparse._tensorflow import keras, tf
from rnnparse.models.span_features import UNKNOWN, SpanFeatures
from rnnparse.models.span_inputs import SpanInputs
from rnnparse.models.span_parameters import SpanParameters
from rnnparse.models.span_scorer import EPSILON, Dropout, check_encoded, dense_inputs


class SpanNetwork(keras.Model):
    """A Keras model that scores the vertices of hypergraphs: `SpanInputs -> scores [M]`.

    Its variables are the fields of `SpanParameters`, in their dtype.

    Args:
        parameters: starting values.
        features: the tables of the training set.

    Raises:
        ValueError: the weights are not sound, or do not suit the features.
    """

    def __init__(self, parameters: SpanParameters, features: SpanFeatures) -> None:
        parameters.check(features)
        super().__init__(name="span_scorer", dtype=str(parameters.labels.dtype))
        self.features = features
        for name, value in parameters._asdict().items():
            weight = self.add_weight(name=name, shape=value.shape, initializer="zeros")
            weight.assign(value)
            weight.trainable = value.size > 0
            setattr(self, f"{name}_", weight)
        self.built = True
        # As graphs, whose backward passes take half the time. They are traced once, for all sizes:
        # a graph for the sizes of the first batch alone would round differently.
        self._project = self._graph(self._project_rows, "i1 i2 f2 f2 f2 f2 f3 f2")
        self._score = self._graph(self._score_spans, "f2 i2 f2 i2")

    def _graph(self, function: Callable[..., tf.Tensor], kinds: str) -> Callable[..., tf.Tensor]:
        """A function of tensors as a graph; `f2` is a tensor [_, _] in the dtype of the weights."""
        dtypes = {"i": "int32", "f": self.dtype}
        return tf.function(
            function,
            input_signature=[
                tf.TensorSpec([None] * int(kind[1]), dtypes[kind[0]]) for kind in kinds.split()
            ],
            autograph=False,
        )

    def call(self, inputs: SpanInputs) -> tf.Tensor:
        """Scores [M], without dropout.

        Raises:
            ValueError: the inputs have other encoder vectors than the weights.
        """
        inputs = SpanInputs(*map(np.asarray, inputs))  # Keras makes tensors of them
        return self.span_scores(self.projected(inputs), inputs)

    def projected(self, inputs: SpanInputs, dropout: Dropout | None = None) -> tf.Tensor:
        """The products [N, 4h] of token vectors and P1 to P4."""
        layers, size = self.layers_.shape[0], self.project_.shape[0] - self.words_.shape[1]
        check_encoded(inputs, layers, size)
        word = inputs.word if dropout is None else np.where(dropout.words, UNKNOWN, inputs.word)
        given, chances = dense_inputs(self.features, inputs, np.dtype(self.dtype))
        by_layer = inputs.encoded.swapaxes(0, 1).astype(self.dtype)
        one = np.ones((self.conv_.shape[0] + 1, 1, 1), self.dtype)
        arrays = (
            *(word, inputs.affix, given, chances, inputs.inside[:, None].astype(self.dtype)),
            by_layer.reshape(layers, len(word) * size),
            *((one, one[0]) if dropout is None else (dropout.tokens, dropout.vectors)),
        )
        return self._project(*map(tf.convert_to_tensor, arrays))

    def span_scores(
        self, projected: tf.Tensor, inputs: SpanInputs, dropout: Dropout | None = None
    ) -> tf.Tensor:
        """The scores [M] of vertices, given the products [N, 4h]."""
        before, last = inputs.span.T
        rows = np.stack([4 * before, 4 * before + 5, 4 * last + 2, 4 * last + 7], axis=1)
        kept = np.ones((1, 1), self.dtype)
        if dropout is not None:
            kept = dropout.hidden * kept.dtype.type(dropout.factor)
        place = np.stack([inputs.vertex_span, inputs.vertex_category], axis=1)
        return self._score(projected, *map(tf.convert_to_tensor, (rows, kept, place)))

    def _project_rows(
        self,
        word: tf.Tensor,
        affix: tf.Tensor,
        given: tf.Tensor,
        chances: tf.Tensor,
        inside: tf.Tensor,
        by_layer: tf.Tensor,
        kept: tf.Tensor,
        kept_vectors: tf.Tensor,
    ) -> tf.Tensor:
        """`projected` of dense arrays; `by_layer` is [L, N e], the last two are factors."""
        parts = []
        if self.words_.shape[1]:
            x = tf.gather(self.words_.value, word)
            x += tf.reduce_sum(tf.gather(self.affixes_.value, affix), axis=1)
            x += tf.matmul(given, self.given_.value) + tf.matmul(chances, self.tags_.value)
            x = _normalized(x, self.norm_.value) * (inside * kept[0])
            for k in range(self.conv_.shape[0]):
                wide = tf.concat([_moved(x, 1), x, _moved(x, -1)], axis=1)
                y = tf.nn.relu(tf.matmul(wide, self.conv_.value[k]) + self.conv_bias_.value[k])
                x = _normalized(x + y * kept[k + 1], self.conv_norm_.value[k]) * inside
            parts.append(x)
        if self.layers_.shape[0]:
            shares = tf.nn.softmax(self.layers_.value)[None]
            size = self.project_.shape[0] - self.words_.shape[1]
            parts.append(tf.reshape(tf.matmul(shares, by_layer), (-1, size)))
        return tf.matmul(tf.concat(parts, axis=1) * kept_vectors, self.project_.value)

    def _score_spans(
        self, projected: tf.Tensor, rows: tf.Tensor, kept: tf.Tensor, place: tf.Tensor
    ) -> tf.Tensor:
        """`span_scores` of the rows [S, 4] of projected [4N, h] and the places [M, 2] of scores."""
        h = self.bias_.shape[0]
        z = tf.reduce_sum(tf.gather(tf.reshape(projected, (-1, h)), rows), axis=1)
        z = tf.nn.relu(_normalized(z + self.bias_.value, self.hidden_norm_.value)) * kept
        table = tf.matmul(z, self.labels_.value, transpose_b=True) + self.label_bias_.value
        return tf.gather_nd(table, place)

    def parameters(self) -> SpanParameters:
        """The weights, not copied, read-only; valid until the next step."""
        return SpanParameters(
            *(
                np.asarray(getattr(self, f"{name}_").value.read_value())
                for name in SpanParameters._fields
            )
        )


def _moved(x: tf.Tensor, places: int) -> tf.Tensor:
    """The rows moved down by 1, or up if -1; the free row is 0."""
    empty = tf.zeros_like(x[:1])
    return tf.concat([empty, x[:-1]] if places > 0 else [x[1:], empty], axis=0)


def _normalized(x: tf.Tensor, norm: tf.Tensor) -> tf.Tensor:
    """Layer normalization over the last axis, with a gain and a shift."""
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + EPSILON) * norm[0] + norm[1]

"""Scores of labelled spans, to be added to the vertices of a hypergraph; NumPy, no TensorFlow.

For a category c and the tokens i to j - 1,

    score(c, i, j) = U[c] · relu(norm(P1 h[i-1] + P2 h[i] + P3 h[j-1] + P4 h[j] + b)) + U0[c]

where h are token vectors, with one for the start and one for the end of the sentence, and norm is
layer normalization. So a span is represented by both of its boundaries. A token's vector has two
parts, either of which may be absent:

- from the treebank: x = norm(word + Σ affixes + G given vector + T probabilities of its tags), and
  then K times x ← norm(x + relu(convolution of width 3 of x));
- from a frozen encoder: the mean of its layers with weights softmax(`layers`).

Reference:
    Kitaev & Klein (2018), Constituency Parsing with a Self-Attentive Encoder, for scores of
    labelled spans; Peters et al. (2018), Deep contextualized word representations, for the mixture
    of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rnnparse.inference.packed_graph import HypergraphArrays
from rnnparse.inference.posteriors import Hypergraph
from rnnparse.models import span_kernel
from rnnparse.models.span_features import UNKNOWN, SpanFeatures
from rnnparse.models.span_inputs import SpanInputs, span_inputs
from rnnparse.models.span_parameters import SpanParameters
from rnnparse.threads import apart

EPSILON = 1e-5
"""Is added to the variance in layer normalization."""


class SpanScorer:
    """A trained span scorer. Threads may share it.

    Args:
        parameters: the weights.
        features: the tables of the training set.

    Raises:
        ValueError: the weights are not sound, or do not suit the features.

    Example:
        >>> scorer = SpanScorer(parameters, features)
        >>> scores = scorer.scores(hypergraph, tokens)
        >>> forest = hypergraph.k_best(scores, 10, weight=0.3)
    """

    def __init__(self, parameters: SpanParameters, features: SpanFeatures) -> None:
        parameters.check(features)
        self.parameters, self.features = parameters, features

    @apart
    def scores(
        self,
        hypergraph: Hypergraph | HypergraphArrays,
        tokens: Sequence[str],
        vectors: np.ndarray | None = None,
        tagged: HypergraphArrays | None = None,
    ) -> np.ndarray:
        """The score of each vertex, float64 [V]; 0 for TOP and intermediate categories.

        Args:
            hypergraph: of the sentence, or of a part of it.
            tokens: its n tokens, escaped as in trees.
            vectors: float [n+2, L, e], an encoder's layers, if the scorer was trained with one;
                [n+2, e] is one layer. The first and the last row are those of the ends.
            tagged: a hypergraph of the same tokens that has the probabilities of tags; None for
                `hypergraph` itself.

        Raises:
            ValueError: the vectors are missing or do not fit.
        """
        graph = hypergraph.arrays() if isinstance(hypergraph, Hypergraph) else hypergraph
        categories = len(self.parameters.labels)
        inputs = span_inputs(graph, tokens, self.features, categories, vectors, tagged)
        scores = np.zeros(len(graph.category))
        scores[inputs.vertex] = vertex_scores(self.parameters, self.features, inputs)
        return scores


class Dropout(NamedTuple):
    """What is dropped in a step of training.

    Attributes:
        words [N] bool: True where a word's own vector is replaced by that of unknown words.
        tokens [K+1, N, d]: factors, 0 or 1 / (1 - rate), after the first normalization and after
            each convolution.
        vectors [N, d + e]: factors of token vectors.
        hidden [S, h] bool: False where a hidden unit of a span is dropped.
        factor: of those that are kept.
    """

    words: np.ndarray
    tokens: np.ndarray
    vectors: np.ndarray
    hidden: np.ndarray
    factor: float


def vertex_scores(
    parameters: SpanParameters,
    features: SpanFeatures,
    inputs: SpanInputs,
    dropout: Dropout | None = None,
) -> np.ndarray:
    """The scores [M] of the vertices of the inputs, in the dtype of the weights.

    Raises:
        ValueError: the inputs have other encoder vectors than the weights.
    """
    projected = token_vectors(parameters, features, inputs, dropout) @ parameters.project
    return span_scores(parameters, projected, inputs, dropout)


def token_vectors(
    parameters: SpanParameters,
    features: SpanFeatures,
    inputs: SpanInputs,
    dropout: Dropout | None = None,
) -> np.ndarray:
    """h, [N, d + e]; empty rows are 0."""
    check_encoded(inputs, len(parameters.layers), parameters.encoder_dim)
    parts = []
    if parameters.treebank_dim:
        parts.append(_treebank_vectors(parameters, features, inputs, dropout))
    if parameters.encoder_dim:
        mixture = np.exp(parameters.layers - parameters.layers.max())
        mixture /= mixture.sum()
        parts.append(np.einsum("nle,l->ne", inputs.encoded.astype(mixture.dtype), mixture))
    vectors = np.concatenate(parts, axis=1)
    return vectors if dropout is None else vectors * dropout.vectors


def _treebank_vectors(
    parameters: SpanParameters,
    features: SpanFeatures,
    inputs: SpanInputs,
    dropout: Dropout | None,
) -> np.ndarray:
    p = parameters
    word = inputs.word if dropout is None else np.where(dropout.words, UNKNOWN, inputs.word)
    x = p.words[word] + p.affixes[inputs.affix].sum(axis=1)
    given, chances = dense_inputs(features, inputs, p.words.dtype)
    x += given @ p.given + chances @ p.tags
    x = normalized(x, p.norm)
    if dropout is not None:
        x = x * dropout.tokens[0]
    x = x * inputs.inside[:, None]
    for k in range(len(p.conv)):
        empty = np.zeros_like(x[:1])
        wide = np.concatenate(
            [np.concatenate([empty, x[:-1]]), x, np.concatenate([x[1:], empty])], axis=1
        )
        y = np.maximum(wide @ p.conv[k] + p.conv_bias[k], 0)
        if dropout is not None:
            y = y * dropout.tokens[k + 1]
        x = normalized(x + y, p.conv_norm[k]) * inputs.inside[:, None]
    return x


def span_scores(
    parameters: SpanParameters,
    projected: np.ndarray,
    inputs: SpanInputs,
    dropout: Dropout | None = None,
) -> np.ndarray:
    """The scores [M] of vertices, given the products [N, 4h] of token vectors and P1 to P4."""
    p = parameters
    kept = np.zeros((0, len(p.bias)), np.bool_) if dropout is None else dropout.hidden
    scores: np.ndarray = span_kernel.span_scores(
        projected, inputs.span, inputs.vertex_span, inputs.vertex_category, p.bias, p.hidden_norm,
        p.bias.dtype.type(EPSILON), p.labels, p.label_bias, kept,
        p.bias.dtype.type(1.0 if dropout is None else dropout.factor),
    )  # fmt: skip
    return scores


def check_encoded(inputs: SpanInputs, layers: int, size: int) -> None:
    """Raise ValueError if the inputs have other encoder vectors than [N, layers, size]."""
    found = inputs.encoded.shape[1:]
    if found != (layers, size):
        raise ValueError(
            f"encoder vectors of {found[0]} layers and {found[1]} components instead of {layers} "
            f"layers and {size} components"
        )


def dense_inputs(
    features: SpanFeatures, inputs: SpanInputs, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Given vectors [N, g] and probabilities of tags [N, T]."""
    n, matrix = len(inputs.word), features.vectors.matrix
    given = np.zeros((n, matrix.shape[1]), dtype)
    known = inputs.given >= 0
    given[known] = matrix[inputs.given[known]]
    chances = np.zeros((n, len(features.tags)), dtype)
    np.add.at(chances, tuple(inputs.tag.T), inputs.tag_chance.astype(dtype))
    return given, chances


def normalized(x: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """Layer normalization over the last axis (Ba et al. 2016), with a gain and a shift."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    result: np.ndarray = centred / np.sqrt(variance + EPSILON) * norm[0] + norm[1]
    return result

"""The parameters of the span scorer as NumPy arrays; no TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rnnparse.array_invariants import SPAN_FEATURES, SPANS, check
from rnnparse.grammar.storage import strings_from_arrays, strings_to_arrays
from rnnparse.grammar.unknown import WordVectors
from rnnparse.models.span_features import BUCKETS, FIRST_WORD, SpanFeatures

DIM, HIDDEN, CONVOLUTIONS = 128, 256, 2
_EMBEDDED = 0.05  # standard deviation of initial word and affix vectors


class SpanParameters(NamedTuple):
    """All weights of the span scorer, float32 or float64; matrices are input-major.

    A token has a vector of d + e components: d from the treebank, e from an encoder; either may
    be 0. See `rnnparse.models.span_scorer` for the equations.

    Attributes:
        words [W, d]: of unknown words, the sentence's start and end, and known words.
        affixes [B, d]: of the buckets of affixes and shapes.
        given [g, d]: a map of given word vectors of g components.
        tags [T, d]: a map of the probabilities of tags.
        norm [2, d]: gain and shift.
        conv [K, 3d, d]: of the token before, the token and the token after.
        conv_bias [K, d]; conv_norm [K, 2, d]: gain and shift.
        layers [L]: logits of the weights of an encoder's layers.
        bias [h].
        project [d + e, 4h]: P1 to P4 side by side.
        hidden_norm [2, h]: gain and shift.
        labels [C, h]: U, a row for each basic category.
        label_bias [C]: U0.
    """

    words: np.ndarray
    affixes: np.ndarray
    given: np.ndarray
    tags: np.ndarray
    norm: np.ndarray
    conv: np.ndarray
    conv_bias: np.ndarray
    conv_norm: np.ndarray
    layers: np.ndarray
    bias: np.ndarray
    project: np.ndarray
    hidden_norm: np.ndarray
    labels: np.ndarray
    label_bias: np.ndarray

    @property
    def treebank_dim(self) -> int:
        """d, components of a token's vector from the treebank; 0 if it has none."""
        return int(self.words.shape[1])

    @property
    def encoder_dim(self) -> int:
        """e, components of a token's vector from an encoder; 0 if it has none."""
        return int(self.project.shape[0]) - self.treebank_dim

    def check(self, features: SpanFeatures) -> None:
        """Raise ValueError unless the weights are sound and suit the features."""
        sizes = {"B": BUCKETS, "W": FIRST_WORD + len(features.words), "T": len(features.tags)}
        arrays = self._asdict()
        found = check("spans", SPANS, arrays, **sizes, g=features.vectors.matrix.shape[1])
        if len({array.dtype for array in arrays.values()}) > 1:
            raise ValueError("spans: the weights must be of one type")
        if (found["L"] > 0) != (found["e"] > 0):
            raise ValueError("spans: an encoder has both layers and components")
        if not found["h"] or not found["d"] + found["e"]:
            raise ValueError("spans: there are no token vectors or no hidden units")
        if found["C"] <= max(features.tags, default=-1):
            raise ValueError("spans: a tag is not one of the categories")


def initial_span_parameters(
    features: SpanFeatures,
    categories: int,
    *,
    encoder: tuple[int, int] | None = None,
    treebank: bool = True,
    dim: int = DIM,
    hidden: int = HIDDEN,
    seed: int = 0,
    dtype: str = "float32",
) -> SpanParameters:
    """Initial weights: U = 0, so that all scores are 0; the others are random.

    Maps are uniform in ±1/√(number of inputs), word and affix vectors normal (0.05).

    Args:
        features: the tables of the training set.
        categories: number C of basic categories.
        encoder: number of an encoder's layers and of their components, or None for no encoder.
        treebank: whether tokens have vectors that are learned from the treebank.
        dim: d.
        hidden: h.
        seed: the same seed gives the same bytes.
        dtype: "float32" or "float64".

    Raises:
        ValueError: there is neither source of token vectors.
    """
    rng = np.random.default_rng([seed, 2])
    layers, size = encoder or (0, 0)
    d = dim if treebank else 0
    k = CONVOLUTIONS if treebank else 0

    def maps(inputs: int, *shape: int) -> np.ndarray:
        bound = 1 / np.sqrt(max(inputs, 1))
        return rng.uniform(-bound, bound, shape)

    def norms(*shape: int) -> np.ndarray:
        both = np.zeros(shape)
        both[..., 0, :] = 1
        return both

    arrays = (
        rng.normal(0, _EMBEDDED, (FIRST_WORD + len(features.words), d)),
        rng.normal(0, _EMBEDDED, (BUCKETS, d)),
        maps(features.vectors.matrix.shape[1], features.vectors.matrix.shape[1], d),
        maps(len(features.tags), len(features.tags), d),
        norms(2, d),
        maps(3 * d, k, 3 * d, d),
        maps(3 * d, k, d),
        norms(k, 2, d),
        np.zeros(layers),
        np.zeros(hidden),
        maps(d + size, d + size, 4 * hidden),
        norms(2, hidden),
        np.zeros((categories, hidden)),
        np.zeros(categories),
    )
    parameters = SpanParameters(*(array.astype(dtype) for array in arrays))
    parameters.check(features)
    return parameters


class SpanModel(NamedTuple):
    """A trained span scorer without the code that runs it; see `SpanScorer`."""

    parameters: SpanParameters
    features: SpanFeatures


def span_arrays(parameters: SpanParameters, features: SpanFeatures) -> dict[str, np.ndarray]:
    """All weights and tables but the given vectors, which the grammar has, too."""
    return {
        **strings_to_arrays("features.words", features.words),
        **{f"features.{name}": getattr(features, name) for name in SPAN_FEATURES},
        **{f"spans.{name}": array for name, array in parameters._asdict().items()},
    }


def read_span_arrays(
    arrays: Mapping[str, np.ndarray], vectors: WordVectors | None = None
) -> SpanModel:
    """The inverse of `span_arrays`.

    Args:
        arrays: from a file.
        vectors: the given vectors of the training.

    Raises:
        KeyError: an array is missing.
        ValueError: an array violates `rnnparse.array_invariants`, or is not one of these.
    """
    features = SpanFeatures(
        strings_from_arrays("features.words", arrays),
        **{name: arrays[f"features.{name}"] for name in SPAN_FEATURES},
        vectors=vectors or WordVectors((), np.zeros((0, 0), np.float32)),
    )
    parameters = SpanParameters(*(arrays[f"spans.{name}"] for name in SpanParameters._fields))
    parameters.check(features)
    unknown = arrays.keys() - span_arrays(parameters, features).keys()
    if unknown:
        raise ValueError(f"{min(unknown)}: not an array of a span scorer")
    return SpanModel(parameters, features)

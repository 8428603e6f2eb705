"""What an encoder is, and how its vectors are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rnnparse.errors import EncoderError


class Encoder(Protocol):
    """Anything that gives a vector for each token of a sentence.

    An encoder may also have a method `encode_batch(sentences) -> list of arrays`, which gives what
    `encode` gives for each sentence; it is used where many sentences are encoded.

    Attributes:
        checksum: identifies the encoder: another checksum whenever it gives other vectors. It names
            files of the cache, and models remember it.
    """

    checksum: str

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """The vectors of a sentence of n tokens.

        Args:
            tokens: escaped as in treebanks or not.

        Returns:
            float32 [n + 2, L, d]: L vectors for the start of the sentence, for each token, and for
            its end. Or [n, d]: one vector for each token; zeros then represent the ends.
        """
        ...


def token_vectors(encoder: Encoder, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The vectors of some sentences.

    Args:
        encoder: its results are checked.
        sentences: the tokens of each sentence.

    Returns:
        float32 [n + 2, L, d] for each sentence of n tokens; L and d are the same for all of them.

    Raises:
        EncoderError: the encoder returns something else, or numbers that are not finite.
    """
    many = getattr(encoder, "encode_batch", None)
    found = many(sentences) if many else [encoder.encode(tokens) for tokens in sentences]
    if len(found) != len(sentences):
        raise EncoderError(f"the encoder returned {len(found)} arrays, not {len(sentences)}")
    vectors = [_checked(array, len(t)) for array, t in zip(found, sentences, strict=True)]
    sizes = {array.shape[1:] for array in vectors}
    if len(sizes) > 1:
        raise EncoderError(f"the encoder returned vectors of several sizes: {sorted(sizes)}")
    return vectors


def _checked(found: object, n: int) -> np.ndarray:
    """The vectors of a sentence of n tokens, float32 [n + 2, L, d]."""
    array = np.asarray(found)
    if array.dtype.kind != "f":
        raise EncoderError(f"the encoder returned {array.dtype}, not floating-point numbers")
    if array.ndim == 2 and len(array) == n:
        array = np.pad(array, ((1, 1), (0, 0)))[:, None]
    if array.ndim != 3 or len(array) != n + 2 or 0 in array.shape:
        raise EncoderError(
            f"the encoder returned an array of shape {list(array.shape)} for {n} tokens; "
            f"expected [{n + 2}, layers, size] or [{n}, size]"
        )
    array = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(array).all():
        raise EncoderError("the encoder returned numbers that are not finite")
    return array

"""BERT as an encoder of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.encoder.blas import single_threaded_products
from rnnparse.encoder.network import Network
from rnnparse.encoder.subwords import SpecialSubwords, Window, split_into_windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BATCH = 512  # subwords, from which on products hardly become faster


class BertEncoder:
    """Vectors of tokens from the hidden layers of BERT; `load_encoder` makes it.

    The vector of a token is the mean of those of its subwords. The subword [CLS] represents the
    start of a sentence, [SEP] its end. A sentence that is too long for the network is encoded in
    windows that overlap by half; each token is read from the one in which it has most context.

    Several threads may encode at once; each uses one core. Vectors hardly depend on the other
    sentences of a batch: at most in the last bits of a float32, where BLAS treats the last rows of
    a matrix in another way.

    Args:
        network: the parameters.
        tokenizer: without truncation and padding.
        special: the ids that the tokenizer has for special subwords.
        layers: the hidden states that are returned, by number; 0 are the embeddings.
        checksum: of the files and of `layers`.
    """

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        special: SpecialSubwords,
        layers: Sequence[int],
        checksum: str,
    ) -> None:
        self._network, self._tokenizer, self._special = network, tokenizer, special
        self.layers, self.checksum = tuple(layers), checksum

    def __repr__(self) -> str:
        return f"BertEncoder(layers={list(self.layers)}, size={self.size})"

    @property
    def size(self) -> int:
        """d, the size of a vector."""
        return self._network.words.shape[1]

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """The vectors of a sentence of n tokens, escaped or not: float32 [n + 2, L, d]."""
        return self.encode_batch([tokens])[0]

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The vectors of several sentences, which together take less time than one by one."""
        shapes = [(len(tokens) + 2, len(self.layers), self.size) for tokens in sentences]
        vectors = [np.empty(shape, np.float32) for shape in shapes]
        # A network from a damaged file may overflow; the callers check what is returned.
        with single_threaded_products(), np.errstate(over="ignore", invalid="ignore"):
            for batch in self._batches(sentences):
                hidden = self._network.hidden_states([window.ids for _, window in batch])
                begin = 0
                for sentence, window in batch:
                    end = begin + len(window.ids)
                    self._read(hidden[list(self.layers), begin:end], window, vectors[sentence])
                    begin = end
        return vectors

    def _batches(self, sentences: Sequence[Sequence[str]]) -> Iterator[list[tuple[int, Window]]]:
        """Windows, each with the number of its sentence; at least `_BATCH` subwords at once."""
        batch: list[tuple[int, Window]] = []
        positions = len(self._network.positions)
        for i, tokens in enumerate(sentences):
            for window in split_into_windows(tokens, self._tokenizer, self._special, positions):
                batch.append((i, window))
                if sum(len(window.ids) for _, window in batch) >= _BATCH:
                    yield batch
                    batch = []
        if batch:
            yield batch

    @staticmethod
    def _read(hidden: np.ndarray, window: Window, vectors: np.ndarray) -> None:
        """Take the tokens of a window, and the ends of the sentence if it has them."""
        first, last = window.tokens
        vectors[first + 1 : last + 1] = window.average(hidden)
        if first == 0:
            vectors[0] = hidden[:, 0]
        if last == len(vectors) - 2:
            vectors[-1] = hidden[:, -1]

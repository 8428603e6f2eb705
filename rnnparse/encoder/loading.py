"""Load an encoder from files in the layout of Hugging Face. No code in them is executed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rnnparse.encoder.bert_encoder import BertEncoder
from rnnparse.encoder.configuration import Configuration, read_configuration
from rnnparse.encoder.folder import FILES, TOKENIZER, WEIGHTS, find_folder
from rnnparse.encoder.network import Layer, Linear, Network, Norm
from rnnparse.encoder.subwords import SpecialSubwords
from rnnparse.errors import EncoderError, MissingExtraError
from rnnparse.files import open_regular

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_VERSION = b"rnnparse.encoder 1"  # raised when the same files give other vectors
_MOST_TOKENIZER_BYTES = 2**27
_OLD_NAMES = {"weight": "gamma", "bias": "beta"}  # of layer normalization


def load_encoder(
    name: str | os.PathLike[str], *, layers: Sequence[int] | str = "all"
) -> BertEncoder:
    """Load a pre-trained encoder of the type BERT, such as MiniLM.

    Args:
        name: a folder with config.json, model.safetensors and tokenizer.json; or an installed
            package that contains such a folder.
        layers: the hidden states to return, from 0 (embeddings) to the number of layers; negative
            numbers count from the last. "all" for all.

    Raises:
        EncoderError: the encoder is missing, damaged or of another type, or lacks a layer.
        MissingExtraError: the packages of `pip install 'rnnparse[encoder]'` are not installed.
    """
    folder = find_folder(name)
    configuration = read_configuration(folder)
    chosen = _chosen(layers, configuration.num_hidden_layers + 1)
    tokenizer, special = _read_tokenizer(folder, configuration.vocab_size)
    network = _read_network(folder / WEIGHTS, configuration)
    return BertEncoder(network, tokenizer, special, chosen, _checksum(folder, chosen))


def _chosen(layers: Sequence[int] | str, count: int) -> list[int]:
    """The numbers of the chosen hidden states, out of `count`; never negative."""
    if isinstance(layers, str):
        if layers != "all":
            raise EncoderError(f"layers must be 'all' or numbers, not {layers!r}")
        return list(range(count))
    wrong = [layer for layer in layers if not -count <= layer < count]
    if wrong or not len(layers):
        raise EncoderError(f"layers must be numbers from 0 to {count - 1}, not {list(layers)}")
    return [layer % count for layer in layers]


def _checksum(folder: Path, layers: Sequence[int]) -> str:
    """SHA-256 of the files and of what else decides the vectors."""
    digest = hashlib.sha256(_VERSION + repr(list(layers)).encode())
    for name in FILES:
        try:
            with open_regular(folder / name) as file:
                digest.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
                while block := file.read(2**20):
                    digest.update(block)
        except OSError as error:
            raise EncoderError(f"cannot read {folder / name}: {error}") from error
    return digest.hexdigest()


def _read_tokenizer(folder: Path, vocabulary: int) -> tuple[Tokenizer, SpecialSubwords]:
    """The tokenizer, which adds no special subwords, and the ids of these."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError("tokenizers", "encoder") from None
    path = folder / TOKENIZER
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_TOKENIZER_BYTES + 1)
        if len(content) > _MOST_TOKENIZER_BYTES:
            raise ValueError(f"more than {_MOST_TOKENIZER_BYTES:,} bytes")
        tokenizer = Tokenizer.from_str(content.decode("utf-8"))
    except Exception as error:  # the package raises no narrower type
        raise EncoderError(f"cannot read {path}: {_brief(error)}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    ids = tokenizer.get_vocab()
    if max(ids.values(), default=0) >= vocabulary:
        raise EncoderError(f"{path} has more subwords than config.json says (vocab_size)")
    missing = [subword for subword in ("[CLS]", "[SEP]", "[UNK]") if subword not in ids]
    if missing:
        raise EncoderError(f"{path} lacks the subword {missing[0]}")
    return tokenizer, SpecialSubwords(ids["[CLS]"], ids["[SEP]"], ids["[UNK]"])


def _read_network(path: Path, configuration: Configuration) -> Network:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtraError("safetensors", "encoder") from None
    try:
        open_regular(path).close()  # rather than wait at a pipe
        with safe_open(path, framework="numpy") as file:
            return _network(_Weights(file, path), configuration)
    except (SafetensorError, OSError, ValueError) as error:
        raise EncoderError(f"cannot read {path}: {_brief(error)}") from error


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _Weights:
    """The arrays of a file, whose shapes are checked before they are read."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path = file, path
        self._names = set(file.keys())
        self._prefix = "bert." if "bert.embeddings.word_embeddings.weight" in self._names else ""

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        """An array as float32."""
        name = self._prefix + name
        if name not in self._names:
            module, _, kind = name.rpartition(".")
            name = f"{module}.{_OLD_NAMES.get(kind, kind)}"
        if name not in self._names:
            raise EncoderError(f"{self._path} lacks the array {name}")
        part = self._file.get_slice(name)
        if part.get_dtype() not in ("F32", "F16"):
            raise EncoderError(
                f"{self._path}: {name} has the type {part.get_dtype()}; "
                "only F32 and F16 are supported"
            )
        if tuple(part.get_shape()) != shape:
            raise EncoderError(
                f"{self._path}: {name} has the shape {part.get_shape()}; "
                f"by config.json it is {list(shape)}"
            )
        array: np.ndarray = self._file.get_tensor(name).astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            raise EncoderError(f"{self._path}: {name} has numbers that are not finite")
        return array

    def norm(self, name: str, size: int) -> Norm:
        return Norm(self(f"{name}.weight", size), self(f"{name}.bias", size))

    def linear(self, names: Sequence[str], inputs: int, outputs: int) -> Linear:
        """Maps of the same input, side by side. The file has their weights transposed."""
        weights = [self(f"{name}.weight", outputs, inputs).T for name in names]
        bias = [self(f"{name}.bias", outputs) for name in names]
        return Linear(np.ascontiguousarray(np.hstack(weights)), np.concatenate(bias))


def _network(weights: _Weights, c: Configuration) -> Network:
    d = c.hidden_size
    segments = weights("embeddings.token_type_embeddings.weight", c.type_vocab_size, d)
    positions = weights("embeddings.position_embeddings.weight", c.max_position_embeddings, d)
    return Network(
        weights("embeddings.word_embeddings.weight", c.vocab_size, d),
        positions + segments[0],
        weights.norm("embeddings.LayerNorm", d),
        [_layer(weights, f"encoder.layer.{i}.", c) for i in range(c.num_hidden_layers)],
        c.num_attention_heads,
        c.layer_norm_eps,
    )


def _layer(weights: _Weights, name: str, c: Configuration) -> Layer:
    d = c.hidden_size
    parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
    return Layer(
        weights.linear(parts, d, d),
        weights.linear([f"{name}attention.output.dense"], d, d),
        weights.norm(f"{name}attention.output.LayerNorm", d),
        weights.linear([f"{name}intermediate.dense"], d, c.intermediate_size),
        weights.linear([f"{name}output.dense"], c.intermediate_size, d),
        weights.norm(f"{name}output.LayerNorm", d),
    )

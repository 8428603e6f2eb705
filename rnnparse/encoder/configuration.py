"""The configuration of BERT: config.json in the layout of Hugging Face."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rnnparse.encoder.folder import CONFIG
from rnnparse.errors import EncoderError
from rnnparse.files import open_regular, parse_json

_MOST_BYTES = 2**20

_RANGES = {
    "vocab_size": (3, 2**24),
    "hidden_size": (1, 2**14),
    "num_hidden_layers": (1, 256),
    "num_attention_heads": (1, 2**10),
    "intermediate_size": (1, 2**17),
    "max_position_embeddings": (4, 2**16),
    "type_vocab_size": (1, 2**10),
}
_FIXED = {
    "model_type": ("bert", None),
    "hidden_act": ("gelu", "gelu"),
    "position_embedding_type": ("absolute", "absolute"),
    "is_decoder": (False, False),
}
"""The only supported value of a setting, and its value where the file lacks it."""


class Configuration(NamedTuple):
    """The sizes of BERT, under the names of config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float


def read_configuration(folder: Path) -> Configuration:
    """Read and check the configuration in a folder.

    Raises:
        EncoderError: it cannot be read, is damaged, or is that of an unsupported network.
    """
    path = folder / CONFIG
    try:
        with open_regular(path) as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        values = parse_json(content)
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError) as error:
        raise EncoderError(f"cannot read {path}: {error}") from error
    for name, (supported, default) in _FIXED.items():
        given = values.get(name, default)
        if given != supported:
            raise EncoderError(
                f"{path}: {name} is {str(given)[:40]!r}; only {supported!r} is supported "
                "(encoders like BERT and MiniLM)"
            )
    sizes = {name: _size(path, values, name) for name in _RANGES}
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise EncoderError(f"{path}: hidden_size is not a multiple of num_attention_heads")
    epsilon = values.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise EncoderError(f"{path}: layer_norm_eps must be between 0 and 1")
    return Configuration(**sizes, layer_norm_eps=epsilon)


def _size(path: Path, values: dict[str, Any], name: str) -> int:
    least, most = _RANGES[name]
    value = values.get(name, 2 if name == "type_vocab_size" else None)
    if type(value) is not int or not least <= value <= most:
        found = "missing" if value is None else str(value)[:40]
        raise EncoderError(
            f"{path}: {name} must be a whole number from {least} to {most:,}; it is {found}"
        )
    return value

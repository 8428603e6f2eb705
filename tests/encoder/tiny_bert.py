"""A tiny BERT with random weights, in a folder as Hugging Face lays it out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

SUBWORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyz.,()[]{}\"'/*-1234"]
SUBWORDS += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
SUBWORDS += ["they", "ate", "udon", "with", "chicken", "##ing"]
CONFIG = {
    "model_type": "bert",
    "vocab_size": len(SUBWORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
}


def weights(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under the names of the format, float32."""
    rng = np.random.default_rng(seed)
    d, inner = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], d),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], d),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], d),
        "embeddings.LayerNorm.weight": (d,),
        "embeddings.LayerNorm.bias": (d,),
    }
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for name, outputs, inputs in (
            *((f"attention.self.{part}", d, d) for part in ("query", "key", "value")),
            ("attention.output.dense", d, d),
            ("intermediate.dense", inner, d),
            ("output.dense", d, inner),
        ):
            shapes[f"{layer}.{name}.weight"] = (outputs, inputs)
            shapes[f"{layer}.{name}.bias"] = (outputs,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}.{name}.weight"] = shapes[f"{layer}.{name}.bias"] = (d,)
    return {
        name: (rng.standard_normal(shape) * 0.5 + name.endswith("Norm.weight")).astype(np.float32)
        for name, shape in shapes.items()
    }


def write_tiny_bert(
    folder: Path, arrays: dict[str, np.ndarray] | None = None, **settings: Any
) -> Path:
    """Write the folder, with some settings or all arrays replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG | settings
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(CONFIG) if arrays is None else arrays, folder / "model.safetensors")
    tokenizer = Tokenizer(
        WordPiece(vocab={word: i for i, word in enumerate(SUBWORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.enable_truncation(8)  # as published files have it; it must not apply
    tokenizer.enable_padding(length=12)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def reference_states(
    config: dict[str, Any], w: dict[str, np.ndarray], ids: list[int]
) -> np.ndarray:
    """float64 [layers + 1, m, d]: BERT as its paper defines it, one position and head at a time."""
    from math import erf

    d, heads = config["hidden_size"], config["num_attention_heads"]
    size = d // heads
    w = {name: array.astype(np.float64) for name, array in w.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        deviation = np.sqrt(x.var() + config["layer_norm_eps"])
        return (x - x.mean()) / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    words, places = (
        w["embeddings.word_embeddings.weight"],
        w["embeddings.position_embeddings.weight"],
    )
    segment = w["embeddings.token_type_embeddings.weight"][0]
    x = [norm(words[c] + places[i] + segment, "embeddings.LayerNorm") for i, c in enumerate(ids)]
    states = [x]
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            [linear(row, f"{layer}.attention.self.{part}") for row in x]
            for part in ("query", "key", "value")
        )
        after = []
        for at, row in enumerate(x):
            mixed = np.zeros(d)
            for head in range(heads):
                own = slice(head * size, (head + 1) * size)
                scores = np.array([q[at][own] @ key[own] / np.sqrt(size) for key in k])
                shares = np.exp(scores) / np.exp(scores).sum()
                mixed[own] = sum(s * value[own] for s, value in zip(shares, v, strict=True))
            y = norm(row + linear(mixed, f"{layer}.attention.output.dense"),
                     f"{layer}.attention.output.LayerNorm")  # fmt: skip
            inner = linear(y, f"{layer}.intermediate.dense")
            inner = np.array([z * (1 + erf(z / np.sqrt(2))) / 2 for z in inner])
            after.append(
                norm(y + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
            )
        states.append(x := after)
    return np.array(states)

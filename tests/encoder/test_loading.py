"""Folders and packages of encoders: what is found, and what is refused in one line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="needs the extra encoder")
pytest.importorskip("safetensors", reason="needs the extra encoder")
from safetensors.numpy import save_file

from rnnparse.encoder import load_encoder, token_vectors
from rnnparse.errors import EncoderError, MissingExtraError
from tests.encoder.tiny_bert import CONFIG, weights, write_tiny_bert

TOKENS = ["They", "ate", "udon", "."]


def refused(name: Any, **options: Any) -> str:
    """The message of the error, which is one short line."""
    with pytest.raises(EncoderError) as caught:
        load_encoder(name, **options)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 600
    return message


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'; only 'bert' is supported"),
        ({"model_type": None}, "model_type is 'None'; only 'bert'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; only 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute'"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_size": 10**12}, "hidden_size must be a whole number"),
        ({"hidden_size": True}, "hidden_size must be a whole number"),
        ({"num_hidden_layers": -1}, "num_hidden_layers must"),
        ({"num_hidden_layers": 2.0}, "num_hidden_layers must"),
        ({"vocab_size": None}, "vocab_size must .* missing"),
        ({"max_position_embeddings": 3}, "max_position_embeddings must"),
        ({"num_attention_heads": 3}, "not a multiple"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps"),
        ({"layer_norm_eps": "1e-5"}, "layer_norm_eps"),
        ({"hidden_size": 32}, r"has the shape \[2, 16\]; by config.json it is \[2, 32\]"),
        ({"vocab_size": 1000}, r"by config.json it is \[1000, 16\]"),
        ({"vocab_size": 20}, "more subwords than config.json says"),
        ({"num_hidden_layers": 3}, "lacks the array encoder.layer.2"),
        ({"max_position_embeddings": 512}, r"by config.json it is \[512, 16\]"),
    ],
)
def test_other_networks_are_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    import re

    assert re.search(problem, refused(write_tiny_bert(tmp_path, **settings)))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    folder = write_tiny_bert(tmp_path)
    path = folder / name
    whole = path.read_bytes()
    for content in (b"", b"{}", b"[1]", b"\xff" * 100, whole[: len(whole) // 2], b"[" * 100_000):
        path.write_bytes(content)
        assert name in refused(folder)
    path.unlink()
    assert f"{name} missing" in refused(folder)
    path.mkdir()
    assert f"{name} missing" in refused(folder)
    path.rmdir()
    os.mkfifo(path)
    assert f"{name} missing" in refused(folder)


def changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
    arrays = weights(CONFIG)
    return arrays | {name: np.ascontiguousarray(change(arrays[name]))}


QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda a: a.astype(np.float64), "has the type F64"),
        (lambda a: a.astype(np.int64), "has the type I64"),
        (lambda a: a * np.float32(np.inf), "not finite"),
        (lambda a: a[:, :-1], "has the shape [16, 15]"),
        (lambda a: a.reshape(-1), "has the shape [256]"),
    ],
)
def test_damaged_weights_are_refused(
    tmp_path: Path, change: Callable[[np.ndarray], np.ndarray], problem: str
) -> None:
    message = refused(write_tiny_bert(tmp_path, changed(QUERY, change)))
    assert problem in message and QUERY in message


def test_weights_that_overflow_are_an_error_of_the_vectors(tmp_path: Path) -> None:
    huge = changed(QUERY, lambda array: array * np.float32(1e38))
    encoder = load_encoder(write_tiny_bert(tmp_path, huge))
    with pytest.raises(EncoderError, match="not finite"):
        token_vectors(encoder, [TOKENS])


def test_a_tokenizer_without_special_subwords_is_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("[CLS]", "[XYZ]"))
    assert "lacks the subword [CLS]" in refused(folder)


def test_prefixes_old_names_and_half_precision_are_read(tmp_path: Path) -> None:
    arrays = weights(CONFIG)
    expected = load_encoder(write_tiny_bert(tmp_path / "new")).encode(TOKENS)
    old = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in arrays.items()
    }
    assert any(name.endswith("gamma") for name in old)
    old |= {"cls.predictions.bias": np.zeros(3, np.float32)}
    np.testing.assert_array_equal(
        load_encoder(write_tiny_bert(tmp_path / "old", old)).encode(TOKENS), expected
    )
    halved = {name: array.astype(np.float16) for name, array in arrays.items()}
    as_float = {name: array.astype(np.float32) for name, array in halved.items()}
    np.testing.assert_array_equal(
        load_encoder(write_tiny_bert(tmp_path / "half", halved)).encode(TOKENS),
        load_encoder(write_tiny_bert(tmp_path / "float", as_float)).encode(TOKENS),
    )


@pytest.mark.parametrize("layers", [[], [3], [-4], [0, 7], "last"])
def test_layers_that_do_not_exist(tmp_path: Path, layers: Any) -> None:
    assert "layers must be" in refused(write_tiny_bert(tmp_path), layers=layers)


def test_the_checksum_depends_on_every_file(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "a")
    first = load_encoder(folder).checksum
    assert load_encoder(write_tiny_bert(tmp_path / "b")).checksum == first
    found = {first}
    (folder / "config.json").write_text(json.dumps(CONFIG | {"layer_norm_eps": 1e-6}))
    found.add(load_encoder(folder).checksum)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    found.add(load_encoder(folder).checksum)
    save_file(weights(CONFIG, seed=1), folder / "model.safetensors")
    found.add(load_encoder(folder).checksum)
    assert len(found) == 4


# -- packages ----------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which modules are imported."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def install(site: Path, module: str, *folders: str, distribution: str | None = None) -> None:
    """A package that must not be imported, with encoders in some of its folders."""
    (site / module).mkdir(parents=True)
    (site / module / "__init__.py").write_text("raise SystemExit('imported')")
    for folder in folders:
        write_tiny_bert(site / module / folder)
    if distribution:
        info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n{info.name}/METADATA,,\n")


def test_packages_are_searched_but_not_imported(site: Path, tmp_path: Path) -> None:
    install(site, "some_encoder", "data/model", distribution="pretty-name")
    expected = load_encoder(write_tiny_bert(tmp_path / "plain")).encode(TOKENS)
    for name in ("some_encoder", "pretty-name", "Pretty_Name"):
        np.testing.assert_array_equal(load_encoder(name).encode(TOKENS), expected)
    assert "some_encoder" not in sys.modules


def test_packages_without_or_with_several_encoders_are_refused(site: Path) -> None:
    install(site, "nothing_in_it")
    install(site, "two_in_it", "large", "small")
    assert "has no folder with config.json" in refused("nothing_in_it")
    message = refused("two_in_it")
    assert "has several encoders" in message and "two_in_it/small" in message


@pytest.mark.parametrize("name", ["no-such-package", "", "a/b", "json.decoder.x", "\0", "x" * 5000])
def test_names_of_nothing_are_refused(name: str) -> None:
    with pytest.raises(EncoderError, match="neither a folder nor an installed package"):
        load_encoder(name)


@pytest.mark.parametrize("package", ["tokenizers", "safetensors", "threadpoolctl"])
def test_a_missing_extra_names_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    from rnnparse.encoder.blas import _libraries

    monkeypatch.setitem(sys.modules, package, None)
    _libraries.cache_clear()
    with pytest.raises(MissingExtraError, match=rf"{package}.*pip install 'rnnparse\[encoder\]'"):
        load_encoder(write_tiny_bert(tmp_path)).encode(TOKENS)

"""Vectors of BERT against an independent forward pass, and the windows of long sentences."""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tokenizers", reason="needs the extra encoder")
pytest.importorskip("safetensors", reason="needs the extra encoder")
from rnnparse.encoder import BertEncoder, cached_vectors, load_encoder, token_vectors
from rnnparse.encoder.blas import single_threaded_products
from rnnparse.encoder.network import gelu
from rnnparse.encoder.subwords import SpecialSubwords, split_into_windows
from tests.encoder.tiny_bert import CONFIG, SUBWORDS, reference_states, weights, write_tiny_bert

CLOSE = {"rtol": 0, "atol": 2e-5}
SENTENCE = ["They", "ate", "udon", "with", "chickens", "."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> BertEncoder:
    return load_encoder(folder)


def codes(*subwords: str) -> list[int]:
    return [SUBWORDS.index(word) for word in subwords]


def states(*subwords: str) -> np.ndarray:
    """float64 [3, m, 16]: the hidden states of subwords between [CLS] and [SEP]."""
    return reference_states(CONFIG, weights(CONFIG), codes("[CLS]", *subwords, "[SEP]"))


def test_hidden_states_are_those_of_an_independent_forward_pass(encoder: BertEncoder) -> None:
    expected = states("they", "ate", "udon", "with", "chicken", "##s", ".")
    expected[:, 5] = expected[:, 5:7].mean(axis=1)  # a token is the mean of its subwords
    expected = np.delete(expected, 6, axis=1).transpose(1, 0, 2)
    found = encoder.encode(SENTENCE)
    assert found.dtype == np.float32 and found.shape == (8, 3, 16)
    np.testing.assert_allclose(found, expected, **CLOSE)


def test_large_attention_scores_do_not_overflow(tmp_path: Path) -> None:
    arrays = weights(CONFIG)
    for i in range(2):
        arrays[f"encoder.layer.{i}.attention.self.query.weight"] *= 15
    ids = codes("[CLS]", "they", "ate", "udon", "[SEP]")
    expected = reference_states(CONFIG, arrays, ids).transpose(1, 0, 2)
    found = load_encoder(write_tiny_bert(tmp_path, arrays)).encode(["They", "ate", "udon"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_gelu_is_exact_to_single_precision() -> None:
    from scipy.special import erf

    x = np.linspace(-12, 12, 4800).reshape(40, 120)
    exact = x / 2 * (1 + erf(x / 2**0.5))
    np.testing.assert_allclose(gelu(x.astype(np.float32)), exact, rtol=1e-6, atol=1e-6)


def test_layers_are_chosen_by_number(folder: Path, encoder: BertEncoder) -> None:
    chosen = load_encoder(folder, layers=[-1, 0])
    np.testing.assert_array_equal(chosen.encode(SENTENCE), encoder.encode(SENTENCE)[:, [2, 0]])
    assert chosen.checksum != encoder.checksum
    assert chosen.layers == (2, 0) and chosen.size == 16


def test_a_batch_gives_what_sentences_alone_give(encoder: BertEncoder) -> None:
    rng = np.random.default_rng(1)
    words = [word for word in SUBWORDS[4:] if not word.startswith("##")]
    sentences = [list(rng.choice(words, n)) for n in (1, 30, 3, 0, 17, 2, 40, 9) * 10]
    for tokens, found in zip(sentences, encoder.encode_batch(sentences), strict=True):
        # BLAS may treat the last rows of a matrix differently.
        np.testing.assert_allclose(found, encoder.encode(tokens), **CLOSE)
    again = encoder.encode_batch(sentences)
    assert all(map(np.array_equal, again, encoder.encode_batch(sentences)))


@pytest.mark.parametrize(
    "escaped, typed",
    [
        (["-LRB-", "a", "-RRB-"], ["(", "a", ")"]),
        (["``", "a", "''"], ['"', "a", '"']),
        (["`", "a", "'"], ["'", "a", "'"]),
        (["-LSB-", "-RCB-", r"1\/2", r"\*"], ["[", "}", "1/2", "*"]),
    ],
)
def test_escapes_are_undone(encoder: BertEncoder, escaped: list[str], typed: list[str]) -> None:
    found = encoder.encode(escaped)
    np.testing.assert_array_equal(found, encoder.encode(typed))
    assert not np.array_equal(found, encoder.encode(["[UNK]"] * len(escaped)))


def test_typed_brackets_are_the_subwords_of_brackets(encoder: BertEncoder) -> None:
    expected = states("(", "a", ")").transpose(1, 0, 2)
    np.testing.assert_allclose(encoder.encode(["-LRB-", "a", "-RRB-"]), expected, **CLOSE)


@pytest.mark.parametrize("token", ["🍜", "\x00", "\u200b", "\ud800", "", " ", "a" * 10_000, "日"])
def test_odd_tokens_are_unknown_words(encoder: BertEncoder, token: str) -> None:
    expected = states("they", "[UNK]", "ate").transpose(1, 0, 2)
    np.testing.assert_allclose(encoder.encode(["They", token, "ate"]), expected, **CLOSE)


def test_an_endless_token_is_cut_to_half_a_window(encoder: BertEncoder) -> None:
    found = encoder.encode(["." * 10_000])
    expected = states(*["."] * 9)[:, 1:-1].mean(axis=1)
    np.testing.assert_allclose(found[1], expected, **CLOSE)


def test_a_sentence_without_tokens_has_its_ends(encoder: BertEncoder) -> None:
    expected = states().transpose(1, 0, 2)
    np.testing.assert_allclose(encoder.encode([]), expected, **CLOSE)
    assert encoder.encode_batch([]) == []


def windowed(letters: str) -> np.ndarray:
    """What 18 subwords at once give for letters of one subword each, by trying all windows."""
    n, size = len(letters), CONFIG["max_position_embeddings"] - 2
    starts = sorted({*range(0, n - size, size // 2), n - size})
    hidden = {start: states(*letters[start : start + size]) for start in starts}
    rows = [hidden[0][:, 0]]
    for i in range(n):
        inside = [start for start in starts if start <= i < start + size]
        context = [min(i - start, start + size - 1 - i) for start in inside]
        best = inside[int(np.argmax(context))]
        rows.append(hidden[best][:, i - best + 1])
    return np.array([*rows, hidden[starts[-1]][:, -1]])


@pytest.mark.parametrize("n", [19, 26, 27, 28, 45, 50])
def test_long_sentences_are_read_where_there_is_most_context(encoder: BertEncoder, n: int) -> None:
    letters = "".join(np.random.default_rng(n).choice(list("abcdefghij"), n))
    np.testing.assert_allclose(encoder.encode(list(letters)), windowed(letters), **CLOSE)


@given(st.lists(st.text("ab.(é日🍜\x01", max_size=25), max_size=60))
def test_any_sentence_has_finite_vectors(encoder: BertEncoder, tokens: list[str]) -> None:
    (found,) = token_vectors(encoder, [tokens])
    assert found.shape == (len(tokens) + 2, 3, 16)


def test_tokens_in_windows_are_never_split(encoder: BertEncoder) -> None:
    """A token far from the end is the mean over one window, wherever the windows begin."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens = ["a" * int(n) for n in rng.integers(1, 14, rng.integers(1, 30))]
        positions = int(rng.integers(4, 25))
        most = (positions - 2) // 2
        parts = list(
            split_into_windows(tokens, encoder._tokenizer, SpecialSubwords(2, 3, 1), positions)
        )
        assert [i for part in parts for i in range(*part.tokens)] == list(range(len(tokens)))
        for part in parts:
            assert len(part.ids) <= positions
            assert (part.starts >= 1).all()
            assert (part.starts + part.counts <= len(part.ids) - 1).all()
            lengths = [min(len(token), most) for token in tokens[slice(*part.tokens)]]
            assert part.counts.tolist() == lengths


def test_threads_and_copies_of_an_encoder_agree(encoder: BertEncoder) -> None:
    expected = encoder.encode(SENTENCE)
    copied = pickle.loads(pickle.dumps(encoder))
    assert copied.checksum == encoder.checksum
    found: list[np.ndarray] = []
    threads = [Thread(target=lambda: found.append(copied.encode(SENTENCE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(np.array_equal(one, expected) for one in found)


def test_threads_keep_the_same_bytes(encoder: BertEncoder, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    sentences = [list(rng.choice(list("abcdefghij"), n)) for n in rng.integers(1, 30, 300)]
    alone = cached_vectors(encoder, sentences, tmp_path / "1", n_jobs=1)
    shared = cached_vectors(encoder, sentences, tmp_path / "3", n_jobs=3)
    assert len(alone) == 300 and all(map(np.array_equal, alone, shared))
    np.testing.assert_allclose(alone[7], encoder.encode(sentences[7]), rtol=1e-3, atol=1e-4)


def test_the_limit_of_threads_is_lifted_after_the_last_block() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    def limits() -> set[int]:
        """Of NumPy's library; SciPy may have loaded another."""
        info = [library for library in threadpool_info() if library["user_api"] == "blas"]
        paths = [library for library in info if "numpy" in library["filepath"]] or info
        return {library["num_threads"] for library in paths}

    with threadpool_limits(2, "blas"):
        with ExitStack() as second:
            with single_threaded_products():
                second.enter_context(single_threaded_products())
                assert limits() == {1}
            assert limits() == {1}
        assert limits() == {2}

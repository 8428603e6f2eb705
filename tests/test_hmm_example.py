"""The parts of docs/examples/hmm_mmi.py, held to the enumeration of all paths."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax, logsumexp

from rnnparse.compiled import njit
from rnnparse.losses.external import check_external

PROGRAM = Path(__file__).resolve().parents[1] / "docs" / "examples" / "hmm_mmi.py"


@pytest.fixture(scope="module")
def hmm() -> Iterator[Any]:
    """The program as a module, with a cache of its compiled functions."""
    spec = importlib.util.spec_from_file_location("hmm_mmi", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["hmm_mmi"] = module
    spec.loader.exec_module(module)
    for name in ("log_sum", "forward_backward"):
        setattr(module, name, njit()(getattr(module, name).py_func))
    yield module
    del sys.modules["hmm_mmi"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def every_path(graph: Any, scores: np.ndarray) -> Iterator[tuple[list[int], float]]:
    """The states and the score of each path that is possible."""

    def extend(place: int, frames: int) -> Iterator[tuple[list[int], float]]:
        if frames == 1:
            yield [place], graph.end[place]
            return
        for onwards in np.flatnonzero(np.isfinite(graph.move[place])):
            for rest, score in extend(int(onwards), frames - 1):
                yield [place, *rest], graph.move[place, onwards] + score

    for start in np.flatnonzero(np.isfinite(graph.start)):
        for places, score in extend(int(start), len(scores)):
            if np.isfinite(score):
                states = [int(s) for s in graph.state[places]]
                local = scores[np.arange(len(scores)), states].sum()
                yield states, graph.start[start] + score + local


def by_enumeration(graph: Any, scores: np.ndarray) -> tuple[float, np.ndarray, list[int]]:
    """log Σ exp score, posteriors of the states [T, S], and the best path."""
    scored_paths = list(every_path(graph, scores))
    total = logsumexp([score for _, score in scored_paths])
    posteriors = np.zeros(scores.shape)
    for states, score in scored_paths:
        posteriors[np.arange(len(scores)), states] += np.exp(score - total)
    return total, posteriors, max(scored_paths, key=lambda item: item[1])[0]


@pytest.mark.parametrize(
    ("words", "frames"),
    [(None, 3), (None, 7), ((1,), 3), ((1,), 6), ((4, 0), 6), ((2, 2), 9), ((0, 3, 3), 11)],
)
def test_forward_backward_and_viterbi_against_all_paths(hmm: Any, words: Any, frames: int) -> None:
    graph = hmm.paths(words or hmm.ANY, in_order=words is not None)
    scores = 3 * normal(frames, hmm.STATES)
    total, posteriors, best = by_enumeration(graph, scores)
    log_total, gamma = hmm.forward_backward(scores, *graph)
    assert log_total == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(gamma, posteriors, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gamma.sum(axis=1), 1)
    assert hmm.best_path(scores, graph).tolist() == best


def test_numerators_of_all_sequences_add_up_to_the_denominator(hmm: Any) -> None:
    scores = normal(8, hmm.STATES)  # room for two words at most
    sequences = [s for n in (1, 2) for s in itertools.product(hmm.ANY, repeat=n)]
    numerators = [hmm.forward_backward(scores, *hmm.paths(s, True))[0] for s in sequences]
    denominator, _ = hmm.forward_backward(scores, *hmm.paths(hmm.ANY, False))
    assert logsumexp(numerators) == pytest.approx(denominator, rel=1e-12)


def test_paths_of_all_lengths_have_a_probability_of_one(hmm: Any) -> None:
    graph = hmm.paths(hmm.ANY, False)
    lengths = [hmm.forward_backward(np.zeros((T, hmm.STATES)), *graph)[0] for T in range(1, 250)]
    assert logsumexp(lengths) == pytest.approx(0, abs=1e-5)


def test_huge_activations_do_not_overflow(hmm: Any) -> None:
    scores = 1e4 * normal(6, hmm.STATES)
    graph = hmm.paths(hmm.ANY, False)
    total, posteriors, _ = by_enumeration(graph, scores)
    log_total, gamma = hmm.forward_backward(scores, *graph)
    assert log_total == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(gamma, posteriors, atol=1e-9)


def test_the_derivative_is_that_of_finite_differences(hmm: Any) -> None:
    data = hmm.sample(4, seed=5)
    activations = normal(*data.states.shape, hmm.STATES)
    report = check_external(hmm.mmi, activations, data.words, data.frames, directions=40)
    assert report.relative_error < 1e-6
    short = np.argsort(data.frames)[:1]
    frames = data.frames[short]
    activations = activations[short, : frames.max()]
    report = check_external(hmm.mmi, activations, data.words[short], frames)
    assert report.relative_error < 1e-6 and report.checked == activations.size


def test_the_criterion_is_a_log_probability_whatever_is_padded(hmm: Any) -> None:
    data = hmm.sample(6, seed=6)
    activations = normal(*data.states.shape, hmm.STATES)
    loss, derivative = hmm.mmi(activations, data.words, data.frames)
    assert (loss > 0).all()
    np.testing.assert_allclose(derivative.sum(axis=2), 0, atol=1e-12)
    padding = data.states < 0
    assert padding.any() and not derivative[padding].any()
    activations[padding] = np.nan
    # A constant for a frame leaves all paths of an utterance as probable as they were.
    activations += normal(*data.states.shape, 1, seed=1)
    np.testing.assert_allclose(hmm.mmi(activations, data.words, data.frames)[0], loss)


def test_utterances_are_drawn_from_the_model(hmm: Any) -> None:
    data = hmm.sample(500, seed=7)
    for states, words, frames in zip(data.states, data.words, data.frames, strict=True):
        assert (states[:frames] >= 0).all() and (states[frames:] == -1).all()
        assert hmm.words_of(states[:frames]) == words[words >= 0].tolist()
    assert np.mean(np.sum(data.words >= 0, axis=1)) == pytest.approx(1 / hmm.STOP, rel=0.15)
    assert data.frames.sum() / np.sum(data.words >= 0) == pytest.approx(3 / (1 - hmm.STAY), rel=0.1)


def test_cross_entropy_is_that_of_the_aligned_states(hmm: Any) -> None:
    data = hmm.sample(5, seed=8)
    activations = normal(*data.states.shape, hmm.STATES).astype(np.float32)
    losses = hmm.cross_entropy(activations, hmm.Utterances(*map(tf.constant, data)))
    for i, frames in enumerate(data.frames):
        log_p = log_softmax(activations[i, :frames], axis=1)
        expected = -log_p[np.arange(frames), data.states[i, :frames]].sum()
        assert float(losses[i]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_training_improves_the_criterion_on_unseen_utterances(hmm: Any) -> None:
    data, unseen = hmm.sample(100, seed=1), hmm.sample(100, seed=2)
    model = hmm.network()
    before = hmm.evaluate(model, unseen)
    hmm.train(model, hmm.cross_entropy, data, epochs=8)
    aligned = hmm.evaluate(model, unseen)
    hmm.train(model, hmm.mmi_loss, data, epochs=8)
    after = hmm.evaluate(model, unseen)
    assert after[0] < aligned[0] < before[0]
    assert after[2] > before[2]
    other = hmm.network()
    hmm.train(other, hmm.mmi_loss, data, epochs=16)
    assert hmm.evaluate(other, unseen)[0] < 0.5 * before[0]

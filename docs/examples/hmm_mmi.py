"""Train an acoustic-style model with the MMI criterion, its derivatives by forward-backward.

    python docs/examples/hmm_mmi.py

A network scores the states of a hidden Markov model for each frame: activations a[t, s], which
stand for log p(frame t | state s). The score of a path q through the states is Σ_t a[t, q_t] plus
its log transition probabilities. Maximum mutual information training minimises, for each utterance,

    F  =  log Σ_{q: all paths} exp score(q)  −  log Σ_{q: paths of the words spoken} exp score(q),

which is −log P(words | frames). By forward-backward over both sets of paths, the denominator and
the numerator, its derivative is a difference of posteriors:

    ∂F / ∂a[t, s]  =  γ_denominator(t, s) − γ_numerator(t, s).

F and the derivative are computed outside TensorFlow, by numba; `external_loss` hands them on.

MMI does not assume that the model is the true one (Bahl et al. 1986), and here it is not: a state
emits one of two Gaussians, but the network is linear, as log-densities of one Gaussian a state with
a common covariance are. For comparison it is trained by cross-entropy to tell the states of single
frames apart; this takes aligned states, which MMI does without. All figures printed are of
utterances not trained on. The model was chosen to be wrong in this way: with networks that can
represent the states, cross-entropy was as good as MMI, or better.

References:
    Rabiner (1989), A tutorial on hidden Markov models, section III (forward-backward, Viterbi).
    Bahl, Brown, de Souza & Mercer (1986), Maximum mutual information estimation of hidden Markov
    model parameters for speech recognition.
    Povey (2003), Discriminative training for large vocabulary speech recognition, chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from numba import njit

from rnnparse.losses import check_external, external_loss

WORDS, STATES_OF_WORD, DIM = 5, 3, 4
STATES, ANY = WORDS * STATES_OF_WORD, tuple(range(WORDS))
STAY, STOP = 0.6, 0.35  # that a state follows itself, that an utterance ends after a word

Loss = Callable[[tf.Tensor, "Utterances"], tf.Tensor]


class Graph(NamedTuple):
    """Paths over U positions; log probabilities of the start, the moves and the end of a path."""

    state: np.ndarray  # int [U], whose activations score a position
    start: np.ndarray  # [U]
    move: np.ndarray  # [U, U]
    end: np.ndarray  # [U]


@cache
def paths(words: tuple[int, ...], in_order: bool) -> Graph:
    """All paths through the states of these words, which follow in their order or in any."""
    state = (np.array(words)[:, None] * STATES_OF_WORD + np.arange(STATES_OF_WORD)).ravel()
    index = np.arange(len(state))
    first, last = index % STATES_OF_WORD == 0, (index + 1) % STATES_OF_WORD == 0
    next_state = index == index[:, None] + 1
    within, between = next_state & ~last[:, None], np.outer(last, first)
    if in_order:
        between &= next_state
        first, last = index == 0, index == len(state) - 1
    onwards = within + between * (1 - STOP) / WORDS
    move = STAY * np.eye(len(state)) + (1 - STAY) * onwards
    with np.errstate(divide="ignore"):
        return Graph(state, *map(np.log, (first / WORDS, move, last * (1 - STAY) * STOP)))


@njit
def forward_backward(
    scores: np.ndarray, state: np.ndarray, start: np.ndarray, move: np.ndarray, end: np.ndarray
) -> tuple[float, np.ndarray]:
    """log Σ_q exp score(q), and the posteriors γ(t, s) of the states (Rabiner 1989, section III).

    α[t, u] and β[t, u] are the log sums over the paths up to and after frame t at position u.
    """
    T, U = len(scores), len(state)
    local = scores[:, state]
    alpha, beta = np.empty((T, U)), np.empty((T, U))
    alpha[0], beta[T - 1] = start + local[0], end
    for t in range(1, T):
        for u in range(U):
            alpha[t, u] = log_sum(alpha[t - 1], move[:, u]) + local[t, u]
    for t in range(T - 2, -1, -1):
        onwards = local[t + 1] + beta[t + 1]
        for u in range(U):
            beta[t, u] = log_sum(onwards, move[u])
    total = log_sum(alpha[T - 1], end)
    posteriors = np.zeros(scores.shape)
    for t in range(T):
        for u in range(U):
            posteriors[t, state[u]] += np.exp(alpha[t, u] + beta[t, u] - total)
    return total, posteriors


@njit
def log_sum(x: np.ndarray, y: np.ndarray) -> float:
    """log Σ exp(x + y), also where all are −∞."""
    top = -np.inf
    for u in range(len(x)):
        top = max(top, x[u] + y[u])
    if top == -np.inf:
        return top
    total = 0.0
    for u in range(len(x)):
        total += np.exp(x[u] + y[u] - top)
    return top + np.log(total)


def mmi(
    activations: np.ndarray, words: np.ndarray, frames: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """F of each utterance [B], and denominator minus numerator posteriors [B, T, S].

    Args:
        activations: [B, T, S].
        words: int [B, M], the words spoken; -1 behind the last.
        frames: int [B], lengths; what is behind them gets no derivative.
    """
    loss, derivative = np.zeros(len(activations)), np.zeros(activations.shape)
    for i, scores in enumerate(activations):
        scores = scores[: frames[i]].astype(np.float64)
        spoken = tuple(words[i][words[i] >= 0].tolist())
        denominator, gamma_denominator = forward_backward(scores, *paths(ANY, in_order=False))
        numerator, gamma_numerator = forward_backward(scores, *paths(spoken, in_order=True))
        loss[i] = denominator - numerator
        derivative[i, : frames[i]] = gamma_denominator - gamma_numerator
    return loss, derivative


class Utterances(NamedTuple):
    """B utterances, padded to T frames."""

    x: np.ndarray  # float32 [B, T, D]
    states: np.ndarray  # int [B, T], -1 behind the end
    words: np.ndarray  # int [B, M], -1 behind the end
    frames: np.ndarray  # int [B]


def sample(count: int, seed: int) -> Utterances:
    """Draw from the model: a state emits one of two Gaussians, whose means are the same for all."""
    means = 1.2 * np.random.default_rng(0).standard_normal((STATES, 2, DIM))
    rng = np.random.default_rng(seed)
    spoken, visited = [], []
    for _ in range(count):
        words = rng.integers(WORDS, size=rng.geometric(STOP))
        inner = words[:, None] * STATES_OF_WORD + np.arange(STATES_OF_WORD)
        spoken.append(words)
        visited.append(np.repeat(inner, rng.geometric(1 - STAY, inner.size)))
    states, words = pad(visited), pad(spoken)
    chosen = means[states, rng.integers(2, size=states.shape)]
    x = (chosen + rng.standard_normal(chosen.shape)).astype(np.float32)
    return Utterances(x, states, words, np.array([len(path) for path in visited]))


def pad(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of different lengths as a table, with -1 behind their ends."""
    table = np.full((len(rows), max(map(len, rows))), -1)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def network() -> keras.Model:
    """Activations [B, T, S] from frames [B, T, D]; a deeper network would do as well."""
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((None, DIM)), keras.layers.Dense(STATES)])


def mmi_loss(activations: tf.Tensor, batch: Utterances) -> tf.Tensor:
    """F of each utterance [B]."""
    return external_loss(activations, mmi, batch.words, batch.frames)


def cross_entropy(activations: tf.Tensor, batch: Utterances) -> tf.Tensor:
    """−Σ_t log P(s_t | frame t) of each utterance [B], with the states s_t of its alignment.

    P(s | frame) ∝ P(s) exp a[t, s] by Bayes' rule; in the long run all states are as frequent, so
    that P(s) drops out of the softmax.
    """
    inside = batch.states >= 0
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.where(inside, batch.states, 0), activations
    )
    return tf.reduce_sum(tf.where(inside, losses, 0), axis=1)


def train(model: keras.Model, loss: Loss, data: Utterances, epochs: int) -> None:
    """Minimise the mean loss of a frame by Adam, in minibatches of 20 utterances."""
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(batch: Utterances) -> None:
        with tf.GradientTape() as tape:
            losses = loss(model(batch.x), batch)
            mean = tf.reduce_sum(losses) / tf.cast(tf.reduce_sum(batch.frames), losses.dtype)
            scaled = optimizer.scale_loss(mean)  # for mixed_float16
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(scaled, variables), variables)

    rng = np.random.default_rng(0)
    for _ in range(epochs):
        for rows in rng.permutation(len(data.x)).reshape(-1, 20):
            step(Utterances(*(tf.constant(field[rows]) for field in data)))


def best_path(scores: np.ndarray, graph: Graph) -> np.ndarray:
    """The states of the path of the highest score [T] (Viterbi)."""
    scores = scores[:, graph.state]
    best, back = graph.start + scores[0], []
    for frame in scores[1:]:
        arrivals = best[:, None] + graph.move
        back.append(arrivals.argmax(axis=0))
        best = arrivals.max(axis=0) + frame
    path = [int(np.argmax(best + graph.end))]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return graph.state[path[::-1]]


def words_of(path: np.ndarray) -> list[int]:
    """The words that a path goes through: one begins where its first state is entered."""
    enters = np.append(True, path[1:] != path[:-1]) & (path % STATES_OF_WORD == 0)
    return (path[enters] // STATES_OF_WORD).tolist()


def evaluate(model: keras.Model, data: Utterances) -> tuple[float, float, float]:
    """F a frame, and the shares of frames and of whole utterances that are recognised."""
    activations = np.asarray(model(data.x), np.float64)
    loss, _ = mmi(activations, data.words, data.frames)
    right_frames = right_utterances = 0
    for i, frames in enumerate(data.frames):
        path = best_path(activations[i, :frames], paths(ANY, in_order=False))
        right_frames += int(np.sum(path == data.states[i, :frames]))
        right_utterances += words_of(path) == data.words[i][data.words[i] >= 0].tolist()
    total = int(data.frames.sum())
    return loss.sum() / total, right_frames / total, right_utterances / len(data.x)


def main() -> None:
    """Check the derivative, then train the same network in three ways with as many steps."""
    few = sample(2, seed=3)
    activations = np.random.default_rng(0).standard_normal((*few.states.shape, STATES))
    report = check_external(mmi, activations, few.words, few.frames)
    print(f"largest error of {report.checked} derivatives: {report.absolute_error:.0e}\n")

    data, unseen = sample(300, seed=1), sample(1000, seed=2)
    courses = {
        "not trained": [],
        "cross-entropy": [(cross_entropy, 30)],
        "MMI": [(mmi_loss, 30)],
        "cross-entropy, then MMI": [(cross_entropy, 15), (mmi_loss, 15)],
    }
    print(f"{'':24}F per frame  frames right  utterances right")
    for name, course in courses.items():
        model = network()
        for loss, epochs in course:
            train(model, loss, data, epochs)
        criterion, frames, utterances = evaluate(model, unseen)
        print(f"{name:24}{criterion:11.4f}{frames:14.1%}{utterances:18.1%}")


if __name__ == "__main__":
    main()

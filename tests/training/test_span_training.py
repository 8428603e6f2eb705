"""Training of the span scorer: its objective, its gradient, and runs that are interrupted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnparse._tensorflow import tf
from rnnparse.errors import ModelError
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import candidate_tree
from rnnparse.inference.viterbi import best_tree
from rnnparse.losses.cost import labelled_spans, structured_cost
from rnnparse.models.span_inputs import SpanInputs, join_inputs
from rnnparse.models.span_network import SpanNetwork
from rnnparse.models.span_parameters import SpanParameters, initial_span_parameters
from rnnparse.models.span_scorer import Dropout, SpanScorer
from rnnparse.threads import apart
from rnnparse.training.span_checkpoint import load_span_state, save_span_state
from rnnparse.training.span_examples import Prepared, SpanExample, hinge, prepare_example
from rnnparse.training.span_step import SpanStep
from rnnparse.training.span_training import SpanSettings, SpanState, span_epochs
from tests.grammar.small import small_grammar, trees
from tests.span_problem import LAYERS, SIZE, span_problem

SETTINGS = SpanSettings(epochs=20, batch_size=7, learning_rate=0.02)
prepared_of, hinge_of, best_of = apart(prepare_example), apart(hinge), apart(best_tree)


@lru_cache(maxsize=1)
def prepared_all() -> list[Prepared]:
    problem = span_problem()
    return [prepared_of(e, problem.features, problem.categories) for e in problem.examples]


def dropout_of(inputs: SpanInputs, p: SpanParameters, rng: np.random.Generator) -> Dropout:
    n, d, e = len(inputs.word), p.treebank_dim, p.encoder_dim
    return Dropout(
        rng.random(n) < 0.3,
        2.0 * (rng.random((len(p.conv) + 1, n, d)) < 0.5),
        2.0 * (rng.random((n, d + e)) < 0.5),
        rng.random((len(inputs.span), len(p.bias))) < 0.7,
        1.25,
    )


# -- the objective ---------------------------------------------------------------------------------


def test_the_target_is_the_best_tree_within_reach() -> None:
    problem = span_problem()
    names = small_grammar().pcfg.categories
    for example, one in zip(problem.examples, prepared_all(), strict=True):
        graph, gold = example.graph, set(map(tuple, example.spans.tolist()))
        tag = np.isin(np.arange(len(graph.category)), graph.tag)

        def value(vertices: np.ndarray, graph=graph, gold=gold, tag=tag) -> tuple[float, int]:
            spans = [v for v in vertices if graph.category[v] < len(names) and not tag[v] and v]
            keys = [tuple(int(a[v]) for a in (graph.category, graph.start, graph.end))
                    for v in spans]  # fmt: skip
            return round(sum(key in gold for key in keys) - 0.48 * len(keys), 9), len(keys)

        least = value(one.target)[0]
        rng = np.random.default_rng(0)
        for _ in range(30):  # no other tree of the hypergraph is better
            other = best_of(graph, rng.normal(0, 3, len(graph.category)), 1.0).vertices
            assert value(other)[0] <= least
        wrong = value(one.target)[1] - sum(
            tuple(int(a[v]) for a in (graph.category, graph.start, graph.end)) in gold
            for v in one.target
            if v and not tag[v]
        )
        assert one.cost[one.target].sum() == wrong


def test_the_cost_is_that_of_trees() -> None:
    """Δ of a tree of the hypergraph is `structured_cost` of it as an NLTK tree."""
    problem, grammar = span_problem(), small_grammar()
    decoder = Decoder(grammar)
    gold = {tuple(tree.leaves()): tree for tree in trees(40)}
    for example, one in zip(problem.examples[:5], prepared_all(), strict=False):
        scores = np.random.default_rng(1).normal(0, 2, len(one.cost))
        vertices = best_of(example.graph, scores, 1.0).vertices
        forest = decoder.hypergraph(example.graph).best_tree(scores)
        tree = candidate_tree(forest, 0, example.tokens, grammar.pcfg.categories)
        wanted = structured_cost(tree, gold[tuple(example.tokens)], kappa=1.0)
        assert one.cost[vertices].sum() == wanted
        spans = {(grammar.pcfg.categories[c], i, j) for c, i, j in example.spans.tolist() if c >= 0}
        assert spans <= set(labelled_spans(gold[tuple(example.tokens)]))


@given(st.integers(0, 10**6))
def test_the_hinge_is_convex_and_its_slope_a_subgradient_at_kinks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = prepared_all()[seed % 12]
    here, there = rng.integers(-1, 2, (2, len(one.cost))).astype(float)  # many trees tie
    for weight, kappa in itertools.product((0.0, 0.5), (0.0, 1.0)):
        loss, slope = hinge_of(one, here, weight, kappa)
        assert loss >= kappa * one.cost[one.target].sum() - 1e-9
        assert hinge_of(one, there, weight, kappa)[0] >= loss + slope @ (there - here) - 1e-9


def test_the_slope_is_the_derivative_where_one_tree_is_best() -> None:
    rng = np.random.default_rng(0)
    for one in prepared_all():
        scores, direction = rng.normal(size=(2, len(one.cost)))
        slope = hinge_of(one, scores, 0.4, 1.0)[1]
        up, down = (hinge_of(one, scores + s * direction, 0.4, 1.0)[0] for s in (1e-6, -1e-6))
        assert slope @ direction == pytest.approx((up - down) / 2e-6, abs=1e-6)


# -- the gradient ----------------------------------------------------------------------------------


def objective(
    network: SpanNetwork, examples: list[Prepared], inputs: SpanInputs
) -> tuple[float, np.ndarray]:
    """The summed hinge of examples, and its subgradient by the scores of all vertices."""
    values, first = network(inputs).numpy(), 0
    total, slopes = 0.0, np.zeros(len(values))
    for one in examples:
        own = slice(first, first + len(one.inputs.vertex))
        scores = np.zeros(len(one.cost))
        scores[one.inputs.vertex] = values[own]
        loss, slope = hinge_of(one, scores, 0.4, 1.0)
        total, slopes[own], first = total + loss, slope[one.inputs.vertex], own.stop
    return total, slopes


def test_gradients_are_finite_differences() -> None:
    problem = span_problem()
    p = problem.parameters(dtype="float64")
    network = SpanNetwork(p, problem.features)
    inputs = join_inputs([e.with_vectors() for e in prepared_all()[:3]])
    rng = np.random.default_rng(0)
    dropout, weights = dropout_of(inputs, p, rng), rng.normal(size=len(inputs.vertex))

    def value_of() -> tf.Tensor:
        projected = network.projected(inputs, dropout)
        return tf.reduce_sum(network.span_scores(projected, inputs, dropout) * weights)

    with tf.GradientTape() as tape:
        value = value_of()
    variables = network.trainable_variables
    assert len(variables) == len(SpanParameters._fields)
    for variable, gradient in zip(variables, tape.gradient(value, variables), strict=True):
        dense, start = tf.convert_to_tensor(gradient).numpy(), variable.value.numpy()
        used = np.flatnonzero(dense)
        assert len(used), variable.name
        for place in rng.choice(used, min(4, len(used)), replace=False):
            sums = []
            for step in (1e-6, -1e-6):
                changed = start.copy()
                changed.flat[place] += step
                variable.assign(changed)
                sums.append(float(value_of()))
            variable.assign(start)
            wanted = (sums[0] - sums[1]) / 2e-6
            assert dense.flat[place] == pytest.approx(wanted, abs=2e-6, rel=1e-5), variable.name


def test_the_gradient_by_labels_is_a_subgradient_at_kinks() -> None:
    """r is convex in U; at U = 0 all trees of equal Δ have equal scores."""
    problem = span_problem()
    p = problem.parameters(dtype="float64")
    p = p._replace(labels=0 * p.labels, label_bias=0 * p.label_bias)
    network, some = SpanNetwork(p, problem.features), prepared_all()[:4]
    inputs = join_inputs([e.with_vectors() for e in some])
    here, slopes = objective(network, some, inputs)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(network(inputs) * slopes)
    slope = tape.gradient(value, network.labels_).numpy()
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 3.0):
        for _ in range(5):
            move = rng.normal(0, size, slope.shape)
            network.labels_.assign(move)
            there, _ = objective(network, some, inputs)
            assert there >= here + float(np.sum(slope * move)) - 1e-9


def test_a_step_follows_the_subgradient_of_all_vertices() -> None:
    """Only vertices of two trees are differentiated, and this is the whole subgradient."""
    problem = span_problem()
    step = SpanStep(problem.parameters(), problem.features, SETTINGS, 3)
    step.settings = replace(SETTINGS, weight=0.4)
    seen: list[list[np.ndarray]] = []
    step._apply = lambda gradients, _: seen.append(  # type: ignore[method-assign]
        [tf.convert_to_tensor(g).numpy() for g in gradients]
    )
    step._dropout = no_dropout  # type: ignore[method-assign, assignment]
    some = prepared_all()[:4]
    losses = step(some, 0, 0)
    inputs = join_inputs([e.with_vectors() for e in some])
    total, slopes = objective(step.network, some, inputs)
    assert losses.sum() == pytest.approx(total, abs=1e-4)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(step.network(inputs) * (slopes / 4).astype(np.float32))
    variables = step.network.trainable_variables
    for one, other in zip(seen[0], tape.gradient(value, variables), strict=True):
        assert one == pytest.approx(tf.convert_to_tensor(other).numpy(), abs=1e-5)


def no_dropout(inputs: SpanInputs, _: Any) -> Dropout:
    n, one = len(inputs.word), np.float32(1)
    return Dropout(
        np.zeros(n, np.bool_), np.full((3, n, 6), one), np.full((n, 9), one),
        np.ones((len(inputs.span), 5), np.bool_), 1.0,
    )  # fmt: skip


# -- runs ------------------------------------------------------------------------------------------


def run(state: SpanState, settings: SpanSettings, count: int | None = None) -> SpanState:
    """Train for some epochs, or to the end."""
    problem = span_problem()
    examples = [replace(e, vectors=reader(e)) for e in problem.examples]
    epochs = span_epochs(state, examples, settings, n_jobs=2, progress=False)
    for _ in itertools.islice(epochs, count):
        pass
    return state


def reader(example: SpanExample) -> Callable[[], np.ndarray]:
    """A function that reads an example's vectors."""
    return lambda: example.vectors  # type: ignore[return-value]


def start() -> SpanState:
    problem, size = span_problem(), (LAYERS, SIZE)
    p = initial_span_parameters(problem.features, problem.categories, encoder=size, dim=16)
    return SpanState.start(problem.features, p)


@lru_cache(maxsize=1)
def whole_run() -> SpanState:
    return run(start(), SETTINGS)


def test_a_resumed_run_gives_the_same_bytes(tmp_path: Path) -> None:
    whole, path = whole_run(), tmp_path / "state.npz"
    assert [e["epoch"] for e in whole.history] == list(range(1, whole.epoch + 1))
    assert whole.epoch == SETTINGS.epochs
    assert load_span_state(path, "key", start()) is None
    save_span_state(path, run(start(), SETTINGS, 2), "key")
    state = load_span_state(path, "key", start())
    assert state is not None and state.epoch == 2
    save_span_state(path, run(state, SETTINGS), "key")
    again = load_span_state(path, "key", start())
    assert again is not None and again.epoch == whole.epoch
    for one, other in zip(whole.parameters, again.parameters, strict=True):
        assert one.tobytes() == other.tobytes()
    assert [e["loss"] for e in whole.history] == [e["loss"] for e in again.history]
    assert list(span_epochs(again, span_problem().examples, SETTINGS, progress=False)) == []


def test_training_fits_its_examples() -> None:
    problem, state = span_problem(), whole_run()
    assert state.history[-1]["loss"] < 0.1 * state.history[0]["initial_loss"]
    scorer = SpanScorer(state.parameters, problem.features)
    same = before = total = 0
    for e, one in zip(problem.examples, prepared_all(), strict=True):
        scores = scorer.scores(e.graph, e.tokens, e.vectors)
        found = best_of(e.graph, scores, SETTINGS.weight).vertices
        same += len(set(found) & set(one.target))
        before += len(set(best_of(e.graph, 0 * scores, 1.0).vertices) & set(one.target))
        total += len(one.target)
    assert same > 0.95 * total and same > before


def test_training_without_an_encoder_and_one_that_diverges() -> None:
    problem = span_problem()
    examples = [replace(e, vectors=None) for e in problem.examples]
    p = initial_span_parameters(problem.features, problem.categories, dim=16)
    state = SpanState.start(problem.features, p)
    epochs = [s.epoch for s in span_epochs(state, examples, SETTINGS, progress=False)]
    assert epochs == list(range(1, SETTINGS.epochs + 1)) and state.diverged is None
    assert state.history[-1]["loss"] < 0.3 * state.history[0]["initial_loss"]
    state = SpanState.start(problem.features, p)
    wild = replace(SETTINGS, learning_rate=1e30, batch_size=5)
    assert len(list(span_epochs(state, examples, wild, progress=False))) == 1
    assert state.diverged is not None and state.history == []
    with pytest.raises(ValueError, match="no examples"):
        next(span_epochs(state, [], SETTINGS))
    state = SpanState.start(problem.features, p)
    with pytest.raises(ValueError, match="2 layers and 3 components instead of 0 layers"):
        next(span_epochs(state, problem.examples, SETTINGS, progress=False))


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [SpanSettings().rate(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(2e-3 / 50)
    assert max(rates) == rates[49] == pytest.approx(2e-3 * 0.951)
    assert rates[-1] == pytest.approx(2e-3 * 0.05)
    assert rates[500] == pytest.approx(1e-3)


def infinite(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.inf)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("spans_labels", infinite, "spans.labels has the value inf"),
        ("spans_bias", lambda a: a[1:], "spans.project has the shape"),
        ("optimizer_1", lambda a: a.astype(float) * np.nan, "the optimizer is not finite"),
        ("optimizer_4", None, "optimizer_4"),
        ("spans_words", None, "spans_words"),
        ("about", lambda a: a[:-1], "damaged checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_an_error(
    tmp_path: Path, name: str, change: Any, message: str
) -> None:
    path = tmp_path / "state.npz"
    state = start()
    state.optimizer = [np.ones(3, np.float32) for _ in range(6)]
    save_span_state(path, state, "key")
    with np.load(path) as file:
        arrays = dict(file)
    value = arrays.pop(name)
    if change is not None:
        arrays[name] = change(value)
    np.savez(path, **arrays)
    with pytest.raises(ModelError, match=message):
        load_span_state(path, "key", start())


def test_a_checkpoint_of_another_run_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    state = start()
    state.epoch, state.optimizer = 1, [np.ones(3, np.float32)]
    state.history = [{"epoch": 1, "initial_loss": 2.0, "loss": 1.0, "violated": 0.5, "seconds": 3}]
    save_span_state(path, state, "key")
    loaded = load_span_state(path, "key", start())
    assert loaded is not None and loaded.history == state.history
    with pytest.raises(ModelError, match="belongs to a run with other data or settings"):
        load_span_state(path, "other", start())
    state.history[0]["loss"] = None
    save_span_state(path, state, "key")
    with pytest.raises(ModelError, match="a score is not a number"):
        load_span_state(path, "key", start())
    state.history[0]["loss"], state.epoch = 1.0, 2
    save_span_state(path, state, "key")
    with pytest.raises(ModelError, match="epochs are missing"):
        load_span_state(path, "key", start())
    state.epoch = 1
    with pytest.raises(ModelError, match="its optimizer does not fit the run"):
        run(state, SETTINGS)

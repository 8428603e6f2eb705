"""The training loop against plain gradient descent on the whole objective, and its bookkeeping."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse._tensorflow import tf
from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError, ModelError
from rnnparse.inference.forest import candidate_tree
from rnnparse.losses.cost import structured_cost
from rnnparse.models.cvg import CVG
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.parameters import Parameters
from rnnparse.optim.optimizers import known_optimizers, make_optimizer
from rnnparse.training.checkpoint import TrainingState, load_state, save_state
from rnnparse.training.dev_selection import (
    BETAS,
    best_epoch,
    choose,
    f1_of,
    score_all,
    score_on_dev,
)
from rnnparse.training.prepare import Problem, _example, make_problem
from rnnparse.training.trainer import check_optimizer
from rnnparse.trees.cleaning import words
from tests.grammar.small import trees
from tests.models.reference import tree_score
from tests.training.problems import small_config, small_lists, small_problem, train_network

# After _tensorflow, so that TensorFlow starts quietly.
from rnnparse.losses.structured import structured_hinge  # isort: skip

COUNT = 24


@lru_cache(maxsize=2)
def problem(jackknife: int = 0) -> Problem:
    return small_problem(COUNT, jackknife=jackknife)


def exact(parameters: Parameters) -> Parameters:
    """The same weights in float64."""
    return Parameters(*(array.astype(np.float64) for array in parameters))


def far(parameters: Parameters) -> Parameters:
    """Weights far from their start, so that many sentences are violated."""
    rng = np.random.default_rng(0)
    return Parameters(
        *(array + rng.normal(0, 0.3, array.shape).astype(array.dtype) for array in parameters)
    )


def run(config: TrainingConfig, initial: Parameters | None = None, **more: Any) -> TrainingState:
    start = problem().initial if initial is None else initial
    return train_network(start, problem().store, problem().dev, config, **more)


def assert_close(one: Parameters, other: Parameters, tolerance: float) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# -- the objective -----------------------------------------------------------------------------


def tape_epochs(initial: Parameters, config: TrainingConfig, epochs: int) -> list[Parameters]:
    """Plain TensorFlow: all candidates differentiated by a tape, L2 in the loss."""
    store = problem().store
    model = CVG(initial, "tensorflow")
    optimizer = make_optimizer(config.optimizer, config.learning_rate)
    variables = model.trainable_variables
    states = []
    for epoch in range(epochs):
        order = np.random.default_rng([config.seed, 1, epoch]).permutation(len(store))
        for start in range(0, len(order), config.batch_size):
            batch = store.batch(order[start : start + config.batch_size])
            with tf.GradientTape() as tape:
                scores = tf.gather(model(batch), batch.candidates)
                costs = config.kappa * tf.gather(batch.cost, batch.candidates)
                hinges = structured_hinge(
                    scores, tf.cast(costs, scores.dtype), batch.gold, batch.mask, config.tie
                )
                squares = tf.reduce_sum(model.W.value**2) + tf.reduce_sum(model.v.value**2)
                loss = tf.reduce_mean(hinges) + 0.5 * config.l2 * squares
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            optimizer.apply(gradients, variables)
        states.append(model.parameters())
    return states


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "sgd", "learning_rate": 0.3, "l2": 0.01},
        {"optimizer": "adagrad", "l2": 0.01},
        {"optimizer": "adagrad", "l2": 0.0, "tie": "gold"},
        {"optimizer": "sgd", "l2": 0.0, "tie": "uniform", "engine": "tensorflow"},
    ],
)
def test_epochs_are_those_of_the_whole_objective(settings: dict[str, Any]) -> None:
    """The two-tree path gives the updates that differentiating every candidate gives."""
    config = small_config(averaging=False, **settings)
    initial = exact(far(problem().initial))
    seen: list[Parameters] = []
    state = run(config, initial, epochs=2, on_epoch=lambda s: seen.append(s.parameters))
    expected = tape_epochs(initial, config, 2)
    for ours, theirs in zip(seen, expected, strict=True):
        assert_close(ours, theirs, 1e-9)
    assert state.history[0]["violated"] > 0.3
    assert max(np.abs(a - b).max() for a, b in zip(initial, expected[-1], strict=True)) > 0.01


def test_float32_epochs_are_close_to_exact_ones() -> None:
    config = small_config(averaging=False, optimizer="sgd", learning_rate=0.1)
    initial = far(problem().initial)
    state = run(config, initial, epochs=1)
    (expected,) = tape_epochs(exact(initial), config, 1)
    assert_close(exact(state.parameters), expected, 1e-5)


def test_the_log_gives_the_objective_as_a_plain_count_does() -> None:
    """One batch of the whole training set: its hinge is that of the weights before the step."""
    config = small_config(batch_size=COUNT, kappa=0.7, l2=0.02, jackknife=3)
    initial = exact(far(problem(3).initial))
    state = train_network(initial, problem(3).store, None, config, epochs=1)
    lists = small_lists(COUNT, jackknife=3)
    hinges = []
    for parse, gold in zip(lists.train, trees(COUNT), strict=True):
        forest, place, _ = _example(parse.forest, gold, lists.grammar)
        tokens, names = words(gold), lists.grammar.pcfg.categories
        rows = problem(3).vocabulary.rows(tokens)
        scores = [
            tree_score(forest, k, rows, problem(3).category_pairs, initial)
            for k in range(len(forest.root))
        ]
        margins = [
            structured_cost(candidate_tree(forest, k, tokens, names), gold, 0.7)
            for k in range(len(forest.root))
        ]
        hinges.append(max(np.add(scores, margins)) - scores[place])
    (entry,) = state.history
    assert entry["loss"] == pytest.approx(np.mean(hinges), rel=1e-9)
    assert entry["violated"] == np.mean(np.array(hinges) > 0)
    now = state.parameters
    norm = float((now.W**2).sum() + (now.v**2).sum())
    assert entry["objective"] == pytest.approx(entry["loss"] + 0.01 * norm, rel=1e-9)


def test_training_lowers_the_objective() -> None:
    config = small_config(jackknife=3, learning_rate=0.05)
    arguments = (problem(3).initial, problem(3).store, None, config)
    history = train_network(*arguments, epochs=6).history
    objective = [entry["objective"] for entry in history]
    assert objective[-1] < 0.8 * objective[0]
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]


def test_the_engines_train_alike() -> None:
    initial = far(problem().initial)
    numba, tensorflow = (
        run(small_config(engine=engine, learning_rate=0.005), initial, epochs=2)
        for engine in ("numba", "tensorflow")
    )
    assert_close(numba.parameters, tensorflow.parameters, 1e-4)
    for one, other in zip(numba.history, tensorflow.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


# -- β, epochs, averaging ----------------------------------------------------------------------


def test_scores_are_those_of_each_tree() -> None:
    lists = small_lists(COUNT)
    initial = exact(far(problem().initial))
    tuning = problem().dev
    assert tuning is not None
    scores = score_all(initial, tuning.store)
    expected = [
        tree_score(
            parse.forest,
            k,
            problem().vocabulary.rows(words(gold)),
            problem().category_pairs,
            initial,
        )
        for parse, gold in zip(lists.dev, trees(6, "dev"), strict=True)
        for k in range(len(parse.forest.root))
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.1, 3.0])
def test_the_chosen_candidate_is_the_best_by_both_scores(beta: float) -> None:
    tuning = problem().dev
    assert tuning is not None
    store = tuning.store
    scores = score_all(far(problem().initial), store)
    picks = choose(scores, store, beta)
    for pick, (a, b) in zip(picks, pairwise(store.root_offsets.tolist()), strict=True):
        pairs = zip(scores[a:b].tolist(), store.logp[a:b].tolist(), strict=True)
        total = [score + beta * logp for score, logp in pairs]
        assert pick == total.index(max(total))


def test_dev_brackets_of_each_beta_are_those_of_its_choices() -> None:
    tuning = problem().dev
    assert tuning is not None
    parameters = far(problem().initial)
    scores = score_all(parameters, tuning.store)
    totals, chosen = score_on_dev(parameters, tuning)
    for i, beta in enumerate(BETAS):
        picks = choose(scores, tuning.store, beta)
        assert chosen[i].tolist() == picks.tolist()
        assert totals[i].tolist() == [
            sum(c.matched[k] for c, k in zip(tuning.counts, picks, strict=True)),
            sum(c.test[k] for c, k in zip(tuning.counts, picks, strict=True)),
            sum(c.gold for c in tuning.counts),
        ]
    assert len({tuple(row) for row in totals.tolist()}) > 1


def test_f1_of_brackets() -> None:
    assert f1_of(np.array([[3, 4, 6], [0, 0, 0], [2, 2, 2]])).tolist() == [60.0, 0.0, 100.0]


def test_each_entry_of_the_log_holds_what_was_chosen() -> None:
    state = run(small_config(), epochs=2)
    for number, entry in enumerate(state.history, start=1):
        f1 = f1_of(np.array(entry["dev_brackets"]))
        assert entry["epoch"] == number
        assert entry["dev_f1"] == f1.max()
        assert entry["beta"] == BETAS[int(f1.argmax())]
        assert entry["seconds"] > 0
    assert json.loads(json.dumps(state.history)) == state.history


@pytest.mark.parametrize(
    ("f1", "best"), [([1.0], 1), ([1.0, 2.0], 2), ([2.0, 2.0], 1), ([1.0, 3.0, 2.0, 3.0], 2)]
)
def test_the_earliest_of_equal_epochs_is_the_best(f1: list[float], best: int) -> None:
    assert best_epoch([{"dev_f1": value} for value in f1]) == best


def test_training_stops_when_dev_shows_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1.0, 3.0, 2.0, 3.0, 9.0])

    def scores(parameters: Parameters, dev: object) -> tuple[np.ndarray, np.ndarray]:
        return np.array([[next(values), 100, 100]]), np.zeros((1, 6), np.int64)

    monkeypatch.setattr("rnnparse.training.dev_selection.score_on_dev", scores)
    seen: list[Parameters] = []
    config = small_config(epochs=9, patience=2, averaging=False)
    state = run(config, on_epoch=lambda s: seen.append(s.parameters))
    assert (state.epoch, best_epoch(state.history)) == (4, 2)
    assert_close(state.best, seen[1], 0)
    assert_close(state.parameters, seen[3], 0)


def test_a_run_ends_after_its_last_epoch() -> None:
    assert run(small_config(epochs=2, patience=9)).epoch == 2


def test_without_dev_the_last_epoch_counts() -> None:
    state = train_network(
        problem().initial,
        problem().store,
        None,
        small_config(averaging=False),
        epochs=3,
    )
    assert state.epoch == 3
    assert_close(state.best, state.parameters, 0)
    assert "dev_f1" not in state.history[0]


def test_averaged_weights_are_the_mean_of_those_after_the_first_epoch() -> None:
    seen: list[Parameters] = []
    means: list[Parameters] = []

    def keep(state: TrainingState) -> None:
        seen.append(state.parameters)
        means.append(state.mean)

    state = train_network(
        problem().initial,
        problem().store,
        None,
        small_config(),
        epochs=5,
        on_epoch=keep,
    )
    assert_close(means[0], seen[0], 0)
    for epoch in range(1, 5):
        expected = Parameters(
            *(np.mean(arrays, axis=0) for arrays in zip(*seen[1 : epoch + 1], strict=True))
        )
        assert_close(means[epoch], expected, 1e-6)
    assert_close(state.best, means[-1], 0)


def test_the_start_is_not_changed() -> None:
    before = [array.copy() for array in problem().initial]
    run(small_config(), epochs=1)
    for array, same in zip(problem().initial, before, strict=True):
        np.testing.assert_array_equal(array, same)


# -- going on ----------------------------------------------------------------------------------


COMMON = ["adagrad", "adam", "schedulefreeadamw", "sgd"]


@pytest.mark.parametrize(
    ("optimizer", "engine"),
    [
        *((name, "numba") for name in COMMON),
        ("adagrad", "tensorflow"),
        *(
            pytest.param(name, "numba", marks=pytest.mark.slow)
            for name in sorted(set(known_optimizers()) - set(COMMON))
        ),
    ],
)
def test_every_optimizer_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, optimizer: str, engine: str
) -> None:
    config = small_config(
        optimizer=optimizer, engine=engine, learning_rate=0.01, epochs=3, patience=9
    )
    whole = run(config, far(problem().initial))
    file = tmp_path / "state.npz"
    run(config, far(problem().initial), epochs=1, on_epoch=lambda s: save_state(file, s, "key"))
    state = load_state(file, "key", problem().initial, betas=len(BETAS))
    assert state is not None and state.epoch == 1
    resumed = run(config, state=state)
    for which in ("parameters", "mean", "best"):
        assert_close(getattr(resumed, which), getattr(whole, which), 0)
    for one, other in zip(resumed.optimizer, whole.optimizer, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [{**e, "seconds": 0} for e in resumed.history] == [
        {**e, "seconds": 0} for e in whole.history
    ]


def test_a_finished_state_is_left_as_it_is() -> None:
    config = small_config(epochs=1)
    state = run(config)
    before = [array.copy() for array in state.parameters]
    again = run(config, state=state, on_epoch=lambda s: pytest.fail("trained on"))
    for array, same in zip(again.parameters, before, strict=True):
        np.testing.assert_array_equal(array, same)


def test_a_state_of_another_optimizer_is_no_start() -> None:
    state = run(small_config(), epochs=1)
    for optimizer in ("adam", "sgd"):
        with pytest.raises(ModelError, match="optimizer does not fit"):
            run(small_config(optimizer=optimizer), state=state)


def test_unknown_optimizers_are_named_with_the_known_ones() -> None:
    check_optimizer(small_config())
    with pytest.raises(ConfigError, match=r"'adagrat'; known are .*keras-adagrad"):
        check_optimizer(small_config(optimizer="adagrat"))


def test_levenberg_marquardt_is_refused_with_an_alternative() -> None:
    message = r"no longer trained by levenberg-marquardt.*: use adagrad or adam.*fit_least_squares"
    with pytest.raises(ConfigError, match=message):
        check_optimizer(small_config(optimizer="Levenberg-Marquardt"))


# -- corners -----------------------------------------------------------------------------------


def test_a_treebank_of_two_trees_of_one_word() -> None:
    """No node has a key of its own: all share the back-off weights."""
    from nltk.tree import Tree

    from rnnparse.grammar.grammar import estimate
    from rnnparse.inference.decoder import Decoder
    from rnnparse.training.prepare import Lists
    from rnnparse.trees.heads import HeadTable

    tiny = [Tree.fromstring(f"(TOP ({tag} {word}))") for tag, word in (("A", "a"), ("B", "b"))]
    grammar = estimate(tiny, HeadTable.left())
    decoder = Decoder(grammar)
    lists = Lists(grammar, [decoder.parse(words(tree), 5) for tree in tiny], [])
    small = make_problem(lists, tiny, [], None, small_config())
    assert len(small.category_pairs) == 1
    state = train_network(small.initial, small.store, None, small_config(), epochs=2)
    assert all(np.isfinite(array).all() for array in state.best)


def test_scores_of_no_sentence() -> None:
    empty = ForestDataset.from_forests([], [], problem().category_pairs)
    assert score_all(problem().initial, empty).shape == (0,)
    assert choose(np.zeros(0, np.float32), empty, 0.1).shape == (0,)

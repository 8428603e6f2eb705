"""The training loop of the span scorer: one state after each epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from rnnparse.array_invariants import GREATEST
from rnnparse.divergence import is_beyond
from rnnparse.errors import ModelError
from rnnparse.models.span_features import SpanFeatures
from rnnparse.models.span_parameters import SpanParameters
from rnnparse.threads import in_order
from rnnparse.training.span_examples import Prepared, SpanExample, prepare_example

if TYPE_CHECKING:
    from rnnparse.training.span_step import SpanStep

WARM_UP, LEAST_RATE = 50, 0.05  # steps; share of the learning rate at the end
ROUNDING = 1e-6  # of losses


@dataclass(frozen=True)
class SpanSettings:
    """The settings of the training of a span scorer.

    Attributes:
        epochs: passes over the examples. The learning rate depends on it.
        batch_size: sentences per step.
        learning_rate: the highest one; after a warm-up of 50 steps it falls linearly to 5 %.
        weight: w, the weight of the hypergraph's log probabilities.
        kappa: κ, the margin for each wrong labelled span.
        seed: of the order of the sentences and of dropout.
    """

    epochs: int = 12
    batch_size: int = 32
    learning_rate: float = 2e-3
    weight: float = 0.3
    kappa: float = 1.0
    seed: int = 0

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, of so many."""
        share = min(1.0, (step + 1) / WARM_UP) * max(LEAST_RATE, 1 - step / steps)
        return self.learning_rate * share


@dataclass
class SpanState:
    """What training needs to continue after an epoch, and its results so far.

    Attributes:
        epoch: number of finished epochs.
        history: one dict per epoch: mean loss, share of violated margins, seconds.
        features: the tables of words and tags.
        parameters: the weights after the last epoch.
        optimizer: the optimizer's variables, in its order.
        diverged: the entry of the epoch in which training diverged, or None. `history` does not
            contain it, and `parameters` are meaningless then. Not saved.
    """

    epoch: int
    history: list[dict[str, Any]]
    features: SpanFeatures
    parameters: SpanParameters
    optimizer: list[np.ndarray] = field(default_factory=list)
    diverged: dict[str, Any] | None = None

    @classmethod
    def start(cls, features: SpanFeatures, initial: SpanParameters) -> SpanState:
        """The state before the first epoch."""
        return cls(0, [], features, initial)


def span_epochs(
    state: SpanState,
    examples: Sequence[SpanExample],
    settings: SpanSettings,
    *,
    n_jobs: int = 1,
    progress: bool = True,
    what: str = "spans",
) -> Iterator[SpanState]:
    """Train from a state on, up to `settings.epochs` epochs or until training diverges.

    The objective is the mean structured hinge; see `rnnparse.training.span_examples`. The order of
    the sentences and dropout depend only on the seed and the number of the step, so a run that was
    stopped between epochs continues exactly as if it had not been.

    Args:
        state: where to start: `SpanState.start(features, initial)`, or that of an earlier run.
        examples: the sentences, at least one.
        settings: the settings.
        n_jobs: threads that look for the targets.
        progress: whether to show progress bars.
        what: their label.

    Yields:
        After each epoch the given state, changed in place. If the epoch diverged, `diverged` is
        set, and it is the last one. Nothing is yielded for a state that is finished already.

    Raises:
        ModelError: the state's optimizer variables do not fit the weights.
        ValueError: there are no examples, or one does not fit the weights.
    """
    # Imported late: TensorFlow takes as much memory as making the hypergraphs did.
    from rnnparse.training.span_step import SpanStep

    if not examples:
        raise ValueError("there are no examples to train the span scorer on")
    if state.epoch >= settings.epochs or state.diverged is not None:
        return
    prepared = _prepared(state, examples, n_jobs, progress, what)
    steps = math.ceil(len(prepared) / settings.batch_size)
    step = SpanStep(state.parameters, state.features, settings, steps)
    if state.epoch:
        _restore(step, state)
    while state.epoch < settings.epochs and state.diverged is None:
        began = time.perf_counter()
        entry = _epoch(step, prepared, settings, state.epoch, progress, what)
        state.epoch += 1
        entry["epoch"] = state.epoch
        state.parameters = step.parameters()
        if _has_diverged(entry, state):
            state.diverged = entry
        else:
            state.optimizer = step.state()
            entry["seconds"] = time.perf_counter() - began
            state.history.append(entry)
        yield state


def _has_diverged(entry: dict[str, Any], state: SpanState) -> bool:
    """Whether the loss of an epoch, or a weight after it, is infinite, NaN or too large."""
    first = state.history[0] if state.history else entry
    bounded = all(np.abs(array).max(initial=0) <= GREATEST for array in state.parameters)
    return not bounded or is_beyond(entry["loss"], first["initial_loss"])  # NaN is not bounded


def _prepared(
    state: SpanState, examples: Sequence[SpanExample], n_jobs: int, progress: bool, what: str
) -> list[Prepared]:
    categories = len(state.parameters.labels)

    def prepare(example: SpanExample) -> Prepared:
        return prepare_example(example, state.features, categories)

    results = in_order(prepare, examples, n_jobs)
    bar = tqdm(
        results, total=len(examples), desc=f"{what} targets", unit="sentence", disable=not progress
    )
    return list(bar)


def _restore(step: SpanStep, state: SpanState) -> None:
    try:
        step.restore(state.optimizer)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"the checkpoint is damaged: its optimizer does not fit the run ({error}); train "
            "without --resume"
        ) from error


def _epoch(
    step: SpanStep,
    examples: Sequence[Prepared],
    settings: SpanSettings,
    epoch: int,
    progress: bool,
    what: str,
) -> dict[str, Any]:
    """Train for one epoch; return its mean loss and share of violated margins.

    Stops at the first loss that is not finite. The entry of the first epoch also has the loss of
    its first batch before any step.
    """
    entry: dict[str, Any] = {}
    losses = np.zeros(len(examples))
    order = np.random.default_rng([settings.seed, 3, epoch]).permutation(len(examples))
    bar = tqdm(
        total=len(order), desc=f"{what} epoch {epoch + 1}", unit="sentence", disable=not progress
    )
    with bar:
        for place, begin in enumerate(range(0, len(order), settings.batch_size)):
            chosen = order[begin : begin + settings.batch_size]
            losses[chosen] = step([examples[i] for i in chosen], epoch, place)
            bar.update(len(chosen))
            mean = float(losses[chosen].mean())
            bar.set_postfix(loss=f"{mean:.3f}", refresh=False)
            if epoch == 0 and place == 0:
                entry["initial_loss"] = mean
            if not math.isfinite(mean):
                break
    entry["loss"] = float(losses.mean())
    entry["violated"] = float((losses > ROUNDING).mean())
    return entry

"""Turn findings and advice into sentences. All sentences of a diagnosis are here."""

from __future__ import annotations

from collections.abc import Sequence
from string import Formatter
from typing import Any

from rnnparse.divergence import change_rate
from rnnparse.study.diagnosis.advice import Advice, Finding

SENTENCES = {
    # failed
    "out_of_memory": "The trial ran out of memory.",
    "less_memory": "use smaller batches or fewer parallel trials",
    "no_objective": "The trial recorded no objective.",
    "yield_objective": "let it yield the objective after each update or epoch",
    "raised": "The trial raised {error}.",
    "run_alone": "run it alone to see the traceback",
    # diverged
    "broke_at_start": "The objective is undefined or far too large from the start.",
    "check_data": "check the data and the initial weights; the learning rate is not the cause",
    "broke": "At {place} the objective is undefined or a million times its initial value.",
    "grew": "The objective ended at {times:.3g} times its initial value.",
    "rose": "The objective rose.",
    "updates_short": "Updates are {ratio:%} of the length of the weights.",
    "updates_long": "Updates are {ratio:.3g} times as long as the weights.",
    "best_rate": "try {rate}; it reached the lowest objective with all other settings equal",
    "change_rate": "{change}",
    "change_damping": "use another optimizer, or change the damping",
    # overfitting
    "dev_f1_got_worse": "Dev F1 has fallen by {drop:.3g} since epoch {epoch:g}, while the training "
    "objective continued to fall.",
    "val_loss_got_worse": "Validation loss has risen by {drop:.3g} since epoch {epoch:g}, while "
    "the training objective continued to fall.",
    "stop": "stop at epoch {epoch:g}",
    "raise_l2": "raise l2",
    "regularize": "add regularization",
    # oscillating and converged
    "swings": "The objective swings by {share:%} of its level and does not fall.",
    "flat": "The last half of the {unit}s contributed {share:%} of the fall; more of them would "
    "gain little.",
    "level": "The objective no longer changes; longer training would gain little.",
    "gap": "The best iterate is {gap:.3g} above the optimum {optimum:.4g}.",
    "decay": "The gap shrinks as epoch^-{exponent:.2f} (95 % interval {low:.2f} to {high:.2f}).",
    # stalled
    "zero_gradients": "The gradients are 0, so no learning rate helps.",
    "check_units": "look for dead or saturated units",
    "saturated": "{share:%} of the units are saturated; smaller initial weights avoid that.",
    "stands_still": "The objective does not fall.",
    "updates_shrank": "The updates shrank to {share:%} of their earlier length before the "
    "objective was low.",
    "slower_schedule": "let the learning rate decay more slowly",
    "never_low": "The objective neither falls nor is low.",
    "other_start": "try other learning rates or other initial weights",
    # too few updates
    "too_few_to_tell": "{Count} too few to distinguish the slope from noise.",
    "too_few_updates": "{Count} too few.",
    "moved": "The weights moved by {share:%} of their length.",
    "went": "The objective covered {share:%} of the way down.",
    "more_updates": "use smaller batches or more epochs",
    "times_updates": "use smaller batches or more epochs; at this slope, {times:g} times as many "
    "updates are needed",
    # improving
    "went_in": "{count:g} {unit}s covered {share:%} of the way down.",
    "see_more_epochs": "run more epochs to see whether the objective still falls",
    "above_start": "The objective falls, but it is still above its initial value.",
    "still_falls": "The last half of the {unit}s contributed {share:%} of the fall.",
    "dev_f1_rests": "Dev F1 has not risen for {epochs:g} epochs, although the training objective "
    "still falls.",
    "val_loss_rests": "Validation loss has not fallen for {epochs:g} epochs, although the training "
    "objective still falls.",
    "stop_here": "do not run more epochs; they are unlikely to help",
    "nears_optimum": "The best iterate is still approaching the optimum.",
    "decaying_rate": "use a learning rate that decays",
    "more_epochs": "run more epochs",
    "times_epochs": "run about {times:g} times as many epochs",
    # the L2 term
    "l2_term": "The L2 term is {share:%} of the objective.",
    "l2_fall": "It accounts for {share:%} of the fall.",
    "loss_falls": "The loss falls from {start:.3g} to {end:.3g}.",
    "loss_stays": "The loss stays near {end:.3g}.",
    "loss_rises": "The loss rises from {start:.3g} to {end:.3g}.",
    "judge_by_loss": "judge the learning rate by the loss",
    "lower_l2": "lower l2 before you compare learning rates",
    "watch_loss": "watch the loss as well",
}
"""Code → a sentence for findings, an imperative clause for advice."""


class _Percent(Formatter):
    """Format specification `%`: a share in per cent with two significant digits."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec != "%":
            return str(super().format_field(value, format_spec))
        return f"{100 * value:.2g} %" if abs(value) < 0.995 else f"{100 * value:.0f} %"


def advice_text(notes: Sequence[Finding]) -> str:
    """Write notes as sentences; advice that follows other advice begins with "Alternatively"."""
    sentences: list[str] = []
    previous: Finding | None = None
    for note in notes:
        text = sentence(note)
        if isinstance(note, Advice):
            other = isinstance(previous, Advice)
            text = f"Alternatively, {text}." if other else f"{text[0].upper()}{text[1:]}."
        sentences.append(text)
        previous = note
    return " ".join(sentences)


def sentence(note: Finding) -> str:
    """A finding as a sentence, or advice as a clause."""
    values = dict(note.values)
    if note.code == "change_rate":
        values["change"] = change_rate(values["rate"], values["factor"])
    if count := values.get("count"):
        values["Count"] = f"{count} {values['unit']}{' is' if count == 1 else 's are'}"
    return _Percent().vformat(SENTENCES[note.code], (), values)

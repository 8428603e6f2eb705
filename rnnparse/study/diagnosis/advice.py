"""Choose what to say about a trial: findings and advice as codes with values, and in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from rnnparse.divergence import change_rate
from rnnparse.study.diagnosis.evidence import FLAT, SHORT_WAY, Measurements
from rnnparse.study.diagnosis.measurements import Record
from rnnparse.study.search_space import RATES

USUAL_RATIO = 0.01  # by rule of thumb, updates up to this share of the weights settle down
SMALL_RATIO = 0.001  # updates below this share hardly move the weights
DOMINANT = 0.5  # share of the objective from which the L2 term deserves a warning
SATURATED = 0.5  # share of the units from which saturation deserves a warning
SLIGHT = 0.001  # shares of the fall below this are not distinguished
DAMPED = "levenberg-marquardt"  # what studies of it may call its rate is a damping
RESTED = 5  # after so many epochs without a better dev F1, more are unlikely to help


@dataclass(frozen=True, init=False)
class Finding:
    """An observation: a code, and the values that its sentence needs.

    Example:
        >>> Finding("moved", share=0.016).values
        {'share': 0.016}
    """

    code: str
    values: Mapping[str, Any]

    def __init__(self, code: str, **values: Any) -> None:
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "values", values)


class Advice(Finding):
    """What to do about it. A second one in a row is an alternative to the first."""


Config = Mapping[str, Any]


def advise(label: str, m: Measurements | None, config: Config) -> tuple[Finding, ...]:
    """Findings and advice for a trial with this label.

    Args:
        label: one of `rnnparse.study.diagnosis.LABELS`, but not "failed".
        m: what was measured; None if not even the first objective was finite.
        config: the trial's settings; the optimizer, the rate and `l2` are used.
    """
    if m is None:
        return Finding("broke_at_start"), Advice("check_data")
    notes = _ADVICE[label](m, config)
    if label != "diverged" and m.l2_share >= DOMINANT:
        if label == "too few updates" and math.isnan(m.l2_share_of_fall):
            notes += [Finding("l2_term", share=m.l2_share), Advice("watch_loss")]
        else:
            notes = _on_l2(m) + notes
    return tuple(notes)


def asks_for_shorter_steps(label: str, evidence: Mapping[str, Any]) -> bool:
    """Whether the advice for a trial is a lower learning rate."""
    if label == "stalled":
        return float(evidence.get("update_ratio", 0.0)) > USUAL_RATIO
    return label in ("diverged", "oscillating")


def advise_on_failure(record: Record) -> tuple[Finding, ...]:
    """Findings and advice for a trial without a curve."""
    if record.get("status") == "out of memory":
        return Finding("out_of_memory"), Advice("less_memory")
    error = record.get("error") or {}
    if not error:
        return Finding("no_objective"), Advice("yield_objective")
    return Finding("raised", error=error.get("type", "an error")), Advice("run_alone")


def _on_diverged(m: Measurements, config: Config) -> list[Finding]:
    if m.broke:
        finding = Finding("broke", place=m.broke)
    elif m.end > m.start > 0:
        finding = Finding("grew", times=m.end / m.start)
    else:
        finding = Finding("rose")
    return [finding, *_update_length(m), _shorter_steps(m, config, 10)]


def _on_overfitting(m: Measurements, config: Config) -> list[Finding]:
    remedy = Advice("raise_l2" if "l2" in config else "regularize")
    epoch = m.dev_peak_epoch
    finding = Finding(f"{m.dev_name}_got_worse", drop=m.dev_drop, epoch=epoch)
    return [finding, Advice("stop", epoch=epoch), remedy]


def _on_oscillating(m: Measurements, config: Config) -> list[Finding]:
    finding = Finding("swings", share=m.swing / (abs(m.end) or m.scale))
    return [finding, *_update_length(m), _shorter_steps(m, config, 3, most=10)]


def _on_converged(m: Measurements, config: Config) -> list[Finding]:
    if math.isnan(m.optimum):
        share = _share_of_fall(m)
        return [Finding("flat", share=share, unit=m.unit) if share >= SLIGHT else Finding("level")]
    notes: list[Finding] = [Finding("gap", gap=m.gap, optimum=m.optimum)]
    if not math.isnan(m.decay):
        notes += [Finding("decay", exponent=m.decay, low=m.decay_low, high=m.decay_high)]
    return notes


def _on_stalled(m: Measurements, config: Config) -> list[Finding]:
    if m.gradient_change == 0:
        return [Finding("zero_gradients"), Advice("check_units")]
    if m.saturation >= SATURATED:
        return [Finding("saturated", share=m.saturation), _shorter_steps(m, config, 3)]
    if m.update_ratio > USUAL_RATIO:
        return [Finding("stands_still"), *_update_length(m), _shorter_steps(m, config, 3)]
    if m.update_ratio_change < 0.1:
        finding = Finding("updates_shrank", share=m.update_ratio_change)
        return [finding, _longer_steps(m, config, 10), Advice("slower_schedule")]
    if m.update_ratio < SMALL_RATIO:
        factor = USUAL_RATIO / m.update_ratio if m.update_ratio else 10
        return [Finding("stands_still"), *_update_length(m), _longer_steps(m, config, factor)]
    return [Finding("never_low"), Advice("other_start")]


def _on_too_few(m: Measurements, config: Config) -> list[Finding]:
    count = {"count": len(m.curve), "unit": m.unit}
    if math.isnan(m.slope) or (m.gain_low <= 0 and not m.progress <= 0.2):
        return [Finding("too_few_to_tell", **count), Advice("more_updates")]
    notes: list[Finding] = [Finding("too_few_updates", **count)]
    if not math.isnan(m.travelled):
        notes += [Finding("moved", share=m.travelled)]
    if not math.isnan(m.progress):
        notes += [Finding("went", share=max(m.progress, 0.0))]
    factor = 1000.0 if math.isnan(m.progress) else 1 / max(m.progress, 1e-3)
    if m.update_ratio > 0:
        factor = min(factor, USUAL_RATIO / m.update_ratio)
    if factor >= 2 and not m.travelled >= SHORT_WAY:
        notes += [_longer_steps(m, config, factor)]
    many = m.needed >= 2
    more = Advice("times_updates", times=_rounded(m.needed)) if many else Advice("more_updates")
    return [*notes, more]


def _on_improving(m: Measurements, config: Config) -> list[Finding]:
    if math.isnan(m.slope):
        went = Finding("went_in", share=m.progress, count=len(m.curve), unit=m.unit)
        return [went, Advice("see_more_epochs")]
    if m.descent <= 0:
        return [Finding("above_start"), _shorter_steps(m, config, 3)]
    brought = Finding("still_falls", share=min(_share_of_fall(m), 1.0), unit=m.unit)
    convex = not math.isnan(m.optimum)
    if not convex and m.dev_since_best >= RESTED:
        rests = Finding(f"{m.dev_name}_rests", epochs=m.dev_since_best)
        return [rests, brought, Advice("stop_here")]
    if convex and m.gain <= FLAT:
        notes = [Finding("nears_optimum"), Advice("more_epochs"), Advice("decaying_rate")]
    elif m.needed >= 2:
        notes = [brought, Advice("times_epochs", times=_rounded(m.needed))]
    else:
        notes = [brought, Advice("more_epochs")]
    if m.update_ratio < SMALL_RATIO or m.best_rate:
        notes += [_longer_steps(m, config, 3)]
    return notes


def _on_l2(m: Measurements) -> list[Finding]:
    notes: list[Finding] = [Finding("l2_term", share=m.l2_share)]
    if m.l2_share_of_fall >= DOMINANT:
        notes += [Finding("l2_fall", share=min(m.l2_share_of_fall, 1.0))]
    notes += [Finding(f"loss_{m.loss}", start=m.loss_start, end=m.loss_end)]
    return [*notes, *([Advice("judge_by_loss")] if m.loss == "falls" else []), Advice("lower_l2")]


_ADVICE: dict[str, Callable[[Measurements, Config], list[Finding]]] = {
    "diverged": _on_diverged,
    "overfitting": _on_overfitting,
    "oscillating": _on_oscillating,
    "converged": _on_converged,
    "stalled": _on_stalled,
    "too few updates": _on_too_few,
    "improving": _on_improving,
}


def _share_of_fall(m: Measurements) -> float:
    """How much of the total fall the trend of the last half contributed."""
    return m.gain * m.scale / (m.descent or m.scale)


def _update_length(m: Measurements) -> list[Finding]:
    if math.isnan(m.update_ratio):
        return []
    long = m.update_ratio >= 10
    return [Finding("updates_long" if long else "updates_short", ratio=m.update_ratio)]


def _shorter_steps(m: Measurements, config: Config, least: float, most: float = 100) -> Finding:
    factor = m.update_ratio / USUAL_RATIO if m.update_ratio > least * USUAL_RATIO else least
    return _change_rate(m, config, 1 / _rounded(min(factor, most)))


def _longer_steps(m: Measurements, config: Config, factor: float) -> Finding:
    # Only updates that remain small against the weights can safely become that much longer.
    most = SMALL_RATIO / m.update_ratio if m.update_ratio > 0 else 10
    return _change_rate(m, config, _rounded(min(max(factor, 3), max(10, most), 100)))


def _change_rate(m: Measurements, config: Config, factor: float) -> Finding:
    """Advise the rate that did best, or to change the step length by a factor."""
    if m.best_rate:
        return Advice("best_rate", rate=m.best_rate)
    if config.get("optimizer") == DAMPED:
        return Advice("change_damping")
    rate = next((config[axis] for axis in RATES if axis in config), None)
    known = rate if isinstance(rate, (int, float)) else None
    return Advice("change_rate", factor=factor, rate=known)


def _rounded(factor: float) -> float:
    """The nearest of 1, 3, 10, 30, 100 …, at least 1."""
    steps = [value * 10.0**power for power in range(7) for value in (1, 3)]
    return min(steps, key=lambda step: max(step / factor, factor / step))


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

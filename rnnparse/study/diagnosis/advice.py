"""What to do about a trial, in a sentence or two, from its label and what was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rnnparse.divergence import change_rate
from rnnparse.study.diagnosis.evidence import FLAT, SHORT_WAY, Findings
from rnnparse.study.search_space import RATES

USUAL_RATIO = 0.01
"""Updates of at most this share of the weights settle down, by the rule of thumb."""
SMALL_RATIO = 0.001
"""Updates below this share hardly move the weights."""
DOMINANT = 0.5
"""The L2 term is worth a warning from this share of the objective on."""
SLIGHT = 0.001
"""Smaller shares of the fall than this are not told apart."""
RESTED = 5
"""Epochs without a better dev F1 after which more of them promise none."""
SATURATED = 0.5
"""Saturation is worth a warning from this share of the units on."""

_DEV = {"dev_f1": "Dev F1 has fallen", "val_loss": "Validation loss has risen"}
_AT_REST = {"dev_f1": "Dev F1 has not risen", "val_loss": "Validation loss has not fallen"}

Config = Mapping[str, Any]


def advise(label: str, found: Findings | None, config: Config) -> str:
    """Advice for a trial with this label.

    Args:
        label: one of `rnnparse.study.diagnosis.rules.LABELS`, but not "failed".
        found: what was measured; None where not even the first objective was finite.
        config: the trial's settings; the rate, `optimizer` and `l2` are read.
    """
    if found is None:
        return (
            "The objective is no number, or beyond all bounds, from the start: look at the data "
            "and the starting weights, not at the rate."
        )
    sentences = [_ADVICE[label](found, config)]
    if label != "diverged" and found.penalty is not None and found.penalty.share >= DOMINANT:
        moved = label != "too few updates" or found.penalty.share_of_fall is not None
        sentences.insert(0 if moved else 1, _on_penalty(found, moved))
    return " ".join(sentences)


def asks_for_shorter_steps(label: str, evidence: Mapping[str, Any]) -> bool:
    """Whether the advice for a trial is a lower rate."""
    if label == "stalled":
        return float(evidence.get("update_ratio", 0.0)) > USUAL_RATIO
    return label in ("diverged", "oscillating")


def advise_on_failure(record: Mapping[str, Any]) -> str:
    """Advice for a trial that gave no curve."""
    if record.get("status") == "out of memory":
        return "The trial ran out of memory: take smaller batches or fewer parallel trials."
    error = record.get("error") or {}
    if not error:
        return "The trial recorded no objective: let it yield one at each update or epoch."
    return f"The trial raised {error.get('type', 'an error')}: run it alone to see where."


def _on_diverged(found: Findings, config: Config) -> str:
    o = found.objective
    if found.broke:
        what = f"The objective is out of bounds at {found.broke}"
    elif o.end > o.start > 0:
        what = f"The objective ended at {o.end / o.start:.3g} times its start"
    else:
        what = "The objective grew"
    return f"{what}{_with_ratio(found)}: {_smaller_steps(found, config, 10)}."


def _on_overfitting(found: Findings, config: Config) -> str:
    dev = found.dev
    assert dev is not None
    remedy = "raise l2" if "l2" in config else "regularise"
    return (
        f"{_DEV[dev.name]} by {dev.drop:.3g} since epoch {dev.peak_epoch} while the objective "
        f"falls on: stop there, or {remedy}."
    )


def _on_oscillating(found: Findings, config: Config) -> str:
    o = found.objective
    share = o.amplitude / (abs(o.end) or o.scale)
    return (
        f"The objective swings by {_percent(share)} of its level and does not fall"
        f"{_with_ratio(found)}: {_smaller_steps(found, config, 3, most=10)}."
    )


def _on_converged(found: Findings, config: Config) -> str:
    convex = found.convex
    if convex is None:
        o = found.objective
        share = o.gain * o.scale / (o.fall or o.scale)
        brought = _percent(share) if share >= SLIGHT else f"less than {_percent(SLIGHT)}"
        return (
            f"The last half of the {o.unit}s brought {brought} of the fall: more of them promise "
            "little."
        )
    text = f"The best iterate is {convex.gap:.3g} above the optimum {convex.optimum:.4g}"
    if convex.decay is not None:
        exponent, low, high = convex.decay
        text += f"; the gap falls as epoch^-{exponent:.2f} ({low:.2f} to {high:.2f})"
    return text + "."


def _on_stalled(found: Findings, config: Config) -> str:
    steps = found.steps
    if steps.gradient_change == 0:
        return "The gradients have become 0: no rate helps; look for dead or saturated units."
    if steps.saturation is not None and steps.saturation >= SATURATED:
        return (
            f"{_percent(steps.saturation)} of the units are saturated: begin with smaller weights, "
            f"and {_smaller_steps(found, config, 3)}."
        )
    if steps.ratio is not None and steps.ratio > USUAL_RATIO:
        return f"Nothing more is gained{_with_ratio(found)}: {_smaller_steps(found, config, 3)}."
    if steps.ratio_change is not None and steps.ratio_change < 0.1:
        return (
            f"The updates have shrunk to {_percent(steps.ratio_change)} of what they were before "
            f"the objective was low: {_larger_steps(found, config, 10)}, or let it fall more "
            "slowly."
        )
    if steps.ratio is not None and steps.ratio < SMALL_RATIO:
        factor = USUAL_RATIO / steps.ratio if steps.ratio else 10
        return (
            f"The objective does not fall; updates are only {_percent(steps.ratio)} of the "
            f"weights: {_larger_steps(found, config, factor)}."
        )
    return "The objective does not fall, nor is it low: try other rates, or another start."


def _on_too_few(found: Findings, config: Config) -> str:
    o, steps = found.objective, found.steps
    count = f"{len(o.curve)} {o.unit}{'' if len(o.curve) == 1 else 's'}"
    if o.trend is None or (o.gain_low <= 0 and (found.progress is None or found.progress > 0.2)):
        return (
            f"{count} {'is' if len(o.curve) == 1 else 'are'} too few to tell the slope from the "
            "noise: take smaller batches or more epochs."
        )
    facts = []
    if steps.travelled is not None:
        facts.append(f"moved the weights by {_percent(steps.travelled)} of their length")
    if found.progress is not None:
        facts.append(f"went {_percent(max(found.progress, 0.0))} of the way down")
    did = " and ".join(facts) or "hardly lowered the objective"
    factor = 1 / max(found.progress or 0.0, 1e-3)
    more = "take smaller batches or more epochs"
    if found.needed is not None and found.needed >= 2:
        more += f" (at this slope {_rounded(found.needed):g} times as many updates)"
    if steps.ratio is not None:
        factor = min(factor, USUAL_RATIO / steps.ratio if steps.ratio else factor)
    if factor < 2 or (steps.travelled or 0.0) >= SHORT_WAY:
        return f"{count} {did}: {more}."
    return f"{count} {did}: {_larger_steps(found, config, factor)}, or {more}."


def _on_improving(found: Findings, config: Config) -> str:
    o = found.objective
    share = o.gain * o.scale / (o.fall or o.scale)
    if o.trend is None:
        went = f"{len(o.curve)} {o.unit}s went {_percent(found.progress or 0.0)} of the way down"
        return f"{went}: more epochs tell whether it still falls."
    if o.fall <= 0:
        return f"The objective falls, but not below its start: {_smaller_steps(found, config, 3)}."
    brought = f"the last half of the {o.unit}s brought {_percent(min(share, 1.0))} of the fall"
    if found.convex is None and found.dev is not None and found.dev.since_best >= RESTED:
        return (
            f"{_AT_REST[found.dev.name]} for {found.dev.since_best} epochs, though the objective "
            f"falls on ({brought}): more epochs promise nothing better."
        )
    text = f"{brought[0].upper()}{brought[1:]}: more epochs"
    if found.convex is not None and o.gain <= FLAT:
        text = "The best iterate still nears the optimum: more epochs, or a rate that falls"
    elif found.needed is not None and found.needed >= 2:
        text += f", about {_rounded(found.needed):g} times as many"
    small = found.steps.ratio is not None and found.steps.ratio < SMALL_RATIO
    if small or found.best_rate is not None:
        text += f", or {_larger_steps(found, config, 3)}"
    return text + "."


def _on_penalty(found: Findings, moved: bool) -> str:
    penalty = found.penalty
    assert penalty is not None
    text = f"The L2 term is {_percent(penalty.share)} of the objective"
    if not moved:
        return f"{text}: watch the loss as well."
    if penalty.share_of_fall is not None and penalty.share_of_fall >= DOMINANT:
        text += f" and {_percent(min(penalty.share_of_fall, 1.0))} of its fall"
    loss = f"{penalty.loss_start:.3g} to {penalty.loss_end:.3g}"
    course = {
        "rises": f"while the loss rises from {loss}: lower l2 before comparing rates",
        "stays": f"while the loss stays near {penalty.loss_end:.3g}: lower l2 before comparing "
        "rates",
        "falls": f"and the loss falls from {loss}: judge the rate by the loss, or lower l2",
    }
    return f"{text}, {course[penalty.loss_moves]}."


_ADVICE: dict[str, Callable[[Findings, Config], str]] = {
    "diverged": _on_diverged,
    "overfitting": _on_overfitting,
    "oscillating": _on_oscillating,
    "converged": _on_converged,
    "stalled": _on_stalled,
    "too few updates": _on_too_few,
    "improving": _on_improving,
}


def _with_ratio(found: Findings) -> str:
    ratio = found.steps.ratio
    if ratio is None:
        return ""
    long = f"{ratio:.3g} times as long as" if ratio >= 10 else f"{_percent(ratio)} of"
    return f"; updates are {long} the weights"


def _smaller_steps(found: Findings, config: Config, least: float, most: float = 100) -> str:
    ratio = found.steps.ratio
    factor = least if ratio is None else max(least, ratio / USUAL_RATIO)
    return _change(found, config, 1 / _rounded(min(factor, most)))


def _larger_steps(found: Findings, config: Config, factor: float) -> str:
    # Only updates that stay small against the weights can safely become so much longer.
    most = SMALL_RATIO / found.steps.ratio if found.steps.ratio else 10
    return _change(found, config, _rounded(min(max(factor, 3), max(10, most), 100)))


def _change(found: Findings, config: Config, factor: float) -> str:
    """The advice to make steps longer or shorter by a factor, or to take what did best."""
    if found.best_rate is not None:
        return f"take {found.best_rate}, which got lowest with all else equal"
    rate = next((config[axis] for axis in RATES if axis in config), None)
    known = rate if isinstance(rate, (int, float)) else None
    return change_rate(known, factor)


def _rounded(factor: float) -> float:
    """The nearest of 1, 3, 10, 30, 100 …, at least 1."""
    steps = [value * 10.0**power for power in range(7) for value in (1, 3)]
    return min(steps, key=lambda step: max(step / factor, factor / step))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"

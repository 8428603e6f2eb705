"""The 27 nonlinear regression problems of NIST, with their certified solutions.

NIST/ITL Statistical Reference Datasets, in the public domain
(https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml); the numbers are in `nist_strd.txt`.
Certified values hold to all their eleven digits; `test_classical_problems.py` checks the data
against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NistProblem:
    """Data, model, NIST's two starting points, and the certified solution.

    Attributes:
        name, difficulty: as NIST gives them; `lower`, `average` or `higher`.
        model: (xp, x, *b) -> predictions [N], xp being NumPy or TensorFlow.
        x: [N], or [2, N] for two predictors.
        y: [N].
        starts: starting values of b, the far ones first.
        certified: the least-squares estimate of b.
        sum_of_squares: the residual sum of squares there.
    """

    name: str
    difficulty: str
    model: Callable[..., Any]
    x: np.ndarray
    y: np.ndarray
    starts: tuple[np.ndarray, np.ndarray]
    certified: np.ndarray
    sum_of_squares: float

    def residuals(self, b: np.ndarray) -> np.ndarray:
        """[N], for b [P], which may be complex."""
        return np.asarray(self.model(np, self.x, *b) - self.y)

    def jacobian(self, b: np.ndarray) -> np.ndarray:
        """[N, P], by complex steps, which are exact to rounding."""
        steps = b + 1e-30j * np.eye(len(b))
        return np.stack([self.residuals(step).imag for step in steps], axis=1) / 1e-30

    def digits(self, b: np.ndarray) -> float:
        """−log₁₀ of the largest relative error of a parameter, 0 … 11."""
        error = np.max(np.abs(b / self.certified - 1))
        return float(np.clip(-np.log10(error), 0, 11)) if np.isfinite(error) and error else 0.0


def _misra1a(xp: Any, x: Any, *b: Any) -> Any:
    return b[0] * (1 - xp.exp(-b[1] * x))


def _chwirut(xp: Any, x: Any, *b: Any) -> Any:
    return xp.exp(-b[0] * x) / (b[1] + b[2] * x)


def _lanczos(xp: Any, x: Any, *b: Any) -> Any:
    return b[0] * xp.exp(-b[1] * x) + b[2] * xp.exp(-b[3] * x) + b[4] * xp.exp(-b[5] * x)


def _gauss(xp: Any, x: Any, *b: Any) -> Any:
    first = b[2] * xp.exp(-((x - b[3]) ** 2) / b[4] ** 2)
    second = b[5] * xp.exp(-((x - b[6]) ** 2) / b[7] ** 2)
    return b[0] * xp.exp(-b[1] * x) + first + second


def _kirby(xp: Any, x: Any, *b: Any) -> Any:
    return (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2)


def _cubic_over_cubic(xp: Any, x: Any, *b: Any) -> Any:
    above = b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3
    return above / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def _enso(xp: Any, x: Any, *b: Any) -> Any:
    def wave(period: Any, cosine: Any, sine: Any) -> Any:
        angle = 2 * np.pi * x / period
        return cosine * xp.cos(angle) + sine * xp.sin(angle)

    return b[0] + wave(12.0, b[1], b[2]) + wave(b[3], b[4], b[5]) + wave(b[6], b[7], b[8])


def _arctangent(xp: Any, values: Any) -> Any:
    return np.arctan(values) if xp is np else xp.atan(values)


MODELS: dict[str, Callable[..., Any]] = {
    "Misra1a": _misra1a,
    "Chwirut2": _chwirut,
    "Chwirut1": _chwirut,
    "Lanczos3": _lanczos,
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "DanWood": lambda xp, x, *b: b[0] * x ** b[1],
    "Misra1b": lambda xp, x, *b: b[0] * (1 - (1 + b[1] * x / 2) ** -2),
    "Kirby2": _kirby,
    "Hahn1": _cubic_over_cubic,
    "Nelson": lambda xp, x, *b: b[0] - b[1] * x[0] * xp.exp(-b[2] * x[1]),
    "MGH17": lambda xp, x, *b: b[0] + b[1] * xp.exp(-x * b[3]) + b[2] * xp.exp(-x * b[4]),
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Gauss3": _gauss,
    "Misra1c": lambda xp, x, *b: b[0] * (1 - (1 + 2 * b[1] * x) ** -0.5),
    "Misra1d": lambda xp, x, *b: b[0] * b[1] * x / (1 + b[1] * x),
    "Roszman1": lambda xp, x, *b: b[0] - b[1] * x - _arctangent(xp, b[2] / (x - b[3])) / np.pi,
    "ENSO": _enso,
    "MGH09": lambda xp, x, *b: b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3]),
    "Thurber": _cubic_over_cubic,
    "BoxBOD": _misra1a,
    "Rat42": lambda xp, x, *b: b[0] / (1 + xp.exp(b[1] - b[2] * x)),
    "MGH10": lambda xp, x, *b: b[0] * xp.exp(b[1] / (x + b[2])),
    "Eckerle4": lambda xp, x, *b: b[0] / b[1] * xp.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
    "Rat43": lambda xp, x, *b: b[0] / (1 + xp.exp(b[1] - b[2] * x)) ** (1 / b[3]),
    "Bennett5": lambda xp, x, *b: b[0] * (b[1] + x) ** (-1 / b[2]),
}


def _read() -> Iterator[NistProblem]:
    """The problems of `nist_strd.txt`, in NIST's order."""
    text = (Path(__file__).parent / "nist_strd.txt").read_text()
    for section in text.split("\nproblem ")[1:]:
        lines = section.replace("\n    ", " ").strip().splitlines()
        name, difficulty = lines[0], lines[1].split()[1]
        values = {key: np.array(row, float) for key, *row in map(str.split, lines[2:])}
        x = values["x"] if "x" in values else np.stack([values["x1"], values["x2"]])
        y = np.log(values["y"]) if name == "Nelson" else values["y"]  # NIST's model is of log y
        yield NistProblem(
            name,
            difficulty,
            MODELS[name],
            x,
            y,
            (values["start1"], values["start2"]),
            values["certified"],
            float(values["sum_of_squares"][0]),
        )


PROBLEMS = {problem.name: problem for problem in _read()}

"""Calls functions that return a loss and its derivative, and checks them by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rnnparse._tensorflow import tf

ExternalFunction = Callable[..., tuple[Any, Any]]
"""`fn(activations, *args) -> (loss, derivative)`, all NumPy; see `external_loss`."""

_COORDINATES, _DIRECTIONS = 1000, 100
_SMALLER = 8.0
"""The factor by which to reduce a step: the effect of curvature shrinks, that of a kink not."""
_SUSPICIOUS = 1e-3
"""Left and right slopes with a larger relative difference are checked again."""
_ROUNDING = 16 * np.finfo(np.float64).eps


class DerivativeReport(NamedTuple):
    """The result of `check_external`.

    Attributes:
        absolute_error: the largest |given − finite difference|.
        relative_error: the largest of those over max(|given|, |finite difference|, the largest
            component of the derivative).
        where: the place of the largest relative error, such as `x[2, 0]` or `direction 7`.
        checked: number of coordinates or directions that were compared.
        kinks: places where the left and right slopes differ and the given derivative lies between
            them, as every subgradient does.
    """

    absolute_error: float
    relative_error: float
    where: str
    checked: int
    kinks: tuple[str, ...]


def check_external(
    fn: ExternalFunction,
    x: Any,
    *args: Any,
    tolerance: float = 1e-6,
    step: float = 6e-6,
    directions: int | None = None,
) -> DerivativeReport:
    """Compare the derivative that `fn` returns with central finite differences in float64.

    Up to 1000 coordinates are checked one by one. For more coordinates, 100 random directions ±1
    are checked, and if one fails, the coordinate is located by bisection. For a loss [B], example i
    may depend only on row i, as `external_loss` requires.

    At a kink the derivative must lie between the slopes on the two sides. This is not an error, but
    the report lists the place. Every subgradient passes this check, but so do some other vectors:
    see "Check it" in docs/kinks.md.

    Args:
        fn, args: as for `external_loss`, `args` in NumPy.
        x: activations, an array or a nest of arrays; turned into float64.
        tolerance: largest relative error that passes. Errors below 1e-9 · max(1, |x|, |loss|) count
            as rounding, so scale up a tiny loss to check it well.
        step: how far to move a coordinate, times max(1, |x|). If `fn` computes in float32, try
            `step=1e-2, tolerance=1e-2`.
        directions: number of random directions to check, at least 1, whatever the size of x.

    Returns:
        The largest errors and their places.

    Raises:
        ValueError: the derivative is wrong; an example's loss depends on another row; `fn` returns
            different losses for the same x, or results of a wrong form; or a setting is out of
            range.

    Example:
        >>> def squared(a):
        ...     return np.sum(a**2, axis=1), 2 * a
        >>> check_external(squared, np.ones((4, 3))).checked
        12
        >>> check_external(lambda a: (np.sum(a**2), a), np.ones(2))
        Traceback (most recent call last):
        ValueError: <lambda>: the derivative is wrong at x[0]: given 1, by finite differences 2 ...
    """
    if not (0 < step < np.inf and tolerance >= 0 and (directions is None or directions >= 1)):
        raise ValueError("step must be positive, tolerance not negative, directions at least 1")
    probe = _Probe(fn, x, args)
    size = len(probe.point)
    if directions is None and size <= _COORDINATES:
        moves = [_Move(probe.place(j), np.array([j]), np.ones(1)) for j in range(size)]
    else:
        rng = np.random.default_rng(0)
        moves = [
            _Move(f"direction {k}", np.arange(size), rng.choice([-1.0, 1.0], size))
            for k in range(directions or _DIRECTIONS)
        ]
    absolute, relative, where, kinks = 0.0, 0.0, "x", []
    failures: list[tuple[bool, float, _Move, int]] = []
    for move in moves:
        slopes, subgradient = probe.judge(move, step, tolerance)
        if subgradient:
            kinks.append(move.name)
        worst = int(np.lexsort((slopes.absolute, slopes.relative))[-1])
        error = float(slopes.relative[worst])
        if (error, slopes.absolute[worst]) >= (relative, absolute):
            where = move.name
        absolute = max(absolute, float(slopes.absolute.max()))
        relative = max(relative, error)
        if error > tolerance:
            failures.append((probe.is_foreign(move, worst), error, move, worst))
    if failures:
        *_, move, example = max(failures, key=lambda failure: failure[:2])
        raise ValueError(
            f"{probe.explain(move, example, step)} ({len(failures)} of {len(moves)} checks fail, "
            f"with a relative error of up to {relative:.2g})"
        )
    return DerivativeReport(absolute, relative, where, len(moves), tuple(kinks))


class _Move(NamedTuple):
    """Coordinates that are moved together, each by a step of its sign."""

    name: str
    coordinates: np.ndarray
    signs: np.ndarray


class _Slopes(NamedTuple):
    """Slopes along a move, for each example [B] or for the scalar loss [1].

    `absolute` is |given − finite difference|. `relative` is that error and `jump` the difference of
    the left and right slopes, both without what rounding explains, over the size of the derivative.
    """

    given: np.ndarray
    left: np.ndarray
    right: np.ndarray
    absolute: np.ndarray
    relative: np.ndarray
    jump: np.ndarray


class _Probe:
    """A function at a point, with its derivative there; everything flat."""

    def __init__(self, fn: ExternalFunction, x: Any, args: Sequence[Any]) -> None:
        x = np.array(x) if is_one_array(x) else x
        arrays = [np.array(leaf, np.float64) for leaf in tf.nest.flatten(x)]
        self.fn, self.args, self.name = fn, args, name_of(fn)
        self.structure = tf.nest.map_structure(lambda _: None, x)
        self.shapes = [array.shape for array in arrays]
        self.ends = np.cumsum([array.size for array in arrays])
        loss, derivatives = evaluate(fn, arrays, self.structure, args)
        self.point, self.derivative = _flat(arrays), _flat(derivatives)
        self.per_example = loss.ndim > 0
        self.loss = np.atleast_1d(loss)
        if not np.array_equal(self._losses(self.point), self.loss):
            raise ValueError(f"{self.name} returns different losses for the same activations")
        rows = [
            np.indices(s)[0] if self.per_example else np.zeros(s, np.int64) for s in self.shapes
        ]
        self.row = _flat(rows).astype(np.int64)
        self.largest = np.zeros(len(self.loss))
        np.maximum.at(self.largest, self.row, np.abs(self.derivative))

    def place(self, coordinate: int) -> str:
        """The name of a coordinate, such as `x[2, 0]`."""
        number = int(np.searchsorted(self.ends, coordinate, "right"))
        shape, end = self.shapes[number], self.ends[number]
        offset = coordinate - end + int(np.prod(shape))
        index = [int(i) for i in np.unravel_index(offset, shape)]
        array = f"array {number} of x" if tf.nest.is_nested(self.structure) else "x"
        return f"{array}{index}" if index else array

    def judge(self, move: _Move, step: float, tolerance: float) -> tuple[_Slopes, bool]:
        """Slopes along a move, and whether `fn` gave a subgradient at a kink (not an error)."""
        far = self.slopes(move, step)
        if far.relative.max() <= tolerance and far.jump.max() <= _SUSPICIOUS:
            return far, False
        near = self.slopes(move, step / _SMALLER)
        kink = _is_kink(far, near)
        slack = tolerance * np.maximum(np.abs(near.left), np.abs(near.right))
        above = near.given >= np.minimum(near.left, near.right) - slack
        fair = kink & above & (near.given <= np.maximum(near.left, near.right) + slack)
        return far._replace(
            absolute=np.where(fair, 0, np.minimum(far.absolute, near.absolute)),
            relative=np.where(fair, 0, np.minimum(far.relative, near.relative)),
        ), bool(fair.any())

    def slopes(self, move: _Move, step: float) -> _Slopes:
        """Slopes by a step forward and a step back."""
        _, coordinates, signs = move
        h = step * max(1.0, np.abs(self.point[coordinates]).max())
        ahead, back = self.point.copy(), self.point.copy()
        ahead[coordinates] += h * signs
        back[coordinates] -= h * signs
        right = (self._losses(ahead) - self.loss) / h
        left = (self.loss - self._losses(back)) / h
        central = (left + right) / 2
        row, along = self.row[coordinates], self.derivative[coordinates] * signs
        given = np.bincount(row, along, len(self.loss))
        norm = np.sqrt(np.bincount(row, along * along, len(self.loss)))
        scale = np.maximum.reduce([np.abs(given), np.abs(central), norm, self.largest])
        scale = np.where(scale > 0, scale, 1)
        rounding = _ROUNDING / h * np.maximum(np.abs(self.loss), max(1, np.abs(self.point).max()))
        absolute = np.abs(given - central)
        return _Slopes(
            given,
            left,
            right,
            absolute,
            relative=np.maximum(absolute - rounding, 0) / scale,
            jump=np.maximum(np.abs(right - left) - 4 * rounding, 0) / scale,
        )

    def is_foreign(self, move: _Move, example: int) -> bool:
        """Whether only coordinates in the rows of other examples are moved."""
        return not np.any(self.row[move.coordinates] == example)

    def explain(self, move: _Move, example: int, step: float) -> str:
        """A message about the error along a move, reduced to a single coordinate by bisection."""
        while len(move.coordinates) > 1:
            middle = len(move.coordinates) // 2
            halves = [
                _Move("", move.coordinates[part], move.signs[part])
                for part in (slice(middle), slice(middle, None))
            ]
            move = max(halves, key=lambda half: self.slopes(half, step).absolute[example])
        place, sign = self.place(int(move.coordinates[0])), move.signs[0]
        far, near = self.slopes(move, step), self.slopes(move, step / _SMALLER)
        given, left, right = (sign * x[example] for x in (far.given, near.left, near.right))
        low, high = sorted((left, right))
        if self.is_foreign(move, example):
            return (
                f"{self.name}: the loss of example {example} depends on {place}, in the row of "
                f"another example, with a slope of {(left + right) / 2:.6g}; the loss of an "
                "example may depend only on its own row"
            )
        if _is_kink(far, near)[example]:
            return (
                f"{self.name}: there is likely a kink at {place}, with slopes {low:.6g} and "
                f"{high:.6g} on its two sides, and the derivative given there, {given:.6g}, is not "
                "between them"
            )
        return (
            f"{self.name}: the derivative is wrong at {place}: given {given:.8g}, by finite "
            f"differences {(left + right) / 2:.8g}"
        )

    def _losses(self, point: np.ndarray) -> np.ndarray:
        parts = np.split(point, self.ends[:-1])
        arrays = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        try:
            loss, _ = evaluate(self.fn, arrays, self.structure, self.args, self.per_example)
        except ValueError as error:
            raise ValueError(f"{error}; this is near x, not at x; try a smaller step") from error
        return np.atleast_1d(loss)


def _is_kink(far: _Slopes, near: _Slopes) -> np.ndarray:
    """Whether left and right slopes stay apart as the step shrinks, unlike those of a curve."""
    return (far.jump > _SUSPICIOUS) & (near.jump > far.jump / 2)


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays])


def evaluate(
    fn: ExternalFunction,
    arrays: Any,
    structure: Any,
    args: Any,
    per_example: bool | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Call `fn` with copies of the arrays; return the checked loss and derivatives.

    Args:
        fn, args, per_example: as for `external_loss`, in NumPy.
        arrays: the activations, flat.
        structure: the nest in which `fn` gets them.

    Returns:
        Copies, in the dtype of the arrays.

    Raises:
        ValueError, Exception: see `external_loss`.
    """
    name, dtype = name_of(fn), arrays[0].dtype
    try:
        result = fn(tf.nest.pack_sequence_as(structure, [x.copy() for x in arrays]), *args)
    except Exception as error:
        _name(error, name, args)
        raise
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        is_sequence = isinstance(result, (tuple, list))
        form = f"{len(result)} results" if is_sequence else type(result).__name__
        raise ValueError(f"{name} must return (loss, derivative), not {form}")
    loss = np.array(result[0], dtype)
    _check_loss(name, loss, arrays, per_example)
    derivatives = [result[1]]
    if tf.nest.is_nested(structure):
        try:
            tf.nest.assert_same_structure(structure, result[1], check_types=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name}: the derivative must be a nest like that of the activations: {error}"
            ) from None
        derivatives = tf.nest.flatten(result[1])
    with np.errstate(over="ignore"):  # overflow is an error below
        derivatives = [np.array(derivative, dtype) for derivative in derivatives]
    for derivative, array in zip(derivatives, arrays, strict=True):
        if derivative.shape != array.shape:
            raise ValueError(
                f"{name} returned a derivative of shape {derivative.shape} for activations of "
                f"shape {array.shape}"
            )
        if not np.isfinite(derivative).all():
            where = [int(i) for i in np.argwhere(~np.isfinite(derivative))[0]]
            raise ValueError(
                f"{name} returned a derivative that is not finite in {dtype}, first at {where}"
            )
    return loss, derivatives


def _name(error: Exception, name: str, args: Any) -> None:
    """Put the name of the function before the message of its exception."""
    if len(error.args) == 1 and isinstance(error.args[0], str):
        hint = ""
        labels = [np.asarray(x) for x in tf.nest.flatten(args)]
        if isinstance(error, IndexError) and any(x.dtype.kind == "f" for x in labels):
            hint = "; Keras casts labels to floats: use ExternalLoss, which keeps integers"
        error.args = (f"{name}: {error.args[0]}{hint}",)


def _check_loss(name: str, loss: np.ndarray, arrays: Any, per_example: bool | None) -> None:
    lengths = {x.shape[:1] for x in arrays}
    allowed = {()} if not per_example else set()
    if per_example is not False and len(lengths) == 1:
        allowed |= lengths
    if loss.shape not in allowed:
        wanted = " or ".join(str(shape) for shape in sorted(allowed)) or "one axis 0 for all"
        raise ValueError(
            f"{name} returned a loss of shape {loss.shape} for activations of shape "
            f"{', '.join(str(x.shape) for x in arrays)}; expected {wanted}"
        )
    if not np.isfinite(loss).all():
        raise ValueError(f"{name} returned a loss that is not finite in {loss.dtype}: {loss}")


def is_one_array(x: Any) -> bool:
    """Whether x is a list of numbers, possibly nested in rows, and so one array."""
    return type(x) in (list, tuple) and all(map(np.isscalar, tf.nest.flatten(x))) and len(x) > 0


def name_of(fn: Any) -> str:
    """The name of a function for messages."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__qualname__", None) or type(fn).__name__

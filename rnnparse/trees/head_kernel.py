"""Find heads on label ids in compiled code; separate from `heads`, because numba loads slowly."""

from __future__ import annotations

from numpy.typing import NDArray

from rnnparse.compiled import njit


@njit(nogil=True)
def find_head(
    parent: int,
    kids: NDArray,
    n: int,
    rule_ptr: NDArray,
    rule_direction: NDArray,
    label_ptr: NDArray,
    label_ids: NDArray,
    default_right: bool,
) -> int:
    """The index of the head among the first n of `kids`, as `HeadTable.find` on their labels.

    Args:
        parent: label id; ids outside the compiled labels have no rules.
        kids: int[≥n], label ids of the children; n ≥ 1.
        rule_ptr … default_right: `CompiledHeads.arrays`.
    """
    if 0 <= parent < len(rule_ptr) - 1:
        for rule in range(rule_ptr[parent], rule_ptr[parent + 1]):
            code = rule_direction[rule]
            from_right = code % 2 == 1
            if code >= 4:
                return n - 1 if from_right else 0
            first, last = label_ptr[rule], label_ptr[rule + 1]
            head = (
                _find_any(kids, n, label_ids[first:last], from_right)
                if code >= 2
                else _find_in_order(kids, n, label_ids[first:last], from_right)
            )
            if head >= 0:
                return head
    return n - 1 if default_right else 0


@njit(nogil=True)
def _find_any(kids: NDArray, n: int, labels: NDArray, from_right: bool) -> int:
    for step in range(n):
        i = n - 1 - step if from_right else step
        for label in labels:
            if kids[i] == label:
                return i
    return -1


@njit(nogil=True)
def _find_in_order(kids: NDArray, n: int, labels: NDArray, from_right: bool) -> int:
    for label in labels:
        for step in range(n):
            i = n - 1 - step if from_right else step
            if kids[i] == label:
                return i
    return -1

"""Many forests as a few flat arrays, for files (`numpy.savez`) and other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from rnnparse.inference.forest import Forest

_NODES = {"cat": np.int32, "left": np.int32, "right": np.int32, "start": np.int32, "end": np.int32}
_ROOTS = {"root": np.int32, "logp": np.float64}


def forests_to_arrays(forests: Sequence[Forest]) -> dict[str, np.ndarray]:
    """The arrays of S forests end to end, named as in `Forest`.

    `node_offsets` and `root_offsets` (int64 [S + 1]) say where each forest's nodes and candidates
    begin; children and roots stay counted from the first node of their forest.
    """
    return {
        **{name: _joined(forests, name, dtype) for name, dtype in (_NODES | _ROOTS).items()},
        "node_offsets": _offsets([len(forest.cat) for forest in forests]),
        "root_offsets": _offsets([len(forest.root) for forest in forests]),
    }


def forests_from_arrays(arrays: Mapping[str, np.ndarray]) -> list[Forest]:
    """The inverse of `forests_to_arrays`."""
    nodes = [arrays[name] for name in _NODES]
    roots = [arrays[name] for name in _ROOTS]
    node_offsets, root_offsets = arrays["node_offsets"].tolist(), arrays["root_offsets"].tolist()
    return [
        Forest(*(array[a:b] for array in nodes), *(array[c:d] for array in roots))
        for (a, b), (c, d) in zip(pairwise(node_offsets), pairwise(root_offsets), strict=True)
    ]


def _joined(forests: Sequence[Forest], name: str, dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *(getattr(forest, name) for forest in forests)])


def _offsets(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)

"""Forests end to end in flat arrays."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import Forest
from rnnparse.inference.forest_arrays import forests_from_arrays, forests_to_arrays
from tests.grammar.small import trees


def test_round_trip(grammar: Grammar) -> None:
    decoder = Decoder(grammar)
    forests = [decoder.parse(tree.leaves(), 7).forest for tree in trees(4, "dev")]
    arrays = forests_to_arrays(forests)
    assert len(arrays["cat"]) == arrays["node_offsets"][-1] == sum(len(f.cat) for f in forests)
    again = forests_from_arrays(arrays)
    assert len(again) == 4
    for old, new in zip(forests, again, strict=True):
        for field in fields(Forest):
            a, b = getattr(old, field.name), getattr(new, field.name)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_no_forests() -> None:
    assert forests_from_arrays(forests_to_arrays([])) == []

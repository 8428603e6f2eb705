"""Layouts with few of all entries, against loops over all substates."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rnnparse.grammar.latent_layout import Layout

Entry = tuple[int, int, int, int]  # rule and substates
RULES = np.array([[0, 1, 2], [2, 0, 0], [0, 3, -1], [1, -1, -1], [1, -1, -1]], np.int32)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    layout = Layout.full(RULES, rng.integers(1, 4, 4))
    return layout.only(rng.random(len(layout.rule)) < draw(st.sampled_from([0.3, 1.0])))


def entries(layout: Layout) -> list[Entry]:
    return [
        (r, x, y, z)
        for r, (x, y, z) in zip(layout.rule.tolist(), layout.states.T.tolist(), strict=True)
    ]


@given(st.integers(0, 1 << 32))
def test_a_full_layout_has_all_entries_in_order(seed: int) -> None:
    substates = np.random.default_rng(seed).integers(1, 4, 4)
    layout = Layout.full(RULES, substates)
    sizes = [[1 if c < 0 else int(substates[c]) for c in row] for row in RULES.tolist()]
    assert entries(layout) == [
        (r, x, y, z)
        for r, (n, m, k) in enumerate(sizes)
        for x in range(n)
        for y in range(m)
        for z in range(k)
    ]
    assert layout.ptr.tolist() == np.cumsum([0] + [n * m * k for n, m, k in sizes]).tolist()
    assert layout.place.tolist() == [i for n, m, k in sizes for i in range(n * m * k)]


@given(layouts())
def test_owners_and_columns(layout: Layout) -> None:
    listed = entries(layout)
    first = layout.state_ptr
    assert layout.owner.tolist() == [first[RULES[r, 0]] + x for r, x, _, _ in listed]
    for i, (r, _, y, z) in enumerate(listed):
        for j, (s, _, v, w) in enumerate(listed):
            assert (layout.column[i] == layout.column[j]) == ((r, y, z) == (s, v, w))
    for r in range(len(RULES)):
        own = listed[layout.ptr[r] : layout.ptr[r + 1]]
        assert own == [entry for entry in listed if entry[0] == r]


@given(layouts())
def test_completed_layouts_have_all_substates_of_parents(layout: Layout) -> None:
    full, places = layout.completed()
    wanted = {
        (r, x, y, z)
        for r, _, y, z in entries(layout)
        for x in range(int(layout.substates[RULES[r, 0]]))
    }
    assert entries(full) == sorted(wanted)
    assert [entries(full)[p] for p in places] == entries(layout)


@given(layouts(), st.integers(0, 1 << 32))
def test_splits_lead_back(layout: Layout, seed: int) -> None:
    copies = np.random.default_rng(seed).integers(1, 3, 4)
    new, old = layout.split(copies)
    assert (new.substates == layout.substates * copies).all()

    def before(entry: Entry) -> Entry:
        r, *states = entry
        x, y, z = (
            state if c < 0 else state // int(copies[c])
            for c, state in zip(RULES[r].tolist(), states, strict=True)
        )
        return r, x, y, z

    assert entries(new) == sorted(entries(new))
    assert [before(entry) for entry in entries(new)] == [entries(layout)[i] for i in old]
    counts = np.bincount(old, minlength=len(layout.rule))
    factors = np.where(RULES < 0, 1, copies[RULES]).prod(axis=1)
    assert (counts == factors[layout.rule]).all()


@given(layouts(), st.integers(0, 1 << 32))
def test_merges_rename_substates(layout: Layout, seed: int) -> None:
    rng = np.random.default_rng(seed)
    remain = np.array([rng.integers(1, n + 1) for n in layout.substates])
    number = np.concatenate(
        [np.sort(np.append(np.arange(m), rng.integers(0, m, n - m)))
         for n, m in zip(layout.substates, remain, strict=True)]
    )  # fmt: skip
    new, place = layout.merge(number, remain)
    first = layout.state_ptr

    def after(entry: Entry) -> Entry:
        r, *states = entry
        x, y, z = (
            0 if c < 0 else int(number[first[c] + state])
            for c, state in zip(RULES[r].tolist(), states, strict=True)
        )
        return r, x, y, z

    assert [entries(new)[p] for p in place] == [after(entry) for entry in entries(layout)]
    assert entries(new) == sorted(set(map(after, entries(layout))))

"""Mutations of bracketed trees that keep most brackets in pairs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.text_mutations import HARD, mutate_file

_WORDS = (
    *("", "(", ")", "-LRB-", "-RRB-", "-NONE-", "*T*-1", "0", "#", "''", "``", "\\/", "3\\/4"),
    *("\u00a0", "\u2009", "\ufeff", "\u2028", "=", "|", "@", "^", "NP-SBJ", "TOP", "*x*", "-"),
)


def mutate_trees(path: Path, rng: random.Random) -> None:
    """Change a file of trees; most cases by nodes, some as any text."""
    if rng.random() < 0.2:
        mutate_file(path, rng)
        return
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    for _ in range(min(6, 1 + int(rng.expovariate(0.7)))):
        nodes = _nodes(text)
        if nodes:
            text = rng.choice(_CHANGES)(text, nodes, rng)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def _nodes(text: str) -> list[tuple[int, int]]:
    """Where nodes begin and end."""
    opened: list[int] = []
    spans = []
    for match in re.finditer(r"[()]", text):
        if match[0] == "(":
            opened.append(match.start())
        elif opened:
            spans.append((opened.pop(), match.end()))
    return spans


Nodes = list[tuple[int, int]]


def _wrap(text: str, nodes: Nodes, rng: random.Random) -> str:
    a, b = rng.choice(nodes)
    label = rng.choice(("", " ", "NP ", "TOP ", "S-1 ", "(", "-NONE- ", "a b "))
    depth = rng.choice((1, 1, 2, 3, 500))
    return text[:a] + f"({label}" * depth + text[a:b] + ")" * depth + text[b:]


def _copy(text: str, nodes: Nodes, rng: random.Random) -> str:
    (a, _), (c, d) = rng.choice(nodes), rng.choice(nodes)
    return text[:a] + rng.choice((" ", "")) + text[c:d] * rng.choice((1, 1, 2, 50)) + text[a:]


def _replace(text: str, nodes: Nodes, rng: random.Random) -> str:
    (a, b), (c, d) = rng.choice(nodes), rng.choice(nodes)
    return text[:a] + text[c:d] + text[b:]


def _remove(text: str, nodes: Nodes, rng: random.Random) -> str:
    a, b = rng.choice(nodes)
    return text[:a] + text[b:]


def _unwrap(text: str, nodes: Nodes, rng: random.Random) -> str:
    a, b = rng.choice(nodes)
    return text[:a] + text[a + 1 : b - 1] + text[b:]


def _relabel(text: str, nodes: Nodes, rng: random.Random) -> str:
    """Another label, or none, or one more word."""
    a, _ = rng.choice(nodes)
    label = re.compile(r"\s*[^\s()]*").match(text, a + 1)
    assert label is not None
    keep = rng.choice(("", "", label[0] + " "))
    return text[: a + 1] + keep + _word(rng) + text[label.end() :]


def _insert(text: str, nodes: Nodes, rng: random.Random) -> str:
    _, b = rng.choice(nodes)
    return text[: b - 1] + " " + _word(rng) + text[b - 1 :]


def _word(rng: random.Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(_WORDS)
    return rng.choice(HARD).decode("utf-8", "surrogateescape")


_CHANGES: tuple[Callable[[str, Nodes, random.Random], str], ...] = (
    *(_wrap, _copy, _replace, _remove, _unwrap, _relabel, _relabel, _insert),
)

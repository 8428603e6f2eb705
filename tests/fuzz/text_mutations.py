"""Mutations of text by its own tokens, and by what readers find hard."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

HARD = (
    *(b"", b"\0", b"\xff", b"\xc3\xa9", b"\xef\xbb\xbf", b"\xe2\x80\x83", b"\xc2\xa0", b"\r"),
    *(b"\t", b"\n", b"\n\n", b"#", b"(", b")", b"((((", b"))))", b"( )", b"'", b'"', b"\\", b"="),
    *(b"nan", b"inf", b"-inf", b"1e38", b"1e39", b"1e400", b"-0", b"0x1p3", b"1_000", b"1,5"),
    *(b"0", b"-1", b"+1", b"9" * 20, b"9" * 5000, b"1e-400", b".", b"-", b"*", b"None", b"true"),
    *(b"[" * 2000, b"(S " * 2000, b"a" * 70000, "\u0661".encode(), "\U0001f600".encode()),
    *(b"\xed\xa0\x80", b"\x1a", b"\x1f\x8b\x08\x00", b"PK\x03\x04"),
)
"""Tokens that readers of text find hard."""

_TOKEN = re.compile(rb"[A-Za-z0-9_.+-]+|[ \t]+|\n|.", re.DOTALL)
_MOST = 8  # mutations of one case


def mutate_file(path: Path, rng: random.Random, hard: Sequence[bytes] = ()) -> None:
    """Change a file of text in some places; mostly one or two, sometimes several."""
    text = path.read_bytes()
    for _ in range(min(_MOST, 1 + int(rng.expovariate(1)))):
        text = rng.choice(_CHANGES)(text, rng, (*HARD, *hard))
    path.write_bytes(text)


def _tokens(text: bytes) -> list[bytes]:
    return _TOKEN.findall(text) or [b""]


def _replace(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    tokens = _tokens(text)
    tokens[rng.randrange(len(tokens))] = rng.choice(hard)
    return b"".join(tokens)


def _insert(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    tokens = _tokens(text)
    tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(hard))
    return b"".join(tokens)


def _delete(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    tokens = _tokens(text)
    start = rng.randrange(len(tokens))
    del tokens[start : start + 1 + int(rng.expovariate(1))]
    return b"".join(tokens)


def _swap(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    tokens = _tokens(text)
    i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return b"".join(tokens)


def _repeat(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    tokens = _tokens(text)
    start = rng.randrange(len(tokens))
    part = tokens[start : start + 1 + int(rng.expovariate(0.3))]
    return b"".join(tokens[:start] + part * rng.choice((2, 2, 3, 10, 1000)) + tokens[start:])


def _repeat_line(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    line = rng.choice(lines)
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)


def _delete_line(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _cut(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _flip(text: bytes, rng: random.Random, hard: Sequence[bytes]) -> bytes:
    if not text:
        return text
    changed = bytearray(text)
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


_CHANGES = (
    *(_replace, _replace, _insert, _insert, _delete, _swap, _repeat),
    *(_repeat_line, _delete_line, _cut, _flip),
)

"""Plain English in pages, docstrings, comments, messages and templates."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PHRASES = {
    r"(?<!there\s)\b(is|are|was|were|be) none\b": "say what is missing: there is no …",
    r"(?<!there\s)\b(is|are|was|were) no (?!more|less|worse|\w+er\b)\w+":
        "is not a …",
    r"\b(is|are) (called|said) so\b|\bcalled so\b": "is flagged",
    r"\bstands? in\b": "replaces, is used instead of",
    r"\bin vain\b": "without success",
    r"\b(that|as) all have\b": "common to all",
    r"\bthere (is|are) not\b": "does not exist",
    r"\btells? of\b": "explains, reports",
    r"\bwhat it takes\b": "how long it takes, the time it needs",
    r"\bunder your hand\b": "custom",
    r"\bfor ever\b": "forever",
    r"\bpassed over\b": "skipped",
    r"\bas far as (it|they|that)\b": "if",
    r"\bput out\b": "print, return",
    r"\bin earnest\b": "fully",
    r"\bwhich there\b|\bwhereof\b|\bwherein\b|\bthereof\b": "split the sentence",
}  # fmt: skip
"""Regular expressions for phrases that a technical writer would not use, with a remedy."""

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = sorted((ROOT / "rnnparse").rglob("*.py"))
TEMPLATES = sorted((ROOT / "rnnparse").rglob("templates/*"))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each piece of prose in a file."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, content
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def complaints(line: int, text: str) -> Iterator[str]:
    """Each phrase of the list in a text, with its line and a remedy."""
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text)  # phrases may go over line ends
    for phrase, remedy in PHRASES.items():
        for match in re.finditer(phrase.replace(" ", r"\s"), text, re.IGNORECASE):
            if "None" not in match[0]:
                at = line + text.count("\n", 0, match.start())
                yield f"{at}: {' '.join(match[0].split())!r}; better: {remedy}"


FILES = [*PAGES, *CODE, *TEMPLATES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_avoids_the_phrases(path: Path) -> None:
    phrases = [message for piece in prose(path) for message in complaints(*piece)]
    assert not phrases, "\n".join(f"{path.relative_to(ROOT)}:{message}" for message in phrases)


def test_the_phrases_are_seen() -> None:
    riddles = ["A rate that is none.", "weights that there are not", "It is no tree.", "called\nso"]
    assert all(list(complaints(1, riddle)) for riddle in riddles)
    assert next(complaints(3, "\n\nin vain")) == "5: 'in vain'; better: without success"
    assert not list(complaints(1, "There is no tree. It is no longer None; x is None."))

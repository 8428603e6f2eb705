"""Rewrite `sentences.txt` and the tables of evidence and rules in docs/studies.md.

    python -m tests.study.diagnosis.snapshots

Run it after a change of wording, and review the difference. `sentences.txt` has pairs of lines:
findings and advice as written in Python, and the sentences made of them. To cover a new code, add
its line and run the command.
"""

from __future__ import annotations

import re
from pathlib import Path

from rnnparse.study.diagnosis.advice import Advice, Finding, advice_text
from rnnparse.study.diagnosis.evidence import DECLARED
from rnnparse.study.diagnosis.rules import RULES

SENTENCES = Path(__file__).with_name("sentences.txt")
PAGE = Path(__file__).parents[3] / "docs" / "studies.md"
_TABLES = {
    "| name | meaning | unit | present if |": [
        f"| `{name}` | {' | '.join(told.values())} |" for name, told in DECLARED.items()
    ],
    "| diagnosis | rule |": [f"| {label} | {rule} |" for label, rule in RULES.items()],
}
"""The heads of generated tables, and their rows."""


def samples() -> dict[str, list[Finding]]:
    """The lines of `sentences.txt` that are Python, and what they say."""
    lines = SENTENCES.read_text("utf-8").splitlines()
    names = {"Finding": Finding, "Advice": Advice}
    return {line: eval(f"[{line}]", names) for line in lines if not line.startswith(" ")}


def sentences() -> str:
    """The contents that `sentences.txt` should have."""
    return "".join(f"{line}\n    {advice_text(notes)}\n" for line, notes in samples().items())


def page() -> str:
    """The contents that docs/studies.md should have."""
    content = PAGE.read_text("utf-8")
    for head, rows in _TABLES.items():
        table = rf"^{re.escape(head)}\n(?:\|.*\n)*"
        before, after = re.split(table, content, flags=re.MULTILINE)
        line = "|" + "---|" * (head.count("|") - 1)
        content = before + "\n".join([head, line, *rows, ""]) + after
    return content


if __name__ == "__main__":
    SENTENCES.write_text(sentences(), "utf-8")
    PAGE.write_text(page(), "utf-8")

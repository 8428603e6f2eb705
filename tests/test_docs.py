"""The pages in docs/ say what is so: their examples run, and their links lead somewhere.

```pycon blocks of a page run as doctests with one namespace a page; ```console blocks run as those
of the README do. Programs in docs/examples run to their end, as slow tests.
"""

from __future__ import annotations

import doctest
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import rnnparse
from tests.test_readme import ROOT, examples, folder, run_examples

assert folder  # a fixture, which pytest finds by its name in this module

PAGES = sorted((ROOT / "docs").glob("*.md"))
PROGRAMS = sorted((ROOT / "docs" / "examples").glob("*.py"))
SECONDS = 1800
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def only_python(text: str) -> str:
    """The page with all but its ```pycon blocks left blank, so that line numbers stay right."""
    kept, end = "", 0
    for block in _FENCED.finditer(text):
        if block[1] == "pycon":
            kept += "\n" * text.count("\n", end, block.start(2)) + block[2]
            end = block.end(2)
    return kept


def doctest_failures(text: str, name: str) -> str:
    """What the doctest runner says about the examples that fail; empty if none does."""
    test = doctest.DocTestParser().get_doctest(only_python(text), {}, name, name, 0)
    printed: list[str] = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False
    )
    runner.run(test, out=printed.append)
    return "".join(printed)


def run_program(path: Path, folder: Path, seconds: float) -> str:
    """What a program in a folder of its own prints. AssertionError if it fails or takes long."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, str(path)]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{path.name} takes more than {seconds} s") from None
    assert done.returncode == 0, f"{path.name}: {done.stderr[-3000:]}"
    return done.stdout


def prose(path: Path) -> str:
    """A page without what is code."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "``", text)


def anchors(path: Path) -> set[str]:
    """What links to the headings of a page say after #."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def lost_links(path: Path) -> list[str]:
    """Links of a page, but those into the web, that lead to no file or no heading."""
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    return lost


@every_page
def test_python_examples_of_the_pages(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    text = page.read_text(encoding="utf-8")
    with_model = 'load("model")' in text
    monkeypatch.chdir(request.getfixturevalue("folder") if with_model else tmp_path)
    assert doctest_failures(text, page.name) == ""


@every_page
def test_console_examples_of_the_pages(page: Path, request: pytest.FixtureRequest) -> None:
    commands = examples(page.read_text(encoding="utf-8"))
    if commands:  # only then is a model needed
        run_examples(commands, request.getfixturevalue("folder"))


@every_page
def test_links_of_the_pages_lead_somewhere(page: Path) -> None:
    assert lost_links(page) == []


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_example_programs_run(program: Path, tmp_path: Path) -> None:
    assert run_program(program, tmp_path, SECONDS)


GOOD = """# A page

```pycon
>>> x = 1
>>> x
1
```

```python
>>> not run
```

```pycon
>>> x + 1  # the namespace is that of the page
2
```
"""


def test_the_runner_sees_a_page_whose_example_breaks() -> None:
    assert doctest_failures(GOOD, "good.md") == ""
    for old, new in (("\n2\n", "\n3\n"), ("x + 1", "y"), ("\n1\n", "\n")):
        assert GOOD.count(old) == 1
        assert "bad.md" in doctest_failures(GOOD.replace(old, new), "bad.md")
    assert 'File "bad.md", line 14' in doctest_failures(GOOD.replace("\n2\n", "\n3\n"), "bad.md")


def test_the_runner_sees_a_program_that_fails(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    slow = "import time; time.sleep(9)"
    for text, problem in (("1 / 0", "ZeroDivisionError"), (slow, "more than")):
        program.write_text(text)
        with pytest.raises(AssertionError, match=problem):
            run_program(program, tmp_path, 1)
    program.write_text("import rnnparse, os; print(os.getcwd())")
    assert run_program(program, tmp_path, 60).strip() == str(tmp_path.resolve())


def test_the_runner_sees_links_that_lead_nowhere(tmp_path: Path) -> None:
    page, other = tmp_path / "page.md", tmp_path / "other.md"
    other.write_text("# Two `words` and, more\n```console\n# no heading\n```\n")
    page.write_text(
        "## Here\n[a](other.md) [b](other.md#two-words-and-more) [c](#here) [d](https://a.b/c)\n"
        "`f[0](x)`\n```python\nf[1](x)\n```\n"
    )
    assert lost_links(page) == []
    page.write_text("[a](none.md) [b](other.md#no-heading) [`c`](#here) [d](https://a.b/c)")
    assert lost_links(page) == ["none.md", "other.md#no-heading", "#here"]


def test_the_api_reference_is_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "api_reference.py"))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert page == script["reference"](), "run: python scripts/api_reference.py"


def test_the_glossary_names_what_exists_in_alphabetical_order() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = [term.lower() for term in re.findall(r"^\*\*(.+?)\.\*\*", page, re.MULTILINE)]
    assert len(terms) > 60 and terms == sorted(terms)
    names = re.findall(r"`(rnnparse[\w.]+)`", page)
    assert len(names) > 60
    for name in names:
        value = rnnparse
        for part in name.split(".")[1:]:
            value = getattr(value, part)

"""Pages in a real browser: readable on a phone and a desk, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rnnparse.cli import main
from rnnparse.trees.brackets import write_trees
from tests.grammar.small import trees
from tests.study.report.browser import Browser, find_browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="needs Chromium, Debian's package chromium"),
]
CONTRASTS = """(() => {
  const light = (c) => c.slice(0, 3)
    .map((x) => x / 255)
    .map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  const worst = {};
  for (const e of document.querySelectorAll("main *")) {
    if (!own(e)) continue;
    const style = getComputedStyle(e);
    const front = light(colour(e instanceof SVGElement ? style.fill : style.color));
    const back = light(behind(e));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const name = e.tagName + "." + (e.getAttribute("class") ?? "");
    worst[name] = Math.min(ratio, worst[name] ?? 99);
  }
  return JSON.stringify(worst);
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    assert program is not None
    with Browser(program, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    write_trees(trees(80)[40:], folder / "gold.mrg")
    (folder / "text").write_text("They ate udon with the man.\n" + "with the man " * 40 + "\n")
    gold, text = str(folder / "gold.mrg"), str(folder / "text")
    made = [folder / f"{name}.html" for name in ("errors", "why", "trees", "drawn")]
    errors, why, parsed, drawn = map(str, made)
    assert main(["evaluate", str(model), gold, "--html", errors]) == 0
    assert main(["explain", str(model), "They ate udon with the man.", "--html", why]) == 0
    assert main(["parse", str(model), text, "--format", "html", "--out", parsed]) == 0
    assert main(["draw", gold, "--out", drawn]) == 0
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_pages_fit_the_window_and_have_contrast(
    browser: Browser, pages: list[Path], width: int, scheme: str
) -> None:
    browser.resize(width, 900, phone=width < 500)
    browser.scheme(scheme)
    for page in pages:
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth") <= width, page.name
        contrasts = json.loads(browser.run(CONTRASTS))
        assert {"text.", "H1."} <= contrasts.keys(), page.name
        assert min(contrasts.values()) >= 4.5, (page.name, contrasts)
    assert browser.complaints == []
    assert all(url.startswith(("file:", "about:")) for url in browser.requests)

"""Save the map of a study's report as SVG; README.md shows docs/images/study.svg. Needs Chromium.

    rnnparse study run treebanks/dev.mrg --dev treebanks/test.mrg --optimizer sgd,adagrad,adam \\
        --lr log:0.001:10:7 --candidates 20 --epochs 3 --out rates
    python scripts/study_picture.py rates docs/images/study.svg
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.study.report.browser import Browser, find_browser


def main(study: Path, picture: Path) -> None:
    """Open the report in a browser, and write what its button "Save SVG" would save."""
    program = find_browser()
    if program is None:
        sys.exit("this needs Chromium")
    with tempfile.TemporaryDirectory() as profile, Browser(program, Path(profile)) as browser:
        browser.resize(1000, 800)
        browser.scheme("light")
        browser.open(study / "report.html")
        svg = browser.run("picture([document.querySelector('.heat')])")
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

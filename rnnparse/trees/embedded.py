"""The treebank that comes with the package; `treebanks/README.md` says how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rnnparse.errors import TreebankError

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")

_PACKAGE = Path(__file__).resolve().parents[1]


def embedded_treebank(part: Part) -> Path:
    """The file of one part of the embedded treebank: Penn brackets, one tree a line.

    Args:
        part: `train` (1,600 trees), `dev` or `test` (200 trees each).

    Raises:
        TreebankError: no such part, or the installation lacks the file.
    """
    if part not in PARTS:
        raise TreebankError(f"the embedded treebank has the parts {', '.join(PARTS)}, not {part!r}")
    # Installed, the folder lies in the package; in a checkout, beside it.
    folders = (_PACKAGE / "treebanks", _PACKAGE.parent / "treebanks")
    for folder in folders:
        path = folder / f"{part}.mrg"
        if path.is_file():
            return path
    raise TreebankError(
        f"the embedded treebank's {part}.mrg is missing (looked in "
        f"{' and '.join(map(str, folders))}): install rnnparse again"
    )

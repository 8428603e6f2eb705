"""The treebank that comes with the package, described in `treebanks/README.md`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rnnparse.errors import TreebankError

Part = Literal["train", "dev", "test"]
PARTS: tuple[Part, ...] = ("train", "dev", "test")

_PACKAGE = Path(__file__).resolve().parents[1]


def embedded_treebank(part: Part) -> Path:
    """The file of one part of the embedded treebank: Penn brackets, one tree per line.

    Args:
        part: `train` (1,600 trees), `dev` or `test` (200 trees each).

    Raises:
        TreebankError: the part does not exist, or the installation lacks the file.
    """
    if part not in PARTS:
        raise TreebankError(f"the embedded treebank has the parts {', '.join(PARTS)}, not {part!r}")
    # The folder is inside an installed package, and beside it in a checkout.
    folders = (_PACKAGE / "treebanks", _PACKAGE.parent / "treebanks")
    for folder in folders:
        path = folder / f"{part}.mrg"
        if path.is_file():
            return path
    raise TreebankError(
        f"the embedded treebank's {part}.mrg is missing (looked in "
        f"{' and '.join(map(str, folders))}): install rnnparse again"
    )

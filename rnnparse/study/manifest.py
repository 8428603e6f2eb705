"""`study.json`: the name of a study, its space, its data, its trials and how to run them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from rnnparse.errors import ConfigError, StudyError
from rnnparse.files import open_regular, parse_json, write_json
from rnnparse.study.records import unreadable
from rnnparse.study.schema import About, Wrong, check, check_any
from rnnparse.study.search_space import Space

STUDY = "study.json"
"""The file in the folder of a study."""

FORMAT = 1
_LONGEST = 2**26  # bytes


def check_about(about: Mapping[str, Any]) -> None:
    """Raise ConfigError for content that `study.json` cannot hold."""
    try:
        _check({"format": FORMAT, **about})
    except Wrong as wrong:
        raise ConfigError(f"a study cannot have this: {wrong}") from None


def write_study(folder: Path, about: Mapping[str, Any]) -> None:
    """Write `study.json`; `rnnparse.study.schema.About` declares its content.

    Raises:
        ConfigError: other content.
        StudyError: there is a pipe, folder or device of that name.
    """
    check_about(about)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STUDY
    if path.exists() and not path.is_file():
        raise StudyError(f"{path}: not a regular file; give another folder")
    write_json(path, {"format": FORMAT, **about})


def read_study(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_study` wrote.

    Studies of version 0.1 have no `commands`, and those of the parser no `trials` either.

    Raises:
        StudyError: the file is missing, damaged, or of another format.
    """
    path = Path(folder) / STUDY
    about = _parse(path, folder)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise StudyError(f"{path}: expected a study of format {FORMAT}")
    if "measure" in about and "metric" not in about:  # its name in version 0.1
        about["metric"] = about.pop("measure")
    try:
        _check(about)
        space = Space(*(about["space"][name] for name in ("axes", "seeds", "fixed")))
    except (Wrong, ConfigError) as error:
        raise _damaged(path, str(error)) from None
    if "trials" not in about and about["space"].keys() == space.to_dict().keys():
        about["trials"] = [trial.id for trial in space.trials()]
    return about


def _check(about: Any) -> None:
    check(about, About)
    check_any(about)


def require_own(path: Path, mark: bytes) -> None:
    """Raise StudyError if a report would replace a file that is not a report.

    Args:
        path: of the file, which may be missing.
        mark: bytes that every such report has in its first 64 KiB.
    """
    try:
        with open_regular(path) as file:
            ours = mark in file.read(1 << 16)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StudyError(f"{unreadable(error, path)}; move it away") from None
    if not ours:
        raise StudyError(f"{path}: rnnparse did not write this file; move it away")


def _parse(path: Path, folder: str | os.PathLike[str]) -> Any:
    try:
        with open_regular(path) as file:
            content = file.read(_LONGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise StudyError(f"{folder}: not a study (no {STUDY})") from None
    except OSError as error:
        raise unreadable(error, path) from None
    if len(content) > _LONGEST:
        raise _damaged(path, f"it has more than {_LONGEST:,} bytes")
    try:
        return parse_json(content)
    except JSONDecodeError as error:
        raise _damaged(f"{path}:{error.lineno}:{error.colno}", error.msg) from None
    except ValueError as error:
        raise _damaged(path, str(error)) from None


def _damaged(place: Path | str, what: str) -> StudyError:
    return StudyError(
        f"{place}: the file is damaged: {what}; remove it, and the command that began the study "
        "writes it again"
    )

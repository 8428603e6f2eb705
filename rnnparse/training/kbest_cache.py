"""k-best lists of many sentences, made on all cores and cached on disk part by part."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from tqdm import tqdm

from rnnparse.array_invariants import LISTS, check
from rnnparse.errors import ConfigError
from rnnparse.executors import open_remote
from rnnparse.files import make_writable, private_folder, read_arrays, write_arrays
from rnnparse.grammar.grammar import Grammar
from rnnparse.inference.decoder import Decoder, Parse
from rnnparse.inference.forest import Forest
from rnnparse.inference.search import Search
from rnnparse.threads import in_order

_LOG = logging.getLogger("rnnparse")
PART = 50  # sentences in one file of the cache

_NODE_FIELDS = ("cat", "left", "right", "start", "end")
_TREE_FIELDS = ("root", "logp")
_FLAGS = ("glued", "divided")


def cache_folder(given: str | None) -> Path:
    """The folder for k-best lists: the given one, or else the user's cache folder.

    If the user's cache folder cannot be written to, a private temporary folder is used.

    Raises:
        ConfigError: the folder cannot be created or written to.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(given) if given else Path(base) / "rnnparse"
    try:
        make_writable(folder)
        return folder
    except OSError as error:
        wrong = f"cannot write k-best lists to the folder {folder} ({error.strerror})"
    private = None if given else _private_instead(wrong)
    if private is None:
        raise ConfigError(f"{wrong}; choose another with --cache")
    return private


@functools.cache  # one warning is enough
def _private_instead(wrong: str) -> Path | None:
    try:
        folder = private_folder()
    except OSError:
        return None
    _LOG.warning("%s; using %s instead; choose another with --cache", wrong, folder)
    return folder


def candidate_lists(
    sentences: Sequence[Sequence[str]],
    decoder: Callable[[], Decoder],
    k: int,
    *,
    categories: int,
    folder: Path,
    n_jobs: int,
    progress: bool,
    what: str,
    backend: str = "threads",
    address: str | None = None,
) -> list[Parse]:
    """The k best trees of each sentence, in order.

    Args:
        sentences: tokens, escaped as in trees.
        decoder: makes the decoder; called once, and only if a part is not in the cache.
        k: candidates per sentence.
        categories: C, the number of basic categories.
        folder: for this set of lists; its name must depend on everything that decides them.
        n_jobs: number of threads or other workers; 0 or -1 for one per processor core.
        progress: whether to show a progress bar.
        what: the label of the bar.
        backend, address: see `rnnparse.executors.open_remote`. Workers are opened only if a part
            is not in the cache.
    """
    lists: list[Parse] = []
    with (
        ExitStack() as stack,
        tqdm(total=len(sentences), desc=what, unit="sentence", disable=not progress) as bar,
    ):
        list_all = functools.cache(
            lambda: stack.enter_context(
                open_remote(_Lister(decoder(), k), n_jobs, backend, address)
            )
        )
        maker = _Maker(sentences, lambda: list_all()[0], k, categories, folder)
        threads = n_jobs if backend == "threads" or maker.is_complete() else list_all()[1]
        for parses in in_order(maker.part, range(0, len(sentences), PART), threads):
            lists.extend(parses)
            bar.update(len(parses))
    maker.warn()
    return lists


class _Lister:
    """Lists the k best trees of sentences. Pickled, it is only the grammar and the search."""

    def __init__(self, decoder: Decoder, k: int) -> None:
        self.decoder, self.k = decoder, k

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        return [self.decoder.parse(tokens, self.k) for tokens in sentences]

    def __reduce__(self) -> Any:
        return _lister, (self.decoder.grammar, self.decoder.search, self.k)


def _lister(grammar: Grammar, search: Search, k: int) -> _Lister:
    return _Lister(Decoder(grammar, search), k)


class _Maker:
    """Makes parts of the lists, or reads them from the cache; threads may share it."""

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        list_all: Callable[[], Callable[[Sequence[Sequence[str]]], list[Parse]]],
        k: int,
        categories: int,
        folder: Path,
    ) -> None:
        self.sentences, self.k, self.categories, self.folder = sentences, k, categories, folder
        self._list_all, self._opening = list_all, Lock()
        self._damaged: list[Path] = []
        self._unsaved: list[OSError] = []

    def is_complete(self) -> bool:
        """Whether all files exist."""
        return all(self._file(start).exists() for start in range(0, len(self.sentences), PART))

    def _file(self, start: int) -> Path:
        return self.folder / f"{start // PART:06d}.npz"

    def part(self, start: int) -> list[Parse]:
        """The lists of the sentences from `start` on."""
        chunk = self.sentences[start : start + PART]
        file = self._file(start)
        if file.exists():
            try:
                return _read(file, chunk, self.k, self.categories)
            except (OSError, ValueError, KeyError):
                self._damaged.append(file)
        with self._opening:
            list_all = self._list_all()
        parses = list_all(chunk)
        if file.is_file() or not os.path.lexists(file):  # never replace a pipe or a folder
            try:
                _write(file, parses)
            except OSError as error:
                self._unsaved.append(error)
        return parses

    def warn(self) -> None:
        """Report files that were damaged or could not be saved."""
        if self._damaged:
            count = len(self._damaged)
            _LOG.warning(
                "%s: recomputed the candidate lists of %d damaged file(s)", self.folder, count
            )
        if self._unsaved:
            _LOG.warning(
                "%d file(s) of candidate lists could not be saved in %s (%s); continuing without "
                "them", len(self._unsaved), self.folder, self._unsaved[0].strerror,
            )


def _write(file: Path, parses: Sequence[Parse]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        name: np.concatenate([getattr(parse.forest, name) for parse in parses])
        for name in (*_NODE_FIELDS, *_TREE_FIELDS)
    }
    arrays["nodes"] = np.array([len(parse.forest.cat) for parse in parses], np.int64)
    arrays["trees"] = np.array([len(parse.forest.root) for parse in parses], np.int64)
    for name in _FLAGS:
        arrays[name] = np.array([getattr(parse, name) for parse in parses], np.bool_)
    write_arrays(file, arrays)


def _read(file: Path, sentences: Sequence[Sequence[str]], k: int, categories: int) -> list[Parse]:
    """The parses of a part.

    Raises:
        OSError, KeyError, ValueError: the file cannot be read, or does not hold lists of these
            sentences.
    """
    arrays = read_arrays(file)
    check("lists", LISTS, arrays, S=len(sentences))
    ends = [np.cumsum(arrays[name]) for name in ("nodes", "trees")]
    if ends[0][-1] != len(arrays["cat"]) or ends[1][-1] != len(arrays["root"]):
        raise ValueError("the sizes of the forests do not add up")
    columns = [np.split(arrays[name], ends[0][:-1]) for name in _NODE_FIELDS]
    columns += [np.split(arrays[name], ends[1][:-1]) for name in _TREE_FIELDS]
    forests = [Forest(*parts) for parts in zip(*columns, strict=True)]
    for forest, tokens in zip(forests, sentences, strict=True):
        _check_candidates(forest, len(tokens), k, categories)
    flags = zip(*(arrays[name].tolist() for name in _FLAGS), strict=True)
    return [Parse(forest, *given) for forest, given in zip(forests, flags, strict=True)]


def _check_candidates(forest: Forest, words: int, k: int, categories: int) -> None:
    """Raise ValueError if these cannot be the k best trees of so many words."""
    root, logp, basic = forest.root, forest.logp, forest.cat < categories
    if forest.cat.max() >= 2 * categories or not basic[forest.left < 0].all():
        raise ValueError("a node has an impossible category")
    if not basic[root].all() or len(np.unique(forest.cat[root])) > 1:
        raise ValueError("a candidate has another root")
    if forest.end.max() > words or np.any(forest.start[root]) or np.any(forest.end[root] != words):
        raise ValueError("a candidate does not span its sentence")
    if len(root) > k or len(np.unique(root)) < len(root):
        raise ValueError("there are too many candidates, or a candidate is repeated")
    if not np.isfinite(logp).all() or np.any(logp[1:] > logp[:-1]):
        raise ValueError("the candidates are not in order")

"""k-best lists of many sentences, made on all cores and cached on disk part by part."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, overload

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
) -> CachedLists:
    """Make the k best trees of each sentence, unless they are in the cache.

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

    Returns:
        The lists in the order of the sentences.
    """
    lengths = np.array([len(tokens) for tokens in sentences], np.int32)
    files = _Files(folder, lengths, k, categories, PART)
    flags = np.zeros((len(sentences), len(_FLAGS)), np.bool_)
    unsaved: dict[int, list[Parse]] = {}
    parts = range(files.parts)
    with (
        ExitStack() as stack,
        tqdm(total=len(sentences), desc=what, unit="sentence", disable=not progress) as bar,
    ):
        list_all = functools.cache(
            lambda: stack.enter_context(
                open_remote(_Lister(decoder(), k), n_jobs, backend, address)
            )
        )
        maker = _Maker(sentences, lambda: list_all()[0], files)
        threads = n_jobs if backend == "threads" or files.are_complete() else list_all()[1]
        made = in_order(maker.part, parts, threads)
        for part, (parses, is_saved) in zip(parts, made, strict=True):
            flags[files.sentences(part)] = [[getattr(p, name) for name in _FLAGS] for p in parses]
            if not is_saved:
                unsaved[part] = parses
            bar.update(len(parses))
    maker.warn()
    return CachedLists(flags, _Reader(files, unsaved))


class CachedLists(Sequence[Parse]):
    """Lists of S sentences, which are read from the cache when they are asked for.

    Reading them in order is fast, because the last part that was read stays in memory.

    Args:
        flags: bool [S, 2], whether the trees of a sentence are glued, and whether it was divided.
        parse: returns the list of a sentence.
    """

    def __init__(self, flags: np.ndarray, parse: Callable[[int], Parse]) -> None:
        self.flags, self._parse = flags, parse

    @classmethod
    def joined(cls, parts: Sequence[CachedLists]) -> CachedLists:
        """The lists of several parts, one after the other; there is at least one part."""
        ends = np.cumsum([len(part) for part in parts])

        def parse(i: int) -> Parse:
            part = int(np.searchsorted(ends, i, side="right"))
            return parts[part][i - int(ends[part])]  # counted from the end

        return cls(np.concatenate([part.flags for part in parts]), parse)

    def __len__(self) -> int:
        """S, the number of sentences."""
        return len(self.flags)

    @overload
    def __getitem__(self, index: int) -> Parse: ...
    @overload
    def __getitem__(self, index: slice) -> list[Parse]: ...
    def __getitem__(self, index: int | slice) -> Parse | list[Parse]:
        """The list of a sentence.

        Raises:
            IndexError: there is no such sentence.
            ConfigError: the file was removed or changed while it was in use.
        """
        numbers = range(len(self))[index]
        return self._parse(numbers) if isinstance(numbers, int) else [*map(self._parse, numbers)]


@dataclass(frozen=True)
class _Files:
    """The files of a set of lists, each with a part of the sentences.

    Attributes:
        folder: of the files.
        lengths: int32 [S], tokens of each sentence.
        k: most candidates a sentence.
        categories: C.
        size: sentences in a file; the last one may have fewer.
    """

    folder: Path
    lengths: np.ndarray
    k: int
    categories: int
    size: int

    @property
    def parts(self) -> int:
        return -(-len(self.lengths) // self.size)

    def sentences(self, part: int) -> slice:
        """The numbers of the sentences in a part."""
        return slice(part * self.size, (part + 1) * self.size)

    def path(self, part: int) -> Path:
        return self.folder / f"{part:06d}.npz"

    def are_complete(self) -> bool:
        """Whether all files exist."""
        return all(self.path(part).exists() for part in range(self.parts))

    def read(self, part: int) -> list[Parse]:
        """The lists in a file; raises as `_read`."""
        lengths = self.lengths[self.sentences(part)]
        return _read(self.path(part), lengths, self.k, self.categories)


class _Reader:
    """Gives the lists of single sentences; keeps the part that was read last."""

    def __init__(self, files: _Files, unsaved: dict[int, list[Parse]]) -> None:
        self._files, self._unsaved = files, unsaved
        self._last: tuple[int, list[Parse]] = (-1, [])

    def __call__(self, sentence: int) -> Parse:
        part, place = divmod(sentence, self._files.size)
        if part in self._unsaved:
            return self._unsaved[part][place]
        if self._last[0] != part:
            self._last = (part, self._read(part))
        return self._last[1][place]

    def _read(self, part: int) -> list[Parse]:
        try:
            return self._files.read(part)
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                f"{self._files.path(part)}: the candidate lists were removed or changed while they "
                "were in use; start again"
            ) from error


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
        files: _Files,
    ) -> None:
        self.sentences, self.files = sentences, files
        self._list_all, self._opening = list_all, Lock()
        self._damaged: list[Path] = []
        self._unsaved: list[OSError] = []

    def part(self, part: int) -> tuple[list[Parse], bool]:
        """The lists of a part, and whether they are in the cache now."""
        file = self.files.path(part)
        if file.exists():
            try:
                return self.files.read(part), True
            except (OSError, ValueError, KeyError):
                self._damaged.append(file)
        with self._opening:
            list_all = self._list_all()
        parses = list_all(self.sentences[self.files.sentences(part)])
        if not file.is_file() and os.path.lexists(file):  # never replace a pipe or a folder
            return parses, False
        try:
            _write(file, parses)
        except OSError as error:
            self._unsaved.append(error)
            return parses, False
        return parses, True

    def warn(self) -> None:
        """Report files that were damaged or could not be saved."""
        if self._damaged:
            _LOG.warning(
                "%s: recomputed the candidate lists of %d damaged file(s)",
                self.files.folder,
                len(self._damaged),
            )
        if self._unsaved:
            _LOG.warning(
                "%d file(s) of candidate lists could not be saved in %s (%s); continuing without "
                "them", len(self._unsaved), self.files.folder, self._unsaved[0].strerror,
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


def _read(file: Path, lengths: np.ndarray, k: int, categories: int) -> list[Parse]:
    """The parses of a part; `lengths` are the tokens of its sentences.

    Raises:
        OSError, KeyError, ValueError: the file cannot be read, or does not hold lists of these
            sentences.
    """
    arrays = read_arrays(file)
    check("lists", LISTS, arrays, S=len(lengths))
    ends = [np.cumsum(arrays[name]) for name in ("nodes", "trees")]
    if ends[0][-1] != len(arrays["cat"]) or ends[1][-1] != len(arrays["root"]):
        raise ValueError("the sizes of the forests do not add up")
    columns = [np.split(arrays[name], ends[0][:-1]) for name in _NODE_FIELDS]
    columns += [np.split(arrays[name], ends[1][:-1]) for name in _TREE_FIELDS]
    forests = [Forest(*parts) for parts in zip(*columns, strict=True)]
    for forest, length in zip(forests, lengths.tolist(), strict=True):
        _check_candidates(forest, length, k, categories)
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

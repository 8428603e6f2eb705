"""The training problem that all trials of a study of the parser share, in one file."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from nltk import Tree

from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.files import read_arrays, write_arrays
from rnnparse.grammar.unknown import WordVectors
from rnnparse.invariants import COUNTS, check
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.training.candidate_brackets import BracketCounts
from rnnparse.training.data import fingerprint, read_data
from rnnparse.training.dev_selection import DevSet, f1_of
from rnnparse.training.kbest_cache import cache_folder
from rnnparse.training.prepare import Problem, head_table, make_lists, make_problem, start

_LOG = logging.getLogger("rnnparse")
_DECISIVE = ("candidates", "target", "jackknife", "prune_vectors", "seed")
_STORE = tuple(field.name for field in fields(ForestDataset))
_NAMES = ("categories", "classes", "words", "vector_words")


@dataclass(frozen=True)
class SharedProblem:
    """Forests, vocabulary and keys; starting weights are made for each trial.

    Attributes:
        problem: its `initial` are the starting weights for the settings that it was made with.
        vectors: the word vectors that were given, or None.
    """

    problem: Problem
    vectors: WordVectors | None

    def for_trial(self, config: TrainingConfig) -> Problem:
        """The problem with the starting weights for a trial's dimension and seed."""
        problem = self.problem
        return replace(
            problem, initial=start(problem.vocabulary, problem.keys, self.vectors, config)
        )


@dataclass(frozen=True)
class ProblemFile:
    """Where a shared problem is, and what a study has to know of it.

    Attributes:
        path: of the file, in the cache.
        data: hashes of training trees, development trees and word vectors.
        sizes: how many sentences each part has.
        gold: how many brackets each development tree has.
        baselines: dev F1 of the grammar alone, and of the best candidate of each sentence.
    """

    path: Path
    data: dict[str, str]
    sizes: dict[str, int]
    gold: list[int]
    baselines: dict[str, float]


def prepare_problem(config: TrainingConfig, progress: bool = True) -> ProblemFile:
    """Make the forests for these data and settings, or find them in the cache.

    Args:
        config: treebank, dev, vectors, candidates and so on. Its seed is that of the lists; trials
            have their own.
        progress: whether to show progress bars.

    Raises:
        RnnparseError: data that cannot be read, no development part, or weights to freeze that
            there are not.
    """
    if config.folds:
        raise ConfigError("a study needs a development part: give dev, not folds")
    trees, dev, vectors = read_data(config)
    data = hashes(trees, dev, vectors)
    lists = make_lists(
        trees,
        dev,
        vectors,
        config,
        cache_folder(config.cache),
        n_jobs=config.n_jobs,
        progress=progress,
    )
    settings = config.to_dict()
    key = fingerprint(
        *data.values(),
        *lists.grammar.to_arrays().values(),
        head_table(config.heads).to_text(),
        *(settings[name] for name in _DECISIVE),
    )
    path = cache_folder(config.cache) / "problems" / f"{key}.npz"
    if not _is_whole(path, config):
        path.parent.mkdir(parents=True, exist_ok=True)
        problem = make_problem(lists, trees, dev, vectors, config)
        write_arrays(path, to_arrays(SharedProblem(problem, vectors)))
    shared = read_problem(path, config)
    shared.problem.frozen(config.freeze)  # an error at once, not in every trial
    assert shared.problem.dev is not None
    counts = shared.problem.dev.counts
    sizes = {"train": len(trees), "dev": len(dev)}
    return ProblemFile(path, data, sizes, [c.gold for c in counts], _baselines(counts))


def _is_whole(path: Path, config: TrainingConfig) -> bool:
    """Whether the file is there and can be read; a damaged one is noted, and made again."""
    if not path.is_file():
        return False
    try:
        read_problem(path, config)
    except ConfigError:
        _LOG.warning("%s: the forests in the cache are damaged; made again", path)
        return False
    return True


def hashes(
    trees: Sequence[Tree], dev: Sequence[Tree], vectors: WordVectors | None
) -> dict[str, str]:
    """Hashes of training trees, development trees and word vectors, by which studies know them."""
    data = {"train": fingerprint(trees), "dev": fingerprint(dev)}
    if vectors is not None:
        data["vectors"] = fingerprint(vectors.words, vectors.matrix)
    return data


def _baselines(counts: Sequence[BracketCounts]) -> dict[str, float]:
    """Dev F1 of each sentence's first candidate, and of its best."""

    def f1(picks: Iterable[int]) -> float:
        chosen = [(c.matched[i], c.test[i], c.gold) for c, i in zip(counts, picks, strict=True)]
        return float(f1_of(np.sum(chosen, axis=0)))

    best = [int(c.f1().argmax()) for c in counts]
    return {"the grammar alone": f1([0] * len(counts)), "the best of the candidates": f1(best)}


def to_arrays(shared: SharedProblem) -> dict[str, np.ndarray]:
    """A shared problem as arrays; starting weights are left out."""
    problem, vectors = shared.problem, shared.vectors
    dev = problem.dev
    assert dev is not None
    texts = {
        "categories": problem.keys.categories,
        "classes": problem.vocabulary.classes,
        "words": problem.vocabulary.words,
    }
    arrays = {
        **{f"train_{name}": getattr(problem.store, name) for name in _STORE},
        **{f"dev_{name}": getattr(dev.store, name) for name in _STORE},
        "counts_matched": np.concatenate([counts.matched for counts in dev.counts]),
        "counts_test": np.concatenate([counts.test for counts in dev.counts]),
        "counts_gold": np.array([counts.gold for counts in dev.counts]),
        "pairs": problem.keys.pairs,
    }
    if vectors is not None:
        texts["vector_words"] = vectors.words
        arrays["vectors"] = vectors.matrix
    return arrays | {name: _text(names) for name, names in texts.items()}


def read_problem(path: Path, config: TrainingConfig) -> SharedProblem:
    """The problem in a file of `prepare_problem`, which was made with this configuration.

    Raises:
        ConfigError: the file is gone or damaged.
    """
    try:
        arrays = read_arrays(path)
        return _from_arrays(arrays, config)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{path}: the forests of this study cannot be read ({error}); remove the file and "
            "start the study again"
        ) from error


def _from_arrays(arrays: dict[str, np.ndarray], config: TrainingConfig) -> SharedProblem:
    names = {name: _names(arrays[name]) for name in _NAMES if name in arrays}
    keys = CategoryPairs(names["categories"], arrays["pairs"])
    vocabulary = Vocabulary(names["classes"], names["words"])
    store, dev = (
        ForestDataset(**{name: arrays[f"{part}_{name}"] for name in _STORE})
        for part in ("train", "dev")
    )
    if store.key.max(initial=-1) >= len(keys) or dev.key.max(initial=-1) >= len(keys):
        raise ValueError("a node has weights that the keys do not have")
    if max(store.word.max(initial=-1), dev.word.max(initial=-1)) >= len(vocabulary):
        raise ValueError("a word that the vocabulary does not have")
    sizes = {"S": len(dev), "T": len(dev.root)}
    check("problem", COUNTS, arrays, **sizes)
    ends = dev.root_offsets[1:-1]
    counts = [
        BracketCounts(matched, test, gold)
        for matched, test, gold in zip(
            np.split(arrays["counts_matched"], ends),
            np.split(arrays["counts_test"], ends),
            arrays["counts_gold"].tolist(),
            strict=True,
        )
    ]
    vectors = None
    if "vectors" in arrays:
        vectors = WordVectors(names["vector_words"], arrays["vectors"])
    initial = start(vocabulary, keys, vectors, config)
    return SharedProblem(Problem(vocabulary, keys, initial, store, DevSet(dev, counts)), vectors)


def _text(names: tuple[str, ...]) -> np.ndarray:
    return np.frombuffer("\n".join(names).encode("utf-8"), np.uint8)


def _names(text: np.ndarray) -> tuple[str, ...]:
    return tuple(text.tobytes().decode("utf-8").split("\n"))

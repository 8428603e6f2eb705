"""The training problem that all trials of a study share: forests and vocabulary, in one file."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rnnparse.array_invariants import COUNTS, check
from rnnparse.config import TrainingConfig
from rnnparse.errors import ConfigError
from rnnparse.files import read_arrays, write_arrays
from rnnparse.grammar.unknown import WordVectors
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.forest_dataset import ForestDataset
from rnnparse.models.vocabulary import Vocabulary
from rnnparse.training.candidate_brackets import BracketCounts
from rnnparse.training.data import fingerprint, read_data
from rnnparse.training.dev_selection import DevSet, f1_of
from rnnparse.training.kbest_cache import cache_folder
from rnnparse.training.prepare import Problem, head_table, make_lists, make_problem, start

if TYPE_CHECKING:
    from nltk.tree import Tree

_LOG = logging.getLogger("rnnparse")
_DECISIVE = ("candidates", "target", "jackknife", "exact", "prune_vectors", "seed")
_STORE = tuple(field.name for field in fields(ForestDataset))
_NAMES = ("categories", "classes", "words", "vector_words")


@dataclass(frozen=True)
class SharedProblem:
    """Forests, vocabulary and category pairs. Each trial has its own initial weights.

    Attributes:
        problem: with the initial weights for the settings that made it.
        vectors: the given word vectors, or None.
    """

    problem: Problem
    vectors: WordVectors | None

    def for_trial(self, config: TrainingConfig) -> Problem:
        """The problem with initial weights for the dimension and seed of a trial."""
        problem = self.problem
        return replace(
            problem, initial=start(problem.vocabulary, problem.category_pairs, self.vectors, config)
        )


@dataclass(frozen=True)
class ProblemFile:
    """The file of a shared problem, with facts about the data for the study.

    Attributes:
        path: of the file, in the cache.
        data: hashes of training trees, dev trees and word vectors.
        sizes: the number of sentences of each part.
        gold: the number of gold brackets of each dev tree.
        baselines: dev F1 of the grammar alone, and of the best candidates.
    """

    path: Path
    data: dict[str, str]
    sizes: dict[str, int]
    gold: list[int]
    baselines: dict[str, float]


def prepare_problem(config: TrainingConfig, progress: bool = True) -> ProblemFile:
    """Make the forests for these data and settings, unless they are in the cache.

    Args:
        config: treebank, dev, vectors, candidates and so on. Its seed is used for the k-best
            lists; trials have their own.
        progress: whether to show progress bars.

    Raises:
        RnnparseError: the data cannot be read, there is no dev part, or `freeze` names weights
            that do not exist.
    """
    if config.folds:
        raise ConfigError("a study needs a dev part: give dev, not folds")
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
    shared = _cached(path, config)
    if shared is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shared = SharedProblem(make_problem(lists, trees, dev, vectors, config), vectors)
        write_arrays(path, to_arrays(shared))
    shared.problem.frozen(config.freeze)  # raises an error now, not in every trial
    assert shared.problem.dev is not None
    counts = shared.problem.dev.counts
    sizes = {"train": len(trees), "dev": len(dev)}
    return ProblemFile(path, data, sizes, [c.gold for c in counts], _baselines(counts))


def _cached(path: Path, config: TrainingConfig) -> SharedProblem | None:
    """The problem in a file, if it exists and is valid. Logs a warning if it is damaged."""
    if path.is_file():
        try:
            return read_problem(path, config)
        except ConfigError:
            _LOG.warning("%s: the forests in the cache are damaged; making them again", path)
    return None


def hashes(
    trees: Sequence[Tree], dev: Sequence[Tree], vectors: WordVectors | None
) -> dict[str, str]:
    """Hashes of training trees, dev trees and word vectors, which identify the data of a study."""
    data = {"train": fingerprint(trees), "dev": fingerprint(dev)}
    if vectors is not None:
        data["vectors"] = fingerprint(vectors.words, vectors.matrix)
    return data


def _baselines(counts: Sequence[BracketCounts]) -> dict[str, float]:
    """Dev F1 of the first candidates, and of the best candidates."""

    def f1(picks: Iterable[int]) -> float:
        chosen = [(c.matched[i], c.test[i], c.gold) for c, i in zip(counts, picks, strict=True)]
        return float(f1_of(np.sum(chosen, axis=0)))

    best = [int(c.f1().argmax()) for c in counts]
    return {"the grammar alone": f1([0] * len(counts)), "the best of the candidates": f1(best)}


def to_arrays(shared: SharedProblem) -> dict[str, np.ndarray]:
    """A shared problem as arrays, without initial weights."""
    problem, vectors = shared.problem, shared.vectors
    dev = problem.dev
    assert dev is not None
    texts = {
        "categories": problem.category_pairs.categories,
        "classes": problem.vocabulary.classes,
        "words": problem.vocabulary.words,
    }
    arrays = {
        **{f"train_{name}": getattr(problem.store, name) for name in _STORE},
        **{f"dev_{name}": getattr(dev.store, name) for name in _STORE},
        "counts_matched": np.concatenate([counts.matched for counts in dev.counts]),
        "counts_test": np.concatenate([counts.test for counts in dev.counts]),
        "counts_gold": np.array([counts.gold for counts in dev.counts]),
        "pairs": problem.category_pairs.pairs,
    }
    if vectors is not None:
        texts["vector_words"] = vectors.words
        arrays["vectors"] = vectors.matrix
    encoded = {name: "\n".join(names).encode("utf-8") for name, names in texts.items()}
    return arrays | {name: np.frombuffer(text, np.uint8) for name, text in encoded.items()}


def read_problem(path: Path, config: TrainingConfig) -> SharedProblem:
    """Read the file that `prepare_problem` made with this configuration.

    Raises:
        ConfigError: the file is missing or damaged.
    """
    try:
        return _from_arrays(read_arrays(path), config)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{path}: the forests of this study cannot be read ({error}); remove the file and "
            "start the study again"
        ) from error


def _from_arrays(arrays: dict[str, np.ndarray], config: TrainingConfig) -> SharedProblem:
    names = {name: _names(arrays[name]) for name in _NAMES if name in arrays}
    category_pairs = CategoryPairs(names["categories"], arrays["pairs"])
    vocabulary = Vocabulary(names["classes"], names["words"])
    store, dev = (
        ForestDataset(**{name: arrays[f"{part}_{name}"] for name in _STORE})
        for part in ("train", "dev")
    )
    for part in (store, dev):
        if part.key.max(initial=-1) >= len(category_pairs):
            raise ValueError("a node has an unknown key")
        if part.word.max(initial=-1) >= len(vocabulary):
            raise ValueError("a word is not in the vocabulary")
    check("problem", COUNTS, arrays, S=len(dev), T=len(dev.root))
    matched, test = (
        np.split(arrays[f"counts_{name}"], dev.root_offsets[1:-1]) for name in ("matched", "test")
    )
    counts = [*map(BracketCounts, matched, test, arrays["counts_gold"].tolist())]
    vectors = None
    if "vectors" in arrays:
        vectors = WordVectors(names["vector_words"], arrays["vectors"])
    initial = start(vocabulary, category_pairs, vectors, config)
    return SharedProblem(
        Problem(vocabulary, category_pairs, initial, store, DevSet(dev, counts)), vectors
    )


def _names(text: np.ndarray) -> tuple[str, ...]:
    return tuple(text.tobytes().decode("utf-8").split("\n"))

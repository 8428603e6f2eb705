"""Targets that read arrays: models, k-best caches and checkpoints, with contents that are wrong.

Checksums are set right again after a mutation, so that what is tested is not whether damage is
noticed, but whether contents are that no training could have written. A mutation may give what
training could have written, as another weight; then everything must work.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rnnparse.config import TrainingConfig
from rnnparse.files import read_arrays
from rnnparse.inference.decoder import Decoder
from rnnparse.inference.forest import candidate_tree
from rnnparse.parser import load
from rnnparse.training.checkpoint import load_state, save_state
from rnnparse.training.dev_selection import BETAS
from rnnparse.training.kbest_cache import candidate_lists
from rnnparse.trees.cleaning import words
from tests.fuzz.harness import Target
from tests.fuzz.text_mutations import mutate_file
from tests.grammar.small import small_grammar, trees
from tests.small_parser import small_parser
from tests.training.problems import Problem, small_problem, train_network

SENTENCES = [
    ["They", "ate", "udon", "with", "forks", "."],
    ["Xyzzy", "-", "the", "Æ7", "New"],
    ["."],
    *(words(tree) for tree in trees(3, "dev")),
]
_KBEST = 5
_INTEGERS = [-(2**31), -1, 0, 1, 2, 3, 7, 100, 10**6, 2**31 - 1]
_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 1e-300, 1e30, -1e30, 1e308, -1e308]

Edit = Callable[[np.ndarray, random.Random], Any]


# -- arrays ------------------------------------------------------------------------------------


def _put(array: np.ndarray, rng: random.Random) -> Any:
    """Other values in some places: special ones, or ones that the array has elsewhere."""
    changed = array.copy()
    flat = changed.reshape(-1)
    for _ in range(rng.choice([1, 1, 2, 10])):
        if not flat.size:
            break
        if rng.random() < 0.5:
            value: Any = flat[rng.randrange(flat.size)]
        elif array.dtype.kind == "f":
            value = rng.choice(_FLOATS)
        elif array.dtype.kind == "b":
            value = rng.random() < 0.5
        elif array.dtype.kind not in "iu":  # a change before gave another type
            return array
        else:
            info = np.iinfo(array.dtype)
            value = min(max(rng.choice(_INTEGERS), int(info.min)), int(info.max))
        with np.errstate(over="ignore"):
            flat[rng.randrange(flat.size)] = value
    return changed


def _nudge(array: np.ndarray, rng: random.Random) -> Any:
    changed = array.copy()
    if array.size and array.dtype.kind != "b":
        place = rng.randrange(array.size)
        changed.reshape(-1)[place] += np.asarray(rng.choice([1, 2]), array.dtype)
    return changed


def _shuffle(array: np.ndarray, rng: random.Random) -> Any:
    return np.random.default_rng(rng.randrange(2**32)).permutation(array) if array.ndim else array


def _swap(array: np.ndarray, rng: random.Random) -> Any:
    changed = array.copy()
    if array.ndim and len(array) > 1:
        one, other = rng.sample(range(len(array)), 2)
        changed[[one, other]] = changed[[other, one]]
    return changed


def _scale(array: np.ndarray, rng: random.Random) -> Any:
    with np.errstate(all="ignore"):
        factor = rng.choice([-1, 0, 2, 1000])
        return (array.astype(np.float64) * factor).astype(array.dtype)


def _resize(array: np.ndarray, rng: random.Random) -> Any:
    if not array.ndim:
        return array.reshape(1)
    how = rng.randrange(6)
    if how == 0:
        return array[: rng.randrange(len(array) + 1)]
    if how == 1:
        return np.concatenate([array, array[: rng.randrange(len(array) + 1)]])
    if how == 2:
        return array[:0]
    if how == 3:
        return array.reshape(-1)
    if how == 4:
        return array[None]
    return array.T.copy()


def _retype(array: np.ndarray, rng: random.Random) -> Any:
    kinds = ["<i4", "<i8", "<f4", "<f8", "|b1", "|u1", ">i4", ">f8", "<U3", "<c16", "<f2"]
    with np.errstate(all="ignore"):
        return array.astype(rng.choice(kinds))


def _fortran(array: np.ndarray, rng: random.Random) -> Any:
    return np.asfortranarray(array)


def _remove(array: np.ndarray, rng: random.Random) -> Any:
    return None


_EDITS: list[Edit] = [_put] * 5 + [_nudge, _shuffle, _swap, _swap, _scale, _resize]
_EDITS += [_retype, _fortran, _remove]


def mutate_arrays(file: Path, rng: random.Random) -> None:
    """Change one to three arrays of a file."""
    arrays: dict[str, Any] = dict(read_arrays(file))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        name = rng.choice(sorted(arrays))
        if name == "about" and rng.random() < 0.8:
            text = file.with_suffix(".about")
            text.write_bytes(arrays[name].tobytes())
            _mutate_json(text, rng)
            arrays[name] = np.frombuffer(text.read_bytes(), np.uint8)
            text.unlink()
            continue
        if rng.random() < 0.05:
            other = rng.choice(sorted(arrays))
            arrays[name], arrays[other] = arrays[other], arrays[name]
            continue
        changed = rng.choice(_EDITS)(arrays[name], rng)
        arrays[name] = changed
        if changed is None:
            del arrays[name]
    with open(file, "wb") as stream:
        np.savez(stream, **arrays)


def _mutate_json(file: Path, rng: random.Random) -> None:
    """Another value, of another type perhaps, somewhere; or a change of the text."""
    if rng.random() < 0.2:
        mutate_file(file, rng)
        return
    try:
        value = json.loads(file.read_text())
    except ValueError:  # changed before
        value = {}
    parent, key = _place(value, rng)
    if parent is None:
        value = rng.choice([[], 3, None, "text"])
    elif rng.random() < 0.15:
        del parent[key]
    else:
        parent[key] = rng.choice(
            [None, True, -1, 0, 3, 10**30, 0.5, math.nan, math.inf, "x", [], {}, [[1]], {"a": 1}]
        )
    file.write_text(json.dumps(value))


def _place(value: Any, rng: random.Random) -> tuple[Any, Any]:
    """A random place in a value of JSON: the list or object that holds it, and where."""
    parent, key = None, None
    while isinstance(value, (dict, list)) and value and (parent is None or rng.random() < 0.8):
        parent = value
        key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = parent[key]
    return parent, key


def _replace_by_something_else(file: Path, rng: random.Random) -> None:
    file.unlink()
    how = rng.randrange(4)
    if how == 0:
        os.mkfifo(file)
    elif how == 1:
        file.symlink_to("/dev/zero")
    elif how == 2:
        file.mkdir()


# -- models ------------------------------------------------------------------------------------


def mutate_model(folder: Path, rng: random.Random) -> None:
    """Change a file of a model, and set its checksum right again."""
    name = rng.choice(
        ["grammar.npz"] * 6 + ["weights.npz"] * 2 + ["config.json", "vocabulary.txt"] * 2
    )
    file = folder / name
    if rng.random() < 0.02:
        _replace_by_something_else(folder / rng.choice([name, "checksums.json"]), rng)
        return
    if rng.random() < 0.04:
        mutate_file(file, rng)
    elif name.endswith(".npz"):
        mutate_arrays(file, rng)
    elif name == "config.json":
        _mutate_json(file, rng)
    else:
        _mutate_lines(file, rng)
    checksums = json.loads((folder / "checksums.json").read_text())
    checksums[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(checksums))


def _mutate_lines(file: Path, rng: random.Random) -> None:
    lines = file.read_bytes().split(b"\n")
    how = rng.randrange(5)
    place = rng.randrange(len(lines))
    if how == 0:
        del lines[place]
    elif how == 1:
        lines.insert(place, rng.choice([*lines, b"", b"\xff", b"new", b"a\rb"]))
    elif how == 2:
        lines[place] = rng.choice(lines)
    elif how == 3:
        rng.shuffle(lines)
    else:
        lines[0] = (
            lines[0].rpartition(b" ")[0] + b" " + rng.choice([b"0", b"-1", b"999", b"\xd9\xa3"])
        )
    file.write_bytes(b"\n".join(lines))


def check_model(folder: Path) -> None:
    """Load a model, and parse; AssertionError where a tree is not over the sentence's words."""
    parser = load(folder)
    json.dumps(parser.info(), allow_nan=False)
    assert parser.candidates >= 1
    for tokens in SENTENCES:
        result = next(iter(parser.parse_many([tokens], n_best=_KBEST, candidates=20)))
        assert 1 <= len(result.trees) <= _KBEST, "no tree"
        for scored in result.trees:
            _check_tree(scored.tree, tokens)
            assert math.isfinite(scored.score) and math.isfinite(scored.rnn_score), "a score"
            assert scored.log_probability is None or math.isfinite(scored.log_probability)
        scores = [scored.score for scored in result.trees]
        assert scores == sorted(scores, reverse=True), "out of order"
        vector = parser.embed(result.trees[0].tree)
        assert vector.shape == (parser.parameters.dim,) and np.isfinite(vector).all()


def _check_tree(tree: Any, tokens: list[str]) -> None:
    assert tree.leaves() == tokens, "other words"
    assert tree.label() == "TOP", "another root"
    for node in tree.subtrees():
        assert node.label() and node.label().split() == [node.label()], "a label with spaces"
        assert not node.label().startswith("@"), "an intermediate node"
        assert len(node), "a node without children"


def _make_model(folder: Path) -> None:
    small_parser().save(folder / "model")
    check_model(folder / "model")


# -- caches ------------------------------------------------------------------------------------

LISTED = [words(tree) for tree in trees(8, "dev")]


def _lists(folder: Path) -> list[Any]:
    grammar = small_grammar()
    return candidate_lists(
        LISTED,
        lambda: Decoder(grammar),
        _KBEST,
        categories=len(grammar.pcfg.categories),
        folder=folder,
        n_jobs=1,
        progress=False,
        what="",
    )


def mutate_cache(folder: Path, rng: random.Random) -> None:
    """Change a file of a cache of k-best lists."""
    file = rng.choice(sorted(folder.glob("*.npz")))
    if rng.random() < 0.05:
        mutate_file(file, rng)
    elif rng.random() < 0.03:
        _replace_by_something_else(file, rng)
    else:
        mutate_arrays(file, rng)


def check_cache(folder: Path) -> None:
    """Take the lists from a cache; AssertionError where they are not trees over the sentences."""
    categories = small_grammar().pcfg.categories
    parses = _lists(folder)
    assert len(parses) == len(LISTED)
    for tokens, parse in zip(LISTED, parses, strict=True):
        assert 1 <= len(parse.forest.root) <= _KBEST
        assert np.isfinite(parse.forest.logp).all()
        for candidate in range(len(parse.forest.root)):
            tree = candidate_tree(parse.forest, candidate, tokens, categories)
            assert tree.leaves() == tokens, "other words"
    again = _lists(folder)  # what was damaged is whole now
    assert all(
        a.forest.cat.tobytes() == b.forest.cat.tobytes() for a, b in zip(parses, again, strict=True)
    )


def _make_cache(folder: Path) -> None:
    check_cache(folder)


# -- checkpoints -------------------------------------------------------------------------------

CONFIG = TrainingConfig(candidates=10, dim=5, epochs=2, batch_size=10, n_jobs=1)


@lru_cache(maxsize=1)
def _problem() -> Problem:
    return small_problem(12)


def _train(**more: Any) -> Any:
    problem = _problem()
    return train_network(problem.initial, problem.store, problem.dev, CONFIG, **more)


def _make_checkpoint(folder: Path) -> None:
    _train(epochs=1, on_epoch=lambda state: save_state(folder / "network.npz", state, "key"))
    check_checkpoint(folder)


def mutate_checkpoint(folder: Path, rng: random.Random) -> None:
    """Change the checkpoint in a folder."""
    if rng.random() < 0.03:
        _replace_by_something_else(folder / "network.npz", rng)
    elif rng.random() < 0.05:
        mutate_file(folder / "network.npz", rng)
    else:
        mutate_arrays(folder / "network.npz", rng)


def check_checkpoint(folder: Path) -> None:
    """Go on from a checkpoint; AssertionError where that gives no weights or scores."""
    state = load_state(folder / "network.npz", "key", _problem().initial, betas=len(BETAS))
    done = _train(epochs=2, state=state)
    assert done.epoch == 2 or done.diverged is not None
    assert [entry["epoch"] for entry in done.history] == list(range(1, len(done.history) + 1))
    if done.diverged is None:
        assert all(np.isfinite(array).all() for array in done.best)


MODELS = [
    Target(
        "models",
        _make_model,
        lambda folder, rng: mutate_model(folder / "model", rng),
        lambda folder: check_model(folder / "model"),
    ),
    Target("caches", _make_cache, mutate_cache, check_cache),
    Target("checkpoints", _make_checkpoint, mutate_checkpoint, check_checkpoint),
]

"""Training runs that are killed at chosen moments, in processes forked from one that has imported
everything. Run as a program it reads a list of scenarios as JSON and tells what became of each:

    [{"settings": {...}, "out": "model", "kills": [["replaced", 3], ["step", 2]]}, ...]

The run is killed at the first event, resumed, killed at the second event, and so on, and resumed
once more without a kill. Events are counted from 1 in each process; see `_EVENTS`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nltk.tree import Tree

from rnnparse import folders
from rnnparse.config import TrainingConfig
from rnnparse.trees.brackets import read_trees, write_trees
from rnnparse.trees.embedded import embedded_treebank

if TYPE_CHECKING:
    from rnnparse.training.report import TrainingReport

FILES = ("config.json", "grammar.npz", "vocabulary.txt", "weights.npz", "checksums.json")
TINY: dict[str, Any] = {"candidates": 10, "dim": 5, "epochs": 2, "batch_size": 10, "n_jobs": 1}
"""Settings of a run of a second."""


def write_treebank(path: Path, count: int, part: str = "train") -> str:
    """Write the first trees of a part of the embedded treebank; returns the path as text."""
    write_trees(islice(read_trees(embedded_treebank(part)), count), path)
    return str(path)


def run(
    folder: Path, *, resume: bool = False, overwrite: bool = False, **settings: Any
) -> TrainingReport:
    """Train a model at `folder`/model with a cache beside it."""
    from rnnparse.training.pipeline import train

    config = TrainingConfig(**{**TINY, "cache": str(folder / "cache"), **settings})
    model = folder / "model"
    return train(config, model, resume=resume, overwrite=overwrite, progress=False)


def write_bracketed(path: Path, *texts: str) -> str:
    """Write trees given as text."""
    write_trees([Tree.fromstring(text) for text in texts], path)
    return str(path)


def run_scenarios(scenarios: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each scenario its exit statuses: -9 for killed, 130 for interrupted."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.runs"],
        input=json.dumps(scenarios),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def model_bytes(folder: str | Path) -> dict[str, bytes]:
    """The files of a model that equal runs share."""
    return {name: (Path(folder) / name).read_bytes() for name in FILES}


def logs(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The logs of a run without the seconds."""
    by_file = {}
    for file in sorted(Path(folder).glob("*.jsonl")):
        entries = [json.loads(line) for line in file.read_text().splitlines()]
        by_file[file.name] = [
            {name: value for name, value in entry.items() if name != "seconds"} for entry in entries
        ]
    return by_file


# -- in the process that forks -----------------------------------------------------------------


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _interrupt() -> None:
    """What Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


def _counted(
    owner: Any, name: str, at: int, *, after: bool = False, end: Callable[[], None] = _die
) -> None:
    """Die at call number `at` of a function, before or after it does its work."""
    original, calls = getattr(owner, name), iter(range(1, 1 << 30))

    def counting(*args: Any, **kwargs: Any) -> Any:
        here = next(calls) == at
        if here and not after:
            end()
        result = original(*args, **kwargs)
        if here and after:
            end()
        return result

    setattr(owner, name, counting)


def _half_written(at: int) -> None:
    """Die when half of array file number `at` is written."""
    import io

    import numpy as np

    original, calls = np.savez, iter(range(1, 1 << 30))

    def savez(file: Any, **arrays: Any) -> None:
        if next(calls) == at:
            whole = io.BytesIO()
            original(whole, **arrays)
            file.write(whole.getvalue()[: whole.tell() // 2])
            file.flush()
            _die()
        original(file, **arrays)

    np.savez = savez  # type: ignore[assignment]


def _half_removed(at: int) -> None:
    """Die when one file of folder number `at` that is removed is gone."""
    calls = iter(range(1, 1 << 30))
    original = folders.remove_known

    def remove_known(path: Path, known: folders.Known) -> bool:
        if path.is_dir() and next(calls) == at:
            sorted(path.iterdir())[0].unlink()
            _die()
        return original(path, known)

    folders.remove_known = remove_known


def _after_milliseconds(milliseconds: int) -> None:
    timer = threading.Timer(milliseconds / 1000, _die)
    timer.daemon = True
    timer.start()


def _at_step(at: int, end: Callable[[], None] = _die) -> None:
    from rnnparse.models.cvg import CVG

    _counted(CVG, "loss_gradients", at, end=end)


def _in_list(at: int) -> None:
    from rnnparse.inference.decoder import Decoder

    _counted(Decoder, "parse", at, end=_interrupt)


_EVENTS: dict[str, Callable[[int], None]] = {
    "replacing": lambda at: _counted(os, "replace", at),
    "replaced": lambda at: _counted(os, "replace", at, after=True),
    "renaming": lambda at: _counted(folders, "_swap", at),
    "renamed": lambda at: _counted(folders, "_swap", at, after=True),
    "removing": _half_removed,
    "unlinked": lambda at: _counted(Path, "unlink", at, after=True),
    "writing": _half_written,
    "step": _at_step,
    "milliseconds": _after_milliseconds,
    "interrupted step": lambda at: _at_step(at, _interrupt),
    "interrupted list": _in_list,
}


def _train(
    settings: dict[str, Any],
    out: str,
    resume: bool,
    kill: tuple[str, int] | None,
    overwrite: bool,
) -> int:
    """Train in a process of its own; its exit status, -9 if it was killed, 130 if interrupted."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            from rnnparse.training import kbest_cache
            from rnnparse.training.pipeline import train

            kbest_cache.PART = 8
            if kill is not None:
                _EVENTS[kill[0]](kill[1])
            config = TrainingConfig(**settings)
            train(config, out, resume=resume, overwrite=overwrite, progress=False)
            status = 0
        except KeyboardInterrupt:
            status = 130
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _scenario(
    settings: dict[str, Any], out: str, kills: list[tuple[str, int]], overwrite: bool = False
) -> dict[str, Any]:
    statuses = []
    for i, kill in enumerate([*kills, None]):
        statuses.append(_train(settings, out, i > 0, kill, overwrite))
    return {"out": out, "kills": kills, "statuses": statuses}


def _warm_up() -> None:
    """Load the compiled kernels before the first fork; but run no TensorFlow, which has threads."""
    import numpy as np

    from rnnparse.models.objective import loss_gradients
    from rnnparse.training.dev_selection import score_all
    from tests.training.problems import small_problem

    problem = small_problem(12)
    weights = problem.initial
    score_all(weights, problem.store)
    for array in weights:
        array.setflags(write=False)  # as TensorFlow hands them over
    batch = problem.store.batch(np.arange(len(problem.store)))
    loss_gradients(batch, weights)


if __name__ == "__main__":
    import rnnparse.models.cvg
    import rnnparse.optim.adagrad
    import rnnparse.training.pipeline  # noqa: F401

    _warm_up()
    gc.collect()
    gc.freeze()  # or the first collection of each child would copy all that is loaded
    json.dump([_scenario(**scenario) for scenario in json.load(sys.stdin)], sys.stdout)

"""What tests in several folders share: data from outside the project, and a trained model."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from rnnparse.cli import main

# Shells let jobs in the background ignore it, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers of a test run share the cores already, and threads that wait for work keep them busy.
for library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# While modules are imported, the collector would only go through more and more that stays.
gc.disable()

settings.register_profile("all", deadline=None)  # a busy machine is no error in the code
settings.register_profile("quick", settings.get_profile("all"), max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples in runs without the slow tests."""
    settings.load_profile("quick" if config.getoption("markexpr") == "not slow" else "all")


SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Leave what is garbage by now to the end of the process: collecting it takes seconds."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real treebanks, vectors and EVALB outputs, or skip."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with real treebanks is absent")
    return SHARED


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model; a folder of its own for every module."""
    from tests.small_parser import small_parser

    folder = tmp_path_factory.mktemp("small") / "model"
    small_parser().save(folder)
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on the embedded treebank for a few epochs, as `rnnparse train` does it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # all processes of a run share one
        folder = folder.parent
    with FileLock(folder / "trained.lock"):
        model = folder / "trained" / "model"
        if not model.exists():
            cache = str(folder / "trained" / "cache")
            few = ["--epochs", "8"]  # enough to be near the best, which takes three times as long
            assert main(["train", "--out", str(model), "--cache", cache, *few]) == 0
    return model

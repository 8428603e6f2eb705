"""The same studies on local clusters of Ray and Dask."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rnnparse.errors import StudyError
from rnnparse.study.study import Study
from tests.study.equal_records import without_times

PACKAGES = {"ray": "ray", "dask": "distributed"}
clusters = pytest.mark.parametrize("backend", PACKAGES)


@pytest.fixture(autouse=True)
def installed(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip where the backend is absent; have Ray tell nobody of its use."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    pytest.importorskip(PACKAGES[backend], reason=f"pip install 'rnnparse[{backend}]'")


def make_study(folder: Path, home: int, **options: Any) -> Study:
    """A study in which one trial kills its process, but not where it is at home."""

    def run(config: dict[str, Any], seed: int) -> Iterator[Any]:
        x = 1.0
        for _ in range(8):
            yield {"objective": x * x}
            x -= 2 * config["rate"] * x
        if config["rate"] == 0.3:
            raise ValueError("three")
        if config["rate"] == 0.4 and os.getpid() != home:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"epoch": 1, "threads": os.environ["TF_NUM_INTRAOP_THREADS"]}

    rates = [0.1, 0.2, 0.3, 0.4, 2e3, 0.6]
    return Study({"rate": rates}, run, folder, n_jobs=2, **options)


@pytest.mark.slow
@clusters
def test_a_cluster_gives_what_processes_give(tmp_path: Path, backend: str) -> None:
    expected = make_study(tmp_path / "here", os.getpid()).run(progress=False)
    study = make_study(tmp_path / "there", os.getpid(), backend=backend)
    result = study.run(progress=False)
    for one, other in zip(result, expected, strict=True):
        if one["config"]["rate"] == 0.4:  # clusters do not tell by which signal
            assert (one["status"], other["status"]) == ("failed", "out of memory")
            assert one["error"]["message"] == "the worker died while it ran the trial"
        else:
            assert without_times(one) == without_times(other)
    assert {record["status"] for record in result} == {"finished", "failed", "diverged"}
    lines = (tmp_path / "there" / "records.jsonl").read_bytes()
    assert study.run(progress=False) == result
    assert (tmp_path / "there" / "records.jsonl").read_bytes() == lines


@clusters
def test_an_address_where_no_cluster_is_is_an_error_at_once(tmp_path: Path, backend: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        study = make_study(tmp_path, os.getpid(), backend=backend, address=address)
        with pytest.raises(StudyError, match=rf"no {backend.title()} cluster answers at {address}"):
            study.run(progress=False)


@contextmanager
def running_cluster(backend: str) -> Iterator[str]:
    """A cluster that somebody else has started: its address."""
    if backend == "ray":
        from ray.cluster_utils import Cluster

        head = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        try:
            yield head.address
        finally:
            head.shutdown()
    else:
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            yield cluster.scheduler_address


@pytest.mark.slow
@clusters
def test_a_cluster_is_found_by_its_address(tmp_path: Path, backend: str) -> None:
    def run(config: dict[str, Any], seed: int) -> list[float]:
        return [1.0, config["x"]]

    with running_cluster(backend) as address:
        study = Study({"x": range(5)}, run, tmp_path, backend=backend, address=address)
        records = study.run(progress=False)
    assert [record["updates"]["objective"] for record in records] == [
        [1.0, trial.config["x"]] for trial in study.trials
    ]

"""Studies of plain functions: whatever becomes of a trial, its worker or the driver."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rnnparse.cli import main
from rnnparse.errors import ConfigError, MissingExtraError, StudyError
from rnnparse.parser_study.grid import Grid
from rnnparse.study.curve import Curve
from rnnparse.study.manifest import read_study
from rnnparse.study.records import RecordFile, data_hash, trial_id
from rnnparse.study.search_space import Space
from rnnparse.study.study import Study
from rnnparse.threads import job_count
from tests.study.equal_records import without_times

# Local functions are sent to workers as they are; those of this module by its name.


def outcomes() -> Callable[[dict[str, Any], int], Any]:
    """A trial function that ends in any way there is."""

    def yields(*entries: Any) -> Iterator[Any]:
        yield from entries

    def fails(error: BaseException) -> Iterator[float]:
        yield 1.0
        raise error

    ways: dict[str, Callable[[int], Any]] = {
        "yields": lambda seed: yields(2.0, {"objective": 1.0, "norm": seed}, {"epoch": 1, "f1": 7}),
        "curve": lambda seed: Curve({"objective": [3.0, 2.0]}, [{"epoch": 1, "f1": 8}]),
        "history": lambda seed: SimpleNamespace(history={"loss": [3.0, 2.0], "f1": [1, 2]}),
        "list": lambda seed: [2.0, 1.0],
        "nan": lambda seed: yields(1.0, math.nan, 1 / 0 if seed < 0 else 2.0),
        "infinite curve": lambda seed: Curve({"objective": [1.0, math.inf, 1.0]}),
        "grows": lambda seed: (10.0**i for i in range(1 << 30)),
        "raises": lambda seed: fails(ValueError("bad\n  thing")),
        "at once": lambda seed: [][seed],
        "memory": lambda seed: fails(MemoryError("no 8 GB")),
        "exhausted": lambda seed: fails(type("ResourceExhaustedError", (Exception,), {})("OOM")),
        "exit": lambda seed: fails(SystemExit(3)),
        "nothing": lambda seed: None,
        "no number": lambda seed: yields(1.0, {"objective": "x"}),
    }
    return lambda config, seed: ways[config["way"]](seed)


WAYS = {
    "yields": ("finished", None),
    "curve": ("finished", None),
    "history": ("finished", None),
    "list": ("finished", None),
    "nan": ("diverged", None),
    "infinite curve": ("diverged", None),
    "grows": ("diverged", None),
    "raises": ("failed", {"type": "ValueError", "message": "bad thing"}),
    "at once": ("failed", {"type": "IndexError", "message": "list index out of range"}),
    "memory": ("out of memory", {"type": "MemoryError", "message": "no 8 GB"}),
    "exhausted": ("out of memory", {"type": "ResourceExhaustedError", "message": "OOM"}),
    "exit": ("failed", {"type": "SystemExit", "message": "3"}),
    "nothing": ("failed", "the trial function returned None; expected a Curve"),
    "no number": ("failed", "updates.objective[0]: expected `float | null`"),
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """A study of all outcomes, and its records by outcome."""
    folder = tmp_path_factory.mktemp("ways") / "study"
    data = {"train": "a1", "dev": "b2"}
    study = Study(
        Space({"way": list(WAYS)}, (5,)), outcomes(), folder, n_jobs=2, data=data, gold=[3, 4]
    )
    records = study.run(progress=False)
    assert [record["id"] for record in records] == [trial.id for trial in study.trials]
    return folder, {record["config"]["way"]: record for record in records}


Ways = tuple[Path, dict[str, dict[str, Any]]]


@pytest.mark.parametrize("way", WAYS)
def test_every_outcome_is_a_result(ways: Ways, way: str) -> None:
    record = ways[1][way]
    status, error = WAYS[way]
    assert record["status"] == status
    if isinstance(error, str):
        assert record["error"]["message"].startswith(error)
    else:
        assert record["error"] == error


def test_curves_come_from_anything_that_gives_one(ways: Ways) -> None:
    curves = {way: (record["updates"], record["epochs"]) for way, record in ways[1].items()}
    assert curves["yields"][0] == {"objective": [2.0, 1.0], "norm": [None, 5]}
    assert curves["yields"][1] == [{"epoch": 1, "f1": 7, "seconds": pytest.approx(0, abs=1)}]
    assert curves["curve"] == ({"objective": [3.0, 2.0]}, [{"epoch": 1, "f1": 8}])
    assert curves["history"] == (
        {},
        [{"epoch": 1, "loss": 3.0, "f1": 1}, {"epoch": 2, "loss": 2.0, "f1": 2}],
    )
    assert curves["list"][0] == {"objective": [2.0, 1.0]}
    # A trial that diverges ends there; what came before a failure is kept.
    assert curves["nan"][0] == {"objective": [1.0, None]}
    assert curves["grows"][0] == {"objective": [10.0**i for i in range(8)]}
    assert curves["raises"][0] == {"objective": [1.0]}
    assert curves["nothing"] == ({}, [])


def test_the_folder_says_what_was_run_on_what(ways: Ways) -> None:
    folder, records = ways
    about = read_study(folder)
    assert about["name"] == "study" and about["gold"] == [3, 4]
    assert about["data"] == {"train": "a1", "dev": "b2"}
    assert about["space"] == {"axes": {"way": list(WAYS)}, "seeds": [5], "fixed": {}}
    record = records["yields"]
    assert record["id"] == trial_id({"way": "yields"}, 5) and record["seed"] == 5
    assert record["data"] == data_hash(about["data"])
    assert set(record["versions"]) == {"rnnparse", "tensorflow", "keras", "numpy", "python"}
    assert record["versions"] == about["versions"]
    assert record["host"] and 0 <= record["seconds"] < 60

    def refuse(text: str) -> None:
        raise AssertionError(text)

    lines = (folder / "records.jsonl").read_text().splitlines()
    assert len(lines) == len(WAYS)
    for line in lines:
        json.loads(line, parse_constant=refuse)  # called for NaN and Infinity


# -- resuming ------------------------------------------------------------------------------------


def noted(folder: Path) -> Callable[[dict[str, Any], int], Any]:
    """A trial function that leaves a note of each call, and its process, in a folder."""
    folder.mkdir(exist_ok=True)

    def run(config: dict[str, Any], seed: int) -> list[float]:
        (folder / f"{config['x']} {seed} {os.getpid()} {time.time_ns()}").touch()
        return [1.0 + config["x"], seed]

    return run


def calls(folder: Path) -> list[str]:
    return sorted(" ".join(path.name.split()[:2]) for path in folder.iterdir())


def test_a_study_runs_what_is_new_and_keeps_what_is_there(tmp_path: Path) -> None:
    function = noted(tmp_path / "calls")
    first = Study({"x": [1, 2]}, function, tmp_path / "study", n_jobs=2).run(progress=False)
    assert calls(tmp_path / "calls") == ["1 0", "2 0"]
    again = Study({"x": [1, 2]}, function, tmp_path / "study", n_jobs=2).run(progress=False)
    assert again == first and len(calls(tmp_path / "calls")) == 2
    grown = Study(Space({"x": [3, 2]}, (0, 7)), function, tmp_path / "study", n_jobs=2)
    assert [(t.config["x"], t.seed) for t in grown.plan().trials] == [
        (t.config["x"], t.seed) for t in grown.trials if (t.config["x"], t.seed) != (2, 0)
    ]
    records = grown.run(progress=False)
    assert calls(tmp_path / "calls") == ["1 0", "2 0", "2 7", "3 0", "3 7"]
    assert [r["id"] for r in records] == [t.id for t in grown.trials]
    assert all(record in [*records, *first] for record in grown.records())
    assert len(grown.records()) == 5
    # What is there is the same to the byte.
    assert (tmp_path / "study" / "records.jsonl").read_bytes().count(b"\n") == 5
    assert first[0] in grown.records() and first[1] in grown.records()
    about = read_study(tmp_path / "study")
    assert about["space"]["axes"] == {"x": [3, 2]} and about["space"]["seeds"] == [0, 7]


def test_a_trial_may_change_its_config_but_not_the_record_of_it(tmp_path: Path) -> None:
    def consume(config: dict[str, Any], seed: int) -> Iterator[float]:
        while config["layers"]:
            yield float(config["layers"].pop())

    records = Study({"layers": [[3, 2, 1], [8]]}, consume, tmp_path, n_jobs=1).run(progress=False)
    assert {str(r["config"]["layers"]): len(r["updates"]["objective"]) for r in records} == {
        "[3, 2, 1]": 3,
        "[8]": 1,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode")
def test_names_that_are_not_utf_8_are_carried_through(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    space = Space({"x": [1, 2]}, fixed={"treebank": os.fsdecode(b"/data/caf\xe9.mrg")})
    study = Study(space, outcomes(), folder, command=os.fsdecode(b"run caf\xe9"), n_jobs=2)
    study.run(progress=False)
    about = read_study(folder)
    assert os.fsencode(about["name"]) == b"caf\xe9"
    assert os.fsencode(about["space"]["fixed"]["treebank"]) == b"/data/caf\xe9.mrg"
    assert main(["study", "report", str(folder)]) == 0
    assert main(["study", "show", str(folder)]) == 0
    shown = "caf\N{REPLACEMENT CHARACTER}: 2 of 2 trials have ended"
    assert shown.encode() in capsysbinary.readouterr().out
    page = (folder / "report.html").read_text("utf-8")
    assert all(f"caf\N{REPLACEMENT CHARACTER}{end}" in page for end in (":", ".mrg"))
    study.run(progress=False)  # the same settings
    with pytest.raises(ConfigError, match=r"name: .* is not Unicode text"):
        Study({"x": [1]}, outcomes(), tmp_path, name="\ud800")


def test_a_study_of_other_data_or_settings_is_refused(tmp_path: Path) -> None:
    data = {"train": "a1", "dev": "b2"}
    space = Space({"x": [1]}, fixed={"size": 50})
    function = noted(tmp_path / "calls")
    Study(space, function, tmp_path / "study", data=data).run(progress=False)
    created = read_study(tmp_path / "study")["created"]
    for other in (data | {"dev": "c3"}, data | {"test": "c3"}, {"train": "a1"}, None):
        with pytest.raises(StudyError, match=r"study: its study has other data: \w+ was"):
            Study(space, function, tmp_path / "study", data=other).run()
    with pytest.raises(StudyError, match="other settings: size was 50, now it is 60; give ano"):
        Study(Space({"x": [1]}, fixed={"size": 60}), function, tmp_path / "study", data=data).run()
    assert read_study(tmp_path / "study")["data"] == data
    Study(space, function, tmp_path / "study", data=data).run(progress=False)
    assert read_study(tmp_path / "study")["created"] == created
    assert calls(tmp_path / "calls") == ["1 0"]


def test_failed_trials_run_again_on_demand(tmp_path: Path) -> None:
    note = noted(tmp_path / "calls")
    cure = tmp_path / "cure"

    def run(config: dict[str, Any], seed: int) -> list[float]:
        if config["x"] % 2 and not cure.exists():
            raise MemoryError("no 8 GB") if config["x"] == 1 else ValueError("bad")
        if config["x"] == 4:
            return [1.0, math.nan]
        return note(config, seed)

    def study(**options: Any) -> Study:
        return Study({"x": range(5)}, run, tmp_path / "study", n_jobs=2, **options)

    statuses = ["finished", "out of memory", "finished", "failed", "diverged"]
    first = {r["config"]["x"]: r for r in study().run(progress=False)}
    assert [first[x]["status"] for x in range(5)] == statuses
    study().run(progress=False)
    assert calls(tmp_path / "calls") == ["0 0", "2 0"]
    assert study().plan().trials == [] and study().plan().ended == 5
    assert {t.config["x"] for t in study(retry=True).plan().trials} == {1, 3}
    again = study(retry=True).run(progress=False)  # they fail again
    assert {r["config"]["x"]: r["status"] for r in again} == dict(enumerate(statuses))
    cure.touch()
    # A trial that the space no longer has is left as it is.
    some = Study({"x": [0, 1, 2]}, run, tmp_path / "study", n_jobs=2, retry=True)
    assert {r["status"] for r in some.run(progress=False)} == {"finished"}
    assert calls(tmp_path / "calls") == ["0 0", "1 0", "2 0"]
    records = {r["config"]["x"]: r for r in study().records()}
    assert len(study().records()) == 5
    assert records[3]["status"] == "failed"
    assert all(records[x] == first[x] for x in (0, 2, 4))


def test_a_grid_is_a_space(tmp_path: Path) -> None:
    grid = Grid.from_options({"optimizer": "sgd", "seeds": "3"}, fixed={"kbest": 10})
    [record] = Study(grid, lambda config, seed: [config["l2"]], tmp_path).run(progress=False)
    assert record["config"]["optimizer"] == "sgd" and record["seed"] == 3
    assert read_study(tmp_path)["space"] == grid.to_dict()


def test_a_study_tells_its_trials_and_the_command_of_each(tmp_path: Path) -> None:
    def study(values: list[int]) -> Study:
        return Study(
            {"x": values},
            lambda config, seed: [1.0],
            tmp_path,
            trial_command=lambda trial: f"run {trial.config['x']}",
        )

    first, second = study([1, 2]), study([3])
    for one in (first, second):
        one.run(progress=False)
        assert read_study(tmp_path)["trials"] == [trial.id for trial in one.trials]
    # Trials that the space no longer has keep their commands.
    commands = {trial.id: f"run {trial.config['x']}" for s in (first, second) for trial in s.trials}
    assert read_study(tmp_path)["commands"] == commands


def test_baselines_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    known = {"chance": 0.5, "lost": math.nan}
    Study({"x": [1]}, lambda config, seed: [1.0], tmp_path, baselines=known).run(progress=False)
    assert read_study(tmp_path)["baselines"] == {"chance": 0.5}


def test_seeds_are_no_axis(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use seeds"):
        Study({"rate": [0.1], "seed": [0, 1]}, lambda config, seed: [1.0], tmp_path)


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    study = Study({"x": [1]}, noted(tmp_path / "calls"), tmp_path / "study")
    with RecordFile(tmp_path / "study"), pytest.raises(StudyError, match="another process runs"):
        study.run()
    assert calls(tmp_path / "calls") == []


# -- workers -------------------------------------------------------------------------------------


def test_workers_have_one_thread_and_leave_ctrl_c_to_the_driver(tmp_path: Path) -> None:
    def look(config: dict[str, Any], seed: int) -> Iterator[Any]:
        import signal

        names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
        yield {
            "epoch": 1,
            "environment": [os.environ.get(name) for name in (*names, "OPENBLAS_NUM_THREADS")],
            "loaded": "".join(("tensor", "flow")) in sys.modules,  # naming it would load it
            "ignored": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            "process": os.getpid(),
        }

    for jobs in (1, -1):  # with one, too, a trial has another process
        study = Study({"x": range(2)}, look, tmp_path / str(jobs), n_jobs=jobs)
        for record in study.run(progress=False):
            [result] = record["epochs"]
            assert result["environment"] == ["1"] * 4
            assert result["ignored"] and not result["loaded"]
            assert result["process"] != os.getpid()


def test_progress_bars_of_workers_leave_no_locks_behind(
    tmp_path: Path,
) -> None:
    def look(config: dict[str, Any], seed: int) -> Iterator[Any]:
        from multiprocessing.resource_tracker import _resource_tracker

        from tqdm import tqdm

        kept: list[Any] = []
        _resource_tracker._send = lambda *words: kept.append(words)
        steps = len(list(tqdm(range(3), disable=True)))
        yield {"epoch": 1, "steps": steps, "kept": len(kept)}

    [record] = Study({"x": [1]}, look, tmp_path, n_jobs=1).run(progress=False)
    assert record["epochs"][0]["steps"] == 3 and record["epochs"][0]["kept"] == 0


def test_one_job_is_one_trial_at_a_time(tmp_path: Path) -> None:
    def wait(config: dict[str, Any], seed: int) -> Iterator[Any]:
        began = time.monotonic()
        time.sleep(0.05)
        yield {"epoch": 1, "began": began, "ended": time.monotonic()}

    records = Study({"x": range(6)}, wait, tmp_path, n_jobs=1).run(progress=False)
    spans = sorted((r["epochs"][0]["began"], r["epochs"][0]["ended"]) for r in records)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(spans))
    # In the order of the space.
    order = sorted(records, key=lambda record: record["epochs"][0]["began"])
    assert order == records


DEATHS = {
    "SIGKILL": ("out of memory", "killed, as systems do when memory runs out"),
    "SIGSEGV": ("failed", r"ended with SIGSEGV(-11)"),
    "EXIT": ("failed", r"ended with EXIT(3)"),
}


def deadly(folder: Path) -> Callable[[dict[str, Any], int], Any]:
    note = noted(folder)

    def run(config: dict[str, Any], seed: int) -> Any:
        import resource
        import signal

        note({"x": config["way"]} if isinstance(config["way"], int) else {"x": 0}, seed)
        yield 1.0
        if config["way"] == "EXIT":
            os._exit(3)
        if isinstance(config["way"], str):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), signal.Signals[config["way"]])
        time.sleep(0.1)
        yield 0.5

    return run


@pytest.mark.skipif(os.name == "nt", reason="there are no signals")
@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_trial_that_takes_its_process_with_it_is_found(tmp_path: Path, jobs: int) -> None:
    ways = [*range(1, 6), *DEATHS]
    study = Study({"way": ways}, deadly(tmp_path / "calls"), tmp_path / "study", n_jobs=jobs)
    for record in study.run(progress=False):
        way = record["config"]["way"]
        if way in DEATHS:
            status, message = DEATHS[way]
            assert (record["status"], record["error"]["type"]) == (status, way)
            assert message in record["error"]["message"]
            assert record["updates"] == {} and record["versions"]["numpy"]
        else:
            assert record["status"] == "finished" and record["updates"]["objective"] == [1.0, 0.5]
    assert set(calls(tmp_path / "calls")) == {f"{i} 0" for i in range(6)}


class Unloadable:
    """A trial function that calls another function where it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call

    def __call__(self, config: dict[str, Any], seed: int) -> None:
        pass


def test_a_function_that_cannot_be_sent_or_loaded_is_named(tmp_path: Path) -> None:
    lock = __import__("threading").Lock()
    with pytest.raises(ConfigError, match="cannot be pickled for other processes: TypeError"):
        Study({"x": [1]}, lambda config, seed: lock, tmp_path)
    study = Study({"x": [1]}, Unloadable(__import__, "no_such_module"), tmp_path, n_jobs=1)
    with pytest.raises(StudyError, match="workers cannot load the trial function: ModuleNotFound"):
        study.run(progress=False)
    assert study.records() == []  # no trial is to blame


@pytest.mark.parametrize("values", [[1], pytest.param([1, 2], marks=pytest.mark.slow)])
def test_a_function_that_ends_the_workers_is_named(tmp_path: Path, values: list[int]) -> None:
    study = Study({"x": values}, Unloadable(os._exit, 3), tmp_path)
    with pytest.raises(StudyError, match=r"workers die before they begin a trial: .*EXIT\(3\)"):
        study.run(progress=False)
    assert study.records() == []


def test_backends_and_their_packages_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def study(**options: Any) -> Study:
        return Study({"x": [1]}, outcomes(), tmp_path, **options)

    with pytest.raises(ConfigError, match="backend must be one of processes, ray, dask, not 'x'"):
        study(backend="x")
    with pytest.raises(ConfigError, match="n_jobs must be at least -1, not -2"):
        study(n_jobs=-2)
    with pytest.raises(ConfigError, match="an address is for --backend ray or dask"):
        study(address="localhost:1")
    for backend, package in (("ray", "ray"), ("dask", "distributed")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            problem = rf"package {package}.*pip install 'rnnparse\[{backend}\]'"
            with pytest.raises(MissingExtraError, match=problem):
                study(backend=backend).run(progress=False)


# -- plans ---------------------------------------------------------------------------------------


def test_a_plan_estimates_by_what_trials_have_taken(tmp_path: Path) -> None:
    from rnnparse.study.records import make_record

    space = {"x": [1, 2, 3, 4]}
    error = {"type": "E", "message": ""}
    study = Study(space, outcomes(), tmp_path, n_jobs=2)
    plan = study.plan()
    assert (len(plan.trials), plan.ended, plan.n_jobs, plan.seconds) == (4, 0, 2, None)
    costed = Study(space, outcomes(), tmp_path, n_jobs=2, cost=lambda config: config["x"])
    assert costed.plan().seconds == 5.0
    with RecordFile(tmp_path) as file:
        file.append(make_record({"x": 1}, 0, "finished", Curve(), seconds=10.0))
        file.append(make_record({"x": 2}, 0, "failed", Curve(), error=error, seconds=1000.0))
    plan = study.plan()
    assert [t.config["x"] for t in plan.trials] == [
        t.config["x"] for t in study.trials if t.config["x"] > 2
    ]
    assert (plan.ended, plan.seconds) == (2, 10.0)
    assert costed.plan().seconds == 40.0  # no sooner than the longest: 35 s would be half of all
    for backend, cores in (("processes", job_count(0)), ("ray", 0), ("dask", 0)):
        for every in (0, -1):
            study = Study(space, outcomes(), tmp_path, backend=backend, n_jobs=every)
            assert study.plan().n_jobs == cores
    one = Study({"x": [1, 2]}, outcomes(), tmp_path, n_jobs=1).plan()
    assert (one.trials, one.ended, one.seconds) == ([], 2, 0.0)
    many = Study({"x": [5, 6, 7, 8, 9]}, outcomes(), tmp_path, n_jobs=2, cost=lambda c: 1.0).plan()
    assert many.seconds == 25.0


def test_times_and_hosts_alone_may_differ(ways: Ways, tmp_path: Path) -> None:
    records = ways[1]
    data = {"train": "a1", "dev": "b2"}
    again = Study(Space({"way": list(WAYS)}, (5,)), outcomes(), tmp_path, n_jobs=1, data=data)
    for record in again.run(progress=False):
        assert without_times(record) == without_times(records[record["config"]["way"]])


def test_studies_their_files_and_curves_are_shown_in_short(tmp_path: Path) -> None:
    study = Study({"x": [1, 2]}, print, tmp_path)
    assert repr(study) == f"Study('{tmp_path}', 2 trials)"
    assert repr(study.file) == f"RecordFile('{tmp_path}')"
    assert repr(Curve({"loss": [1.0] * 1000}, [{"epoch": 1}])) == "Curve(1000 updates, 1 epochs)"

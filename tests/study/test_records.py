"""Curves, records, and the file that holds them, whatever happens to its driver."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from rnnparse.errors import ConfigError, StudyError
from rnnparse.study.curve import GROWTH, Curve, latest_values, plain
from rnnparse.study.manifest import read_study, write_study
from rnnparse.study.records import (
    RecordFile,
    data_hash,
    make_record,
    trial_id,
)
from rnnparse.study.schema import STATUSES
from rnnparse.study.search_space import Space
from tests.study.equal_records import without_times

NAN, INF = math.nan, math.inf


def record(i: int, **more: Any) -> dict[str, Any]:
    curve = Curve({"objective": [3.0, 2.0 + i]}, [{"epoch": 1, "dev_f1": 70.0, "seconds": 2.5}])
    return make_record({"rate": i}, 0, "finished", curve, **more)


# -- curves --------------------------------------------------------------------------------------


def test_entries_of_all_kinds_make_a_curve() -> None:
    curve = Curve()
    curve.add(3)
    curve.add({"objective": np.float32(0.1), "violated": 5})
    curve.add({"objective": np.array(NAN)})
    curve.add({"epoch": 1, "dev_f1": np.float64(70), "dev_counts": np.array([[1, 2]])})
    curve.add({"convex": {"optimum": 1.0, "gap": [INF, 2]}})
    assert curve.updates == {"objective": [3, 0.1, None], "violated": [None, 5, None]}
    assert curve.epochs == [{"epoch": 1, "dev_f1": 70.0, "dev_counts": [[1, 2]]}]
    assert curve.convex == {"optimum": 1.0, "gap": [None, 2]}
    for bad in ("3", [3.0], {"objective": "x"}, object()):
        with pytest.raises(TypeError, match=r"expected `float|cannot be recorded"):
            curve.add(bad)


def test_arrays_of_one_element_are_numbers() -> None:
    curve = Curve()
    curve.add(np.array([[0.5]]))
    curve.add({"objective": np.array([0.1], np.float32), "violated": np.int64(2)})
    curve.add({"epoch": np.array([1]), "loss": np.array([2.0]), "by_class": [0.3]})
    assert curve.updates == {"objective": [0.5, 0.1], "violated": [None, 2]}
    assert curve.epochs == [{"epoch": 1, "loss": 2.0, "by_class": [0.3]}]


def test_numbers_beyond_floats_are_not_finite() -> None:
    curve = Curve()
    curve.add(1)
    curve.add(10**400)
    assert curve.updates == {"objective": [1, None]}
    assert curve.diverged()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"epoch": "one"}, r"epochs\[0\].epoch: expected `float`, got `str`"),
        ({"epoch": None}, "epoch: expected `float`, got `null`"),
        ({"epoch": 1, "loss": [1.0, 2.0]}, "loss: expected `float . null`, got `array`"),
        ({"epoch": 1, "dev_f1": "70"}, "dev_f1: expected `float . null`, got `str`"),
        ({"objective": True}, r"updates.objective\[0\]: expected `float . null`, got `bool`"),
        ({"convex": 3}, "convex: expected `object . null`, got `int`"),
        ({"convex": {"optimum": 1.0, "gap": 2.0}}, "convex.gap: expected `array . null`"),
        ({"epoch": 1, "seconds": -1}, "seconds: expected `float` >= 0"),
        ({"epoch": 1, "dev_counts": [[2, 1]]}, "no more matched brackets than brackets"),
        ({"epoch": 1, "dev_counts": [[1, 2.0]]}, r"dev_counts\[0\]\[1\]: expected `int`"),
        ({"epoch": 1, "name": "caf\ud800"}, "is not Unicode text"),
    ],
)
def test_what_reports_cannot_read_is_no_entry(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Curve().add(entry)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (({"objective": 3.0},), "updates.objective: expected `array`, got `float`"),
        (({"objective": [1.0, "x"]},), r"objective\[1\]: expected `float . null`, got `str`"),
        (({}, [{"epoch": 1, "loss": "x"}]), r"epochs\[0\].loss: expected `float . null`"),
        (({}, [3.0]), r"epochs\[0\]: expected `object`"),
        (({}, [], [1.0]), "convex: expected `object . null`"),
    ],
)
def test_what_reports_cannot_read_is_no_curve(parts: tuple[Any, ...], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Curve(*parts)


def test_a_history_of_keras_is_a_curve() -> None:
    curve = Curve.from_history({"loss": [2.0, 1.0], "val_loss": [2.5, NAN]})
    assert curve.epochs == [
        {"epoch": 1, "loss": 2.0, "val_loss": 2.5},
        {"epoch": 2, "loss": 1.0, "val_loss": None},
    ]
    assert not curve.diverged()
    assert latest_values(curve.updates, curve.epochs) == {"loss": 1.0, "val_loss": None}


def test_a_history_may_have_validated_every_third_epoch_only() -> None:
    history = {"loss": [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], "val_loss": [5.5, 2.5]}
    epochs = Curve.from_history(history).epochs
    assert [epoch["loss"] for epoch in epochs] == history["loss"]
    assert [epoch["epoch"] for epoch in epochs if "val_loss" in epoch] == [3, 6]
    assert Curve.from_history({"loss": [1.0], "val_loss": []}).epochs == [{"epoch": 1, "loss": 1.0}]
    assert Curve.from_history({}).epochs == []


@pytest.mark.parametrize(
    ("values", "diverged"),
    [
        ([], False),
        ([1.0, 2.0, 1e5], False),
        ([1.0, 1.1 * GROWTH], True),
        ([1.0, 1.1 * GROWTH, 1.0], True),
        ([2.0, 1.1 * GROWTH], False),
        ([-2.0, 1.5 * GROWTH], False),
        ([-2.0, 2.1 * GROWTH], True),
        ([1.0, -1e9], False),
        ([1.0, NAN], True),
        ([1.0, -INF], True),
        ([NAN, 1.0], True),
        ([0.0, 0.0, 1.0], False),  # it starts at the first that is not 0
        ([0.0, 1.0, 2 * GROWTH], True),
        ([0.0], False),
    ],
)
def test_a_curve_diverges_when_it_is_not_finite_or_grows_beyond_measure(
    values: list[float], diverged: bool
) -> None:
    assert Curve({"objective": list(values)}).diverged() is diverged
    assert Curve({"loss": list(values), "other": [NAN]}).diverged() is diverged
    assert Curve({"objective": [1.0], "loss": list(values)}).diverged() is False
    epochs = [{"epoch": 1 + i, "loss": value} for i, value in enumerate(values)]
    assert Curve(epochs=epochs).diverged() is diverged
    streamed = Curve()
    result = []
    for value in values:
        streamed.add(value)
        result.append(streamed.diverged(last=1))
    assert any(result) is diverged


def test_plain_values_are_what_json_holds() -> None:
    value = {
        1: (np.int64(1), np.bool_(True), np.float32(0.3), NAN, -INF, None, "ø"),
        "array": np.array([[1, 2], [3, 4]], np.int32),
        "single": np.array([0.1, np.nan], np.float32),
        "scalar": np.array(7.0),
    }
    assert plain(value) == {
        "1": [1, True, 0.3, None, None, None, "ø"],
        "array": [[1, 2], [3, 4]],
        "single": [0.1, None],
        "scalar": 7.0,
    }
    for x in np.random.default_rng(0).standard_normal(100).astype(np.float32):
        assert np.float32(plain(x)) == x and len(repr(plain(x))) < 16
    with pytest.raises(TypeError, match=r"cannot be recorded: \{1\}"):
        plain([{1}])


# -- records -------------------------------------------------------------------------------------


def test_a_record_has_its_keys_in_order_and_no_nan() -> None:
    curve = Curve({"objective": [1.0, NAN]}, [{"dev_f1": INF}, {"epoch": 7}], {"optimum": NAN})
    result = make_record(
        {"rate": np.float32(0.1)},
        3,
        "diverged",
        curve,
        data="0123456789abcdef",
        versions={"python": "3"},
        seconds=1.23456,
        host="h",
    )
    expected = {
        "id": trial_id({"rate": 0.1}, 3),
        "config": {"rate": 0.1},
        "seed": 3,
        "status": "diverged",
        "error": None,
        "updates": {"objective": [1.0, None]},
        "epochs": [{"epoch": 1, "dev_f1": None}, {"epoch": 7}],
        "convex": {"optimum": None},
        "data": "0123456789abcdef",
        "versions": {"python": "3"},
        "seconds": 1.235,
        "host": "h",
    }
    assert result == expected and list(result) == list(expected)
    json.dumps(result, allow_nan=False)
    with pytest.raises(ValueError, match="status must be one of finished, diverged, failed"):
        make_record({}, 0, "done", curve)
    with pytest.raises(ValueError, match="only the statuses failed, out of memory have"):
        make_record({}, 0, "failed", Curve())


def test_times_are_all_that_equal_trials_differ_in() -> None:
    one, two = record(1, seconds=1.0, host="a"), record(1, seconds=2.0, host="b")
    two["epochs"][0]["seconds"] = 9.0
    assert one != two and without_times(one) == without_times(two)
    assert one["epochs"][0]["seconds"] == 2.5  # it is as it was
    assert without_times(one) != without_times(record(2))


def test_the_hash_of_data_depends_on_all_of_it() -> None:
    assert data_hash({}) is None
    assert data_hash({"a": "1", "b": "2"}) == data_hash({"b": "2", "a": "1"})
    assert data_hash({"a": "1"}) != data_hash({"a": "2"})


# -- the file ------------------------------------------------------------------------------------


def test_records_come_back_in_their_order(tmp_path: Path) -> None:
    records = [record(i, host=f'"ü\n{i}') for i in range(5)]
    assert RecordFile(tmp_path / "study").load() == []
    assert RecordFile(tmp_path / "study").entries() == []
    with RecordFile(tmp_path / "study") as file:
        for i, one in enumerate(records):
            file.append(one)
            assert file.load() == records[: i + 1]
            entries = RecordFile(tmp_path / "study").entries()
            assert [entry.id for entry in entries] == [r["id"] for r in records[: i + 1]]
    with RecordFile(tmp_path / "study") as file:
        file.append(record(9))
    result = RecordFile(str(tmp_path / "study")).load()
    assert result == [*records, record(9)]
    assert list(result[0]) == list(records[0])


def test_entries_are_records_without_curves(tmp_path: Path) -> None:
    error = {"type": "ValueError", "message": 'bad ,"updates":{ in it'}
    curve = Curve({"objective": [3.0, 2.0]}, [{"epoch": 1, "dev_f1": 70.0, "note": "x"}])
    records = [
        make_record({"rate": 1}, 0, "finished", curve, seconds=2.0),
        make_record({"rate": 2}, 0, "failed", Curve(), error=error, host='"ü\n'),
    ]
    with RecordFile(tmp_path) as file:
        appended = [file.append(one) for one in records]
        entries = file.entries()
    assert entries == appended
    for entry, one in zip(entries, records, strict=True):
        names = ("id", "config", "seed", "status", "data", "versions", "seconds", "host")
        assert {name: getattr(entry, name) for name in names} == {n: one[n] for n in names}
        assert one["error"] == (entry.error and msgspec.to_builtins(entry.error))
    assert (entries[0].count, entries[1].count) == (2, 0)
    names = ("objective", "dev_f1", "note", "loss")
    assert [entries[0].latest(name) for name in names] == [2.0, 70.0, None, None]


@pytest.mark.parametrize("keep", [0, 1, 10, 200, -2, -1])
def test_a_torn_last_line_is_not_there_and_is_cut_off(tmp_path: Path, keep: int) -> None:
    with RecordFile(tmp_path) as file:
        file.append(record(0))
        whole = file.path.read_bytes()
        file.append(record(1))
        line = file.path.read_bytes()[len(whole) :]
    torn = line[:keep]
    file.path.write_bytes(whole + torn)
    # Those who only read leave it alone: it may be a driver at work.
    assert file.load() == [record(0)] and len(file.entries()) == 1
    assert file.path.read_bytes() == whole + torn
    with RecordFile(tmp_path) as file:
        assert file.path.read_bytes() == whole
        file.append(record(1))
    assert file.load() == [record(0), record(1)]


def test_a_long_torn_line_is_cut_off_too(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id":"' + b"x" * 300_000)
    with RecordFile(tmp_path) as file:
        assert path.read_bytes() == b""
        file.append(record(0))
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 200_000)  # what a crash of the machine may leave
    with RecordFile(tmp_path) as file:
        assert path.read_bytes() == whole and file.load() == [record(0)]


@pytest.mark.parametrize("content", [b"mine", b'{"id": 1}', b'{"id": 1}\nmine'])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "records.jsonl").write_bytes(content)
    with pytest.raises(StudyError, match="is not a record"), RecordFile(tmp_path):
        pass
    assert (tmp_path / "records.jsonl").read_bytes() == content


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["records.jsonl", ".lock"])
def test_pipes_do_not_hang(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(StudyError, match=f"{name}: not a regular file"), RecordFile(tmp_path):
        pass
    if name == "records.jsonl":
        with pytest.raises(StudyError, match="is not a regular file"):
            RecordFile(tmp_path).load()


def damage(lines: list[bytes], kind: str) -> bytes:
    middle = lines[1]
    changed = {
        "cut": middle[: len(middle) // 2] + b"\n",
        "no JSON": b"hello\n",
        "empty": b"\n",
        "another object": b'{"id": 3}\n',
        "without its start": middle[20:],
        "another status": middle.replace(b'"finished"', b'"done"'),
    }[kind]
    return lines[0] + changed + lines[2]


@pytest.mark.parametrize(
    "kind", ["cut", "no JSON", "empty", "another object", "without its start", "another status"]
)
def test_a_damaged_line_is_named(tmp_path: Path, kind: str) -> None:
    with RecordFile(tmp_path) as file:
        for i in range(3):
            file.append(record(i))
    file.path.write_bytes(damage(file.path.read_bytes().splitlines(keepends=True), kind))
    for read in (file.load, file.entries):
        with pytest.raises(
            StudyError, match=r"records.jsonl:2: the line is damaged: .+; remove the line"
        ):
            read()


def test_what_cannot_be_written_whole_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(descriptor: int, content: bytes) -> int:
        return write(descriptor, content[:100])

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with RecordFile(tmp_path) as file:
        file.append(record(0))
        for name, function in (("write", full), ("fsync", broken)):
            with monkeypatch.context() as patch:
                patch.setattr(os, name, function)
                with pytest.raises(OSError, match=r"(?i)no space left|input/output error"):
                    file.append(record(1))
        with pytest.raises(ValueError, match="JSON"):
            file.append({**record(1), "seconds": NAN})
        assert file.load() == [record(0)]
        file.append(record(1))
        assert file.load() == [record(0), record(1)]


HOLD = """
import sys
from rnnparse.study.records import RecordFile
with RecordFile(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no locks")
def test_records_that_are_removed_are_gone_or_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordFile(tmp_path) as file:
        for i in range(4):
            file.append(record(i))
        gone = {record(i)["id"] for i in (0, 2)}
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *paths: os.stat("/no such file"))  # fails
            with pytest.raises(FileNotFoundError):
                file.remove(gone)
        file.append(record(4))
        assert file.load() == [record(i) for i in range(5)]
        file.remove(gone)
        file.append(record(2))
        assert RecordFile(tmp_path).load() == [record(i) for i in (1, 3, 4, 2)]
        assert [entry.id for entry in file.entries()] == [r["id"] for r in file.load()]
    names = [".lock", "records.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_two_drivers_are_not_let_into_one_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with (
            pytest.raises(StudyError, match="another process runs this study"),
            RecordFile(tmp_path),
        ):
            pass
        assert RecordFile(tmp_path).load() == []  # but reading is free
        other.kill()
        other.wait()
    with RecordFile(tmp_path) as file:
        file.append(record(0))


KILLED = """
import os, sys
from rnnparse.study import records
from rnnparse.study.curve import Curve

folder, at = sys.argv[1], int(sys.argv[2])
steps = 0

def maybe_die(function):
    def call(*args, **more):
        global steps
        steps += 1
        if steps == at:
            os.kill(os.getpid(), 9)
        return function(*args, **more)
    return call

def make(i):
    return records.make_record({"rate": i}, 0, "finished", Curve({"objective": [2.0 + i]}))

# A kill before each step that changes a file.
os.write, os.fsync, os.replace = map(maybe_die, (os.write, os.fsync, os.replace))
os.ftruncate = maybe_die(os.ftruncate)
with records.RecordFile(folder) as file:
    ended = {entry.id for entry in file.entries()}
    for i in range(3):
        if make(i)["id"] not in ended:
            file.append(make(i))
    file.remove({make(1)["id"]})
    file.append(make(1))
print(steps)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path) -> None:
    def run(folder: Path, at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(folder), str(at)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    ids = {trial_id({"rate": i}, 0) for i in range(3)}
    steps = int(run(tmp_path / "whole", 0).stdout)
    assert steps >= 10
    for at in range(1, steps + 1):
        folder = tmp_path / str(at)
        killed = run(folder, at)
        assert killed.returncode == -9, killed.stderr
        file = RecordFile(folder)
        before = [one["id"] for one in file.load()]
        assert [entry.id for entry in file.entries()] == before
        with file:
            kept = [one["id"] for one in file.load()]
            assert kept == before  # no whole record is lost
            for i in range(3):
                if trial_id({"rate": i}, 0) not in kept:
                    file.append(record(i))
        assert {entry.id for entry in file.entries()} == ids


# -- study.json ----------------------------------------------------------------------------------


ABOUT: dict[str, Any] = {
    **{
        "name": "ø",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {},
        "data": {},
        "gold": [1, 2],
    },
    "space": {"axes": {}, "seeds": [0], "fixed": {}},
}


@pytest.mark.parametrize("name", ABOUT)
def test_what_a_study_is_about_may_have_no_gaps(tmp_path: Path, name: str) -> None:
    kept = {key: value for key, value in ABOUT.items() if key != name}
    others = [{}, {name: 3}, *([{name: None}] if name not in ("data", "gold") else [])]
    for other in others:
        wrong = f"{name}: expected " if other else f"missing required field `{name}`"
        refuse(tmp_path, {**kept, **other}, wrong)
    refuse(tmp_path, {**ABOUT, "space": {"axes": {}}}, "space: object missing .* `seeds`")


def refuse(folder: Path, about: dict[str, Any], words: str) -> None:
    """Neither writing nor reading takes it; reading names the place."""
    with pytest.raises(ConfigError, match=words):
        write_study(folder, about)
    text = json.dumps({"format": 1, **about})
    (folder / "study.json").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=f"study.json: the file is damaged: .*{words}.*; remove"):
        read_study(folder)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sizes": 3}, "sizes: expected `object . null`, got `int`"),
        ({"sizes": {"train": "many"}}, "sizes.*: expected `int`, got `str`"),
        ({"baselines": {"chance": None}}, "baselines.*: expected `float`, got `null`"),
        ({"metric": {"name": "dev_f1"}}, "metric: object missing required field `maximize`"),
        ({"trials": ["x"]}, r"trials\[0\]: expected `str` matching regex"),
        ({"commands": {"x": 3}}, "commands.*: expected `str`, got `int`"),
        ({"created": "2026-01-02"}, "created: invalid RFC3339 encoded datetime"),
        ({"created": "2026-01-02T03:04:05"}, "created: expected `datetime` with a timezone"),
        ({"command": "rnnparse study run caf\ud800"}, "command: .* is not Unicode text"),
        ({"more": 1}, "unknown field `more`"),
        ({"gold": [1, -1]}, r"gold\[1\]: expected `int` >= 0"),
    ],
)
def test_what_a_study_may_tell_besides_is_damaged_too(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    refuse(tmp_path, {**ABOUT, **more}, words)
    write_study(tmp_path, {**ABOUT, "sizes": {"train": 3}, "baselines": {"chance": 0.5}})
    assert read_study(tmp_path)["sizes"] == {"train": 3}


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},  # another trial than the id says
        {"seed": "0"},
        {"config": {"rate": 1}},
        {"status": "lost"},
        {"error": {"type": "ValueError"}},
        {"error": {"type": "ValueError", "message": ""}},  # but it finished
        {"status": "failed"},  # but it has no error
        {"seconds": -1},
        {"host": "\ud800"},
        {"versions": {"python": 3}},
        {"data": "no hash"},
        {"seconds": None},
        {"updates": []},
        {"epochs": {}},
        {"epochs": [3]},
    ],
)
def test_a_record_of_other_kinds_is_damaged(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_lines(tmp_path, record(0), {**record(3), **changed})
    for read in (RecordFile(tmp_path).load, RecordFile(tmp_path).entries):
        with pytest.raises(StudyError, match=r"records.jsonl:2: the line is damaged"):
            read()


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "diverged"},  # but its objective fell
        {"updates": {"objective": [True]}},
        {"epochs": [{"dev_f1": 70.0}]},
        {"epochs": [{"epoch": None}]},
        {"epochs": [{"epoch": 1, "dev_counts": [[1, 2], [3]]}]},
        {"epochs": [{"epoch": 1, "dev_counts": [[3, 2]]}]},
        {"convex": {"optimum": "low"}},
        {"convex": {"gap": [1, "2"]}},
        {"updates": {"objective": 3.0}},
        {"updates": {"objective": ["3"]}},
        {"epochs": [{"epoch": 1, "dev_f1": "70"}]},
        {"convex": 3},
        {"updates": {"objective": 1e99, "loss": [3, {"x": []}]}},
    ],
)
def test_a_curve_of_other_kinds_is_damaged(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_lines(tmp_path, record(0), {**record(3), **changed})
    entries = RecordFile(tmp_path).entries()  # which do not look at curves
    assert len(entries) == 2 and not isinstance(entries[1].latest("objective"), str)
    with pytest.raises(StudyError, match=r"records.jsonl:2: the line is damaged"):
        RecordFile(tmp_path).load()


def write_lines(folder: Path, *records: dict[str, Any]) -> None:
    lines = [json.dumps(one, separators=(",", ":")) + "\n" for one in records]
    (folder / "records.jsonl").write_text("".join(lines))


@pytest.mark.parametrize("name", record(0))
def test_a_record_with_a_gap_is_damaged(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path, {key: value for key, value in record(0).items() if key != name})
    for read in (RecordFile(tmp_path).load, RecordFile(tmp_path).entries):
        with pytest.raises(StudyError, match=r"records.jsonl:1: the line is damaged"):
            read()


LINE = json.dumps(record(0), separators=(",", ":"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"host":""', '"host":"","host":""', "'host' is there twice"),
        ("2.0", "NaN", "NaN is not a finite number"),
        ("2.0", "1e999", "1e999 is not a finite number"),
        ("2.0", "9" * 5000, "a number has more than 4,300 digits"),
        ("2.0", "[" * 100_000, "nested too deeply"),
        (
            '"dev_f1":70.0',
            '"x":' + "[" * 60 + "]" * 60,
            r"epochs\[0\].x\S+: it is nested more than",
        ),
        ('"host":""', '"host":"é"', "is not UTF-8"),
        ('"host":"",', "", "Expecting"),
        ('"epochs":', '"epoch":', "unknown field `epoch`"),
    ],
)
def test_what_json_cannot_be_in_a_record_is_named(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    line = LINE.replace(old, new) if old in LINE else LINE.replace('""}', '"",}')
    (tmp_path / "records.jsonl").write_bytes(line.encode("latin-1") + b"\n")
    with pytest.raises(StudyError, match=f"records.jsonl:1: the line is damaged: .*{words}"):
        RecordFile(tmp_path).load()


@pytest.mark.parametrize("name", ["caf\udce9", "😀", "\\ud800"])
def test_settings_may_be_names_of_files_that_are_not_unicode(tmp_path: Path, name: str) -> None:
    made = make_record({"file": name}, 0, "finished", Curve({"loss": [2.0, 1.0]}))
    with RecordFile(tmp_path) as file:
        file.append(made)
        [entry] = file.entries()
    assert file.load() == [made]
    assert (entry.id, entry.count, entry.latest("loss")) == (made["id"], 2, 1.0)


def test_numbers_of_a_study_from_before_that_count_as_infinite_now_are_none(tmp_path: Path) -> None:
    old = LINE.replace("2.0", "1e+150").replace('"finished"', '"diverged"')
    (tmp_path / "records.jsonl").write_text(old + "\n")
    [result] = RecordFile(tmp_path).load()
    assert result["updates"] == {"objective": [3.0, None]}


def test_a_line_without_end_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rnnparse.study.records.LONGEST", 1000)
    (tmp_path / "records.jsonl").write_bytes(b"\0" * 5000)
    with pytest.raises(StudyError, match=r"records.jsonl:1: .* longer than 1,000 bytes"):
        RecordFile(tmp_path).load()
    (tmp_path / "records.jsonl").unlink()
    long = make_record({}, 0, "finished", Curve({"loss": [1.0] * 1000}))
    with RecordFile(tmp_path) as file, pytest.raises(StudyError, match="more than 1,000; let"):
        file.append(long)
    assert RecordFile(tmp_path).load() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": 1,\n "x": }', r"study.json:2:7: the file is damaged: Expecting value"),
        ('{"format": 1, "format": 1}', "'format' is there twice"),
        ('{"format": NaN}', "NaN is not a finite number"),
        ('{"format": ' + "1" * 5000 + "}", "more than 4,300 digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 1, "name": "\xe9"}', "byte 24 is not UTF-8"),
        ('{"format": 2}', "expected a study of format 1"),
    ],
)
def test_what_json_cannot_be_a_study_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "study.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StudyError, match=words):
        read_study(tmp_path)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"axes": {"x": []}}, "space.axes.*: expected `array` of length >= 1"),
        ({"axes": {"seed": [1]}}, "seed cannot be an axis"),
        ({"axes": {"x": list(range(50)), "y": list(range(50)), "z": list(range(50))}}, "125,000"),
        ({"axes": {}, "further": [3]}, r"space.further\[0\]: expected `object`"),
    ],
)
def test_a_space_that_no_study_has_is_damaged(
    tmp_path: Path, space: dict[str, Any], words: str
) -> None:
    about = {"format": 1, **ABOUT, "space": {"seeds": [0], "fixed": {}, **space}}
    (tmp_path / "study.json").write_text(json.dumps(about))
    with pytest.raises(StudyError, match=f"the file is damaged: .*{words}"):
        read_study(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="there are no pipes with names")
def test_a_pipe_is_no_study_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "study.json")
    with pytest.raises(StudyError, match=r"study.json is not a regular file"):
        read_study(tmp_path)
    with pytest.raises(StudyError, match=r"study.json: not a regular file"):
        write_study(tmp_path, ABOUT)


def test_what_a_study_is_about_comes_back(tmp_path: Path) -> None:
    about = {**ABOUT, "trials": ["0" * 16], "commands": {"0" * 16: "rnnparse train"}}
    write_study(tmp_path / "new", about)
    assert read_study(tmp_path / "new") == {"format": 1, **about}
    with pytest.raises(StudyError, match="not a study"):
        read_study(tmp_path)


def test_a_study_of_version_0_1_has_its_metric_and_trials(tmp_path: Path) -> None:
    space = Space({"x": [1, 2]}, (0, 3))
    metric = {"name": "dev_f1", "maximize": True}
    old = {"format": 1, **ABOUT, "space": space.to_dict(), "measure": metric}
    (tmp_path / "study.json").write_text(json.dumps(old))
    about = read_study(tmp_path)
    assert about["metric"] == metric and "measure" not in about
    assert about["trials"] == [trial.id for trial in space.trials()]
    # Axes alone do not give the trials of a grid of the parser.
    old["space"] = {**space.to_dict(), "rates": {"adam": [0.1]}, "further": [{"x": 3}]}
    (tmp_path / "study.json").write_text(json.dumps(old))
    assert "trials" not in read_study(tmp_path)


def test_all_statuses_can_be_recorded(tmp_path: Path) -> None:
    with RecordFile(tmp_path) as file:
        for i, status in enumerate(STATUSES):
            error = {"type": "E", "message": ""} if i > 1 else None
            curve = Curve({"loss": [NAN]}) if status == "diverged" else Curve()
            file.append(make_record({"i": i}, 0, status, curve, error=error))
        assert [entry.status for entry in file.entries()] == list(STATUSES)
        assert [one["status"] for one in file.load()] == list(STATUSES)

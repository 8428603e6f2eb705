"""Models on disk: what is written comes back, and what is not whole or not ours is refused."""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnparse import folders
from rnnparse.errors import ModelError
from rnnparse.model_folder import load_model, new_model_folder, write_model
from rnnparse.parser import load
from rnnparse.trees.cleaning import words
from tests.grammar.small import trees
from tests.small_parser import small_parser

FILES = ("config.json", "grammar.npz", "vocabulary.txt", "weights.npz")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A saved model."""
    small_parser().save(tmp_path / "model")
    return tmp_path / "model"


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def change(model: Path, name: str, edit: Callable[[bytes], bytes]) -> None:
    """Change a file and set its checksum right again."""
    (model / name).write_bytes(edit((model / name).read_bytes()))
    checksums = json.loads((model / "checksums.json").read_text())
    checksums[name] = hashlib.sha256((model / name).read_bytes()).hexdigest()
    (model / "checksums.json").write_text(json.dumps(checksums))


def change_config(model: Path, **values: Any) -> None:
    change(model, "config.json", lambda old: json.dumps(json.loads(old) | values).encode())


def test_a_model_comes_back(model: Path) -> None:
    ours, theirs = small_parser(), load(model)
    assert theirs.info() == ours.info()
    assert (theirs.beta, theirs.candidates, theirs.about) == (
        ours.beta,
        ours.candidates,
        ours.about,
    )
    for one, other in zip(ours.parameters, theirs.parameters, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    sentences = [words(tree) for tree in trees(20, "dev")]
    assert list(theirs.parse_many(sentences, n_best=3)) == list(
        ours.parse_many(sentences, n_best=3)
    )


def test_equal_models_have_equal_bytes(model: Path, tmp_path: Path) -> None:
    load(model).save(tmp_path / "again")
    assert content(tmp_path / "again") == content(model)
    assert set(content(model)) == {*FILES, "checksums.json"}


def test_info_counts_what_is_there(model: Path) -> None:
    info = load(model).info()
    parser = small_parser()
    assert info["parameters"] == sum(array.size for array in parser.parameters)
    assert info["vocabulary"] == len(parser.parameters.vectors)
    assert (info["dim"], info["keys"]) == (6, len(parser.parameters.v))
    assert json.loads(json.dumps(info)) == info


# -- writing -----------------------------------------------------------------------------------


def test_a_model_replaces_a_model_and_nothing_lies_about(model: Path) -> None:
    for name in ("report.json", "network.jsonl", "telemetry-fold-12.jsonl"):
        (model / name).write_text("{}")
    small_parser().save(model, overwrite=True)
    assert set(content(model)) == {*FILES, "checksums.json"}
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_model_is_replaced_only_if_that_is_asked_for(model: Path) -> None:
    before = content(model)
    with pytest.raises(ModelError, match="a model exists there; replace it with --overwrite"):
        replace(small_parser(), beta=0.5).save(model)
    assert content(model) == before


@pytest.mark.parametrize("name", ["thesis.tex", "notes/chapter.tex", ".hidden", "report.json/a"])
def test_a_model_that_holds_a_file_of_somebody_is_not_replaced(model: Path, name: str) -> None:
    (model / name).parent.mkdir(exist_ok=True)
    (model / name).write_text("years of work")
    with pytest.raises(ModelError, match=f"{name} is not part of a model; move that"):
        small_parser().save(model, overwrite=True)
    assert (model / name).read_text() == "years of work"
    load(model)


def test_checksums_of_another_program_make_no_model(tmp_path: Path) -> None:
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "checksums.json").write_text('{"disk.iso": "00"}')
    with pytest.raises(ModelError, match="exists and is not a model"):
        small_parser().save(tmp_path / "downloads", overwrite=True)
    assert (tmp_path / "downloads" / "checksums.json").read_text() == '{"disk.iso": "00"}'


def test_folders_beside_a_model_are_not_touched(model: Path) -> None:
    for name in (".model.old", ".model.tmp", ".model.0123abcd.new", ".model.0123abcd.old"):
        (model.parent / name).mkdir()
        (model.parent / name / "thesis.tex").write_text("years of work")
        os.utime(model.parent / name, (0, 0))
    small_parser().save(model, overwrite=True)
    assert len(list(model.parent.glob(".model.*/thesis.tex"))) == 4


def test_what_a_killed_save_left_is_removed_unless_another_process_is_at_it(model: Path) -> None:
    left = model.with_name(".model.0123abcd.new")
    left.mkdir()
    for name in ("config.json", ".weights.npz.01234567.tmp"):
        (left / name).write_text("half")
    with new_model_folder(model, overwrite=True) as new:
        assert not left.exists()
        small_parser().save(model, overwrite=True)
        assert new.exists()
        write_model(small_parser(), new)
    load(model)
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_file_that_appears_while_a_model_is_replaced_is_kept(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with new_model_folder(model, overwrite=True) as new:
        write_model(small_parser(), new)
        (model / "thesis.tex").write_text("years of work")
    load(model)
    (kept,) = model.parent.glob(".model.*/*")
    assert kept.read_text() == "years of work" and str(kept.parent) in caplog.text


def test_folders_are_made_and_empty_ones_taken(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b"):
        small_parser().save(path)
        load(path)


def test_a_model_may_be_named_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_parser().save("model/")
    monkeypatch.chdir(tmp_path / "model")
    small_parser().save(".", overwrite=True)
    load(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_to_a_model_stays_a_link(model: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(model)
    small_parser().save(link, overwrite=True)
    assert link.is_symlink()
    load(model)


def test_nothing_but_a_model_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.tex").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("text")
    for path in (folder, file):
        with pytest.raises(ModelError, match="is not a model"):
            small_parser().save(path)
    assert (folder / "chapter.tex").read_text() == "years of work"
    assert file.read_text() == "text"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(ModelError, match=r"file/model: cannot .*Not a directory"):
        small_parser().save(tmp_path / "file" / "model")
    if Path("/proc").is_dir():
        with pytest.raises(ModelError, match="/proc/model: cannot write the model"):
            small_parser().save("/proc/model")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_place_without_permission_is_named(model: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(ModelError, match="Permission denied"):
            small_parser().save(tmp_path / "new")
    finally:
        tmp_path.chmod(0o755)
    model.chmod(0)
    try:
        with pytest.raises(ModelError, match="Permission denied"):
            load(model)
    finally:
        model.chmod(0o755)


@pytest.fixture(params=["exchange", "two renames"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a folder takes the place of another: in one step, or as on systems that cannot do so."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    return str(request.param)


@pytest.mark.parametrize("stop_at", ["grammar.npz", "checksums.json", "swap", "first", "second"])
def test_a_failure_while_saving_leaves_the_old_model(
    model: Path, monkeypatch: pytest.MonkeyPatch, way: str, stop_at: str
) -> None:
    """Interrupted while writing a file, or at the first or second of the two renames."""
    before = content(model)
    os_replace, rename, swap = os.replace, Path.rename, folders._swap
    renames = iter(("first", "second", "back"))

    def failing_replace(source: Path, target: Path) -> None:
        if Path(target).name == stop_at:
            raise KeyboardInterrupt
        os_replace(source, target)

    def failing_rename(self: Path, target: Path) -> Path:
        if next(renames) == stop_at:
            raise KeyboardInterrupt
        return rename(self, target)

    def failing_swap(new: Path, folder: Path) -> None:
        if stop_at == "swap":
            raise KeyboardInterrupt
        swap(new, folder)

    if way == "exchange" and stop_at in ("first", "second"):
        pytest.skip("there are no two renames")
    monkeypatch.setattr(os, "replace", failing_replace)
    monkeypatch.setattr(Path, "rename", failing_rename)
    monkeypatch.setattr(folders, "_swap", failing_swap)
    with pytest.raises(KeyboardInterrupt):
        small_parser().save(model, overwrite=True)
    monkeypatch.undo()
    assert content(model) == before
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_model_left_between_two_renames_is_not_lost(model: Path) -> None:
    """As after a kill at that moment: it loads, and the next save begins with bringing it back."""
    before = content(model)
    model.rename(model.with_name(".model.0123abcd.old"))
    assert load(model).beta == small_parser().beta
    broken = replace(small_parser(), about={"no JSON": object()})
    with pytest.raises(TypeError):
        broken.save(model)
    assert content(model) == before
    small_parser().save(model, overwrite=True)
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def _save_for_ever(model: Path, one_step: bool) -> None:
    if not one_step:
        folders._exchange = lambda one, other: False
    parser = small_parser()
    for i in itertools.count():
        replace(parser, candidates=1 + i % 9, beta=float(i % 9)).save(model, overwrite=True)


@pytest.mark.parametrize("one_step", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_model_loads_while_another_process_replaces_it(model: Path, one_step: bool) -> None:
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    process = context.Process(target=_save_for_ever, args=(model, one_step))
    replace(small_parser(), candidates=1, beta=0.0).save(model, overwrite=True)
    process.start()
    try:
        seen = set()
        for _ in range(300):
            loaded = load_model(model)
            assert loaded.candidates == loaded.beta + 1  # the old one or the new one, whole
            seen.add(loaded.candidates)
    finally:
        process.kill()
        process.join()
    assert len(seen) > 1


# -- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "checksums.json"])
def test_damage_to_any_file_is_noticed(model: Path, name: str) -> None:
    whole = (model / name).read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[: len(whole) // 2], whole[:-3], b"", whole + b" x"]
    for place in rng.integers(0, len(whole), 20):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    for variant in damaged:
        (model / name).write_bytes(variant)
        with pytest.raises(ModelError, match=str(model)):
            load(model)
    (model / name).write_bytes(whole)
    load(model)


@pytest.mark.parametrize("name", [*FILES, "checksums.json"])
def test_a_missing_file_is_named(model: Path, name: str) -> None:
    (model / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing"):
        load(model)


def test_what_is_no_model_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="absent: not a model folder: no such folder"):
        load(tmp_path / "absent")
    with pytest.raises(ModelError, match=r"not a model folder: .*checksums.json is missing"):
        load(tmp_path)
    (tmp_path / "file").write_text("text")
    with pytest.raises(ModelError, match="file: cannot read the model"):
        load(tmp_path / "file")


def test_another_format_version_is_named_before_anything_else(model: Path) -> None:
    change_config(model, format_version=2)
    (model / "vocabulary.txt").unlink()  # another format may have other files
    with pytest.raises(ModelError, match="format version 2; this program reads version 1"):
        load(model)


@pytest.mark.parametrize(
    "text", [b"[]", b"null", b"{}", b'"a"', b"{", b"\xff\xfe", b'{"format_version": 1}']
)
def test_other_json_is_refused(model: Path, text: bytes) -> None:
    change(model, "config.json", lambda _: text)
    with pytest.raises(ModelError, match="cannot read the model"):
        load(model)
    (model / "checksums.json").write_bytes(text)
    with pytest.raises(ModelError):
        load(model)


def test_objects_in_arrays_are_refused_and_not_run(model: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "ran"),))

    objects = np.empty(1, object)
    objects[0] = Evil()
    for name in ("grammar.npz", "weights.npz"):
        copy = tmp_path / name
        shutil.copytree(model, copy)
        with np.load(copy / name) as file:
            arrays: dict[str, Any] = {key: file[key] for key in file.files}
        arrays[next(iter(arrays))] = objects
        with open(copy / name, "wb") as stream:
            np.savez(stream, **arrays)
        change(copy, name, lambda same: same)
        with pytest.raises(ModelError, match="cannot read the model"):
            load(copy)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["vectors", "W", "v", "pairs"])
def test_weights_that_do_not_fit_together_are_refused(model: Path, name: str) -> None:
    """The kernels do not check their bounds."""
    with np.load(model / "weights.npz") as file:
        arrays: dict[str, Any] = {key: file[key] for key in file.files}
    arrays[name] = arrays[name][:-1]
    with open(model / "weights.npz", "wb") as stream:
        np.savez(stream, **arrays)
    change(model, "weights.npz", lambda same: same)
    with pytest.raises(ModelError, match="shape"):
        load(model)

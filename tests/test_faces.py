"""The public names of the package and of its subpackages: listed once, loaded when used."""

from __future__ import annotations

import configparser
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_imports import loaded_after

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rnnparse"
FACES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.pyi")
)
every_face = pytest.mark.parametrize("name", FACES)


@every_face
def test_every_public_name_is_there(name: str) -> None:
    face = import_module(name)
    for public in face.__all__:
        value = getattr(face, public)
        assert isinstance(value, ModuleType) == (f"{name}.{public}" in sys.modules), public
    assert dir(face) == sorted(face.__all__)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        face.nothing  # noqa: B018


@every_face
def test_no_public_name_is_that_of_a_module(name: str) -> None:
    """Importing the module would put it in place of the name."""
    face = import_module(name)
    modules = {path.stem for path in Path(str(face.__file__)).parent.glob("*.py")}
    assert not modules - {"errors"} & set(face.__all__)


def test_faces_load_nothing_before_a_name_is_used() -> None:
    loaded = loaded_after(f"import {', '.join(FACES)}")
    own = {name for name in loaded if name.split(".")[0] == "rnnparse"}
    assert own <= {*FACES, "rnnparse._lazy", "rnnparse.version"}
    assert not {"numpy", "nltk", "numba", "tensorflow"} & loaded


def test_subpackages_are_reached_from_the_package() -> None:
    loaded = loaded_after("import rnnparse; rnnparse.evaluation.evaluate")
    assert "rnnparse.evaluation.evalb" in loaded
    assert not {"rnnparse.losses", "numba", "tensorflow"} & loaded


def test_import_takes_less_than_a_tenth_of_a_second() -> None:
    code = "import time; t = time.process_time(); import rnnparse; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    seconds = [float(subprocess.check_output(command, text=True)) for _ in range(3)]
    assert min(seconds) < 0.1


def test_errors_are_exported() -> None:
    import rnnparse
    from rnnparse import errors

    kinds = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert kinds <= set(rnnparse.__all__)


def test_type_hints_and_stubs_are_shipped() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    data = setup["options.package_data"]
    assert "py.typed" in data["*"] and "*.pyi" in data["*"]
    assert (PACKAGE / "py.typed").exists()

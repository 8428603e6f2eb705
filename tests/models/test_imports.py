from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TF_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=kept | environment,
        check=True,
    )


def test_what_parsing_needs_does_not_import_tensorflow() -> None:
    modules = [
        *("vectors", "vocabulary", "category_pairs", "batch", "forest_dataset", "kernels"),
        *("parameters", "scorer", "objective"),
    ]
    names = [f"rnnparse.models.{name}" for name in modules]
    names += ["rnnparse.losses.cost", "rnnparse.losses.score_gradients"]
    code = f"import sys, {', '.join(names)}"
    code += "\nprint('tensorflow' in sys.modules, 'keras' in sys.modules)"
    assert run(code).stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("import rnnparse._tensorflow", marks=pytest.mark.slow),
        pytest.param("rnnparse.structured_hinge", marks=pytest.mark.slow),
        "rnnparse.AdaGrad",
    ],
)
def test_tensorflow_starts_without_a_word(first: str) -> None:
    code = "print(float(sys.modules['tensorflow'].constant(1.0) + 1))"
    done = run(f"import rnnparse, sys; {first}; {code}")
    assert (done.stdout, done.stderr) == ("2.0\n", "")


@pytest.mark.slow
def test_a_user_who_asks_for_tensorflows_log_gets_it() -> None:
    code = "from rnnparse._tensorflow import tf"
    assert "oneDNN" in run(code, TF_CPP_MIN_LOG_LEVEL="0").stderr


@pytest.mark.parametrize(
    ("error", "shown"), [("ImportError", "details\n"), ("KeyboardInterrupt", "")]
)
def test_what_is_written_is_shown_where_the_import_fails(error: str, shown: str) -> None:
    code = f"""
import os, sys
class Broken:
    def find_spec(self, name, path, target=None):
        if name == "keras":
            os.write(2, b"details\\n")
            raise {error}("no keras")
sys.meta_path.insert(0, Broken())
try:
    import rnnparse._tensorflow
except {error} as error:
    print(error)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("no keras\n", shown)

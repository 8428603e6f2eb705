"""Imports point one way, and what does not need TensorFlow does not wait for it."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rnnparse"

# What each part may import of the package, besides itself and `errors`.
_TREES = {"trees", "compiled"}
_GRAMMAR = _TREES | {"grammar", "files", "array_invariants", "threads"}
_KERAS = {"_keras_compat", "_tensorflow"}
_MODELS = _GRAMMAR | _KERAS | {"config", "inference", "models", "losses", "optim"}
_PARSER = _MODELS | {
    *("folders", "input_sentences", "model_folder", "nltk_parser", "parse_results", "parser"),
    *("executors", "given_trees", "ranking", "constituents", "given_tags", "rule_scores"),
    *("encoder", "mixture"),
}
_TELEMETRY = _KERAS | {"compiled", "files", "json_text", "telemetry", "threads"}
_TRAINING = _PARSER | _TELEMETRY | {"config", "divergence", "evaluation", "training"}
_STUDY = _TELEMETRY | {"paired_bootstrap", "divergence", "executors", "folders", "study", "version"}
ALLOWED = {
    "_lazy": set[str](),
    "_keras_compat": {"_tensorflow"},
    "_tensorflow": set[str](),
    "paired_bootstrap": set[str](),
    "version": set[str](),
    "compiled": {"files"},
    "divergence": set[str](),
    "errors": set[str](),
    "files": {"json_text"},
    "json_text": set[str](),
    "folders": {"files"},
    "array_invariants": set[str](),
    "threads": set[str](),
    "executors": {"config", "threads"},
    "config": _TREES | {"losses"},
    "trees": _TREES,
    "evaluation": _TREES | {"paired_bootstrap", "evaluation"},
    "encoder": {"encoder", "files", "threads", "trees"},
    "grammar": _GRAMMAR,
    "inference": _GRAMMAR | {"inference"},
    "models": _MODELS,
    "losses": _TREES | _KERAS | {"losses"},
    "optim": _KERAS | {"optim"},
    "model_folder": _MODELS | {"folders"},
    "input_sentences": _TREES,
    "mixture": {"grammar", "inference", "models", "threads"},
    "given_trees": {"grammar", "inference", "input_sentences", "trees"},
    "given_tags": {"grammar", "trees"},
    "rule_scores": {"grammar", "trees"},
    "constituents": {"given_trees", "parse_results", "trees"},
    "parser": _PARSER,
    "ranking": {"executors", "inference", "input_sentences", "parse_results", "threads"},
    "nltk_parser": {"parse_results"},
    "parse_results": _TREES,
    "telemetry": _TELEMETRY,
    "training": _TRAINING | {"version"},
    "study": _STUDY,
    "parser_study": _STUDY | _TRAINING | {"parser_study"},
    "error_sources": _TRAINING,
    "pages": _TRAINING | {"error_sources", "pages"},
    "cli": _STUDY | _TRAINING | {"parser_study", "error_sources", "pages", "cli"},
    "__main__": {"cli"},
}
WITH_TENSORFLOW = {
    "_keras_compat",
    "_tensorflow",
    "models.cvg",
    "models.per_example",
    "models.span_network",
    "models.su_rnn",
    "losses.gradient_check",
    "losses.external",
    "losses.forest",
    "losses.structured",
    "losses.numpy_function",
    "optim.adagrad",
    "optim.per_example_gradients",
    "optim.levenberg_marquardt.fit_data",
    "optim.levenberg_marquardt.fit_monitor",
    "optim.freezing",
    "optim.sparse_rows",
    "optim.batch_independence",
    "optim.levenberg_marquardt.fit",
    "optim.levenberg_marquardt.minimizer",
    "optim.gradient_transforms",
    "optim.levenberg_marquardt.normal_equations",
    "optim.optimizers",
    "optim.per_example_model",
    "optim.levenberg_marquardt.robust_loss",
    "optim.example_seeds",
    "optim.slots",
    "optim.levenberg_marquardt.jacobian",
    "telemetry.keras_callback",
}


def imports(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, also within functions; not those for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            if node.module == "rnnparse":
                yield from (alias.name for alias in node.names)
            elif (node.module or "").startswith("rnnparse."):
                yield str(node.module).removeprefix("rnnparse.")
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from (n.removeprefix("rnnparse.") for n in names if n.startswith("rnnparse."))


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    imported = {name.split(".")[0] for name in imports(path)}
    assert imported <= ALLOWED[part] | {"_lazy", "errors"}


_DIAGNOSIS = ["evidence", "statistics", "measurements", "comparison", "advice", "rules"]


@pytest.mark.parametrize("name", _DIAGNOSIS)
def test_diagnosis_imports_the_modules_before_it_and_the_basis_of_studies(name: str) -> None:
    imported = set(imports(PACKAGE / "study" / "diagnosis" / f"{name}.py"))
    before = {f"study.diagnosis.{other}" for other in _DIAGNOSIS[: _DIAGNOSIS.index(name)]}
    basis = {"divergence", "study.curve", "study.records", "study.schema", "study.search_space"}
    assert imported <= before | basis


def test_the_reader_of_imports_sees_them() -> None:
    assert "trees.binarization" in set(imports(PACKAGE / "parser.py"))
    assert "parser" in set(imports(PACKAGE / "cli" / "parse.py"))  # within a function
    assert "losses.cost" not in set(imports(PACKAGE / "losses" / "structured.py"))


_PRIVATE = re.compile(r"keras\.src|\b(optimizer|model|layer|variable)\._[a-z]|_learning_rate\"")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_names_of_keras_are_in_one_module(path: Path) -> None:
    private = _PRIVATE.search(path.read_text(encoding="utf-8"))
    assert (private is not None) == (path.name == "_keras_compat.py"), private


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_tensorflow_is_imported_in_one_module_which_keeps_it_quiet(path: Path) -> None:
    direct = re.search(r"^\s*(import|from) (tensorflow|keras)\b", path.read_text("utf-8"), re.M)
    assert direct is None or path.name in ("_tensorflow.py", "_keras_compat.py"), direct


def loaded_after(code: str) -> set[str]:
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split("\n")[-2].split())


def test_only_the_network_modules_import_tensorflow() -> None:
    names = []
    for path in modules():
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        if path.name != "__init__.py" and name != "__main__" and name not in WITH_TENSORFLOW:
            names.append(f"rnnparse.{name}")
    lazy = {name for name in names if name.startswith("rnnparse.training.")}
    loaded = loaded_after(f"import {', '.join(sorted(set(names) - lazy))}")
    assert "rnnparse.parser" in loaded
    assert not {"tensorflow", "keras"} & loaded


def test_scoring_does_not_wait_for_nltk_or_numba() -> None:
    loaded = loaded_after("import rnnparse.cli, rnnparse.evaluation.evalb")
    assert not {"nltk", "numba", "tensorflow"} & loaded


def test_commands_do_not_wait_for_nltk(model: Path, tmp_path: Path) -> None:
    """`info` does not wait for numba either."""
    sentences, parsed = tmp_path / "sentences", tmp_path / "parsed.mrg"
    sentences.write_text("They ate udon with forks.\n")
    options = ["--out", str(parsed), "--attachments"]
    code = f"""
import sys
from rnnparse.cli import main
assert main(["info", {str(model)!r}]) == 0
assert "rnnparse.model_folder" in sys.modules and "numba" not in sys.modules
assert main(["parse", {str(model)!r}, {str(sentences)!r}]) == 0
assert main(["evaluate", {str(model)!r}, "treebanks/dev.mrg", *{options}]) == 0
"""
    loaded = loaded_after(code)
    assert {"rnnparse.model_folder", "numba"} <= loaded
    assert not {"nltk", "scipy.stats", "tensorflow"} & loaded


TREES_OF_USERS = """
import rnnparse, sys
from rnnparse.trees import binarize, clean
parser = rnnparse.load(sys.argv[1])
assert ("nltk" in sys.modules) == (sys.argv[2] == "before")
if sys.argv[2] == "after":
    made = [parser.parse("They ate udon."), rnnparse.load_trees(sys.argv[3])[0]]
    assert "nltk" in sys.modules
import nltk, pickle
if sys.argv[2] != "after":
    made = [parser.parse("They ate udon."), rnnparse.load_trees(sys.argv[3])[0]]
made.append(nltk.tree.ParentedTree.convert(made[0]))
made += [clean(tree) for tree in made]
made += [binarize(tree, parser.grammar.heads) for tree in made]
made += [parser.rerank([made[0]])[0].tree, *next(parser.parse_sents(["They ate udon."]))]
for tree in made:
    assert isinstance(tree, nltk.Tree) and tree.leaves() == list(made[0].leaves()), tree
    assert all(isinstance(part, nltk.Tree) for part in tree.subtrees())
    assert pickle.loads(pickle.dumps(tree)) == tree
"""


@pytest.mark.parametrize(
    "order", ["before", pytest.param("between", marks=pytest.mark.slow), "after"]
)
def test_users_get_trees_of_nltk_whenever_they_import_it(
    order: str, model: Path, tmp_path: Path
) -> None:
    bank = tmp_path / "bank"
    bank.write_text("(TOP (S (NP (PRP They)) (VP (VBD ate) (NP (NN udon))) (. .)))\n")
    code = "import nltk\n" + TREES_OF_USERS if order == "before" else TREES_OF_USERS
    done = subprocess.run(
        [sys.executable, "-c", code, str(model), order, str(bank)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_setup_lists_every_package() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    folders = {path.parent.relative_to(ROOT) for path in PACKAGE.rglob("__init__.py")}
    packages = {".".join(folder.parts) for folder in folders}
    assert set(setup["options"]["packages"].split()) == packages | {"rnnparse.treebanks"}

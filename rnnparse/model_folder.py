"""Models on disk: a folder of JSON, text and NumPy arrays, with the checksum of every file.

    config.json      format version, β, length of candidate lists (`kbest`), how the model was made
    grammar.npz      the base PCFG; see `rnnparse.grammar.storage`
    vocabulary.txt   the word of each row of the word vectors
    weights.npz      the network's weights and their category pairs
    latent-1.npz …   grammars with latent substates, if there are any
    spans.npz        the span scorer, if there is one
    checksums.json   SHA-256 of the files above; it also marks the folder as a model
    report.json, *.jsonl   scores and learning curves, added by training

A model may come from a stranger, so nothing in it is executed. Checksums detect damage;
`rnnparse.array_invariants` and `rnnparse.grammar.storage` reject contents that training never
writes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnparse.array_invariants import PARAMETERS, check
from rnnparse.config import with_present_names
from rnnparse.errors import ModelError, RnnparseError
from rnnparse.files import (
    checksum,
    parse_arrays,
    parse_json,
    read_json,
    read_regular,
    without_temporary,
    write_arrays,
    write_json,
)
from rnnparse.folders import foreign_file, replacement, set_aside
from rnnparse.grammar.grammar import Grammar
from rnnparse.grammar.latent import LatentGrammar
from rnnparse.grammar.pcfg import category_names
from rnnparse.models.category_pairs import CategoryPairs
from rnnparse.models.parameters import Parameters
from rnnparse.models.span_parameters import SpanModel, read_span_arrays, span_arrays
from rnnparse.models.vocabulary import Vocabulary

FORMAT_VERSION = 1
GREATEST_BETA = 1e6
MOST_CANDIDATES = 10**6

_FILES = ("config.json", "grammar.npz", "vocabulary.txt", "weights.npz")
_SPANS, _LATENT = "spans.npz", "latent-{}.npz"
_OPTIONAL = re.compile(r"spans\.npz|latent-\d{1,2}\.npz")
MOST_LATENT = 64
_CHECKSUMS = "checksums.json"
_ADDED = re.compile(r"report\.json|(network|telemetry|spans|fold-\d+|telemetry-fold-\d+)\.jsonl")
_TRIES, _PAUSE = 100, 0.002  # of a load while the model is being replaced


@dataclass(frozen=True, eq=False)
class Model:
    """The parts of a trained parser.

    Attributes:
        grammar: the base PCFG, which proposes candidate trees.
        vocabulary, category_pairs, parameters: the SU-RNN, which scores them.
        beta: weight of the grammars' score of a tree in the ranking.
        candidates: default length of the candidate list of a sentence.
        about: how the model was made: settings, scores, versions.
        latent: grammars with latent substates. The grammars' score of a tree is log P(tree) if
            there are none; otherwise the sum over all grammars of the log posteriors of its rules
            (a max-rule product).
        spans: scores labelled spans; None if the SU-RNN alone scores trees.
        rnn_weight: weight of the SU-RNN's score beside the span scorer's.
        encoder_name, encoder_checksum: of the encoder whose vectors the span scorer uses; None
            without one. The encoder is not part of the model folder.

    Raises:
        ValueError: the parts do not fit together, a weight is not finite, or a number is out of
            range.
    """

    grammar: Grammar
    vocabulary: Vocabulary
    category_pairs: CategoryPairs
    parameters: Parameters
    beta: float
    candidates: int
    about: dict[str, Any]
    latent: tuple[LatentGrammar, ...] = ()
    spans: SpanModel | None = None
    rnn_weight: float = 1.0
    encoder_name: str | None = None
    encoder_checksum: str | None = None

    def __post_init__(self) -> None:
        sizes = {"V": len(self.vocabulary), "R": len(self.category_pairs)}
        check("weights", PARAMETERS, self.parameters._asdict(), **sizes)
        if len({array.dtype for array in self.parameters}) > 1 or not self.parameters.dim:
            raise ValueError("weights must be of one type and have at least one component")
        if tuple(category_names(self.grammar.pcfg.categories)) != self.category_pairs.categories:
            raise ValueError("the categories of the weights are not those of the grammar")
        _check_number("beta", self.beta, (int, float), 0, GREATEST_BETA)
        _check_number("candidates", self.candidates, int, 1, MOST_CANDIDATES)
        if self.is_mixture and not self.beta > 0:
            raise ValueError("beta must be positive, because several grammars score trees")
        _check_number("rnn_weight", self.rnn_weight, (int, float), 0, GREATEST_BETA)
        categories = 2 * len(self.grammar.pcfg.categories)
        if any(len(latent.substates) != categories for latent in self.latent):
            raise ValueError("a latent grammar has not the categories of the grammar")
        if self.spans is not None and len(self.spans.parameters.labels) != categories // 2:
            raise ValueError("the span scorer has not the categories of the grammar")
        uses_encoder = self.spans is not None and self.spans.parameters.encoder_dim > 0
        for name in ("encoder_name", "encoder_checksum"):
            if isinstance(getattr(self, name), str) != uses_encoder:
                raise ValueError(f"{name} must be text if the span scorer uses an encoder")
        _check_about(self.about)


    @property
    def is_mixture(self) -> bool:
        """Whether more than the base PCFG and the SU-RNN score trees."""
        return bool(self.latent) or self.spans is not None


def model_info(model: Model) -> dict[str, Any]:
    """Sizes, settings and scores of a model as a dict that JSON can hold."""
    pcfg = model.grammar.pcfg
    own: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "symbols": len(pcfg.symbols),
        "categories": len(pcfg.categories),
        "binary_rules": len(pcfg.binary),
        "unary_rules": len(pcfg.unary),
        "vocabulary": len(model.vocabulary),
        "keys": len(model.category_pairs),
        "dim": model.parameters.dim,
        "parameters": int(sum(array.size for array in model.parameters)),
        "candidates": model.candidates,
        "beta": model.beta,
    }
    if model.is_mixture:
        own |= {"latent_grammars": len(model.latent), "rnn_weight": model.rnn_weight}
    if model.encoder_name is not None:
        own["encoder"] = model.encoder_name
    if model.spans is not None:
        own["span_parameters"] = int(sum(array.size for array in model.spans.parameters))
    about = dict(model.about)
    if isinstance(about.get("config"), Mapping):
        about["config"] = with_present_names(about["config"])
    return {**own, **about, **own}


def save_model(model: Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a model folder.

    Args:
        model: the model.
        path: the folder; its parents are made.
        overwrite: whether to replace an existing model. Nothing else is ever replaced.

    Raises:
        ModelError: `path` exists, or cannot be written.
    """
    with new_model_folder(Path(path), overwrite) as folder:
        write_model(model, folder)


@contextmanager
def new_model_folder(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder, which becomes the model folder if the block ends without an error.

    Raises:
        ModelError: as `save_model`.
    """
    folder = path.resolve()
    check_place(folder, overwrite)
    try:
        with replacement(folder, _is_ours) as new:
            yield new
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"{folder}: cannot write the model: {reason}") from error


def write_model(model: Model, folder: Path) -> None:
    """Write the files of a model to a folder."""
    config = {
        "format_version": FORMAT_VERSION,
        "beta": model.beta,
        "kbest": model.candidates,
        "about": model.about,
    }
    if model.is_mixture:
        config |= {"latent": len(model.latent), "rnn_weight": model.rnn_weight}
    if model.encoder_name is not None:
        config["encoder"] = {"name": model.encoder_name, "checksum": model.encoder_checksum}
    write_json(folder / "config.json", config)
    write_arrays(folder / "grammar.npz", model.grammar.to_arrays())
    model.vocabulary.save(folder / "vocabulary.txt")
    weights = {**model.parameters._asdict(), "pairs": model.category_pairs.pairs}
    write_arrays(folder / "weights.npz", weights)
    names = [*_FILES]
    for number, latent in enumerate(model.latent, start=1):
        names.append(_LATENT.format(number))
        write_arrays(folder / names[-1], latent.to_arrays())
    if model.spans is not None:
        names.append(_SPANS)
        write_arrays(folder / _SPANS, span_arrays(*model.spans))
    checksums = {name: checksum((folder / name).read_bytes()) for name in names}
    write_json(folder / _CHECKSUMS, checksums)


def check_place(folder: Path, overwrite: bool) -> None:
    """Raise ModelError if a model may not be written to a path."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not folder.is_dir() or not _is_marked(folder):
            raise ModelError(
                f"{folder}: exists and is not a model; choose another path, or remove it first"
            )
        foreign = foreign_file(folder, _is_ours)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be used: {error.strerror or error}") from error
    if foreign is not None:
        raise ModelError(
            f"{folder}: cannot be replaced: {foreign.relative_to(folder)} is not part of a model; "
            "move that file, or choose another folder for the model"
        )
    if not overwrite:
        raise ModelError(
            f"{folder}: a model exists there; replace it with --overwrite (in Python: "
            "overwrite=True), or choose another folder"
        )


def load_model(path: str | os.PathLike[str]) -> Model:
    """Read a model folder. No code in it is executed.

    While another process replaces the model, this returns the complete old or new one.

    Raises:
        ModelError: the folder does not exist, a file is damaged or has contents that training
            never writes, or the format version differs.
    """
    folder = Path(path)
    try:
        files = _read_while_replaced(folder)
    except FileNotFoundError as error:
        missing = f"{error.filename} is missing" if folder.exists() else "no such folder"
        raise ModelError(f"{folder}: not a model folder: {missing}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{folder}: cannot read the model: {reason}") from error
    return _model(folder, files)


def _model(folder: Path, files: Mapping[str, bytes]) -> Model:
    """The model, from the bytes of its files."""
    with _part(folder / "grammar.npz"):
        grammar = Grammar.from_arrays(parse_arrays(files["grammar.npz"]))
    with _part(folder / "vocabulary.txt"):
        vocabulary = Vocabulary.from_bytes(files["vocabulary.txt"])
    with _part(folder / "weights.npz"):
        weights = parse_arrays(files["weights.npz"])
        category_pairs = CategoryPairs(
            tuple(category_names(grammar.pcfg.categories)), weights.pop("pairs")
        )
        parameters = Parameters(**weights)
    latent = []
    for number in range(1, 1 + sum(name not in (*_FILES, _SPANS) for name in files)):
        name = _LATENT.format(number)
        with _part(folder / name):
            latent.append(LatentGrammar.from_arrays(parse_arrays(files[name])))
    spans = None
    if _SPANS in files:
        with _part(folder / _SPANS):
            given = grammar.lexicon.tagger.vectors
            spans = read_span_arrays(parse_arrays(files[_SPANS]), given)
    with _part(folder):
        config = parse_json(files["config.json"])
        beta, candidates, about = (config[name] for name in ("beta", "kbest", "about"))
        encoder = config.get("encoder", {})
        return Model(
            grammar, vocabulary, category_pairs, parameters, beta, candidates, about,
            tuple(latent), spans, config.get("rnn_weight", 1.0),
            encoder.get("name"), encoder.get("checksum"),
        )


@contextmanager
def _part(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RnnparseError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ModelError(f"{path}: cannot read the model: {reason}") from error


def _read_while_replaced(folder: Path) -> dict[str, bytes]:
    """The files of a model, read again if another folder took its place meanwhile."""
    for _ in range(_TRIES):
        place = folder if folder.exists() else set_aside(folder) or folder
        before = _identity(place)
        try:
            return _read_files(place)
        except (OSError, ValueError, ModelError):
            if before == _identity(place):
                raise
        time.sleep(_PAUSE)
    return _read_files(folder)


def _identity(folder: Path) -> tuple[int, ...] | None:
    """A value that changes when another folder takes the place of this one."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _read_files(folder: Path) -> dict[str, bytes]:
    checksums = read_json(folder / _CHECKSUMS)
    if not isinstance(checksums, dict):
        raise ValueError(f"{_CHECKSUMS} has no checksums")

    def checked(name: str) -> bytes:
        content = read_regular(folder / name)
        if checksums.get(name) != checksum(content):
            raise ModelError(f"{folder / name}: damaged: its checksum differs")
        return content

    files = {"config.json": checked("config.json")}
    config = parse_json(files["config.json"])
    if not isinstance(config, dict) or "format_version" not in config:
        raise ValueError("config.json is not the config of a model")
    version = config["format_version"]
    if version != FORMAT_VERSION:
        raise ModelError(
            f"{folder}: format version {str(version)[:40]}; this program reads version "
            f"{FORMAT_VERSION}: train the model again"
        )
    more = _optional_files(config, set(checksums) - set(_FILES))
    return files | {name: checked(name) for name in (*_FILES, *more) if name not in files}


def _optional_files(config: Mapping[str, Any], named: set[str]) -> list[str]:
    """The files that a model has for its latent grammars and its span scorer.

    Raises:
        ValueError: the checksums name others than config.json.
    """
    count = config.get("latent", 0)
    _check_number("latent", count, int, 0, MOST_LATENT)
    files = [_LATENT.format(number) for number in range(1, count + 1)]
    if named - {*files, _SPANS} or set(files) - named:
        raise ValueError(f"{_CHECKSUMS} does not name the {count} latent grammars of config.json")
    return sorted(named)


def _is_marked(folder: Path) -> bool:
    """Whether a folder has the checksums of a model."""
    try:
        checksums = read_json(folder / _CHECKSUMS)
    except (OSError, ValueError):
        return False
    if not isinstance(checksums, dict):
        return False
    more = set(checksums) - set(_FILES)
    return set(_FILES) <= set(checksums) and all(map(_OPTIONAL.fullmatch, more))


def _is_ours(name: str) -> bool:
    """Whether this program writes files of this name into model folders."""
    name = without_temporary(name)
    known = name in _FILES or name == _CHECKSUMS
    return known or any(kind.fullmatch(name) is not None for kind in (_ADDED, _OPTIONAL))


def _check_number(name: str, value: Any, kinds: Any, low: float, high: float) -> None:
    number = isinstance(value, kinds) and not isinstance(value, bool)
    if not number or not low <= value <= high:  # NaN fails, too
        raise ValueError(f"{name} must be a number from {low} to {high:g}, not {str(value)[:40]}")


_ABOUT = {"version": str, "config": dict, "dev_scores": dict, "epoch": int, "sentences": int}


def _check_about(about: Any) -> None:
    if not isinstance(about, dict):
        raise ValueError(f"about must be a mapping, not {type(about).__name__}")
    for name, kind in _ABOUT.items():
        if name in about and not isinstance(about[name], kind):
            raise ValueError(f"about.{name} must be of type {kind.__name__}")

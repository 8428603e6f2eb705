"""Errors that are shown to people: each says what is wrong, where, and what to do."""

from __future__ import annotations


class RnnparseError(Exception):
    """Base of every error that the command line prints without a traceback."""


class TreebankError(RnnparseError):
    """A treebank file is malformed or unreadable.

    Attributes:
        path: the file as the user named it (`<stdin>` for standard input).
        line, column: 1-based position, or None where the whole file is meant.
    """

    def __init__(
        self, message: str, path: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        self.path, self.line, self.column = path, line, column
        place = ":".join(str(part) for part in (path, line, column) if part not in (None, ""))
        super().__init__(f"{place}: {message}" if place else message)


class ConfigError(RnnparseError):
    """A setting is unknown, out of range, or contradicts another."""


class ModelError(RnnparseError):
    """A model folder is missing, damaged, or of another format version."""


class DivergedError(RnnparseError):
    """Training diverged in its first epoch, so that there is no model."""


class VectorError(RnnparseError):
    """A word-vector file is malformed or unreadable."""


class EncoderError(RnnparseError):
    """A pre-trained encoder is missing, damaged or unsupported, or returns what it should not."""


class StudyError(RnnparseError):
    """A study folder is missing, damaged, in use, or belongs to other data."""


class WorkersError(RnnparseError):
    """A cluster does not answer, or a worker process has died."""


class OutOfMemoryError(RnnparseError, MemoryError):
    """There is too little memory for a sentence, which the message names."""


class MissingExtraError(RnnparseError):
    """An optional package is needed; the message names the `pip install` that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package}, which is not installed: "
            f"pip install 'rnnparse[{extra}]'"
        )

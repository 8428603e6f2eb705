"""Head tables: rules that find the head child of a constituent.

In the text format each line is a rule; blank lines and lines that begin with `#` are ignored:

    *    left                      # the first child, for parents (or cases) without a rule
    NP   right-any  NN NNS NNP     # from the right, the first child with any of these labels
    NP   left       NP             # else from the left, the first NP
    PP   right      IN TO          # from the right, the first IN; else from the right, the first TO
    PP   right                     # else the last child, whatever its label

(The remarks on the right are not part of the format: `#` is a tag of the Penn Treebank, so only
whole lines are comments.) A parent's rules are tried in the order of their lines. The line `*` is
required once, with only `left` or `right`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rnnparse.errors import ConfigError

DIRECTIONS = ("left", "right", "left-any", "right-any")
_ENGLISH = Path(__file__).with_name("english.heads")
_DEFAULT = "*"


@dataclass(frozen=True)
class HeadRule:
    """One step in the search for a head.

    Attributes:
        direction: "left": for each label in turn, the first child from the left that has it;
            "right": the same from the right; "left-any", "right-any": the first child from that
            side that has any of the labels.
        labels: basic labels. Empty with "left" or "right": the first or last child itself.

    Raises:
        ConfigError: the direction is unknown, a label is invalid in the text format, or an "any"
            rule has no labels.
    """

    direction: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ConfigError(
                f"unknown direction {self.direction!r} in a head rule; "
                f"expected one of {', '.join(DIRECTIONS)}"
            )
        if not self.labels and self.direction.endswith("-any"):
            raise ConfigError(f"a head rule {self.direction!r} needs at least one label")
        for label in self.labels:
            _check_label(label)

    def find(self, children: Sequence[str]) -> int | None:
        """The index of the head among one or more children, or None if no label matches."""
        indices = range(len(children))
        if self.direction.startswith("right"):
            indices = indices[::-1]
        if not self.labels:
            return indices[0]
        if self.direction.endswith("-any"):
            return next((i for i in indices if children[i] in self.labels), None)
        for label in self.labels:
            if label in children:
                return next(i for i in indices if children[i] == label)
        return None


@dataclass(frozen=True)
class HeadTable:
    """Head rules by parent label, and a default.

    Attributes:
        rules: for each parent label its rules, tried in order.
        default: "left" (first child) or "right" (last child), if no rule finds a head.

    Raises:
        ConfigError: a parent label is invalid in the text format, or the default is unknown.
    """

    rules: Mapping[str, tuple[HeadRule, ...]]
    default: str = "left"

    def __post_init__(self) -> None:
        if self.default not in ("left", "right"):
            raise ConfigError(f"the default head is 'left' or 'right', not {self.default!r}")
        for parent in self.rules:
            _check_label(parent)
            if parent.startswith("#") or parent == _DEFAULT:
                raise ConfigError(f"{parent!r} cannot be a parent label in a head table")

    @classmethod
    def english(cls) -> HeadTable:
        """Rules for Penn Treebank labels after Collins (1999, appendix A), and for NML."""
        return cls.load(_ENGLISH)

    @classmethod
    def left(cls) -> HeadTable:
        """The first child is always the head."""
        return cls({}, "left")

    @classmethod
    def right(cls) -> HeadTable:
        """The last child is always the head."""
        return cls({}, "right")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HeadTable:
        """Read a table in the text format of the module docstring.

        Raises:
            ConfigError: the file cannot be read, or a line is malformed; names file and line.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"{os.fspath(path)}: cannot read head rules: {reason}") from error
        return cls.from_text(text, os.fspath(path))

    @classmethod
    def from_text(cls, text: str, name: str = "head rules") -> HeadTable:
        """Parse the text format; errors begin with `name` and the line number.

        Raises:
            ConfigError: a line is malformed, or the line `*` is missing.
        """
        rules: dict[str, tuple[HeadRule, ...]] = {}
        default = None
        for number, line in enumerate(text.split("\n"), 1):
            fields = line.split()
            if not fields or line.startswith("#"):
                continue
            try:
                if len(fields) < 2:
                    raise ConfigError(f"expected a parent label and a direction, found {line!r}")
                parent, rule = fields[0], HeadRule(fields[1], tuple(fields[2:]))
                if parent == _DEFAULT:
                    if default is not None or rule.labels:
                        raise ConfigError("expected the line '*' once, with left or right alone")
                    default = rule.direction
                else:
                    rules[parent] = (*rules.get(parent, ()), rule)
            except ConfigError as error:
                raise ConfigError(f"{name}:{number}: {error}") from error
        if default is None:
            raise ConfigError(f"{name}: the line '* left' or '* right' (the default) is missing")
        return cls(rules, default)

    def to_text(self) -> str:
        """The table in the text format: `HeadTable.from_text(t.to_text()) == t`."""
        lines = [f"{_DEFAULT} {self.default}"]
        for parent, rules in self.rules.items():
            lines += [" ".join((parent, rule.direction, *rule.labels)) for rule in rules]
        return "\n".join(lines) + "\n"

    def find(self, label: str, child_labels: Sequence[str]) -> int:
        """The index of the head child.

        Args:
            label: the parent's basic label.
            child_labels: basic labels of its one or more children.

        Raises:
            ValueError: there are no children.
        """
        if not child_labels:
            raise ValueError(f"the node {label!r} has no children")
        for rule in self.rules.get(label, ()):
            head = rule.find(child_labels)
            if head is not None:
                return head
        return 0 if self.default == "left" else len(child_labels) - 1

    def compile(self, labels: Sequence[str]) -> CompiledHeads:
        """The table on label ids, for `rnnparse.trees.head_kernel.find_head`.

        Args:
            labels: label of each id. Labels of rules that are not among these are dropped.
        """
        ids = {label: i for i, label in enumerate(labels)}
        rule_ptr, label_ptr = [0], [0]
        directions: list[int] = []
        label_ids: list[int] = []
        for label in labels:
            for rule in self.rules.get(label, ()):
                direction = DIRECTIONS.index(rule.direction)
                # A rule without labels takes the first or last child; a rule whose labels were
                # all dropped finds nothing. Hence their codes differ.
                directions.append(direction if rule.labels else direction + len(DIRECTIONS))
                label_ids += [ids[name] for name in rule.labels if name in ids]
                label_ptr.append(len(label_ids))
            rule_ptr.append(len(directions))
        return CompiledHeads(
            rule_ptr=np.array(rule_ptr, np.int32),
            rule_direction=np.array(directions, np.int32),
            label_ptr=np.array(label_ptr, np.int32),
            label_ids=np.array(label_ids, np.int32),
            default_right=self.default == "right",
        )


@dataclass(frozen=True)
class CompiledHeads:
    """A head table on label ids 0 … L-1, with R rules, as arrays for numba kernels.

    Attributes:
        rule_ptr: int32[L+1]; the rules of parent p are rule_ptr[p] … rule_ptr[p+1]-1.
        rule_direction: int32[R]; index into `DIRECTIONS`, plus 4 for a rule without labels.
        label_ptr: int32[R+1]; the labels of rule r are label_ids[label_ptr[r]:label_ptr[r+1]].
        label_ids: int32[M].
        default_right: whether the last child, else the first, is the default head.
    """

    rule_ptr: NDArray[np.int32]
    rule_direction: NDArray[np.int32]
    label_ptr: NDArray[np.int32]
    label_ids: NDArray[np.int32]
    default_right: bool

    @property
    def arrays(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], bool]:
        """The last arguments of `find_head`, in its order."""
        return (
            self.rule_ptr,
            self.rule_direction,
            self.label_ptr,
            self.label_ids,
            self.default_right,
        )


def _check_label(label: str) -> None:
    if not label or label.split() != [label]:
        raise ConfigError(f"a label in a head table cannot be empty or contain spaces: {label!r}")

"""State splits: from a treebank tree to the rules of an annotated, binarized grammar.

The splits are those of Klein & Manning, "Accurate Unlexicalized Parsing" (ACL 2003), that pay on
small treebanks. They are written for Penn labels; on other label sets the ones that name labels
do nothing and the structural ones still work.

An annotated symbol is written `NP^S-B`; an intermediate symbol of the head-outward binarization
`@NP^S|CC>`: it remembers the parent's label and the sister that was attached last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nltk.tree import Tree

from rnnparse.trees.binarize import outward_order
from rnnparse.trees.heads import HeadTable

ROOT = "TOP"
INTERMEDIATE = "@"

SPLITS = (
    "parent",  # phrases carry their parent's label
    "tag-parent",  # so do tags
    "split-in",  # prepositions and conjunctions carry their grandparent's label too
    "split-aux",  # forms of be and have
    "split-cc",  # but, & apart from other conjunctions
    "split-percent",  # the percent sign
    "unary",  # phrases with one child; determiners and adverbs that are only children
    "split-vp",  # verb phrases by the tag of their head
    "poss-np",  # noun phrases that end in a possessive
    "base-np",  # noun phrases over tags alone
    "dominates-verb",
    "right-rec-np",  # noun phrases with a noun phrase at their right edge
)

_BE = frozenset("be am is are was were been being 's 're 'm ai".split())
_HAVE = frozenset("have has had having 've 'd".split())
_FINITE = frozenset({"VBD", "VBZ", "VBP", "MD"})


class Rule(NamedTuple):
    """One rule occurrence: annotated parent and one or two annotated children."""

    parent: str
    left: str
    right: str  # "" for a unary rule


class TaggedWord(NamedTuple):
    """One lexical occurrence."""

    state: str
    word: str
    first: bool  # whether it begins the sentence


@dataclass
class _Node:
    """A tree node with what the splits look at."""

    label: str
    children: list[_Node]
    parent: _Node | None
    word: str | None
    state: str = ""
    marks: tuple[str, ...] = ()
    head: int = 0
    has_verb: bool = False
    head_tag: str = ""
    ends_in_pos: bool = False
    right_np: bool = False


def _nodes(tree: Tree) -> list[_Node]:
    """All nodes of a cleaned tree in pre-order, with parents linked."""
    out: list[_Node] = []
    stack: list[tuple[Tree, _Node | None]] = [(tree, None)]
    while stack:
        subtree, parent = stack.pop()
        is_tag = len(subtree) == 1 and isinstance(subtree[0], str)
        node = _Node(subtree.label(), [], parent, subtree[0] if is_tag else None)
        if parent is not None:
            parent.children.append(node)
        out.append(node)
        if not is_tag:
            stack.extend((child, node) for child in reversed(subtree))
    return out


class Annotator:
    """Turns cleaned trees into annotated rule occurrences.

    Args:
        heads: the head table that decides the order of binarization.
        splits: names out of `SPLITS`.
    """

    def __init__(self, heads: HeadTable, splits: Sequence[str] = SPLITS) -> None:
        unknown = sorted(set(splits) - set(SPLITS))
        if unknown:
            raise ValueError(f"unknown splits {unknown}; known are {list(SPLITS)}")
        self.heads = heads
        self.splits = frozenset(splits)
        # of every symbol made so far: basic category, and whether it is an intermediate one
        self.category: dict[str, tuple[str, bool]] = {}
        self.word_tag: dict[str, str] = {}  # of a tag's symbol: the tag and word-decided marks
        self.backoff: dict[str, str] = {}  # the symbol without annotation, where there is one

    def occurrences(self, tree: Tree) -> Iterator[Rule | TaggedWord]:
        """All rule and word occurrences of one cleaned tree, in pre-order."""
        nodes = _nodes(tree)
        self._look(nodes)
        first = True
        for node in nodes:
            node.state = self._state(node)
        for node in nodes:
            if node.word is not None:
                yield TaggedWord(node.state, node.word, first)
                first = False
            else:
                yield from self._rules(node)

    def _look(self, nodes: list[_Node]) -> None:
        """Fill in, from the leaves up, what the splits ask of each node."""
        for node in reversed(nodes):
            if node.word is not None:
                node.head_tag = node.label
                node.has_verb = node.label.startswith("V") or node.label == "MD"
                node.ends_in_pos = node.label == "POS"
                continue
            labels = [child.label for child in node.children]
            node.head = self.heads.find(node.label, labels)
            node.head_tag = node.children[node.head].head_tag
            node.has_verb = any(child.has_verb for child in node.children)
            last = node.children[-1]
            node.ends_in_pos = last.ends_in_pos and last.word is not None
            node.right_np = last.label == "NP" or last.right_np

    def _state(self, node: _Node) -> str:
        if node.word is not None:
            word_marks = self._word_marks(node)
            node.marks = (*word_marks, *self._tag_marks(node))
            state = self._register(node.label, node.marks)
            self.word_tag[state] = "-".join([node.label, *word_marks])
            return state
        elif node.parent is not None:
            node.marks = tuple(self._phrase_marks(node))
        return self._register(node.label, node.marks)

    def _register(self, label: str, marks: Sequence[str], context: str = "") -> str:
        """The name of a symbol; two categories never share one, whatever their labels contain."""
        category = (label, bool(context))
        stem = INTERMEDIATE + label if context else label
        if not marks:
            return self._name(stem + context, category)
        state = self._name(stem + "^" + "-".join(marks) + context, category)
        self.backoff[state] = self._name(stem + context, category)
        return state

    def _name(self, name: str, category: tuple[str, bool]) -> str:
        while self.category.setdefault(name, category) != category:
            name += "'"
        return name

    def _word_marks(self, node: _Node) -> list[str]:
        """Marks of a tag that the word alone decides."""
        assert node.word is not None
        on, lower = self.splits, node.word.lower()
        if "split-aux" in on and node.label.startswith("VB"):
            return ["BE"] if lower in _BE else ["HAVE"] if lower in _HAVE else []
        if "split-cc" in on and node.label == "CC" and lower in ("but", "&"):
            return [lower.upper()]
        if "split-percent" in on and node.word == "%":
            return ["PCT"]
        return []

    def _tag_marks(self, node: _Node) -> list[str]:
        """Marks of a tag that its surroundings decide."""
        on, marks, parent = self.splits, [], node.parent
        if parent is None:
            return []
        if "tag-parent" in on:
            marks.append(parent.label)
        if "split-in" in on and node.label == "IN" and parent.parent is not None:
            marks.append(parent.parent.label)
        if "unary" in on and node.label in ("DT", "RB") and len(parent.children) == 1:
            marks.append("U")
        return marks

    def _phrase_marks(self, node: _Node) -> list[str]:
        on, marks = self.splits, []
        if "parent" in on and node.parent is not None:
            marks.append(node.parent.label)
        if "unary" in on and len(node.children) == 1:
            marks.append("U")
        if "split-vp" in on and node.label == "VP":
            marks.append("VBF" if node.head_tag in _FINITE else node.head_tag)
        if node.label == "NP":
            if "poss-np" in on and node.ends_in_pos:
                marks.append("P")
            if "base-np" in on and all(child.word is not None for child in node.children):
                marks.append("B")
            if "right-rec-np" in on and node.right_np:
                marks.append("R")
        if "dominates-verb" in on and node.has_verb:
            marks.append("v")
        return marks

    def _rules(self, node: _Node) -> Iterator[Rule]:
        """The rules of one node: unary, binary, or a chain of binary ones from the outside in."""
        low, high = 0, len(node.children) - 1
        symbol = node.state
        children = [child.state for child in node.children]
        if low == high:
            yield Rule(symbol, children[0], "")
            return
        steps = outward_order(len(children), node.head)
        for step in steps:
            if step == "right":
                inner = self._intermediate(node, low, high - 1)
                yield Rule(symbol, inner, children[high])
                high -= 1
            else:
                inner = self._intermediate(node, low + 1, high)
                yield Rule(symbol, children[low], inner)
                low += 1
            symbol = inner
        yield Rule(symbol, children[low], children[high])

    def _intermediate(self, node: _Node, low: int, high: int) -> str:
        """The symbol over children low..high: horizontal order 1, without the head."""
        if high > node.head:
            context = "|" + node.children[high].label + ">"
        elif low < node.head:
            context = "|" + node.children[low].label + "<"
        else:
            context = "|"
        return self._register(node.label, self.inner_marks(node), context)

    inner_marks = staticmethod(lambda node: node.marks)

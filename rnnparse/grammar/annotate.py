"""State splits: from a treebank tree to the rules of an annotated, binarized grammar.

The splits are those of Klein & Manning, "Accurate Unlexicalized Parsing" (ACL 2003), that help on
small treebanks. Those that name Penn labels have no effect on other label sets; the structural ones
work for all.

An annotated symbol is written `NP^S-B`; an intermediate symbol of the head-outward binarization
`@NP^S-B|DT<CC>`: it has its phrase's annotations and the labels of the outermost sisters within
its span, left and right of the head (horizontal order 1, without the head).

A symbol seen fewer than `rare` times loses its last annotation, and so on until it is frequent
enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rnnparse.errors import ConfigError
from rnnparse.trees.binarization import INTERMEDIATE, outward_order
from rnnparse.trees.heads import HeadTable

if TYPE_CHECKING:
    from nltk.tree import Tree

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

BACKOFF = "~"  # ends the name of a symbol that only smooths others

_BE = frozenset(("be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m", "ai"))
_HAVE = frozenset(("have", "has", "had", "having", "'ve", "'d"))
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
    """A tree node with the features that the splits use."""

    label: str
    children: list[_Node]
    parent: _Node | None
    word: str | None
    state: str = ""
    annotations: tuple[str, ...] = ()
    fixed: int = 0  # how many annotations the word alone decides
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
    """Converts cleaned trees to annotated rule occurrences.

    Args:
        heads: the head table that decides the order of binarization.
        splits: names from `SPLITS`.
        rare: symbols seen fewer times in `trees` lose annotations.
        trees: the cleaned trees in which to count.

    Attributes:
        category: of every symbol, its basic category and whether it is an intermediate one.
        word_tag: of a tag's symbol, the tag with the annotations that the word alone decides.
        backoff: of a symbol with several annotations, the symbol that keeps only the first one and
            is not itself used in trees.
    """

    def __init__(
        self, heads: HeadTable, splits: Sequence[str], rare: int, trees: Iterable[Tree]
    ) -> None:
        unknown = sorted(set(splits) - set(SPLITS))
        if unknown:
            raise ConfigError(f"unknown state splits {unknown}; known are {list(SPLITS)}")
        self.heads = heads
        self.splits = frozenset(splits)
        self.category: dict[str, tuple[str, bool]] = {}
        self.word_tag: dict[str, str] = {}
        self.backoff: dict[str, str] = {}
        self._names: dict[tuple[tuple[str, bool], tuple[str, ...], str, str], str] = {}
        self._rare = rare
        self._counts: Counter[tuple[str, tuple[str, ...], str]] = Counter()
        for tree in trees:
            self._count(tree)

    def _count(self, tree: Tree) -> None:
        """Count every symbol with all its annotations, and with each shorter list of them."""
        for node in self._annotated(tree):
            low, high = 0, len(node.children) - 1
            contexts = [""]
            for step in outward_order(high + 1, node.head) if node.children else ():
                low, high = (low, high - 1) if step == "right" else (low + 1, high)
                contexts.append(_context(node, low, high))
            for context in contexts:
                for size in range(len(node.annotations) + 1):
                    self._counts[node.label, node.annotations[:size], context] += 1

    def occurrences(self, tree: Tree) -> Iterator[Rule | TaggedWord]:
        """All rule and word occurrences of one cleaned tree, in pre-order."""
        nodes = self._annotated(tree)
        for node in nodes:
            node.state = self._symbol(node, "")
        first = True
        for node in nodes:
            if node.word is not None:
                self.word_tag[node.state] = "-".join([node.label, *node.annotations[: node.fixed]])
                yield TaggedWord(node.state, node.word, first)
                first = False
            else:
                yield from self._rules(node)

    def _annotated(self, tree: Tree) -> list[_Node]:
        """The nodes of a tree with the annotations of all splits."""
        nodes = _nodes(tree)
        self._look(nodes)
        for node in nodes:
            if node.word is not None:
                word_annotations = self._word_annotations(node)
                node.fixed = len(word_annotations)
                node.annotations = (*word_annotations, *self._tag_annotations(node))
            elif node.parent is not None:
                node.annotations = tuple(self._phrase_annotations(node))
        return nodes

    def _symbol(self, node: _Node, context: str) -> str:
        """The symbol of a node, or of an intermediate one; fills the public tables."""
        category, annotations = (node.label, bool(context)), node.annotations
        while (
            len(annotations) > node.fixed
            and self._counts[node.label, annotations, context] < self._rare
        ):
            annotations = annotations[:-1]
        state = self._name(annotations, context, "", category)
        if len(annotations) > 1 and node.word is None:
            self.backoff[state] = self._name(annotations[:1], context, BACKOFF, category)
        return state

    def _name(
        self, annotations: Sequence[str], context: str, suffix: str, category: tuple[str, bool]
    ) -> str:
        """A name for a symbol; distinct symbols have distinct names, whatever their labels."""
        symbol = (category, tuple(annotations), context, suffix)
        if symbol not in self._names:
            stem = INTERMEDIATE + category[0] if category[1] else category[0]
            name = stem + ("^" + "-".join(annotations) if annotations else "") + context + suffix
            while name in self.category:
                name += "'"
            self._names[symbol] = name
            self.category[name] = category
        return self._names[symbol]

    def _look(self, nodes: list[_Node]) -> None:
        """Compute the features of each node, from the leaves up."""
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

    def _word_annotations(self, node: _Node) -> list[str]:
        """Annotations of a tag that depend only on its word."""
        assert node.word is not None
        on, lower = self.splits, node.word.lower()
        if "split-aux" in on and node.label.startswith("VB"):
            return ["BE"] if lower in _BE else ["HAVE"] if lower in _HAVE else []
        if "split-cc" in on and node.label == "CC" and lower in ("but", "&"):
            return [lower.upper()]
        if "split-percent" in on and node.word == "%":
            return ["PCT"]
        return []

    def _tag_annotations(self, node: _Node) -> list[str]:
        """Annotations of a tag that depend on its context."""
        on, annotations, parent = self.splits, [], node.parent
        if parent is None:
            return []
        if "tag-parent" in on:
            annotations.append(parent.label)
        if "split-in" in on and node.label == "IN" and parent.parent is not None:
            annotations.append(parent.parent.label)
        if "unary" in on and node.label in ("DT", "RB") and len(parent.children) == 1:
            annotations.append("U")
        return annotations

    def _phrase_annotations(self, node: _Node) -> list[str]:
        on, annotations = self.splits, []
        if "parent" in on and node.parent is not None:
            annotations.append(node.parent.label)
        if "unary" in on and len(node.children) == 1:
            annotations.append("U")
        if "split-vp" in on and node.label == "VP":
            annotations.append("VBF" if node.head_tag in _FINITE else node.head_tag)
        if node.label == "NP":
            if "poss-np" in on and node.ends_in_pos:
                annotations.append("P")
            if "base-np" in on and all(child.word is not None for child in node.children):
                annotations.append("B")
            if "right-rec-np" in on and node.right_np:
                annotations.append("R")
        if "dominates-verb" in on and node.has_verb:
            annotations.append("v")
        return annotations

    def _rules(self, node: _Node) -> Iterator[Rule]:
        """The rules of one node: unary, binary, or a chain of binary ones from the outside in."""
        symbol = node.state
        children = [child.state for child in node.children]
        low, high = 0, len(children) - 1
        if low == high:
            yield Rule(symbol, children[0], "")
            return
        for step in outward_order(len(children), node.head):
            if step == "right":
                inner = self._symbol(node, _context(node, low, high - 1))
                yield Rule(symbol, inner, children[high])
                high -= 1
            else:
                inner = self._symbol(node, _context(node, low + 1, high))
                yield Rule(symbol, children[low], inner)
                low += 1
            symbol = inner
        yield Rule(symbol, children[low], children[high])


def _context(node: _Node, low: int, high: int) -> str:
    """The labels of children low..high in their intermediate symbol."""
    left = node.children[low].label + "<" if low < node.head else ""
    right = node.children[high].label + ">" if high > node.head else ""
    return "|" + left + right

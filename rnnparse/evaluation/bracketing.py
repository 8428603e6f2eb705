"""A sentence's words and brackets as EVALB sees them, from a line of text or from a tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rnnparse.errors import TreebankError
from rnnparse.evaluation.params import EvalbParams

if TYPE_CHECKING:  # importing NLTK takes longer than scoring a small test set
    from nltk.tree import Tree

Span = tuple[str, int, int]
"""A constituent: label, first word, end (exclusive); words are counted after deletion."""

UNCLOSED = -1
UNBALANCED = "Bracketing is unbalanced (too many open bracket)"

# C's isspace; no byte of a non-ASCII UTF-8 character satisfies it.
_SPACE = r"[ \t\n\v\f\r]"
_TOKEN = r"[^ \t\n\v\f\r()]*"
_SCANNER = re.compile(
    rf"\((?P<tag>{_TOKEN}){_SPACE}+(?P<word>{_TOKEN})\)"
    rf"|\((?P<open>{_TOKEN})|(?P<close>\))|(?P<space>{_SPACE}+)"
)
_QUOTES = frozenset(("'", '"', "/"))
_TRACE = "-NONE-"  # a tag that only gold trees have


@dataclass(eq=False)  # two marks are the same only if they are the same object
class Quote:
    """A possible quotation mark, with its position (that before deletion, if it was deleted)."""

    word: str
    tag: str
    position: int
    bracket: int  # number of brackets opened before it
    around: list[int]  # the brackets open around it


@dataclass
class Bracketing:
    """Words, tags and brackets of one sentence.

    Attributes:
        words, tags: the words that are not deleted, with their tags.
        labels, starts, ends: the brackets in the order in which they open, none deleted yet;
            starts and ends count the words above, ends are exclusive, UNCLOSED if missing.
        length: number of words as EVALB counts them (all but `delete_labels_for_length`).
        quotes: words with tags in `quote_labels`, deleted or not.
        problem: EVALB's message about the line, or the empty string.
        all_tags: tags of all words except traces, deleted or not.
        deciding: tags that decide which words are deleted; empty if the words' own tags do.
    """

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    length: int = 0
    quotes: list[Quote] = field(default_factory=list)
    problem: str = ""
    all_tags: list[str] = field(default_factory=list)
    deciding: Sequence[str] = ()

    def open(self, label: str) -> int:
        """Begin a bracket before the next word and return its number."""
        self.labels.append(label)
        self.starts.append(len(self.words))
        self.ends.append(UNCLOSED)
        return len(self.labels) - 1

    def add(self, tag: str, word: str, around: list[int], params: EvalbParams) -> None:
        """Add the next word, unless its tag is deleted."""
        decides = tag
        if tag != _TRACE:
            place = len(self.all_tags)
            self.all_tags.append(tag)
            decides = self.deciding[place] if place < len(self.deciding) else tag
        if decides not in params.uncounted_tags:
            self.length += 1
        if tag in params.quote_labels and word in _QUOTES:
            quote = Quote(word, tag, len(self.words), len(self.labels), list(around))
            self.quotes.append(quote)
        if decides not in params.deleted_tags:
            self.words.append(word)
            self.tags.append(tag)

    def reinsert(self, quote: Quote) -> None:
        """Restore a deleted quotation mark."""
        self.words.insert(quote.position, quote.word)
        self.tags.insert(quote.position, quote.tag)
        for bracket in range(quote.bracket, len(self.labels)):
            self.starts[bracket] += 1
            self.ends[bracket] += 1
        for bracket in quote.around:
            self.ends[bracket] += 1
        for later in self.quotes[self.quotes.index(quote) :]:
            later.position += 1

    def prepare(self, params: EvalbParams) -> list[bool]:
        """Trim the labels of brackets (NP-SBJ, NP=2 -> NP) and find out which brackets count.

        Deleted brackets do not count, nor do brackets without words, whose labels are not trimmed.
        """
        counts = []
        deleted = params.deleted_brackets
        for bracket, label in enumerate(self.labels):
            if self.starts[bracket] == self.ends[bracket]:
                counts.append(False)
                continue
            if "-" in label or "=" in label:
                label = trim_label(label)
                self.labels[bracket] = label
            counts.append(label not in deleted)
        return counts

    def spans(self, params: EvalbParams) -> list[Span]:
        """The brackets that count, in the order in which they open."""
        counts = self.prepare(params)
        triples = zip(self.labels, self.starts, self.ends, strict=True)
        return [span for span, count in zip(triples, counts, strict=True) if count]


def trim_label(label: str) -> str:
    """The label up to its first `-` or `=`."""
    return re.split("[-=]", label, maxsplit=1)[0]


def read_line(
    line: str,
    params: EvalbParams,
    path: str = "",
    number: int | None = None,
    deciding: Sequence[str] = (),
) -> Bracketing:
    """Scan one line of bracketed text; a line is one sentence.

    `deciding` is that of the result. Unclosed brackets are an error of the sentence, as in EVALB,
    and go into `problem`. Input that makes EVALB loop or overwrite its own memory is an error of
    the file.

    Raises:
        TreebankError: there is text outside brackets, a bracket with several words, or an extra
            closing bracket; the message names file, line and column.
    """
    result = Bracketing(deciding=deciding)
    stack: list[int] = []
    position, match = 0, _SCANNER.match
    while position < len(line):
        token = match(line, position)
        if token is None:
            raise TreebankError(
                f"expected a bracket, found {_word_at(line, position)!r}: each word needs "
                "its own bracket, as in (NN dog), and each tree its own line",
                path,
                number,
                position + 1,
            )
        kind = token.lastgroup
        if kind == "word":
            result.add(token["tag"], token["word"], stack, params)
        elif kind == "open":
            stack.append(result.open(token["open"]))
        elif kind == "close":
            if not stack:
                raise TreebankError(
                    "extra closing bracket (each tree must have its own line)",
                    path,
                    number,
                    position + 1,
                )
            result.ends[stack.pop()] = len(result.words)
        position = token.end()
    if stack:
        result.problem = UNBALANCED
    return result


def _word_at(line: str, position: int) -> str:
    match = re.compile(_TOKEN).match(line, position)
    return match.group() if match else ""


def read_tree(
    tree: Tree, params: EvalbParams, name: str = "", deciding: Sequence[str] = ()
) -> Bracketing:
    """The bracketing of an `nltk.Tree`; a tree without leaves is a sentence without words.

    Raises:
        TreebankError: a leaf is not the only child of its parent; the message contains `name`.
    """
    result = Bracketing(deciding=deciding)
    around: list[int] = []
    todo: list[Tree | int] = [tree]  # a number closes that bracket
    while todo:
        node = todo.pop()
        if isinstance(node, int):
            result.ends[node] = len(result.words)
            around.pop()
        elif len(node) == 1 and isinstance(node[0], str):
            result.add(str(node.label()), node[0], around, params)
        else:
            if any(isinstance(child, str) for child in node):
                leaf = next(child for child in node if isinstance(child, str))
                raise TreebankError(
                    f"the word {leaf!r} under {node.label()} has siblings; each word needs "
                    "its own tag, as in (NN dog)",
                    name,
                )
            bracket = result.open(str(node.label()))
            around.append(bracket)
            todo.append(bracket)
            todo.extend(reversed(node))
    return result


def read_pair(
    gold: Tree, test: Tree, params: EvalbParams, number: int
) -> tuple[Bracketing, Bracketing]:
    """Both trees of sentence `number`, with words deleted according to `params.delete_by`.

    Raises:
        TreebankError: as `read_tree`.
    """
    ours = read_tree(gold, params, f"gold tree {number}")
    return ours, read_tree(test, params, f"test tree {number}", deciding_tags(ours, params))


def deciding_tags(gold: Bracketing, params: EvalbParams) -> Sequence[str]:
    """Tags that decide which words of the test tree are deleted; empty for its own tags."""
    return gold.all_tags if params.delete_by == "gold" else ()


def repair_quotes(gold: Bracketing, test: Bracketing, params: EvalbParams) -> None:
    """Restore a quotation mark that one side deletes and the other keeps as a possessive.

    Follows EVALB's `fix_quote`, which compares marks at the same position of both sentences.
    """
    deleted = params.deleted_tags
    for theirs in test.quotes:
        position = theirs.position
        for ours in gold.quotes:
            if ours.position != position or ours.tag == theirs.tag:
                continue
            if ours.tag in deleted and theirs.tag not in deleted:
                gold.reinsert(ours)
            elif theirs.tag in deleted and ours.tag not in deleted:
                test.reinsert(theirs)


LENGTH, WORDS = "Length unmatch", "Words unmatch"
"""First words of messages about sentences whose words differ."""


def find_mismatch(gold: Bracketing, test: Bracketing, params: EvalbParams) -> str:
    """EVALB's message if the words differ (quotation marks are repaired first), else ""."""
    if len(gold.words) != len(test.words):
        repair_quotes(gold, test, params)
    if len(gold.words) != len(test.words):
        return f"{LENGTH} ({len(gold.words)}|{len(test.words)})"
    if gold.words != test.words:
        for ours, theirs in zip(gold.words, test.words, strict=True):
            if not params.words_equal(ours, theirs):
                return f"{WORDS} ({ours}|{theirs})"
    return ""

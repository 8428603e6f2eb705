"""Trees in columns, with the bracket column of the CoNLL-2005 shared task.

    1   They    PRP   (TOP(S(NP*)
    2   ate     VBD   (VP*
    3   udon    NN    (NP*))
    4   .       .     *))

The columns are the number of the token, the word, its tag, and the brackets that open before and
close after the tag, for which `*` stands. Tabs separate them, an empty line ends a sentence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rnnparse.trees.brackets import escape_token
from rnnparse.trees.node import is_tree

if TYPE_CHECKING:
    from nltk.tree import Tree

_SPACE = re.compile(r"\s")
_NOT_IN_LABEL = re.compile(r"[\s*]")


def conll_lines(tree: Tree) -> str:
    """A tree with a line for each token, each with a line end; no lines for a tree without words.

    Round brackets in words, tags and labels are escaped. White space in words, such as a no-break
    space, and asterisks in labels become underscores, since readers of the format divide there.

    Raises:
        ValueError: a word has siblings.
    """
    rows: list[list[str]] = []
    opened = ""
    pending: list[Tree | str | None] = [tree] if len(tree) else []
    while pending:
        node = pending.pop()
        if node is None:
            rows[-1][2] += ")"
        elif not is_tree(node):
            raise ValueError(f"the word {node!r} has siblings or no tag")
        elif len(node) == 1 and not is_tree(node[0]):
            rows.append([_SPACE.sub("_", escape_token(node[0])), _label(node), f"{opened}*"])
            opened = ""
        else:
            opened += f"({_label(node)}"
            pending.append(None)
            pending.extend(reversed(node))
    lines = (f"{number}\t" + "\t".join(row) for number, row in enumerate(rows, start=1))
    return "".join(f"{line}\n" for line in lines)


def _label(node: Tree) -> str:
    label = node.label()
    return _NOT_IN_LABEL.sub("_", escape_token(label)) if label else "_"

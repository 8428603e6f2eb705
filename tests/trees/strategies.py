"""Random trees for property tests."""

from __future__ import annotations

from hypothesis import strategies as st
from nltk.tree import Tree

LABELS = [
    "S", "NP", "VP", "X", "NP-SBJ", "NP-SBJ-1=2", "PP=3", "-LRB-", "-RRB-", "PRT|ADVP",
    "TOP", "ROOT", "@", "@NP", "@@X", "\\@NP", "\\", "#", "$", "``", "PRP$", "é=",
]  # fmt: skip
WORDS = ["a", "dog", "-LRB-", "-RRB-", "x-LRB-y", "*T*-1", "\u2009", "été\u00a0", "#", "@", "\\"]

labels = st.sampled_from(LABELS)
words = st.sampled_from(WORDS)
# Any text that the format can hold: no round bracket, ASCII white space, NUL or surrogate.
any_text = st.text(
    st.characters(exclude_characters="() \t\n\r\f\v\0", exclude_categories=["Cs"]), min_size=1
)


def trees(label=labels, word=words, max_leaves: int = 12) -> st.SearchStrategy[Tree]:
    """Trees whose words stand alone under their tags; unary chains and wide nodes occur."""
    preterminal = st.builds(lambda tag, token: Tree(tag, [token]), label, word)
    return st.recursive(
        preterminal,
        lambda node: st.builds(Tree, label, st.lists(node, min_size=1, max_size=6)),
        max_leaves=max_leaves,
    )


def treebank_trees() -> st.SearchStrategy[Tree]:
    """Trees as treebanks have them: traces, and roots of every kind, also branching."""
    tag = st.one_of(labels, st.just("-NONE-"))
    root = st.builds(
        Tree,
        st.sampled_from(["", "TOP", "ROOT", "S1", "VROOT", "S"]),
        st.lists(trees(tag), min_size=1, max_size=3),
    )
    return st.one_of(trees(tag), root)

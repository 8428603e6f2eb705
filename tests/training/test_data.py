from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.training.data import blocks, fingerprint, hold_out, load_clean, require_two
from rnnparse.trees.brackets import format_tree
from rnnparse.trees.style import TreebankStyle
from tests.grammar.small import trees


def test_trees_are_cleaned_and_empty_ones_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("( (S (NP-SBJ (NP (NN a))) (VP (VB b) (NP (-NONE- *)))) )(())( (-NONE- *) )")
    assert load_clean(str(file)) == [Tree.fromstring("(TOP (S (NP (NN a)) (VP (VB b))))")]


@pytest.mark.parametrize("text", ["", "(())", "( (S (-NONE- *)) )", "\n\n"])
def test_a_treebank_without_a_word_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.mrg"
    file.write_text(text)
    with pytest.raises(TreebankError, match=r"a\.mrg"):
        load_clean(str(file))


def test_malformed_trees_are_skipped_or_errors_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "a.mrg"
    file.write_text("(S (NN a))\n(S (NP (NN b)\n(S (NN c))\n")
    assert [tree.leaves() for tree in load_clean(str(file))] == [["a"], ["c"]]
    with pytest.raises(TreebankError, match=r"a\.mrg:2:1"):
        load_clean(str(file), TreebankStyle(strict=True))
    with pytest.raises(TreebankError, match="absent"):
        load_clean(str(tmp_path / "absent.mrg"))


def test_a_contiguous_tenth_is_held_out() -> None:
    everything = trees(50)
    train, dev = hold_out(everything, 3)
    assert (len(train), len(dev)) == (45, 5)
    assert sorted(map(format_tree, train + dev)) == sorted(map(format_tree, everything))
    assert hold_out(everything, 3) == (train, dev)
    assert hold_out(everything, 4) != (train, dev)
    start = everything.index(dev[0])
    assert dev == everything[start : start + 5]
    assert train == everything[:start] + everything[start + 5 :]


@pytest.mark.parametrize(("sentences", "number"), [(10, 3), (5, 5), (7, 1)])
def test_blocks_are_contiguous_and_of_nearly_equal_size(sentences: int, number: int) -> None:
    divided = blocks(sentences, number)
    assert [i for block in divided for i in block] == list(range(sentences))
    sizes = [len(block) for block in divided]
    assert len(sizes) == number and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("count", "held"), [(2, 1), (3, 1), (19, 1), (20, 2)])
def test_at_least_one_tree_is_held_out(count: int, held: int) -> None:
    train, dev = hold_out(trees(count), 0)
    assert (len(train), len(dev)) == (count - held, held)


def test_one_tree_cannot_be_divided() -> None:
    for check in (lambda: hold_out(trees(1), 0), lambda: require_two(trees(1))):
        with pytest.raises(TreebankError, match="give more trees or --dev"):
            check()
    require_two(trees(2))


def test_fingerprints_tell_content_apart() -> None:
    one = trees(5)
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    same = [
        fingerprint(one, 10, "left", ("a", "b"), vectors),
        fingerprint(trees(5), 10, "left", ("a", "b"), vectors.copy(order="F")),
    ]
    assert same[0] == same[1]
    others = [
        fingerprint(one[::-1], 10, "left", ("a", "b"), vectors),
        fingerprint(one[:4], 10, "left", ("a", "b"), vectors),
        fingerprint(one, 11, "left", ("a", "b"), vectors),
        fingerprint(one, 10, "left", ("ab",), vectors),
        fingerprint(one, 10, "left", ("a", "b"), vectors + 1),
        fingerprint(one, 10, "left", ("a", "b"), vectors.reshape(3, 2)),
        fingerprint(one, 10, "left", ("a", "b"), vectors.view(np.int32)),
        fingerprint(one, 10, "left", ("a", "b")),
        fingerprint([*one, one[0]], 10, "left", ("a", "b"), vectors),
    ]
    assert len({*others, same[0]}) == len(others) + 1

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rnnparse.errors import ModelError
from rnnparse.models.vocabulary import Vocabulary

TRAINING = [
    ["The", "cats", "-LRB-", "walked", "-RRB-"],
    ["Dogs", "walked", "-LRB-", "jumped", "-RRB-"],
    ["A", "bird", "hopped", "the", "The"],
]


def name(vocabulary: Vocabulary, row: int) -> str:
    return (vocabulary.classes + vocabulary.words)[row]


def names(vocabulary: Vocabulary, tokens: list[str]) -> list[str]:
    return [name(vocabulary, row) for row in vocabulary.rows(tokens)]


def test_look_up_is_exact_then_lower_case_then_class() -> None:
    vocabulary = Vocabulary.build(TRAINING, ["the", "dogs", "birds"])
    looked_up = names(vocabulary, ["The", "the", "THE", "Dogs", "Birds", "walked", "moved"])
    assert looked_up == ["The", "the", "the", "dogs", "birds", "walked", "UNK-ed"]
    assert vocabulary.is_known("Birds") and not vocabulary.is_known("moved")
    assert vocabulary.rows(["moved"]).dtype == np.int32


def test_brackets_are_looked_up_as_people_write_them_first() -> None:
    both = Vocabulary.build([], ["-lrb-", "("])
    assert names(both, ["-LRB-", "("]) == ["(", "("]
    escaped = Vocabulary.build([], ["-lrb-"])
    assert names(escaped, ["-LRB-"]) == ["-lrb-"]
    assert names(Vocabulary.build(TRAINING), ["-RRB-"]) == [")"]


def test_slashes_are_looked_up_in_either_form() -> None:
    built = Vocabulary.build([["3\\/4", "and\\/or"], ["3/4", "and\\/or"]])
    assert set(built.words) == {"3/4", "and/or"}
    before = Vocabulary(("UNK",), ("3\\/4", "and\\/or"))  # as models were saved once
    for vocabulary in (built, before):
        rows = vocabulary.rows(["3\\/4", "3/4", "and/or", "And\\/or", "5/8"])
        assert rows[0] == rows[1] != rows[4] and rows[2] == rows[3] != rows[4]


def test_rare_words_without_a_vector_train_the_row_of_their_class() -> None:
    vocabulary = Vocabulary.build(TRAINING)
    # jumped and hopped share a class of two; the others are alone in theirs and train UNK.
    assert vocabulary.classes == ("UNK", "UNK-ed")
    assert names(vocabulary, ["jumped", "hopped", "bird", "cats", "Dogs"]) == [
        "UNK-ed",
        "UNK-ed",
        "UNK",
        "UNK",
        "UNK",
    ]
    # A rare capitalised form is looked up like its frequent lower-case form.
    assert "walked" in names(vocabulary, ["Walked"])
    with_vectors = Vocabulary.build(TRAINING, ["jumped"])
    assert with_vectors.classes == ("UNK",)
    assert names(with_vectors, ["jumped", "hopped"]) == ["jumped", "UNK"]


def test_a_capital_at_the_beginning_makes_another_class() -> None:
    training = [["Xabc", "Ybbc"], ["Zcbc", "Qdbc"], ["Vebc", "Ufbc"]]
    vocabulary = Vocabulary.build(training)
    assert vocabulary.classes == ("UNK", "UNK-CAP-bc", "UNK-FIRST-bc")
    assert names(vocabulary, ["Wabc", "Wabc"]) == ["UNK-FIRST-bc", "UNK-CAP-bc"]


def test_all_given_words_have_a_row_unless_pruned() -> None:
    given = ["zebra", "cats", "the"]
    assert set(given) <= set(Vocabulary.build(TRAINING, given).words)
    pruned = Vocabulary.build(TRAINING, given, prune=True)
    assert "zebra" not in pruned.words and "cats" in pruned.words
    tokens = [token for sentence in TRAINING for token in sentence]
    assert names(pruned, tokens) == names(Vocabulary.build(TRAINING, given), tokens)


def test_the_same_sentences_give_the_same_rows() -> None:
    assert Vocabulary.build(TRAINING).words == Vocabulary.build(iter(TRAINING)).words
    # Frequent words come first, in order of frequency.
    assert Vocabulary.build(TRAINING).words[0] in {"The", "walked", "(", ")"}


def test_initial_vectors() -> None:
    given, matrix = ["the", "loved", "baked", "dogs"], np.eye(4, dtype=np.float32)
    training = [*TRAINING, ["Cats", "cats", "Cats"]]
    vocabulary = Vocabulary.build(training, given)
    assert vocabulary.classes == ("UNK", "UNK-ed")
    start = vocabulary.initial_vectors(given, matrix, seed=1)
    assert start.shape == (len(vocabulary), 4) and start.dtype == np.float32
    row = vocabulary.rows(["the", "The", "loved", "moved", "cats"])
    assert np.array_equal(start[row[0]], matrix[0])
    assert np.array_equal(start[row[1]], matrix[0]), "by its lower-case form"
    assert np.array_equal(start[row[2]], matrix[1])
    noise = 0.1 * float(matrix.std())
    assert np.abs(start[row[3]] - [0, 0.5, 0.5, 0]).max() < 5 * noise, "mean of its class"
    assert np.abs(start[row[4]] - start[0]).max() < 10 * noise, "no vector: as its class"
    assert not np.array_equal(start[row[4]], start[0])
    assert np.array_equal(start, vocabulary.initial_vectors(given, matrix, seed=1))


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    odd = ["a\u2028b", "\u0085", "x\ry", "UNK", "12", "é"]
    vocabulary = Vocabulary.build(TRAINING, odd)
    path = tmp_path / "vocabulary.txt"
    vocabulary.save(path)
    again = Vocabulary.load(path)
    assert (again.classes, again.words) == (vocabulary.classes, vocabulary.words)
    assert "UNK" in again.words and again.rows(["UNK"])[0] >= len(again.classes)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"rnnparse vocabulary 1, classes: 9\nUNK\n", b"3\nUNK\na\nb\n", b"\xff\n"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"vocabulary\.txt"):
        Vocabulary.load(path)
    with pytest.raises(ModelError, match="missing"):
        Vocabulary.load(tmp_path / "missing.txt")

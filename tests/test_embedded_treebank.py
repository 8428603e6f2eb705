"""The embedded treebank: where it lies, that it is as generated, and that words decide in it."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from nltk.tree import Tree

from rnnparse.errors import TreebankError
from rnnparse.trees import embedded
from rnnparse.trees.embedded import PARTS, Part, embedded_treebank
from treebanks.ambiguities import Site, find_sites
from treebanks.generate import SHOWN, SIZES, main
from treebanks.lexicon import load_lexicon, parse_noun, parse_verb

FOLDER = Path(__file__).resolve().parents[1] / "treebanks"
PENN_LABELS = {"TOP", "S", "SBAR", "SQ", "NP", "VP", "PP", "ADJP", "ADVP", "PRT", "WHNP", "WHADVP"}
PENN_TAGS = {"DT", "NN", "NNS", "NNP", "PRP", "PRP$", "POS", "CD", "EX", "JJ", "RB", "RP", "IN"}
PENN_TAGS |= {"VB", "VBD", "VBZ", "VBP", "VBN", "MD", "TO", "CC", "WDT", "WRB", ".", ","}
# Roles of the words that decide, per kind; verb and noun for the others.
DECIDING = {
    "particle": ("verb", "particle", "noun"),
    "relative": ("first", "second", "verb"),
    "complement": ("verb",),
    "infinitive": ("verb", "object"),
    "coordination": ("verb", "noun", "last"),
    "scope": ("adjective", "second"),
}


@pytest.fixture(scope="module")
def trees() -> dict[Part, list[Tree]]:
    return {
        part: [Tree.fromstring(line) for line in embedded_treebank(part).open(encoding="utf-8")]
        for part in PARTS
    }


@pytest.fixture(scope="module")
def sites(trees: dict[Part, list[Tree]]) -> dict[Part, list[Site]]:
    return {part: [s for tree in trees[part] for s in find_sites(tree)] for part in PARTS}


# ---- where it lies -------------------------------------------------------------------------------
def test_found_in_a_checkout() -> None:
    assert embedded_treebank("dev").samefile(FOLDER / "dev.mrg")


def test_found_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rnnparse"
    (package / "treebanks").mkdir(parents=True)
    (package / "treebanks" / "dev.mrg").write_text("(TOP (NN x))\n")
    monkeypatch.setattr(embedded, "_PACKAGE", package)
    assert embedded_treebank("dev") == package / "treebanks" / "dev.mrg"
    with pytest.raises(TreebankError, match=r"train\.mrg is missing"):
        embedded_treebank("train")


def test_unknown_part_is_named() -> None:
    with pytest.raises(TreebankError, match="train, dev, test, not 'valid'"):
        embedded_treebank("valid")  # type: ignore[arg-type]


# ---- that it is as generated ---------------------------------------------------------------------
def test_files_equal_a_regeneration_and_the_check_notices_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--folder", str(tmp_path)]) == 0
    for part in PARTS:
        assert (tmp_path / f"{part}.mrg").read_bytes() == (FOLDER / f"{part}.mrg").read_bytes()
    shutil.copy(FOLDER / "test.mrg", tmp_path / "dev.mrg")
    assert main(["--check", "--folder", str(tmp_path)]) == 1
    complaints = capsys.readouterr().err
    assert "dev.mrg is not what" in complaints and "train.mrg" not in complaints


def test_stats_name_sizes_and_readings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--stats"]) == 0
    printed = capsys.readouterr().out
    assert "train: 1600 trees, 18017 tokens, 769 types" in printed
    assert "dev: 200 trees, 2195 tokens, 516 types, 35 types" in printed
    assert "test: 200 trees, 2300 tokens, 507 types, 36 types" in printed
    assert "with         NP 189  VP 198" in printed


@pytest.mark.parametrize(
    ("entry", "forms"),
    [
        ("desk", ("desk", None, None)),
        ("fork+", ("fork", "forks", None)),
        ("cherry+", ("cherry", "cherries", None)),
        ("toy+", ("toy", "toys", None)),
        ("bench+", ("bench", "benches", None)),
        ("knife:knives", ("knife", "knives", None)),
        (":pliers", (None, "pliers", None)),
        ("udon~", (None, None, "udon")),
    ],
)
def test_noun_forms(entry: str, forms: tuple[str | None, ...]) -> None:
    noun = parse_noun(entry, "thing")
    assert (noun.singular, noun.plural, noun.mass) == forms
    assert not noun.held_back and parse_noun("*" + entry, "thing").held_back


@pytest.mark.parametrize(
    ("entry", "forms"),
    [
        ("repair", "repair repaired repairs repair repaired"),
        ("taste", "taste tasted tastes taste tasted"),
        ("carry", "carry carried carries carry carried"),
        ("enjoy", "enjoy enjoyed enjoys enjoy enjoyed"),
        ("watch", "watch watched watches watch watched"),
        ("eat:ate:eaten", "eat ate eats eat eaten"),
        ("buy:bought", "buy bought buys buy bought"),
    ],
)
def test_verb_forms(entry: str, forms: str) -> None:
    assert " ".join(parse_verb(entry).forms[t] for t in ("VB", "VBD", "VBZ", "VBP", "VBN")) == forms


# ---- what the trees are like ---------------------------------------------------------------------
def test_trees_are_clean_penn_trees(trees: dict[Part, list[Tree]]) -> None:
    for part in PARTS:
        assert len(trees[part]) == SIZES[part]
        for tree in trees[part]:
            assert tree.label() == "TOP" and len(tree) == 1
            assert 4 <= len(tree.leaves()) <= 25
            assert tree.pos()[-1] in ((".", "."), ("?", "."))
            assert {tag for _, tag in tree.pos()} <= PENN_TAGS
            for node in tree.subtrees(lambda node: node.height() > 2):
                assert node.label() in PENN_LABELS
                assert [node.label()] != [child.label() for child in node]
                assert all(isinstance(child, Tree) for child in node)


def test_no_sentence_occurs_twice(trees: dict[Part, list[Tree]]) -> None:
    sentences = Counter(" ".join(tree.leaves()) for part in PARTS for tree in trees[part])
    assert max(sentences.values()) == 1
    assert not any(sentence in sentences for sentence in SHOWN)


def test_words_of_the_shown_sentences_are_known(trees: dict[Part, list[Tree]]) -> None:
    counts = Counter(word.lower() for tree in trees["train"] for word in tree.leaves())
    for sentence in SHOWN:
        for word in sentence.lower().split():
            assert counts[word] >= 5, word


def test_some_words_are_unseen_but_few_of_those_that_decide(
    trees: dict[Part, list[Tree]], sites: dict[Part, list[Site]]
) -> None:
    known = {word.lower() for tree in trees["train"] for word in tree.leaves()}
    tokens = [word.lower() for tree in trees["test"] for word in tree.leaves()]
    assert 0.01 < sum(word not in known for word in tokens) / len(tokens) < 0.10
    deciding = [deciding_words(site) for site in sites["test"]]
    undecided = sum(any(word not in known for word in words) for words in deciding)
    assert 0 < undecided / len(deciding) < 0.10


# ---- that words decide, and tags do not ----------------------------------------------------------
def sites_of(text: str) -> list[tuple[str, str]]:
    return [(site.kind, site.reading) for site in find_sites(Tree.fromstring(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(VP (VBD ate) (NP (NN udon)) (PP (IN with) (NP (NNS forks))))", [("with", "VP")]),
        ("(VP (VBD ate) (NP (NP (NN udon)) (PP (IN with) (NP (NN egg)))))", [("with", "NP")]),
        ("(VP (VBD ate) (NP (NP (NN pot)) (PP (IN of) (NP (NN soup)))))", []),
        ("(VP (VBD saw) (NP (PRP him)) (PP (IN with) (NP (NN skill))))", []),
        ("(VP (VBD ate) (NP (NN udon)) (NP (NN yesterday)))", []),
        ("(VP (VBD picked) (PRT (RP up)) (NP (DT the) (NN book)))", [("particle", "PRT")]),
        ("(VP (VBD walked) (PP (IN up) (NP (DT the) (NN hill))))", [("particle", "PP")]),
        ("(VP (VBD slept) (PP (IN near) (NP (DT the) (NN hill))))", []),
        ("(VP (VBD was) (VP (VBN put) (PP (IN in) (NP (DT the) (NN box)))))", []),
        (
            "(NP (NP (NN owner)) (PP (IN of) (NP (NN dog)))"
            " (SBAR (WHNP (WDT that)) (S (VP (VBD slept)))))",
            [("relative", "high")],
        ),
        (
            "(NP (NP (NN owner)) (PP (IN of) (NP (NP (NN dog))"
            " (SBAR (WHNP (WDT that)) (S (VP (VBD slept)))))))",
            [("relative", "low")],
        ),
        ("(NP (JJ old) (NNS men) (CC and) (NNS women))", [("scope", "wide")]),
        ("(NP (NP (JJ ripe) (NNS figs)) (CC and) (NP (NNS men)))", [("scope", "narrow")]),
    ],
)
def test_ambiguous_attachments_are_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert sites_of(text) == expected


def deciding_words(site: Site) -> tuple[str, ...]:
    return tuple(site.word(role) for role in DECIDING.get(site.kind, ("verb", "noun")))


def test_the_reading_is_a_function_of_the_words(sites: dict[Part, list[Site]]) -> None:
    readings = defaultdict(set)
    for part in PARTS:
        for site in sites[part]:
            readings[site.kind, deciding_words(site)].add(site.reading)
    assert len(readings) > 1000
    assert [key for key, values in readings.items() if len(values) > 1] == []


def test_the_readings_of_each_kind_are_about_equally_frequent(
    sites: dict[Part, list[Site]],
) -> None:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for site in sites["train"]:
        counts[site.kind][site.reading] += 1
    assert len(counts) == 12
    for kind, readings in counts.items():
        assert sum(readings.values()) >= 55, kind
        assert max(readings.values()) <= 0.6 * sum(readings.values()), kind


@pytest.mark.parametrize("part", ["dev", "test"])
def test_tags_do_not_decide(sites: dict[Part, list[Site]], part: Part) -> None:
    def keys(site: Site) -> Iterator[tuple[object, ...]]:
        yield site.kind, site.tags
        yield (site.kind,)

    assert accuracy(sites["train"], sites[part], keys) <= 0.65


@pytest.mark.parametrize("part", [pytest.param("dev", marks=pytest.mark.slow), "test"])
def test_words_decide(sites: dict[Part, list[Site]], part: Part) -> None:
    lexicon = load_lexicon()

    def class_of(site: Site, role: str) -> tuple[str, ...]:
        word = site.word(role)
        classes = lexicon.verb_classes if role == "verb" else lexicon.noun_classes
        return classes(word) or (word,)

    def keys(site: Site) -> Iterator[tuple[object, ...]]:
        roles = DECIDING.get(site.kind, ("verb", "noun"))
        for first in (0, len(roles) - 1):  # all the words, then the last one, then none
            yield site.kind, tuple(class_of(site, role) for role in roles[first:])
        yield (site.kind,)

    assert accuracy(sites["train"], sites[part], keys) > 0.95


def accuracy(train: list[Site], test: list[Site], keys) -> float:  # type: ignore[no-untyped-def]
    """Share of sites whose reading is the majority one of the first key that training has seen."""
    counts: defaultdict[object, Counter[str]] = defaultdict(Counter)
    for site in train:
        for key in keys(site):
            counts[key][site.reading] += 1
    correct = 0
    for site in test:
        seen = next(counts[key] for key in keys(site) if key in counts)
        correct += site.reading == max(sorted(seen), key=lambda reading: seen[reading])
    return correct / len(test)

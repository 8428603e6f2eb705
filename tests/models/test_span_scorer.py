"""The span scorer against plain loops and the Keras model, and the checks of what enters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rnnparse.grammar.unknown import WordVectors
from rnnparse.inference.decoder import Decoder
from rnnparse.models.span_features import SpanFeatures, affix_buckets
from rnnparse.models.span_inputs import join_inputs, span_inputs
from rnnparse.models.span_network import SpanNetwork
from rnnparse.models.span_parameters import (
    SpanParameters,
    initial_span_parameters,
    read_span_arrays,
    span_arrays,
)
from rnnparse.models.span_scorer import SpanScorer
from rnnparse.threads import apart
from rnnparse.training.span_examples import SpanExample
from tests.grammar.small import small_grammar
from tests.span_problem import LAYERS, SIZE, span_problem

SOURCES = [(True, True), (True, False), (False, True)]
both_sources = pytest.mark.parametrize(("encoder", "treebank"), SOURCES)
inputs_of = apart(span_inputs)


def norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    deviation = math.sqrt(sum((x - sum(x) / len(x)) ** 2) / len(x) + 1e-5)
    return np.array([(y - sum(x) / len(x)) / deviation for y in x]) * gain + shift


def plain_vectors(p: SpanParameters, features: SpanFeatures, example: SpanExample) -> np.ndarray:
    """Token vectors, one by one, in float64; also tests the features."""
    p = SpanParameters(*(a.astype(np.float64) for a in p))
    tokens, grammar = ["<s>", *example.tokens, "</s>"], small_grammar()
    brackets = Decoder(grammar).hypergraph(example.graph).brackets()
    x = []
    for i, token in enumerate(tokens):
        known = [*features.words].index(token.lower()) if token.lower() in features.words else -3
        row = {0: 1, len(tokens) - 1: 2}.get(i, 3 + known)
        total = p.words[row] + sum(p.affixes[b] for b in affix_buckets(token))
        if token in features.vectors.words and 0 < i < len(tokens) - 1:
            total = total + features.vectors.matrix[features.vectors.words.index(token)] @ p.given
        for t, tag in enumerate(features.tags):
            name = grammar.pcfg.categories[tag]
            chance = sum(
                b.probability for b in brackets if (b.label, b.start, b.end) == (name, i - 1, i)
            )
            total = total + chance * p.tags[t]
        x.append(norm(total, *p.norm))
    for kernel, bias, gains in zip(p.conv, p.conv_bias, p.conv_norm, strict=True):
        wide = [np.zeros_like(x[0]), *x, np.zeros_like(x[0])]
        y = [np.concatenate(wide[i : i + 3]) @ kernel + bias for i in range(len(x))]
        x = [norm(a + np.maximum(b, 0), *gains) for a, b in zip(x, y, strict=True)]
    return np.array(x)


@both_sources
def test_scores_are_those_of_plain_loops(encoder: bool, treebank: bool) -> None:
    problem = span_problem()
    p = problem.parameters(encoder, treebank)
    example = problem.examples[2]
    graph = example.graph
    h = np.zeros((len(example.tokens) + 2, 0))
    if treebank:
        h = plain_vectors(p, problem.features, example)
    if encoder:
        shares = [math.exp(w) / sum(math.exp(v) for v in p.layers) for w in p.layers]
        mixture = sum(s * example.vectors[:, i].astype(np.float64) for i, s in enumerate(shares))
        h = np.concatenate([h, mixture], axis=1)
    P = np.split(p.project.astype(np.float64), 4, axis=1)
    vectors = example.vectors if encoder else None
    scores = SpanScorer(p, problem.features).scores(graph, example.tokens, vectors)
    assert scores.dtype == np.float64
    for v, c in enumerate(graph.category):
        i, j = int(graph.start[v]) + 1, int(graph.end[v]) + 1  # h[0] belongs to the start
        if c == graph.category[0] or c >= problem.categories:
            assert scores[v] == 0
            continue
        z = h[i - 1] @ P[0] + h[i] @ P[1] + h[j - 1] @ P[2] + h[j] @ P[3] + p.bias
        wanted = p.labels[c] @ np.maximum(norm(z, *p.hidden_norm), 0) + p.label_bias[c]
        assert scores[v] == pytest.approx(float(wanted), abs=2e-5)


@both_sources
def test_the_keras_model_is_the_same_function(encoder: bool, treebank: bool) -> None:
    problem = span_problem()
    p = problem.parameters(encoder, treebank)
    scorer, network = SpanScorer(p, problem.features), SpanNetwork(p, problem.features)
    some, alone = problem.examples[:4], []
    for e in some:
        vectors = e.vectors if encoder else None
        alone.append(inputs_of(e.graph, e.tokens, problem.features, problem.categories, vectors))
    joined = network(join_inputs(alone)).numpy()
    ends = np.cumsum([len(inputs.vertex) for inputs in alone])
    for e, inputs, values in zip(some, alone, np.split(joined, ends), strict=False):
        wanted = scorer.scores(e.graph, e.tokens, e.vectors if encoder else None)
        assert values == pytest.approx(wanted[inputs.vertex], abs=1e-5)
    chosen = np.arange(1, ends[-1], 3)
    part, spans = join_inputs(alone).part(chosen)
    assert network(part).numpy() == pytest.approx(joined[chosen], abs=1e-6)
    assert np.array_equal(join_inputs(alone).span[spans], part.span)


def test_a_hypergraph_gives_the_scores_of_its_arrays() -> None:
    problem = span_problem()
    scorer = SpanScorer(problem.parameters(encoder=False), problem.features)
    e = problem.examples[0]
    graph = Decoder(small_grammar()).hypergraph(e.graph)
    assert np.array_equal(scorer.scores(graph, e.tokens), scorer.scores(e.graph, e.tokens))


def test_vectors_of_one_layer_need_no_axis_for_it() -> None:
    problem = span_problem()
    features, e = problem.features, problem.examples[0]
    p = initial_span_parameters(features, problem.categories, encoder=(1, SIZE), hidden=4, dim=4)
    p = p._replace(labels=p.labels + np.arange(4, dtype=np.float32))
    scorer = SpanScorer(p, features)
    flat = e.vectors[:, 0]
    assert np.any(scorer.scores(e.graph, e.tokens, flat))
    assert np.array_equal(
        scorer.scores(e.graph, e.tokens, flat), scorer.scores(e.graph, e.tokens, flat[:, None])
    )


def test_what_does_not_fit_is_an_error() -> None:
    problem = span_problem()
    e = problem.examples[0]
    scorer = SpanScorer(problem.parameters(), problem.features)
    n = len(e.tokens)
    for vectors, message in [
        (None, f"0 layers and 0 components instead of {LAYERS} layers and {SIZE}"),
        (e.vectors[:, :1], "1 layers and 3 components instead of"),
        (e.vectors[1:], rf"vectors of the shape \({n + 1}, 2, 3\) for {n} tokens"),
        (e.vectors[0], r"vectors of the shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            scorer.scores(e.graph, e.tokens, vectors)
    with pytest.raises(ValueError, match=f"a hypergraph of {n} tokens for {n + 1} tokens"):
        scorer.scores(e.graph, [*e.tokens, "x"], e.vectors)
    with pytest.raises(ValueError, match="no token vectors or no hidden units"):
        initial_span_parameters(problem.features, problem.categories, treebank=False)


def test_words_are_looked_up() -> None:
    vectors = WordVectors(("the", "(", "Rome"), np.eye(3, dtype=np.float32))
    features = SpanFeatures.build([["The", "cat"], ["the", "dog", "-LRB-"]], [7, 3, 7], vectors)
    assert (features.words, features.counts.tolist()) == (("the",), [2])
    assert features.tags.tolist() == [3, 7]
    word, affix, given = features.token_arrays(["THE", "cat", "-LRB-", "Rome", "\ud800", ""])
    assert word.tolist() == [1, 3, 0, 0, 0, 0, 0, 2]
    assert given.tolist() == [-1, 0, -1, 1, 2, -1, -1, -1]
    assert affix.shape == (8, 8) and affix.min() >= 0 and affix.max() < 4096
    assert repr(features) == "SpanFeatures(1 words, 2 tags, 3 given vectors)"


def test_buckets_are_the_same_in_every_process() -> None:
    assert affix_buckets("Walking") == [3154, 834, 2096, 757, 679, 1059, 2525, 1418]
    same = [a == b for a, b in zip(affix_buckets("Walking"), affix_buckets("Talking"), strict=True)]
    assert same == [True, True, True, True, False, False, False, True]
    shapes = [affix_buckets(t)[-1] for t in ("12", "1st", "USA", "Usa", "a-b", "ab", ".", "")]
    assert len(set(shapes)) == 7 and shapes[-1] == shapes[-2]


def test_arrays_keep_everything() -> None:
    problem = span_problem()
    p, features = problem.parameters(), problem.features
    arrays = span_arrays(p, features)
    again, tables = read_span_arrays(arrays, features.vectors)
    assert all(np.array_equal(a, b) for a, b in zip(p, again, strict=True))
    assert tables.words == features.words and np.array_equal(tables.counts, features.counts)
    e = problem.examples[0]
    one, other = (SpanScorer(*both) for both in ((p, features), (again, tables)))
    assert np.array_equal(
        one.scores(e.graph, e.tokens, e.vectors), other.scores(e.graph, e.tokens, e.vectors)
    )


def nan(array: np.ndarray) -> np.ndarray:
    return np.full_like(array, np.nan)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("spans.project", nan, "spans.project has the value nan"),
        ("spans.labels", lambda a: a[:, 1:], r"spans.labels has the shape \[.*, 4\]"),
        ("spans.labels", lambda a: a[:1], r"spans.label_bias has the shape"),
        ("spans.words", lambda a: a[1:], "spans.words has the shape"),
        ("spans.conv", lambda a: a[:, :-1], "spans.conv has the shape"),
        ("spans.conv_norm", lambda a: a[:, :1], "spans.conv_norm has the shape"),
        ("spans.bias", lambda a: a.astype(np.float64), "weights must be of one type"),
        ("spans.bias", lambda a: a.astype(np.int32), "spans.bias must be of type"),
        ("spans.layers", lambda a: a[:0], "an encoder has both layers and components"),
        ("features.counts", lambda a: -a, "features.counts has the value"),
        ("features.tags", lambda a: a[::-1].copy(), "must be in ascending order"),
        ("features.tags", lambda a: a[1:], "spans.tags has the shape"),
        ("features.tags", lambda a: a + np.int32(999), "a tag is not one of the categories"),
        ("features.words.utf8", lambda a: a * 0 + 255, "decode"),
        ("extra", lambda a: a, "extra: not an array of a span scorer"),
    ],
)
def test_a_changed_array_is_an_error(name: str, change: Any, message: str) -> None:
    problem = span_problem()
    arrays = span_arrays(problem.parameters(), problem.features)
    arrays[name] = change(arrays.get(name, np.zeros(1)))
    with pytest.raises(ValueError, match=message):
        read_span_arrays(arrays, problem.features.vectors)


def test_other_given_vectors_or_a_missing_array_are_errors() -> None:
    problem = span_problem()
    arrays = span_arrays(problem.parameters(), problem.features)
    with pytest.raises(ValueError, match=r"spans\.given has the shape"):
        read_span_arrays(arrays)
    del arrays["spans.bias"]
    with pytest.raises(KeyError, match=r"spans\.bias"):
        read_span_arrays(arrays, problem.features.vectors)

"""The k best labellings of sequences, against all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from maxmargin import SequenceLabeler
from maxmargin._kernels.best_paths import k_best_paths


def run(unary, transitions, k):
    """The compiled answer; scratch is full of nonsense, nobody may trust its contents."""
    length, K = unary.shape
    labels, values = np.full((k, length), -7, np.int32), np.full(k, np.nan)
    pointers = [np.full((length + 1, K, k), -99, np.int32) for _ in range(2)]
    found = k_best_paths(
        unary, np.ascontiguousarray(transitions.T), np.full((2, K, k), np.nan), *pointers,
        np.zeros(K), np.full(K, -99), labels, values,
    )  # fmt: skip
    return labels[:found], values[:found]


@settings(max_examples=200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([1, 2, 3, 10, 300]),
    st.booleans(),
    st.sampled_from([0.0, 0.3]),
)
def test_the_best_paths_are_the_best_of_all(seed, length, K, k, ties, strictness):
    random = np.random.RandomState(seed)
    unary, transitions = random.randn(length, K), random.randn(K, K)
    if ties:
        unary, transitions = np.round(unary), np.round(transitions)
    unary[random.rand(length, K) < strictness] = -np.inf
    transitions[random.rand(K, K) < strictness] = -np.inf
    scores = {}
    for y in itertools.product(range(K), repeat=length):
        score = sum(unary[t, label] for t, label in enumerate(y))
        score += sum(transitions[a, b] for a, b in itertools.pairwise(y))
        if score > -np.inf:
            scores[y] = score
    labels, values = run(unary, transitions, k)
    wanted = sorted(scores.values(), reverse=True)[:k]
    np.testing.assert_allclose(values, wanted, atol=1e-12)
    found = [tuple(y) for y in labels.tolist()]
    assert len(set(found)) == len(found)  # no labelling twice
    for y, value in zip(found, values, strict=True):
        assert scores[y] == pytest.approx(value, abs=1e-12)


def fitted(surrogate="crf", **parameters):
    random = np.random.RandomState(0)
    X = [random.randn(length, 3) for length in (3, 1, 4, 2, 3)]
    y = [np.array(["a", "b", "c"])[np.argmax(x, axis=1)] for x in X]
    model = SequenceLabeler(surrogate, tol=0.1, random_state=0, **parameters)
    return model.fit(X, y), X


@pytest.mark.parametrize("surrogate", ["crf", "max-margin"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_labellings_come_best_first_with_their_scores(surrogate, n_jobs):
    model, X = fitted(surrogate, n_jobs=n_jobs)
    answers = model.predict_topk(X, 5)
    for x, answer, best in zip(X, answers, model.predict(X), strict=True):
        assert len(answer) == min(5, 3 ** len(x))
        assert (answer[0][0] == best).all()
        scores = [score for _, score in answer]
        assert scores == sorted(scores, reverse=True)
        # Differences of scores are those of log likelihoods.
        likelihood = model.log_likelihood([x] * len(answer), [labels for labels, _ in answer])
        np.testing.assert_allclose(np.diff(likelihood), np.diff(scores), atol=1e-10)
        everything = list(itertools.product("abc", repeat=len(x)))
        ranked = np.sort(model.log_likelihood([x] * len(everything), everything))[::-1]
        np.testing.assert_allclose(likelihood, ranked[: len(answer)], atol=1e-10)


def test_all_labellings_sum_to_one():
    model, X = fitted()
    [answer] = model.predict_topk(X[:1], 1000)
    assert len(answer) == 27
    likelihood = model.log_likelihood(X[:1] * 27, [labels for labels, _ in answer])
    assert logsumexp(likelihood) == pytest.approx(0.0, abs=1e-12)


def test_constraints_and_known_labels_hold():
    forbidden = {"transitions": [("a", "a"), ("b", "b"), ("c", "c")], "first": ["c"]}
    random = np.random.RandomState(0)
    X = [random.randn(3, 3) for _ in range(4)]
    y = [["a", "b", "c"], ["b", "a", "b"], ["a", "c", "a"], ["b", "c", "b"]]
    model = SequenceLabeler("crf", constraints=forbidden, tol=0.1, random_state=0).fit(X, y)
    for answer in model.predict_topk(X, 100):
        found = {tuple(labels) for labels, _ in answer}
        assert len(answer) == len(found) == 2 * 2 * 2
        assert all(a != b for labels in found for a, b in itertools.pairwise(labels))
        assert all(labels[0] != "c" for labels in found)
    [answer] = model.predict_topk(X[:1], 100, partial_y=[[None, "c", None]])
    assert {tuple(labels) for labels, _ in answer} == set(itertools.product("ab", "c", "ab"))
    [answer] = model.predict_topk(X[:1], 100, allowed=[[["a"], ["b"], ["a", "c"]]])
    assert {tuple(labels) for labels, _ in answer} == {("a", "b", "a"), ("a", "b", "c")}


@pytest.mark.parametrize("k", [0, -1, 1.0, "2", None, True])
def test_a_bad_number_of_labellings(k):
    model, X = fitted()
    with pytest.raises(ValueError, match="k must be an integer >= 1; received"):
        model.predict_topk(X, k)

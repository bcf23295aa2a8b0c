"""Estimates of memory against what fits really take."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import (
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    estimate_memory,
)

RNG = np.random.RandomState(0)


def flat():
    X = RNG.randn(3000, 20)
    return (
        MulticlassClassifier(random_state=0),
        X,
        np.argmax(X[:, :12] + RNG.randn(3000, 12), axis=1),
    )


def sparse():
    X = sp.random_array((3000, 500), density=0.02, rng=np.random.default_rng(0), format="csr")
    return MulticlassClassifier(random_state=0), X, np.arange(3000) % 5


def sequences():
    X = [RNG.randn(RNG.randint(3, 9), 10) for _ in range(1500)]
    y = [RNG.choice(list("abcd"), len(x)) for x in X]
    return SequenceLabeler(random_state=0), X, y


def label_sets():
    X = RNG.randn(1500, 10)
    return MultiLabelClassifier(edges="full", random_state=0), X, (X[:, :6] > 0.5).astype(int)


def rankings():
    X = RNG.randn(1500, 6)
    return LabelRanker(random_state=0), X, np.argsort(-X[:, :5], axis=1)


@pytest.mark.parametrize("make", [flat, sparse, sequences, label_sets, rankings])
def test_an_estimate_is_near_what_a_fit_takes(make):
    model, X, y = make()
    estimate = estimate_memory(model, X, y)
    assert not hasattr(model, "n_iter_")  # it was not touched
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=10).fit(X, y)
    taken = tracemalloc.get_traced_memory()[1] - before + model.dual_nbytes_
    tracemalloc.stop()
    assert 0.6 * taken < estimate.total < 1.7 * taken
    assert estimate.total == pytest.approx(
        estimate.fixed + estimate.n_examples * estimate.per_example
    )
    assert f"for {len(y)} examples" in str(estimate)


def test_few_examples_are_all_taken():
    model, X, y = flat()
    estimate = estimate_memory(model, X[:100], y[:100])
    assert estimate.n_examples == 100
    assert estimate.fixed == 0.0
    assert estimate.total > X[:100].nbytes / 10


def test_classes_that_no_sample_has_are_counted():
    X = np.zeros((2000, 50))
    few, many = np.arange(2000) % 2, np.arange(2000) % 1000
    assert (
        estimate_memory(MulticlassClassifier(), X, many).fixed
        > 10 * estimate_memory(MulticlassClassifier(), X, few).fixed
    )


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (np.ones((3, 1)), [0, 1], {}, "3 and 2"),
        (np.ones((0, 1)), [], {}, "at least one"),
        (np.ones((3, 1)), [0, 1, 0], {"sample_size": 1}, "sample_size"),
    ],
)
def test_what_cannot_be_estimated_is_refused(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_memory(MulticlassClassifier(), X, y, **options)

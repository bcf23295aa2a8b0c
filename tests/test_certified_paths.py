"""Regularisation paths that are certified everywhere, against a convex solver between the fits."""

import math
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import realdata
from maxmargin import (
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    certified_path,
)
from test_duality import (
    LOSSES,
    chain_model,
    chains,
    flat_examples,
    max_margin_optimum,
    primal_value,
    rows,
    with_constant,
)


def strengths_in(interval, rng, n=3):
    """Random strengths of an interval, and its ends."""
    top = min(interval.strongest, 100 * interval.alpha)
    inside = np.exp(rng.uniform(np.log(interval.weakest), np.log(top), n))
    return [*np.clip(inside, interval.weakest, top), interval.weakest, interval.alpha, top]


def assert_certified(intervals, epsilon, examples, weights, weights_of):
    rng = np.random.default_rng(0)
    for interval in intervals:
        for alpha in strengths_in(interval, rng):
            w = interval.scale(alpha) * weights_of(interval.model)
            reached = primal_value(examples, weights, w, alpha)
            best = max_margin_optimum(examples, weights, alpha)
            bound, _ = interval.certificate.bounds(alpha)
            assert reached <= bound * (1 + 1e-9)  # rounding
            # The solver's own optimum is accurate to 1e-8 of the objective.
            assert (reached - best) / bound <= interval.relative_gap(alpha) + 1e-8
            assert interval.relative_gap(alpha) <= epsilon * (1 + 1e-12)


def assert_without_holes(intervals, weakest):
    assert intervals[-1].weakest == weakest
    for one, other in zip(intervals[:-1], intervals[1:], strict=True):
        assert other.strongest == one.weakest < one.strongest
    assert all(each.weakest <= each.alpha <= each.strongest for each in intervals)


@pytest.mark.parametrize("epsilon", [0.3, 0.02])
def test_classes_are_certified_between_the_fits(epsilon):
    X, y, weights = rows()
    model = MulticlassClassifier(loss=LOSSES["matrix"], random_state=0)
    found = certified_path(model, X, y, epsilon=epsilon, weakest=1e-3, sample_weight=weights)
    assert_without_holes(found, 1e-3)
    assert found[0].strongest == math.inf
    examples = flat_examples(with_constant(X), y, LOSSES["matrix"])

    def weights_of(fitted):
        return np.vstack([fitted.coef_.T, fitted.intercept_]).ravel()

    assert_certified(found, epsilon, examples, weights, weights_of)


def test_a_smaller_epsilon_needs_more_fits():
    X, y, _ = rows()
    counts = [len(certified_path(MulticlassClassifier(random_state=0), X, y, epsilon=epsilon))
              for epsilon in (0.3, 0.1, 0.02)]  # fmt: skip
    assert counts[0] < counts[1] < counts[2]


def test_sequences_are_certified_between_the_fits():
    X, y, weights, examples = chains(constrained=False)
    found = certified_path(
        chain_model(), X, y, epsilon=0.1, strongest=1.0, weakest=1e-2, sample_weight=weights
    )
    assert found[0].strongest == 1.0
    assert_without_holes(found, 1e-2)
    assert_certified(found, 0.1, examples, weights, lambda fitted: fitted.weights_)


def test_words_are_certified_between_the_fits():
    """At strengths between the fits, the bound is not below what separate fits prove."""
    X, y, _ = realdata.load_ocr()
    X, y = X[:60], y[:60]
    model = SequenceLabeler(random_state=0)
    found = certified_path(model, X, y, epsilon=0.2, strongest=0.3, weakest=0.02)
    assert_without_holes(found, 0.02)
    for interval in found[1:]:
        alpha = math.sqrt(interval.alpha * interval.weakest)
        alone = SequenceLabeler(alpha=alpha, tol=1e-3, random_state=0).fit(X, y)
        primal, dual = interval.certificate.bounds(alpha)
        assert dual <= alone.primal_ and alone.dual_ <= primal
        assert primal - dual <= 0.2 * primal


def test_what_cannot_be_certified_is_refused():
    X, y, _ = rows()
    for model in (
        MulticlassClassifier("crf"),
        MulticlassClassifier(solver="subgradient"),
    ):
        with pytest.raises(ValueError, match="certified_path needs surrogate='max-margin'"):
            certified_path(model, X, y)
    sets = np.eye(4, dtype=int)[y]
    with pytest.raises(ValueError, match="certified_path needs surrogate='max-margin'"):
        certified_path(MultiLabelClassifier(edges="full"), X, sets)
    model = MulticlassClassifier(random_state=0)
    for epsilon in (0.0, 1.0):
        with pytest.raises(ValueError, match="epsilon must be"):
            certified_path(model, X, y, epsilon=epsilon)
    with pytest.raises(ValueError, match="weakest must be at most strongest"):
        certified_path(model, X, y, strongest=0.1, weakest=1.0)
    with pytest.raises(RuntimeError, match="increase max_iter"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certified_path(MulticlassClassifier(max_iter=1, random_state=0), X, y, epsilon=1e-6)
    interval = certified_path(model, X, y, strongest=0.1, weakest=0.05, epsilon=0.5)[0]
    with pytest.raises(ValueError, match="the ends of this interval; received 1.0"):
        interval.relative_gap(1.0)

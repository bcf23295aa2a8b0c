"""Sums over all permutations against enumeration and Ryser's formula; the CRF of permutations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from maxmargin import LabelRanker, Matcher
from maxmargin._kernels.permanent import marginals_of_permutations


def by_enumeration(scores):
    n = len(scores)
    every = np.array(list(permutations(range(n))))
    values = scores[np.arange(n), every].sum(axis=1)
    mu = np.zeros((n, n))
    for order, share in zip(every, softmax(values), strict=True):
        mu[np.arange(n), order] += share
    return logsumexp(values), mu


def ryser(matrix):
    """The permanent by inclusion and exclusion over subsets of columns."""
    n, total = len(matrix), 0.0
    for chosen in range(1, 1 << n):
        columns = [j for j in range(n) if chosen >> j & 1]
        total += (-1.0) ** (n - len(columns)) * matrix[:, columns].sum(axis=1).prod()
    return total


def marginals(*matrices):
    sides = [len(matrix) for matrix in matrices]
    flat = np.concatenate([np.ascontiguousarray(matrix, float).ravel() for matrix in matrices])
    out = np.empty(flat.size)
    marginals_of_permutations(flat, np.concatenate([[0], np.cumsum(sides)]), out)
    cuts = np.cumsum(np.square(sides))[:-1]
    return [part.reshape(n, n) for part, n in zip(np.split(out, cuts), sides, strict=True)]


def test_marginals_against_enumeration():
    random = np.random.RandomState(0)
    matrices = [
        scale * random.randn(n, n) for n in (1, 2, 3, 5, 6) for scale in (0.1, 1.0, 30.0, 1e4)
    ]
    for found, scores in zip(marginals(*matrices), matrices, strict=True):
        np.testing.assert_allclose(found, by_enumeration(scores)[1], atol=1e-11)


def test_marginals_are_ratios_of_permanents():
    """``mu_ij = w_ij perm(w without row i and column j) / perm(w)``, at a size beyond listing."""
    scores = np.random.RandomState(1).randn(9, 9)
    w = np.exp(scores)
    (found,) = marginals(scores)
    whole = ryser(w)
    for i, j in ((0, 0), (3, 7), (8, 2)):
        minor = np.delete(np.delete(w, i, 0), j, 1)
        assert found[i, j] == pytest.approx(w[i, j] * ryser(minor) / whole, rel=1e-8)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_crf_of_rankings_has_the_optimum_of_a_convex_solver():
    random = np.random.RandomState(2)
    n, m = 12, 3
    X = random.randn(n, 2)
    ranks = np.array([random.permutation(m) for _ in range(n)])
    alpha = 0.1
    model = LabelRanker(
        "crf", alpha=alpha, tol=1e-8, y_format="ranks", fit_intercept=False, max_iter=1000
    ).fit(X, ranks)

    def objective(flat):
        W, value, slopes = flat.reshape(m * m, 2), 0.5 * alpha * flat @ flat, alpha * flat
        for x, rank in zip(X, ranks, strict=True):
            scores = (W @ x).reshape(m, m)
            total, mu = by_enumeration(scores)
            value += (total - scores[np.arange(m), rank].sum()) / n
            mu[np.arange(m), rank] -= 1.0
            slopes = slopes + np.outer(mu.ravel(), x).ravel() / n
        return value, slopes

    best = minimize(objective, np.zeros(2 * m * m), jac=True, method="L-BFGS-B", tol=1e-13)
    assert model.status_ == "converged" and model.dual_ <= best.fun + 1e-9
    assert model.primal_ == pytest.approx(best.fun, rel=1e-7)
    scores = model.decision_function(X)
    for found, own in zip(model.predict_marginals(X), scores, strict=True):
        np.testing.assert_allclose(found, by_enumeration(own)[1], atol=1e-11)


def test_crf_of_matchings_is_certified_at_its_enumerated_objective():
    random = np.random.RandomState(3)
    X = [random.randn(n, n, 2) for n in (2, 4, 3)]
    y = [random.permutation(len(x)) for x in X]
    model = Matcher("crf", alpha=0.05, tol=1e-6).fit(X, y)
    value = 0.5 * 0.05 * model.coef_ @ model.coef_
    for scores, order in zip(model.decision_function(X), y, strict=True):
        value += (by_enumeration(scores)[0] - scores[np.arange(len(order)), order].sum()) / 3
    assert model.primal_ == pytest.approx(value, rel=1e-9)
    assert model.status_ == "converged"
    for found, scores in zip(model.predict_marginals(X), model.decision_function(X), strict=True):
        np.testing.assert_allclose(found, by_enumeration(scores)[1], atol=1e-11)


def test_more_items_than_can_be_summed_over_are_refused():
    ranks = np.array([np.arange(13), np.arange(13)[::-1]])
    with pytest.raises(ValueError, match="at most 12 items; received 13"):
        LabelRanker("crf", y_format="ranks").fit(np.eye(2), ranks)
    with pytest.raises(ValueError, match="at most 12 items; received 14"):
        Matcher("crf").fit([np.zeros((14, 14, 1))], [np.arange(14)])

"""The quadratic surrogate against the closed form of ridge regression, and what it predicts."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import LabelRanker, MulticlassClassifier, OrdinalClassifier

NAME = "quadratic"


def ridge(X, targets, alpha, weights=None):
    """Minimiser of ``alpha/2 |W|^2 + mean |x W - t|^2 / 2``, with a penalised constant column."""
    X = np.hstack([X, np.ones((len(X), 1))])
    share = np.ones(len(X)) if weights is None else weights
    share = share / share.sum()
    gram = X.T @ (X * share[:, None]) + alpha * np.eye(X.shape[1])
    W = np.linalg.solve(gram, X.T @ (targets * share[:, None]))
    value = 0.5 * alpha * (W**2).sum() + 0.5 * share @ ((X @ W - targets) ** 2).sum(axis=1)
    return W, value


def data(n=60, k=4):
    random = np.random.RandomState(0)
    X = random.randn(n, 3)
    y = np.clip(np.round(X[:, 0] + random.randn(n)) + 1, 0, k - 1).astype(int)
    return X, y, random.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("loss", ["name", "matrix"])
@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_classes_against_ridge_regression(estimator, loss):
    X, y, weights = data()
    given, losses = {}, np.abs(np.subtract.outer(np.arange(4), np.arange(4))).astype(float)
    if estimator is MulticlassClassifier:
        losses = 1.0 - np.eye(4)
    if loss == "matrix":
        losses = np.array([[0, 1, 5, 1], [2, 0, 1, 1], [1, 1, 0, 3], [4, 1, 1, 0]], float)
        given = {"loss": losses}
    model = estimator(NAME, alpha=0.1, tol=1e-9, **given).fit(X, y, weights)
    W, value = ridge(X, np.eye(4)[y], 0.1, weights)
    assert model.status_ == "converged"
    assert model.dual_ <= value + 1e-12 <= model.primal_ + 2e-12
    np.testing.assert_allclose(model.coef_, W[:-1].T, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, W[-1], atol=1e-4)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), (scores @ losses.T).argmin(axis=1))
    assert not hasattr(model, "predict_proba")


def test_rankings_against_ridge_regression():
    X, _, weights = data(30)
    random = np.random.RandomState(1)
    ranks = np.array([random.permutation(3) for _ in X])
    model = LabelRanker(NAME, alpha=0.1, tol=1e-9, y_format="ranks").fit(X, ranks, weights)
    _, value = ridge(X, np.eye(3)[ranks].reshape(len(X), 9), 0.1, weights)
    assert model.dual_ <= value + 1e-12 <= model.primal_ + 2e-12
    assert model.primal_ - value <= 1e-8
    assert sorted(model.predict(X)[0]) == [0, 1, 2]


def test_the_best_class_without_a_majority():
    chances = [0.3, 0.3, 0.4]
    model = MulticlassClassifier(NAME, alpha=1e-6, tol=1e-9, fit_intercept=False)
    model.fit(np.ones((3, 1)), np.arange(3), sample_weight=chances)
    np.testing.assert_allclose(model.decision_function([[1.0]])[0], chances, atol=1e-4)


def test_what_it_does_not_have_is_refused():
    X, y, _ = data()
    with pytest.raises(ValueError, match="least squares do not have"):
        MulticlassClassifier(NAME, solver="bcfw").fit(X, y)
    with pytest.raises(ValueError, match="kernel='linear'"):
        MulticlassClassifier(NAME, kernel="rbf").fit(X, y)

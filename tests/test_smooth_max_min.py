"""Smooth max-min margin: formulas by weak duality, fits against a convex solver, consistency."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import entr, expit, logsumexp, softmax

from maxmargin import (
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    OrdinalClassifier,
    SmoothMaxMin,
    load,
    save,
)
from maxmargin.surrogates.smooth_max_min import (
    STRENGTH,
    absolute_response,
    label_logits,
    zero_one_response,
)

NAME = "smooth-max-min"


def losses_of(kind, k):
    places = np.arange(float(k))
    return 1.0 - np.eye(k) if kind == "0-1" else np.abs(places[:, None] - places)


def upper(losses, scores, nu, strength):
    """What any mixture nu of predictions proves the value to be at most."""
    return strength * logsumexp((scores + nu @ losses) / strength)


def lower(losses, scores, mu, strength):
    """What any distribution mu of truths proves the value to be at least."""
    return (losses @ mu).min() + strength * entr(mu).sum() + scores @ mu


@pytest.mark.parametrize("response", [zero_one_response, absolute_response])
@pytest.mark.parametrize("strength", [0.02, STRENGTH, 3.0])
def test_both_bounds_meet(response, strength):
    kind = "0-1" if response is zero_one_response else "absolute"
    random = np.random.RandomState(0)
    for k in (2, 3, 7):
        scores = random.randn(60, k) * 10.0 ** random.uniform(-1.5, 1, (60, 1))
        found = response(scores, strength)
        losses = losses_of(kind, k)
        assert found.predictions.min() >= -1e-12
        np.testing.assert_allclose(found.predictions.sum(axis=1), 1.0, rtol=1e-12)
        for v, nu, logits in zip(scores, found.predictions, found.logits, strict=True):
            above, below = (
                upper(losses, v, nu, strength),
                lower(losses, v, softmax(logits), strength),
            )
            assert above == pytest.approx(below, abs=1e-10 * (1.0 + np.abs(v).max()))


def test_both_bounds_meet_for_a_label():
    random = np.random.RandomState(1)
    for _ in range(200):
        v, cost, s = random.randn(), 10.0 ** random.uniform(-1, 1), 10.0 ** random.uniform(-1, 1)
        p = expit(label_logits(np.array([v]), cost, s))[0]
        below = cost * min(p, 1.0 - p) + s * (entr(p) + entr(1.0 - p)) + v * p
        shares = np.linspace(0.0, 1.0, 2001)
        above = s * np.logaddexp(shares * cost / s, (v + (1.0 - shares) * cost) / s)
        assert below <= above.min() + 1e-12
        assert below == pytest.approx(above.min(), abs=cost**2 / s * 1e-6 + 1e-9)


def data(kind, n=40, k=4):
    random = np.random.RandomState(2)
    X = random.randn(n, 3)
    y = np.clip(np.round(X[:, 0] + random.randn(n)) + 1, 0, k - 1).astype(int)
    return X, y


@pytest.mark.parametrize(
    ("kind", "solver", "strength"),
    [("0-1", "lbfgs", STRENGTH), ("0-1", "bcfw", 0.5), ("absolute", "lbfgs", 0.3)],
)
def test_fits_have_the_optimum_of_a_convex_solver(kind, solver, strength, tmp_path):
    X, y = data(kind)
    estimator = MulticlassClassifier if kind == "0-1" else OrdinalClassifier
    response = zero_one_response if kind == "0-1" else absolute_response
    alpha, k, losses = 0.05, 4, losses_of(kind, 4)
    surrogate = NAME if strength == STRENGTH else SmoothMaxMin(strength)
    model = estimator(
        surrogate, alpha=alpha, tol=1e-6, max_iter=3000, solver=solver, fit_intercept=False,
        classes=list(range(k)), random_state=0,
    ).fit(X, y)  # fmt: skip

    def objective(flat):
        W = flat.reshape(k, 3)
        scores = X @ W.T
        found = response(scores, strength)
        nu = found.predictions
        values = strength * logsumexp((scores + nu @ losses) / strength, axis=1)
        value = 0.5 * alpha * flat @ flat + np.mean(values - scores[np.arange(len(y)), y])
        slopes = softmax(found.logits, axis=1) - np.eye(k)[y]
        return value, alpha * flat + (slopes.T @ X / len(y)).ravel()

    best = minimize(objective, np.zeros(3 * k), jac=True, method="L-BFGS-B", tol=1e-12)
    assert model.status_ == "converged"
    assert model.primal_ == pytest.approx(best.fun, rel=2e-6)
    assert model.dual_ <= best.fun + 1e-9
    assert objective(model.coef_.ravel())[0] == pytest.approx(model.primal_, rel=1e-9)
    np.testing.assert_allclose(
        model.predict_proba(X), softmax(response(X @ model.coef_.T, strength).logits, axis=1),
        atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict_topk(X, 1)[0][:, 0], model.predict(X))
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert repr(again.surrogate) == repr(surrogate)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("estimator", "chances", "best"),
    [
        (MulticlassClassifier, [0.3, 0.3, 0.4], 2),
        (OrdinalClassifier, [0.3, 0.19, 0.015, 0.495], 2),  # the median is rare
    ],
)
def test_probabilities_and_the_best_prediction_where_no_class_has_a_majority(
    estimator, chances, best
):
    k = len(chances)
    model = estimator(NAME, alpha=1e-5, tol=1e-9, fit_intercept=False, solver="lbfgs")
    model.fit(np.ones((k, 1)), np.arange(k), sample_weight=chances)
    np.testing.assert_allclose(model.predict_proba([[1.0]])[0], chances, atol=2e-3)
    assert model.predict([[1.0]])[0] == best


def test_scores_alone_do_not_tell_the_median():
    chances, median, strength = np.array([0.3, 0.19, 0.015, 0.495]), 2, 0.3
    scores = strength * np.log(chances) - np.abs(np.arange(4) - median)  # the best ones
    found = absolute_response(scores[None], strength)
    np.testing.assert_allclose(softmax(found.logits[0]), chances, rtol=1e-12)
    assert found.predictions[0].argmax() == median != scores.argmax()


def test_label_sets_agree_with_one_label_at_a_time():
    """Two states of a label are two classes, and nothing couples the labels."""
    random = np.random.RandomState(3)
    X = random.randn(60, 3)
    Y = (X @ random.randn(3, 2) + random.randn(60, 2) > 0).astype(int)
    common = {"tol": 1e-7, "fit_intercept": False, "solver": "lbfgs", "max_iter": 3000}
    sets = MultiLabelClassifier(NAME, alpha=0.02, edges="none", **common).fit(X, Y)
    for label in range(2):
        # The loss and the entropy of a label are half of those of two classes: with weights half as
        # large everything is, once the penalty has half of its factor.
        alone = MulticlassClassifier(NAME, alpha=0.01, **common).fit(X, Y[:, label])
        # A gap of 4e-8 leaves sqrt(2 gap / alpha) = 3e-3 to the weights, 5e-3 to probabilities.
        np.testing.assert_allclose(
            sets.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1], atol=1e-2
        )
    chances = sets.predict_proba(X)
    decided = np.abs(chances - 0.5) > 1e-9  # small scores have probabilities of one half
    assert decided.any() and not decided.all()
    np.testing.assert_array_equal(sets.predict(X)[decided], (chances > 0.5)[decided])
    Y[:5, 0] = -1
    hidden = MultiLabelClassifier(NAME, alpha=0.02, edges="none", **common).fit(X, Y)
    assert hidden.status_ == "converged" and hidden.gap_ >= -1e-9


def test_what_has_no_formula_is_refused():
    X, y = data("0-1")
    with pytest.raises(ValueError, match="formula for loss='0-1' only"):
        MulticlassClassifier(NAME, loss=losses_of("absolute", 4)).fit(X, y)
    for surrogate in (NAME, "crf"):
        with pytest.raises(ValueError, match=f"surrogate='{surrogate}' .* class_weight=None"):
            MultiLabelClassifier(surrogate, class_weight="balanced").fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match="labels that interact"):
        MultiLabelClassifier(NAME, edges="full").fit(X, np.eye(4, dtype=int)[y])
    with pytest.raises(ValueError, match="strength must be"):
        MulticlassClassifier(SmoothMaxMin(strength=0.0)).fit(X, y)
    with pytest.raises(ValueError, match="surrogate must be one of"):
        LabelRanker(SmoothMaxMin()).fit(X[:1], [[0, 1]])

"""The CRF of one label: optimal values, the line search, probabilities, runners-up."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import entr, logsumexp, softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

import maxmargin
import steppers
from marks import more
from maxmargin import MulticlassClassifier, OrdinalClassifier
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin.features.rows import pack_rows
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.solvers.problem import Problem
from maxmargin.structures.losses import ZeroOneLoss
from maxmargin.structures.multiclass import Multiclass
from maxmargin.surrogates.crf import Crf

EXACT = {"tol": 1e-8, "max_iter": 50_000, "random_state": 0}
ALPHA = 0.1


@pytest.fixture(scope="module")
def iris():
    """Every third flower, standardised: three classes, two of which overlap."""
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[::3], y[::3]


def some_rows(n=12, K=4):
    random = np.random.RandomState(1)
    y = np.arange(n) % K
    X = random.randn(n, 2) + np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y % 4]
    return X, y, random.uniform(0.5, 2.0, n)


# --- the line search ------------------------------------------------------------------------


@compiled
def answer_and_step(surrogate, structure, scores, mu, curvature, work, answer):
    """Best response, its value, and how far to go towards it."""
    labels = np.empty(1, np.int32)
    upper, lower = generic.best_response(surrogate, structure, 0, scores, work, labels, answer)
    direction = answer - mu
    gap = upper - generic.concave_part(surrogate, structure, 0, mu, work)
    slope = 0.0
    for k in range(mu.shape[0]):
        gap -= mu[k] * scores[k]
        slope += direction[k] * scores[k]
    step = generic.line_step(surrogate, structure, 0, mu, direction, gap, slope, curvature, work)
    return upper, lower, step


@settings(max_examples=200)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 30),
    st.sampled_from([1e-3, 1.0, 30.0, 1e4]),
    st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e3, 1e8]),
    st.sampled_from(["vertex", "near", "sparse", "inside"]),
)
def test_response_and_step_are_maxima(seed, K, size, curvature, kind):
    random = np.random.RandomState(seed)
    scores = size * random.randn(K)
    mu = random.dirichlet(np.ones(K))
    if kind == "vertex":
        mu = np.eye(K)[random.randint(K)]
    if kind == "sparse":
        mu[random.rand(K) < 0.5] = 0.0
        mu = mu / mu.sum() if mu.any() else np.eye(K)[0]
    if kind == "near":
        mu = 0.999 * softmax(scores) + 0.001 * mu
    structure = Multiclass(np.zeros(1, np.int32), K, ZeroOneLoss(np.ones(K), True))
    answer = np.full(K, np.nan)
    upper, lower, step = answer_and_step(
        Crf(), structure, scores, mu, curvature, np.full(4 * K, np.nan), answer
    )
    assert upper == lower == pytest.approx(logsumexp(scores), rel=1e-14, abs=1e-14)
    np.testing.assert_allclose(answer, softmax(scores), rtol=1e-10, atol=1e-300)
    if upper - scores @ mu - entr(mu).sum() <= 1e-12 * size:  # steps are for blocks with a gap
        return
    direction = answer - mu

    def loss(gamma):
        point = np.maximum(mu + gamma * direction, 0.0)
        return -(entr(point).sum() + gamma * direction @ scores - 0.5 * gamma**2 * curvature)

    found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    scale = 1.0 + abs(direction @ scores) + curvature * found.x**2
    assert 0.0 < step <= 1.0
    assert loss(step) <= min(found.fun, loss(0.0)) + 1e-13 * scale
    # Flat at the step: nothing to gain on either side, to first order.
    for other in (0.99 * step, min(1.01 * step, 1.0)):
        assert loss(step) <= loss(other) + 1e-13 * scale


# --- optimal values -------------------------------------------------------------------------


def optimum(X, y, weights, K, alpha=ALPHA):
    """The least value of the objective, by a convex solver."""
    X = np.hstack([X, np.ones((len(X), 1))])
    w = cp.Variable((X.shape[1], K))
    scores = X @ w
    losses = cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(np.eye(K)[y], scores), axis=1)
    objective = 0.5 * alpha * cp.sum_squares(w) + weights @ losses / weights.sum()
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


@pytest.mark.parametrize("solver", [more("bcfw"), "lbfgs"])
@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
@pytest.mark.parametrize("costs", [None, [1.0, 2.0, 0.5, 1.5]], ids=["plain", "class_weight"])
def test_optimum(estimator, costs, solver):
    X, y, weights = some_rows()
    class_weight = None if costs is None else dict(enumerate(costs))
    model = estimator("crf", alpha=ALPHA, class_weight=class_weight, solver=solver, **EXACT)
    model.fit(X, y, sample_weight=weights)
    best = optimum(X, y, weights * (1.0 if costs is None else np.array(costs)[y]), 4)
    assert model.status_ == "converged"
    assert model.dual_ <= best + 1e-8 and model.primal_ >= best - 1e-8
    assert model.primal_ == pytest.approx(best, abs=1e-7)
    assert model.gap_ <= 1e-8 * model.primal_


@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("alpha", [0.5, 0.01])
def test_it_is_logistic_regression(iris, k, alpha, solver):
    X, y = iris
    X, y = X[y >= 3 - k], y[y >= 3 - k]
    model = MulticlassClassifier(
        "crf", alpha=alpha, fit_intercept=False, **(EXACT | {"tol": 1e-12, "solver": solver})
    )
    model.fit(X, y)
    # With two classes scikit-learn penalises the difference of the weights once, not each.
    C = (2.0 if k == 2 else 1.0) / (alpha * len(X))
    peer = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)
    coef = model.coef_ if k == 3 else model.coef_[1:] - model.coef_[:1]
    np.testing.assert_allclose(coef, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert (model.predict(X) == peer.predict(X)).all()


@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
def test_a_small_gap_is_reached_on_digits(solver):
    X, y = load_digits(return_X_y=True)
    model = MulticlassClassifier("crf", solver=solver, tol=1e-8, random_state=0)
    model.fit(X[:500] / 16.0, y[:500])
    assert model.status_ == "converged"
    assert 0.0 <= model.gap_ <= 1e-8 * model.primal_


def test_the_loss_makes_no_difference(iris):
    X, y = iris
    model = MulticlassClassifier("crf", random_state=0).fit(X, y)
    costly = MulticlassClassifier("crf", loss=9.0 - 9.0 * np.eye(3), random_state=0).fit(X, y)
    ordinal = OrdinalClassifier("crf", random_state=0).fit(X, y)
    assert (model.coef_ == costly.coef_).all() and (model.coef_ == ordinal.coef_).all()


# --- at every check -------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_the_dual_rises_to_the_optimum_and_the_gap_is_true(order, size):
    X, y, weights = some_rows(30)
    X = X * size
    rows = pack_rows(X, fit_intercept=True)
    structure = Multiclass(y.astype(np.int32), 4, ZeroOneLoss(np.ones(4), True))
    problem = Problem(structure, Crf(), rows, ALPHA, weights)
    best = optimum(X, y, weights, 4)
    start = problem.evaluate(problem.weights_of(problem.start()), problem.start())
    stepper = steppers.frank_wolfe(problem, order=order, rng=np.random.RandomState(0))
    dual = -np.inf
    for check in range(80):
        [(now, found)] = stepper.check()
        assert found.dual >= dual - 1e-12 * size
        assert found.dual <= best + 1e-8
        assert found.primal >= best - 1e-8
        assert found.primal - found.dual >= -1e-9
        np.testing.assert_allclose(now, problem.weights_of(stepper.dual_state), atol=1e-10)
        assert stepper.gaps.min() >= -1e-9
        dual = found.dual
        stepper.advance(1.0, check % 2)  # one step, or to the end of the round
    # Long rows make a hard problem: forty passes only begin to climb.
    assert best - dual < (0.1 if size == 1.0 else 0.99) * (best - start.dual)


def test_the_stored_dual_stays_on_the_simplex():
    """Tiny probabilities are dropped from the storage; they must not add up."""
    X, y, weights = some_rows(30)
    rows = pack_rows(100.0 * X, fit_intercept=True)
    structure = Multiclass(y.astype(np.int32), 4, ZeroOneLoss(np.ones(4), True))
    stepper = steppers.frank_wolfe(
        Problem(structure, Crf(), rows, 1e-3, weights), rng=np.random.RandomState(0)
    )
    while stepper.oracle_calls < 3000 * 30:
        stepper.advance(1.0, 10**9)
    blocks = stepper.dual_state
    sums = [
        blocks.value[start : start + count].sum()
        for start, count in zip(blocks.start, blocks.count, strict=True)
    ]
    np.testing.assert_allclose(sums, 1.0, atol=1e-11)


# --- equivalences ---------------------------------------------------------------------------


def crf(**parameters):
    defaults = EXACT | {"surrogate": "crf", "alpha": 0.05, "tol": 1e-12}
    return MulticlassClassifier(**(defaults | parameters))


@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
def test_weight_two_is_an_example_twice(iris, solver):
    X, y = iris
    weights = np.where(np.arange(len(X)) % 3, 1.0, 2.0)
    twice = np.repeat(np.arange(len(X)), weights.astype(int))
    one, other = crf(solver=solver), crf(solver=solver)
    one.fit(X, y, sample_weight=weights)
    other.fit(X[twice], y[twice])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-6)
    assert one.primal_ == pytest.approx(other.primal_, abs=1e-11)


@pytest.mark.more
@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
def test_sparse_rows_are_dense_rows(iris, solver):
    X, y = iris
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    one, other = crf(solver=solver).fit(X, y), crf(solver=solver).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-9)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-9)
    # The same weights have the same probabilities, up to rounding of scores and exponentials.
    np.testing.assert_allclose(one.predict_proba(X), one.predict_proba(sp.csr_array(X)), 1e-13)
    # Logarithms of probabilities then differ by at most twice the difference of two scores.
    error = 2e-9 * (1.0 + np.abs(X).sum(axis=1).max())
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(sp.csr_array(X)), error)


@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
def test_threads_do_not_change_a_bit(iris, solver):
    X, y = iris
    one, two = (crf(n_jobs=jobs, tol=1e-6, solver=solver).fit(X, y) for jobs in (1, 2))
    assert (one.coef_ == two.coef_).all() and (one.primal_, one.dual_) == (two.primal_, two.dual_)
    assert (one.predict_proba(X) == two.predict_proba(X)).all()


@pytest.mark.parametrize("solver", ["bcfw", "lbfgs"])
def test_a_refit_continues(iris, solver):
    X, y = iris
    model = crf(warm_start=True, tol=1e-6, solver=solver).fit(X, y)
    dual = model.dual_
    again = model.set_params(tol=1e-9).fit(X, y).history_[0].dual
    assert again == pytest.approx(dual, rel=1e-12 if solver == "bcfw" else 1e-6)


@pytest.mark.parametrize("surrogates", [("crf", "max-margin"), ("max-min", "crf")])
def test_a_refit_with_another_surrogate_has_its_own_optimum(iris, surrogates):
    X, y = iris
    model = crf(warm_start=True, tol=1e-6, solver="bcfw")
    for surrogate in surrogates:
        model.set_params(surrogate=surrogate).fit(X, y)
    fresh = crf(surrogate=surrogates[1], tol=1e-6, solver="bcfw").fit(X, y)
    assert model.history_[0].dual > 0.0
    assert model.primal_ == pytest.approx(fresh.primal_, rel=1e-5)


# --- probabilities --------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
@pytest.mark.parametrize("k", [2, 3])
def test_probabilities(iris, estimator, k):
    X, y = iris
    X, y = X[y < k], y[y < k]
    names = ["c", "a", "b"]
    model = estimator("crf", classes=names[:k], random_state=0).fit(X, np.array(names)[y])
    scores = X @ model.coef_.T + model.intercept_
    found = model.predict_proba(X)
    assert found.shape == (len(X), k)
    np.testing.assert_allclose(found, softmax(scores, axis=1), rtol=1e-13)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(found), atol=1e-13)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X)).all()
    assert (model.predict_marginals(X) == found).all()
    far = model.predict_log_proba(1e4 * X)
    assert np.isfinite(far).all() and far.min() < -1000.0


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_margins_are_no_probabilities(iris, surrogate):
    X, y = iris
    model = MulticlassClassifier(surrogate, random_state=0).fit(X, y)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "surrogate='crf'" in str(caught.value)
    marginals = model.predict_marginals(X)
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-14)
    assert (marginals.argmax(axis=1) == model.predict(X)).all()


def test_probabilities_are_calibrated():
    """Where the model is right, classes come as often as it says."""
    random = np.random.RandomState(0)
    X = random.randn(4000, 2)
    truth = softmax(X @ np.array([[1.0, -1.0, 0.0], [0.5, 0.0, -2.0]]), axis=1)
    y = (truth.cumsum(axis=1) > random.rand(4000, 1)).argmax(axis=1)
    model = MulticlassClassifier("crf", alpha=1e-4, tol=1e-4, random_state=0).fit(
        X[:2000], y[:2000]
    )
    found = model.predict_proba(X[2000:])
    assert np.abs(found - truth[2000:]).mean() < 0.03
    assert np.abs(found.mean(axis=0) - truth[2000:].mean(axis=0)).max() < 0.03


def test_a_saved_model_has_the_same_probabilities(iris, tmp_path):
    X, y = iris
    model = MulticlassClassifier("crf", random_state=0).fit(X, y)
    maxmargin.save(model, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    assert (again.predict_topk(X, 2)[1] == model.predict_topk(X, 2)[1]).all()


# --- runners-up -----------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", ["crf", "max-margin"])
def test_the_best_labels(iris, surrogate):
    X, y = iris
    names = np.array(["c", "a", "b"])[y]
    model = MulticlassClassifier(surrogate, random_state=0).fit(X, names)
    scores = X @ model.coef_.T + model.intercept_
    labels, found = model.predict_topk(X, 3)
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1), rtol=1e-12)
    assert (labels[:, 0] == model.predict(X)).all()
    assert all(sorted(row) == ["a", "b", "c"] for row in labels.tolist())
    best, value = model.predict_topk(X, 1)
    assert (best == labels[:, :1]).all() and (value == found[:, :1]).all()
    tied, _ = model.set_params().predict_topk(np.zeros((1, 4)), 3)
    assert tied.shape == (1, 3)


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "k must be an integer >= 1; received 0"),
        (1.5, "k must be an integer >= 1; received 1.5"),
        (True, "k must be an integer >= 1; received True"),
        (4, "k must be at most the number of classes, 3; received 4"),
    ],
)
def test_a_bad_number_of_labels(iris, k, message):
    model = MulticlassClassifier(random_state=0).fit(*iris)
    with pytest.raises(ValueError, match=message):
        model.predict_topk(iris[0], k)

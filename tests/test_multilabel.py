"""Multilabel problems against enumeration, a convex solver, and one problem a label."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

import steppers
from marks import more, split
from maxmargin import MulticlassClassifier, MultiLabelClassifier
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.vector import dot
from maxmargin.features.rows import pack_rows
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.solvers.loop import run
from maxmargin.solvers.problem import Problem
from maxmargin.structures.multilabel import Multilabel, label_weights
from maxmargin.surrogates.crf import Crf
from maxmargin.surrogates.max_margin import MaxMargin
from maxmargin.surrogates.max_min import MaxMin

SURROGATES = {"max-margin": MaxMargin(), "max-min": MaxMin(), "crf": Crf()}
MARGINS = ["max-margin", "max-min"]


def separable(*args, **settings):
    """Labels that do not interact."""
    return MultiLabelClassifier(*args, edges="none", **settings)


EXACT = {"tol": 1e-9, "max_iter": 50_000, "random_state": 0}


def outputs(L):
    return np.array(list(itertools.product([0, 1], repeat=L)))


def embedding(y):
    """Absences, then presences."""
    return np.concatenate([1.0 - y, y], axis=-1)


def losses(costs):
    """Loss of every output (rows) against every other as the truth (columns)."""
    every = outputs(costs.shape[1])
    wrong = every[:, None] != every[None]
    return (wrong * np.where(every == 1, costs[1], costs[0])[None]).sum(axis=2)


def random_structure(random, n, L, different):
    truth = random.randint(0, 2, (n, L)).astype(np.int8)
    costs = np.full((2, L), 1.0 / L)
    if different:
        costs = np.exp(random.uniform(-2.0, 1.0, (2, L)))
    return Multilabel(truth.ravel(), L, costs), truth


# --- oracles --------------------------------------------------------------------------------


@compiled
def answers(surrogate, structure, rows, i, scores, mu):
    work = np.empty(generic.work_size(structure, rows))
    labels = np.empty(generic.most_labels(structure), np.int32)
    upper, lower = generic.best_response(surrogate, structure, i, scores, work, labels, mu)
    return upper, lower, generic.concave_part(surrogate, structure, i, mu, work)


@compiled
def exact_block(surrogate, structure, rows, i, scores, mu, scale, out):
    work = np.empty(generic.work_size(structure, rows))
    return generic.block_maximum(surrogate, structure, rows, i, scores, mu, scale, work, out)


@compiled
def step(surrogate, structure, rows, i, scores, mu, scale, direction):
    work = np.empty(generic.work_size(structure, rows))
    curvature = scale * generic.squared_norm(structure, rows, i, direction, work)
    slope = dot(direction, scores)
    gap = slope + generic.concave_part(surrogate, structure, i, mu + direction, work)
    gap -= generic.concave_part(surrogate, structure, i, mu, work)
    g = generic.line_step(surrogate, structure, i, mu, direction, gap, slope, curvature, work)
    return g, slope, curvature


@compiled
def concave(surrogate, structure, i, mu):
    return generic.concave_part(surrogate, structure, i, mu, np.empty(5 * structure.n_labels))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
def test_oracles_against_all_outputs(seed, L, different):
    random = np.random.RandomState(seed)
    structure, truth = random_structure(random, 1, L, different)
    rows = pack_rows(random.randn(1, 2), fit_intercept=False)
    half = random.randn(L) * random.choice([0.01, 0.3, 3.0])
    scores = np.concatenate([-half, half])
    every = outputs(L)
    values = embedding(every) @ scores
    table = losses(structure.costs)
    mine = int(np.flatnonzero((every == truth[0]).all(axis=1))[0])
    mu = np.full(2 * L, np.nan)
    upper, lower, floor = answers(MaxMargin(), structure, rows, 0, scores, mu)
    assert upper == lower == pytest.approx((values + table[:, mine]).max(), abs=1e-12)
    assert scores @ mu + floor == pytest.approx(upper, abs=1e-12)
    # Max-min over mixtures of all outputs, against any prediction: a linear program.
    n = len(every)
    found = linprog(
        -np.append(values, 1.0),
        A_ub=np.hstack([-table, np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    upper, lower, floor = answers(MaxMin(), structure, rows, 0, scores, mu)
    assert upper == lower == pytest.approx(-found.fun, abs=1e-9)
    assert scores @ mu + floor == pytest.approx(upper, abs=1e-12)
    np.testing.assert_allclose(mu[:L] + mu[L:], 1.0, atol=1e-15)
    upper, lower, floor = answers(Crf(), structure, rows, 0, scores, mu)
    assert upper == lower == pytest.approx(logsumexp(values), abs=1e-12)
    np.testing.assert_allclose(mu, softmax(values) @ embedding(every), atol=1e-14)
    assert scores @ mu + floor == pytest.approx(upper, abs=1e-12)


@pytest.mark.parametrize("surrogate", MARGINS)
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans())
def test_exact_block_and_exact_step(surrogate, seed, L, different):
    surrogate = SURROGATES[surrogate]
    random = np.random.RandomState(seed)
    structure, _ = random_structure(random, 1, L, different)
    rows = pack_rows(random.randn(1, 3), fit_intercept=True)
    scale = np.exp(random.uniform(-4.0, 2.0))
    half = random.randn(L)
    scores = np.concatenate([-half, half])
    mu = embedding(random.choice([0.0, 0.3, 1.0], L))
    h = scale * rows.squares[0]

    def value(m):
        return concave(surrogate, structure, 0, m) + scores @ m - 0.5 * h * np.sum((m - mu) ** 2)

    out = np.empty(2 * L)
    gap = exact_block(surrogate, structure, rows, 0, scores, mu, scale, out)
    best, _, _ = answers(surrogate, structure, rows, 0, scores, np.empty(2 * L))
    assert gap == pytest.approx(best - value(mu), abs=1e-12)
    if gap > 0.0:
        grid = np.linspace(0.0, 1.0, 201)
        for k in range(L):  # the labels do not touch each other
            tried = np.tile(out, (len(grid), 1))
            tried[:, k], tried[:, L + k] = 1.0 - grid, grid
            assert value(out) >= max(map(value, tried)) - 1e-12
    direction = embedding(random.random_sample(L)) - mu
    g, slope, curvature = step(surrogate, structure, rows, 0, scores, mu, scale, direction)
    assert curvature == pytest.approx(h * direction @ direction, rel=1e-12)
    along = [value(mu + t * direction) for t in np.linspace(0.0, 1.0, 2001)]
    # With a linear H a step is asked for only where it gains something.
    if isinstance(surrogate, MaxMin) or max(along) > along[0]:
        assert 0.0 <= g <= 1.0
        assert value(mu + g * direction) >= max(along) - 1e-12


# --- problems -------------------------------------------------------------------------------


def data(n=12, L=3):
    random = np.random.RandomState(2)
    X = random.randn(n, 2)
    Y = (X @ random.randn(2, L) + 0.7 * random.randn(n, L) > 0.2).astype(int)
    return X, Y, random.uniform(0.5, 2.0, n)


def convex_optimum(surrogate, X, Y, costs, weights, alpha):
    """Two weight vectors per label, the surrogates in their textbook form."""
    n, L = Y.shape
    X = np.hstack([X, np.ones((n, 1))])
    absent, present = cp.Variable((X.shape[1], L)), cp.Variable((X.shape[1], L))
    total = 0.0
    for k in range(L):
        v0, v1 = X @ absent[:, k], X @ present[:, k]
        mine = cp.multiply(Y[:, k], v1) + cp.multiply(1 - Y[:, k], v0)
        if surrogate == "crf":
            best = cp.logistic(v1 - v0) + v0
        elif surrogate == "max-margin":
            cost = np.where(Y[:, k] == 1, costs[1, k], costs[0, k])
            best = cp.maximum(v0 + cost * Y[:, k], v1 + cost * (1 - Y[:, k]))
        else:
            p = costs[0, k] / costs[:, k].sum()
            best = cp.maximum(v0, v1, (1 - p) * v0 + p * v1 + costs[1, k] * p)
        total += weights @ (best - mine) / weights.sum()
    penalty = 0.5 * alpha * (cp.sum_squares(absent) + cp.sum_squares(present))
    problem = cp.Problem(cp.Minimize(penalty + total))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, present.value - absent.value


WEIGHTED = [(s, w) for s in MARGINS for w in (None, {0: 2.0, 2: 0.25}, "balanced")]


@pytest.mark.parametrize(("surrogate", "class_weight"), [*WEIGHTED, ("crf", None)])
def test_optimum(surrogate, class_weight):
    X, Y, weights = data()
    model = separable(surrogate, alpha=0.05, class_weight=class_weight, **EXACT)
    model.fit(X, Y, sample_weight=weights)
    costs = np.ones((2, 3))
    if class_weight == "balanced":
        present = weights @ Y
        costs = weights.sum() / (2.0 * np.array([weights.sum() - present, present]))
        costs = costs**0.25
    elif class_weight:
        costs = np.tile([2.0, 1.0, 0.25], (2, 1))
    optimum, coef = convex_optimum(surrogate, X, Y, costs / 3.0, weights, 0.05)
    assert model.status_ == "converged" and model.oracle_error_ == 0.0
    assert model.dual_ <= optimum + 1e-8 and model.primal_ >= optimum - 1e-8
    assert model.primal_ == pytest.approx(optimum, abs=1e-6)
    np.testing.assert_allclose(model.coef_, coef[:2].T, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, coef[2], atol=1e-3)
    found = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), found, atol=1e-12)


@pytest.mark.parametrize("surrogate", MARGINS)
def test_one_problem_is_as_many_problems_as_labels(surrogate):
    X, Y, weights = data(60, 4)
    alpha, L = 0.02, 4
    model = separable(surrogate, alpha=alpha, **EXACT).fit(X, Y, weights)
    total = 0.0
    for k in range(L):
        # A loss of 1/L with alpha is 1/L of the problem with loss 1 and alpha/L, weights alike.
        single = MulticlassClassifier(surrogate, alpha=alpha / L, **EXACT).fit(X, Y[:, k], weights)
        total += single.primal_ / L
        # The weights of a problem this well determined agree as well as the gap allows.
        radius = np.sqrt(2.0 * single.gap_ / (alpha / L)) + np.sqrt(2.0 * model.gap_ / alpha) * L
        np.testing.assert_allclose(
            model.coef_[k] * L, single.coef_[1] - single.coef_[0], atol=2.0 * radius
        )
    assert model.primal_ == pytest.approx(total, abs=1e-6)


def test_crf_is_a_logistic_regression_a_label():
    X, Y, weights = data(60, 4)
    model = separable("crf", alpha=0.02, fit_intercept=False, **EXACT)
    model.fit(X, Y, weights)
    for k in range(4):
        single = LogisticRegression(C=2.0 / (0.02 * weights.sum()), fit_intercept=False, tol=1e-10)
        single.fit(X, Y[:, k], weights)
        np.testing.assert_allclose(model.coef_[k], single.coef_[0], atol=1e-4)
        found = model.predict_proba(X)[:, k]
        np.testing.assert_allclose(found, single.predict_proba(X)[:, 1], atol=1e-4)
    assert (model.predict_marginals(X) == model.predict_proba(X)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert (model.predict_log_proba(-1e6 * X) > -np.inf).all()


def test_only_the_likelihood_gives_probabilities():
    X, Y, _ = data()
    model = separable(random_state=0).fit(X, Y)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "predict_log_proba")
    np.testing.assert_allclose(model.predict_marginals(X), expit(model.decision_function(X)))
    labels, scores = model.predict_topk(X, 2)
    order = np.argsort(-model.decision_function(X), axis=1)[:, :2]
    assert (labels == order).all() and scores.shape == (12, 2)


def make_problem(surrogate, fit_intercept=True):
    X, Y, weights = data(30)
    structure = Multilabel(Y.astype(np.int8).ravel(), 3, np.full((2, 3), 1.0 / 3.0))
    rows = pack_rows(X, fit_intercept=fit_intercept)
    return Problem(structure, SURROGATES[surrogate], rows, 0.05, weights)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("surrogate", "method"),
    [
        ("max-margin", "exact"),
        ("max-margin", "line"),
        more("max-margin", "pairwise"),
        ("max-min", "exact"),
        ("max-min", "line"),
        more("crf", "line"),
    ],
)
def test_the_dual_rises_and_the_gap_is_true(surrogate, method, order):
    problem = make_problem(surrogate)
    X, Y, weights = data(30)
    optimum, _ = convex_optimum(surrogate, X, Y, np.full((2, 3), 1 / 3), weights, 0.05)
    rng = np.random.RandomState(0)
    if method == "pairwise":
        stepper = steppers.pairwise(problem, order=order, rng=rng)
    else:
        stepper = steppers.frank_wolfe(
            problem, order=order, exact_blocks=method == "exact", rng=rng
        )
    dual, first_gap = -np.inf, None
    shares = problem.sample_weight / problem.total_weight
    for check in range(60):
        [(weights, found)] = stepper.check()
        assert found.dual >= dual - 1e-12
        assert found.dual <= optimum + 1e-8 and found.primal >= optimum - 1e-8
        assert found.primal - found.dual >= -1e-9
        assert found.primal - found.dual == pytest.approx(shares @ stepper.gaps, abs=1e-10)
        np.testing.assert_allclose(weights, problem.weights_of(stepper.dual_state), atol=1e-10)
        dual = found.dual
        first_gap = first_gap or found.primal - found.dual
        stepper.advance(1.0, 1 + 30 * (check % 2))  # one step, or to the end of the round
    assert optimum - dual < 0.1 * first_gap


def test_the_subgradient_method_has_a_true_dual():
    problem = make_problem("max-margin")
    X, Y, weights = data(30)
    optimum, _ = convex_optimum("max-margin", X, Y, np.full((2, 3), 1 / 3), weights, 0.05)
    stepper = steppers.subgradient(problem, rng=np.random.RandomState(0))
    found = run(stepper, tol=0.0, max_iter=300)
    assert 0.95 * optimum <= found.dual <= optimum + 1e-9
    assert optimum - 1e-8 <= found.primal <= 1.05 * optimum


def test_stored_weights_have_the_norm_of_both_states():
    problem = make_problem("max-margin")
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0))
    stepper.advance(1.0, 20)
    difference = label_weights(stepper.weights, 3)
    assert stepper.weights @ stepper.weights == pytest.approx(0.5 * np.sum(difference**2))


# --- the same problem in two guises ---------------------------------------------------------


@pytest.mark.parametrize("surrogate", split(SURROGATES, {"max-min"}))
def test_sparse_inputs_are_dense_inputs(surrogate):
    X, Y, weights = data(40)
    X = X * (np.abs(X) > 0.5)
    exact = {**EXACT, "tol": 1e-12}
    dense = separable(surrogate, alpha=0.05, **exact).fit(X, Y, weights)
    model = separable(surrogate, alpha=0.05, **exact).fit(sp.csr_matrix(X), Y, weights)
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-5)
    assert model.primal_ == pytest.approx(dense.primal_, rel=1e-11)
    assert (model.predict(sp.csr_array(X)) == dense.predict(X)).all()


@pytest.mark.parametrize(
    ("surrogate", "class_weight"),
    [*((s, w) for s in MARGINS for w in (None, "balanced")), ("crf", None)],
)
def test_weight_two_is_a_duplicate_and_weight_zero_an_absence(surrogate, class_weight):
    X, Y, _ = data(30)
    weights = np.ones(30)
    weights[:10], weights[20:] = 2.0, 0.0
    twice = np.r_[np.arange(10), np.arange(20)]
    settings = {**EXACT, "tol": 1e-12, "class_weight": class_weight}
    one = separable(surrogate, **settings).fit(X, Y, sample_weight=weights)
    other = separable(surrogate, **settings).fit(X[twice], Y[twice])
    assert one.primal_ == pytest.approx(other.primal_, rel=1e-11)
    assert one.alpha_ == other.alpha_
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_label_that_all_or_none_have(surrogate):
    X, Y, _ = data(30)
    Y = np.hstack([Y, np.zeros((30, 1), int), np.ones((30, 1), int)])
    for class_weight in (None, "balanced") if surrogate in MARGINS else (None,):
        model = separable(surrogate, class_weight=class_weight, random_state=0).fit(X, Y)
        assert model.status_ == "converged"
        assert (model.predict(X)[:, 3:] == [0, 1]).all()


def test_alpha_auto_is_the_svm_of_each_label():
    """C = 1 of Crammer and Singer for every label, whatever their number."""
    X, Y, _ = data(40)
    model = separable(tol=1e-9, max_iter=10_000, random_state=0).fit(X, Y)
    for k in range(3):
        single = MulticlassClassifier(tol=1e-9, max_iter=10_000, random_state=0).fit(X, Y[:, k])
        found = 3 * (X @ model.coef_[k] + model.intercept_[k])
        np.testing.assert_allclose(found, single.decision_function(X), atol=1e-2)

"""Restricted max-margin against linear programs, a convex solver, and its consistency."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from maxmargin import MulticlassClassifier, OrdinalClassifier
from maxmargin._dual_checks import check_dual
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.protocol import restricted_label
from maxmargin.structures.losses import AbsoluteLoss, ZeroOneLoss
from test_smooth_max_min import data, losses_of

NAME = "restricted-max-margin"
LOSSES = {"0-1": ZeroOneLoss, "absolute": AbsoluteLoss}


@compiled
def respond(loss, true, scores, mu):
    return restricted_label(loss, true, scores, np.empty(4 * scores.shape[0]), mu)


def by_program(losses, true, scores):
    """The maximum over all distributions under which the truth is a best prediction."""
    found = linprog(
        -(losses[true] + scores),
        A_ub=losses[true] - losses,
        b_ub=np.zeros(len(scores)),
        A_eq=np.ones((1, len(scores))),
        b_eq=[1.0],
    )
    return -found.fun


@pytest.mark.parametrize("kind", LOSSES)
def test_formulas_against_linear_programs(kind):
    random = np.random.RandomState(0)
    for _ in range(60):
        k = random.randint(1, 7)
        scores, true = 10.0 ** random.uniform(-1, 1) * random.randn(k), random.randint(k)
        losses, mu = losses_of(kind, k), np.empty(k)
        value = respond(LOSSES[kind](np.ones(k), True), true, scores, mu)
        assert value == pytest.approx(by_program(losses, true, scores), abs=1e-9)
        assert value == pytest.approx((losses[true] + scores) @ mu, abs=1e-9)
        assert mu.min() >= 0.0 and mu.sum() == pytest.approx(1.0)
        assert losses[true] @ mu <= (losses @ mu).min() + 1e-12


@pytest.mark.parametrize("kind", LOSSES)
def test_fits_have_the_optimum_of_a_convex_solver(kind):
    X, y = data(kind)
    alpha, k, losses = 0.05, 4, losses_of(kind, 4)
    estimator = MulticlassClassifier if kind == "0-1" else OrdinalClassifier
    model = estimator(
        NAME, alpha=alpha, tol=1e-4, max_iter=5000, fit_intercept=False, random_state=0
    ).fit(X, y)
    mu = cp.Variable((len(y), k), nonneg=True)
    weights = X.T @ (np.eye(k)[y] - mu) / (alpha * len(y))
    own = cp.sum(cp.multiply(mu, losses[y]), axis=1)
    dual = cp.sum(own) / len(y) - 0.5 * alpha * cp.sum_squares(weights)
    rules = [cp.sum(mu, axis=1) == 1] + [own <= mu @ losses[j] for j in range(k)]
    best = cp.Problem(cp.Maximize(dual), rules).solve(solver="CLARABEL")
    assert model.status_ == "converged"
    assert model.dual_ <= best + 1e-7 and model.primal_ >= best - 1e-7


def test_the_best_class_without_a_majority():
    chances = [0.3, 0.3, 0.4]
    model = MulticlassClassifier(NAME, alpha=1e-3, tol=1e-4, fit_intercept=False, max_iter=5000)
    model.fit(np.ones((3, 1)), np.arange(3), sample_weight=chances)
    assert model.predict([[1.0]])[0] == 2
    scores = model.decision_function([[1.0]])[0]
    np.testing.assert_allclose(scores - scores.mean(), [-1 / 3, -1 / 3, 2 / 3], atol=0.02)


def test_a_dual_point_of_other_surrogates_is_not_taken():
    """Under its marginals the truth need not be a best prediction: the bound would be wrong."""
    X, y = data("0-1")
    model = MulticlassClassifier("max-min", alpha=0.05, tol=1e-5, warm_start=True, random_state=0)
    free = model.fit(X, y).dual_
    model.set_params(surrogate=NAME).fit(X, y)
    assert model.dual_ <= model.primal_ < free
    assert model._dual is None


def test_dual_states_of_files_are_checked():
    X, y = data("0-1")
    kept = {}
    for surrogate in ("max-margin", NAME):
        model = MulticlassClassifier(surrogate, alpha=1e-3, solver="bcfw", random_state=0)

        def keep(problem, name=surrogate):
            kept[name] = problem
            return problem

        model._hand_over = keep
        model.fit(X, y)
    problem = kept[NAME]
    start = problem.start()
    check_dual(start, problem)
    uniform = np.full(len(start.value), 0.25)
    if len(start.index) == 0:
        check_dual(start._replace(value=uniform), problem)
    wrong = start._replace(value=np.roll(start.value, 1))
    if len(start.index):
        wrong = start._replace(index=(start.index + 1) % 4)
    with pytest.raises(ValueError, match="the true class is not the best prediction"):
        check_dual(wrong, problem)


def test_what_has_no_formula_is_refused():
    X, y = data("0-1")
    with pytest.raises(ValueError, match="formula for loss='0-1' only"):
        MulticlassClassifier(NAME, loss=losses_of("absolute", 4)).fit(X, y)

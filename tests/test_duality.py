"""Primal and dual: optimal values against a convex solver, and what holds at every check."""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple
from unittest import mock

import cvxpy as cp
import numpy as np
import pytest

import steppers
from marks import more
from maxmargin import (
    BlockFrankWolfe,
    HammingLoss,
    MulticlassClassifier,
    OrdinalClassifier,
    SequenceLabeler,
)
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.solvers.loop import run

ALPHA = 0.1


class Outputs(NamedTuple):
    """All outputs of one example: joint features, losses against the truth, and the truth."""

    features: np.ndarray
    losses: np.ndarray
    truth: int

    @property
    def moved(self):
        return self.features - self.features[self.truth]


def primal_value(examples, weights, w, alpha=ALPHA):
    """The objective of max-margin by enumeration."""
    slacks = [(e.losses + e.moved @ w).max() for e in examples]
    return 0.5 * alpha * w @ w + np.average(slacks, weights=weights)


def solve(objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


def max_margin_optimum(examples, weights, alpha=ALPHA):
    w = cp.Variable(examples[0].features.shape[1])
    slacks = cp.Variable(len(examples))
    objective = 0.5 * alpha * cp.sum_squares(w) + weights @ slacks / weights.sum()
    return solve(objective, [slacks[i] >= e.losses + e.moved @ w for i, e in enumerate(examples)])


def max_min_optimum(X, y, losses, weights, alpha=ALPHA):
    """With the inner problem as ``min_nu max_z (nu' L)_z + v_z``, nu on the simplex."""
    K = len(losses)
    w = cp.Variable((X.shape[1], K))
    slacks, nu = cp.Variable(len(X)), cp.Variable((len(X), K), nonneg=True)
    scores = X @ w
    constraints = [cp.sum(nu, axis=1) == 1]
    for i, truth in enumerate(y):
        constraints.append(slacks[i] >= nu[i] @ losses + scores[i] - scores[i, truth])
    return solve(0.5 * alpha * cp.sum_squares(w) + weights @ slacks / weights.sum(), constraints)


# --- data -----------------------------------------------------------------------------------

K = 4
COSTS = np.array([1.0, 2.0, 0.5, 1.5])
LABELS = np.arange(K)
LOSSES = {
    "0-1": (LABELS[:, None] != LABELS).astype(float),
    "absolute": np.abs(LABELS[:, None] - LABELS).astype(float),
    "matrix": np.array([[0, 1, 0.2, 3], [2, 0, 1, 0.5], [0.1, 1.5, 0, 1], [1, 0.3, 2, 0]]),
}


def rows(n=9):
    """Overlapping classes, all present, with weights."""
    random = np.random.RandomState(1)
    y = np.arange(n) % K
    X = random.randn(n, 2) + np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[y]
    return X, y, random.uniform(0.5, 2.0, n)


def with_constant(X):
    return np.hstack([X, np.ones((len(X), 1))])


def flat_examples(X, y, losses):
    """Outputs of a problem with one label per row; weights are inputs by label."""
    examples = []
    for x, truth in zip(X, y, strict=True):
        features = [np.outer(x, np.eye(K)[k]).ravel() for k in range(K)]
        examples.append(Outputs(np.array(features), losses[:, truth], truth))
    return examples


CHAIN_LABELS = 3
CHAIN_COSTS = np.array([1.0, 2.0, 0.5])
FORBIDDEN = {"transitions": [(2, 0)], "first": [2], "last": [1]}


def chain_features(x, labels):
    inputs, moves, borders = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3))
    for t, label in enumerate(labels):
        inputs[:, label] += x[t]
    for a, b in itertools.pairwise(labels):
        moves[a, b] += 1.0
    borders[0, labels[0]] = borders[1, labels[-1]] = 1.0
    return np.concatenate([inputs.ravel(), moves.ravel(), borders.ravel()])


def is_allowed(labels):
    forbidden = (2, 0) in itertools.pairwise(labels)
    return labels[0] != 2 and labels[-1] != 1 and not forbidden


def chains(constrained):
    """Sequences, true labels, weights, and all outputs of each."""
    random = np.random.RandomState(3)
    X, y, examples = [], [], []
    for length in (1, 2, 3, 3, 2):
        x = random.randn(length, 2)
        outputs = list(itertools.product(range(CHAIN_LABELS), repeat=length))
        if constrained:
            outputs = [labels for labels in outputs if is_allowed(labels)]
        truth = random.randint(len(outputs))
        features = np.array([chain_features(with_constant(x), labels) for labels in outputs])
        wrong = np.array(outputs) != outputs[truth]
        losses = (wrong * CHAIN_COSTS[list(outputs[truth])]).mean(axis=1)
        X.append(x)
        y.append(np.array(outputs[truth]))
        examples.append(Outputs(features, losses, truth))
    return X, y, random.uniform(0.5, 2.0, len(X)), examples


def chain_model(constrained=False, **settings):
    return SequenceLabeler(
        alpha=ALPHA,
        loss=HammingLoss(normalize=True),
        classes=range(CHAIN_LABELS),
        class_weight=dict(enumerate(CHAIN_COSTS)),
        constraints=FORBIDDEN if constrained else None,
        **settings,
    )


def packed_problem(model, X, y, weights):
    """The problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y, sample_weight=weights)
    return solver.call_args.args[0]


# --- optimal values -------------------------------------------------------------------------

EXACT = {"tol": 1e-8, "max_iter": 50_000, "random_state": 0}


def check_certificate(status, primal, dual, optimum):
    assert status == "converged"
    assert dual <= optimum + 1e-8
    assert primal >= optimum - 1e-8
    assert primal == pytest.approx(optimum, abs=1e-6)
    assert dual == pytest.approx(optimum, abs=1e-6)


def flat_optimum(surrogate, X, y, losses, weights):
    if surrogate == "max-min":
        return max_min_optimum(X, y, losses, weights)
    return max_margin_optimum(flat_examples(X, y, losses), weights)


def flat_model(loss, surrogate):
    estimator = OrdinalClassifier if loss == "absolute" else MulticlassClassifier
    model = estimator(surrogate, alpha=ALPHA, **EXACT)
    return model.set_params(loss=LOSSES[loss]) if loss == "matrix" else model


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "class_weight"])
@pytest.mark.parametrize(
    ("loss", "surrogate"),
    [
        ("0-1", "max-margin"),
        more("matrix", "max-margin"),
        ("absolute", "max-margin"),
        ("0-1", "max-min"),
        ("absolute", "max-min"),
        more("matrix", "max-min"),
    ],
)
def test_optimum_of_one_label(loss, surrogate, weighted):
    X, y, weights = rows()
    model = flat_model(loss, surrogate)
    if weighted:
        model.set_params(class_weight=dict(enumerate(COSTS)))
    model.fit(X, y, sample_weight=weights)
    X, losses = with_constant(X), LOSSES[loss]
    if weighted:  # a factor of the weights of the examples
        weights = weights * COSTS[y]
    optimum = flat_optimum(surrogate, X, y, losses, weights)
    check_certificate(model.status_, model.primal_, model.dual_, optimum)
    if surrogate == "max-margin":
        w = np.vstack([model.coef_.T, model.intercept_]).ravel()
        value = primal_value(flat_examples(X, y, losses), weights, w)
        assert value == pytest.approx(model.primal_, abs=1e-12)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
@pytest.mark.parametrize("loss", ["0-1", "absolute"])
def test_optimum_with_a_cost_of_each_true_class(loss, surrogate):
    X, y, weights = rows()
    problem = packed_problem(flat_model(loss, surrogate), X, y, weights)
    plain = problem.structure.loss
    problem.structure = problem.structure._replace(loss=type(plain)(COSTS, False))
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0))
    found = run(stepper, tol=EXACT["tol"], max_iter=EXACT["max_iter"])
    optimum = flat_optimum(surrogate, with_constant(X), y, LOSSES[loss] * COSTS, weights)
    check_certificate(found.status, found.primal, found.dual, optimum)


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize("average", [False, True], ids=["last", "average"])
def test_optimum_of_chains(constrained, average):
    X, y, weights, examples = chains(constrained)
    model = chain_model(
        constrained,
        solver=BlockFrankWolfe(steps="pairwise", step_average=3.0 if average else None),
        **EXACT,
    )
    model.fit(X, y, sample_weight=weights)
    optimum = max_margin_optimum(examples, weights)
    check_certificate(model.status_, model.primal_, model.dual_, optimum)
    flat = [model.coef_.T, model.intercept_, model.transitions_, model.first_, model.last_]
    w = np.concatenate([part.ravel() for part in flat])
    assert primal_value(examples, weights, w) == pytest.approx(model.primal_, abs=1e-12)


# --- at every check -------------------------------------------------------------------------


@functools.cache
def make_problem(name):
    """A problem by name, and its optimal value."""
    if name == "chain":
        X, y, weights, examples = chains(True)
        problem = packed_problem(chain_model(True), X, y, weights)
        return problem, max_margin_optimum(examples, weights)
    X, y, weights = rows(30)
    problem = packed_problem(MulticlassClassifier(name, alpha=ALPHA), X, y, weights)
    X = with_constant(X)
    if name == "max-min":
        return problem, max_min_optimum(X, y, LOSSES["0-1"], weights)
    return problem, max_margin_optimum(flat_examples(X, y, LOSSES["0-1"]), weights)


def make_stepper(method, problem, **settings):
    rng = np.random.RandomState(0)
    if method == "pairwise":
        return steppers.pairwise(problem, rng=rng, **settings)
    return steppers.frank_wolfe(problem, exact_blocks=method == "exact", rng=rng, **settings)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("max-margin", "exact"),
        ("max-margin", "line"),
        ("max-min", "exact"),
        ("max-min", "line"),
        more("chain", "line"),
        ("chain", "pairwise"),
    ],
)
def test_the_dual_rises_to_the_optimum_and_the_gap_is_true(name, method, order):
    problem, optimum = make_problem(name)
    stepper = make_stepper(method, problem, order=order)
    shares = problem.sample_weight / problem.total_weight
    gaps = np.empty(problem.n_examples)
    dual = -np.inf
    first_gap = None
    for check in range(60):
        [(weights, found)] = stepper.check()
        assert found.dual >= dual - 1e-12
        assert found.dual <= optimum + 1e-8
        assert found.primal >= optimum - 1e-8
        assert found.primal - found.dual >= -1e-9
        assert found.oracle_error == 0.0
        assert found.primal - found.dual == pytest.approx(shares @ stepper.gaps, abs=1e-10)
        # The weights that the steps kept up to date are those of the dual.
        rebuilt = problem.weights_of(stepper.dual_state)
        np.testing.assert_allclose(weights, rebuilt, atol=1e-10)
        again = problem.evaluate(rebuilt, stepper.dual_state, gaps)
        assert again.primal - again.dual == pytest.approx(shares @ gaps, abs=1e-12)
        assert gaps.min() >= -1e-9
        dual = found.dual
        first_gap = first_gap or found.primal - found.dual
        stepper.advance(1.0, check % 2)  # one step, or to the end of the round
    assert optimum - dual < 0.5 * first_gap


@pytest.mark.parametrize("method", ["line", "pairwise"])
def test_the_average_has_a_true_primal(method):
    X, y, weights, examples = chains(True)
    problem = packed_problem(chain_model(True), X, y, weights)
    stepper = make_stepper(method, problem, average=True)
    for _ in range(10):
        stepper.advance(1.0, 1)
        for w, found in stepper.check():
            assert found.primal == pytest.approx(primal_value(examples, weights, w), abs=1e-12)
    (last, _), (average, at_average) = stepper.check()
    assert np.abs(last - average).max() > 1e-3
    assert at_average.dual == -np.inf  # a dual value belongs to w(mu) only


@pytest.mark.parametrize(("average", "power"), [(1, 1), (3, 3), (True, 3)])
@pytest.mark.parametrize(("name", "method"), [("max-margin", "exact"), ("chain", "pairwise")])
def test_the_average_weighs_iterates_by_a_power_of_their_number(name, method, average, power):
    stepper = make_stepper(method, make_problem(name)[0], average=average)
    total, mass = 0.0, 0.0
    for step in range(1, 60):
        stepper.advance(0.0, 0)
        assert stepper.oracle_calls == step
        total = total + step**power * stepper.weights
        mass += step**power
        found = stepper.check()[1][0]
        np.testing.assert_allclose(found, total / mass, rtol=0, atol=1e-12)


@pytest.mark.more
@pytest.mark.parametrize("name", ["max-margin", "chain"])
def test_the_subgradient_method_has_a_true_dual(name):
    problem, optimum = make_problem(name)
    stepper = steppers.subgradient(problem, rng=np.random.RandomState(0))
    n, best = problem.n_examples, -np.inf
    while stepper.oracle_calls < 100 * n:
        stepper.advance(0.0, 1)
        (_, last), (_, average) = stepper.check()
        assert max(last.dual, average.dual) <= optimum + 1e-9
        assert min(last.primal, average.primal) >= optimum - 1e-8
        whole = stepper.oracle_calls % n == 0  # else the dual point is not known
        assert np.isfinite(last.dual) == whole
        best = max(best, last.dual)
    assert best >= 0.95 * optimum

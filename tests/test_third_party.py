"""A structure and a solver of somebody else, written with ``docs/extending.md`` alone."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from maxmargin import MulticlassClassifier, SequenceLabeler, StructuredPredictor, load, save
from maxmargin.persistence import register
from maxmargin.solvers.base import Solver
from maxmargin.solvers.problem import DualPoint, Evaluation

rng = np.random.RandomState(0)


class Interval:
    """The run of positions ``start, ..., end - 1`` that somebody marked; weights are those of the
    features of positions inside, and one for each run."""

    def joint_feature(self, x, y):
        start, end = y
        return np.append(x[start:end].sum(axis=0), 1.0)

    def loss(self, truth, y):
        return 1.0 - max(0, min(truth[1], y[1]) - max(truth[0], y[0])) / max(
            truth[1] - truth[0], y[1] - y[0]
        )

    def argmax(self, x, weights, truth=None):
        def value(run):
            return self.joint_feature(x, run) @ weights + (self.loss(truth, run) if truth else 0.0)

        n = len(x)
        return max(((s, e) for s in range(n) for e in range(s + 1, n + 1)), key=value)


def intervals(n):
    X = [rng.randn(6, 2) for _ in range(n)]
    return X, [Interval().argmax(x + 0.1 * rng.randn(6, 2), np.array([1.0, -0.5, 0.2])) for x in X]


def test_a_structure_is_trained_to_the_optimum_of_a_general_solver():
    X, y = intervals(15)
    model = StructuredPredictor(Interval(), alpha=0.1, tol=1e-6, random_state=0).fit(X, y)
    assert model.status_ == "converged"

    def objective(w):
        structure, total = Interval(), 0.0
        for x, truth in zip(X, y):
            worst = structure.argmax(x, w, truth)
            change = structure.joint_feature(x, worst) - structure.joint_feature(x, truth)
            total += structure.loss(truth, worst) + change @ w
        return 0.05 * w @ w + total / len(X)

    assert objective(model.coef_) == pytest.approx(model.primal_, abs=1e-9)
    options = {"maxiter": 20000, "maxfev": 20000, "xatol": 1e-9, "fatol": 1e-12}
    found = minimize(objective, model.coef_, method="Nelder-Mead", options=options)
    assert model.dual_ <= found.fun + 1e-12 and found.fun >= model.primal_ - model.gap_ - 1e-12
    test_X, test_y = intervals(20)
    assert model.score(test_X, test_y) > -0.2


class HeavyBallState(NamedTuple):
    weights: np.ndarray
    before: np.ndarray
    best: DualPoint | None
    calls: int
    pending: tuple = ()
    dual: None = None


class HeavyBall(Solver):
    """Polyak's method for smooth surrogates: a gradient step, and a share of the last step."""

    def __init__(self, condition=100.0, momentum=0.7):
        self.condition = condition
        self.momentum = momentum

    def missing(self, problem):
        return [] if problem.cost.smooth else ["a smooth surrogate ('crf')"]

    def init(self, problem, start, rng):
        return HeavyBallState(np.zeros(problem.n_weights), np.zeros(problem.n_weights), None, 0)

    def advance(self, problem, state, steps):
        w = state.weights
        loss, slopes = problem.mean_loss(w)
        best = problem.better_mixture(
            state.best, DualPoint(loss - slopes @ w, -slopes / problem.alpha)
        )
        gradient = slopes + problem.alpha * w
        new = w - gradient / (problem.alpha * self.condition) + self.momentum * (w - state.before)
        return HeavyBallState(new, w, best, state.calls + problem.n_examples)

    def check(self, problem, state, at=None, dual_weights=None):
        dual = -np.inf if state.best is None else problem.dual_value(state.best)
        loss, _ = problem.mean_loss(state.weights)
        primal = loss + problem.penalty(state.weights)
        return state, [(state.weights, Evaluation(primal, dual, 0.0))]


def test_a_solver_works_in_every_estimator_it_fits(tmp_path):
    y = np.repeat(["a", "b", "c"], 10)
    X = rng.randn(30, 3) + np.eye(3)[np.repeat(range(3), 10)]
    solver = HeavyBall(condition=40.0)
    model = MulticlassClassifier("crf", alpha=0.1, tol=1e-6, solver=solver).fit(X, y)
    own = MulticlassClassifier("crf", alpha=0.1, tol=1e-8).fit(X, y)
    assert model.status_ == "converged" and model.dual_ <= own.primal_ <= model.primal_ + 1e-12
    assert own.dual_ >= model.primal_ - 1e-6 * model.primal_ - own.gap_ - 1e-12

    sequences = [rng.randn(4, 2) for _ in range(6)]
    labels = [[str(a > 0) for a in x[:, 0]] for x in sequences]
    chain = SequenceLabeler("crf", alpha=0.5, solver=HeavyBall(80.0)).fit(sequences, labels)
    assert chain.status_ == "converged" and 0 <= chain.gap_ <= 0.01 * chain.primal_

    assert clone(model).set_params(solver__momentum=0.5).solver.momentum == 0.5
    assert "HeavyBall(condition=40.0)" in repr(model)
    with pytest.raises(TypeError, match="make its class known with maxmargin.persistence.register"):
        save(model, tmp_path / "model.mm")
    register(HeavyBall, HeavyBall.get_params, lambda params: HeavyBall(**params))
    save(model, tmp_path / "model.mm")
    assert np.array_equal(load(tmp_path / "model.mm").predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"HeavyBall.*needs a smooth surrogate \('crf'\)"):
        MulticlassClassifier(solver=solver).fit(X, y)

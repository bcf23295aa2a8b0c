"""Structures in plain Python: the same iterates as the compiled ones, step by step."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import pytest

import steppers
from maxmargin import MulticlassClassifier, SequenceLabeler, StructuredPredictor
from maxmargin.estimators._base import StructuredEstimator
from maxmargin.solvers.frank_wolfe import ORDERS
from maxmargin.solvers.interpreted import PythonProblem, PythonStructure

ALPHA = 0.05


class Rows:
    """One label out of ``K``; weights are inputs by label. The first of several best wins."""

    def __init__(self, K):
        self.K = K

    def joint_feature(self, x, y):
        return np.outer(x, np.eye(self.K)[y]).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def argmax(self, x, weights, truth=None):
        scores = x @ weights.reshape(-1, self.K)
        if truth is not None:
            scores += np.arange(self.K) != truth
        return int(scores.argmax())


class Sequences:
    """Label sequences by enumeration; weights are inputs by label, transitions, first, last.

    Of several best sequences that wins whose last label is the smallest, then the one before it.
    """

    def __init__(self, K):
        self.K = K

    def joint_feature(self, x, y):
        inputs = np.zeros((x.shape[1], self.K))
        moves, ends = np.zeros((self.K, self.K)), np.zeros((2, self.K))
        for t, label in enumerate(y):
            inputs[:, label] += x[t]
        for a, b in itertools.pairwise(y):
            moves[a, b] += 1.0
        ends[0, y[0]] = ends[1, y[-1]] = 1.0
        return np.concatenate([inputs.ravel(), moves.ravel(), ends.ravel()])

    def loss(self, truth, y):
        return float(np.sum(np.asarray(truth) != np.asarray(y)))

    def argmax(self, x, weights, truth=None):
        outputs = [y[::-1] for y in itertools.product(range(self.K), repeat=len(x))]
        values = np.array([weights @ self.joint_feature(x, y) for y in outputs])
        if truth is not None:
            values += [self.loss(truth, y) for y in outputs]
        return outputs[np.flatnonzero(values >= values.max() - 1e-12)[0]]


def rows_data():
    random = np.random.RandomState(0)
    y = np.arange(24) % 4
    X = random.randn(24, 3) + 2.0 * np.eye(4, 3)[y]
    return X, y, random.choice([0.0, 0.5, 1.0, 2.0], 24)


def sequences_data():
    random = np.random.RandomState(1)
    y = [random.randint(0, 3, length) for length in (1, 2, 4, 4, 2, 1, 4)]
    y[2][:3] = (0, 1, 2)
    X = [random.randn(len(labels), 2) + np.eye(3, 2)[labels] for labels in y]
    return X, y, random.choice([0.5, 1.0, 2.0], len(X))


def packed_problem(model, X, y, weights):
    """The compiled problem that an estimator hands to its solver."""

    class Handed(Exception):
        pass

    with mock.patch.object(StructuredEstimator, "_solve", side_effect=Handed) as solver:
        with pytest.raises(Handed):
            model.fit(X, y, sample_weight=weights)
    return solver.call_args.args[0]


def make_problems(kind):
    """A compiled problem and the same problem in plain Python."""
    if kind == "rows":
        X, y, weights = rows_data()
        model, structure = MulticlassClassifier(alpha=ALPHA, fit_intercept=False), Rows(4)
    else:
        X, y, weights = sequences_data()
        model, structure = SequenceLabeler(alpha=ALPHA, fit_intercept=False), Sequences(3)
    used = np.flatnonzero(weights)  # estimators leave examples of weight zero out
    compiled = packed_problem(model, X, y, weights)
    plain = PythonProblem(
        structure, [X[i] for i in used], [y[i] for i in used], ALPHA, weights[used]
    )
    return compiled, plain


def assert_same_progress(one, other, passes):
    """Weights, values and counts agree at the start and after every pass."""
    for _ in range(passes):
        for (w, found), (v, found_plain) in zip(one.check(), other.check(), strict=True):
            np.testing.assert_allclose(v, w, rtol=0, atol=1e-10)
            np.testing.assert_allclose(found_plain, found, rtol=0, atol=1e-10)
        assert one.advance(60.0, 1) == other.advance(60.0, 1)
        assert one.oracle_calls == other.oracle_calls


@pytest.mark.parametrize("kind", ["rows", "sequences"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("average", [False, True, 1])
def test_frank_wolfe_takes_the_same_steps(kind, order, average):
    one, other = (
        steppers.frank_wolfe(
            problem,
            order=order,
            average=average,
            exact_blocks=False,
            rng=np.random.RandomState(0),
        )
        for problem in make_problems(kind)
    )
    assert_same_progress(one, other, 12)
    np.testing.assert_allclose(other.gaps, one.gaps, rtol=0, atol=1e-10)
    assert other.estimate() == pytest.approx(one.estimate(), abs=1e-10)
    assert len(one.check()) == (2 if average else 1)
    one.refresh()
    other.refresh()
    np.testing.assert_allclose(other.weights, one.weights, rtol=0, atol=1e-10)
    assert np.abs(one.weights).max() > 0.1


@pytest.mark.parametrize("kind", ["rows", "sequences"])
def test_the_subgradient_method_takes_the_same_steps(kind):
    one, other = (
        steppers.subgradient(problem, rng=np.random.RandomState(0))
        for problem in make_problems(kind)
    )
    assert_same_progress(one, other, 12)
    assert np.abs(one.state.sums).max() > 0.1


@pytest.mark.parametrize("kind", ["rows", "sequences"])
def test_examples_of_weight_zero_are_passed_over(kind):
    _, plain = make_problems(kind)
    weights = plain.sample_weight * (np.arange(plain.n_examples) % 3 > 0)
    problem = PythonProblem(plain.structure, plain.X, plain.y, ALPHA, weights)
    stepper = steppers.frank_wolfe(problem, rng=np.random.RandomState(0))
    with mock.patch.object(problem, "answer", wraps=problem.answer) as answer:
        stepper.check()
        stepper.advance(60.0, 1)
        stepper.check()
    visited = {call.args[0] for call in answer.call_args_list}
    assert visited == set(np.flatnonzero(weights))


def test_the_estimator_reaches_the_optimum_of_the_compiled_one():
    X, y, weights = rows_data()
    settings = {"alpha": ALPHA, "tol": 1e-3, "max_iter": 5000, "random_state": 0}
    compiled = MulticlassClassifier(fit_intercept=False, **settings)
    compiled.set_params(tol=1e-9).fit(X, y, sample_weight=weights)
    structure = Rows(4)
    assert isinstance(structure, PythonStructure)
    plain = StructuredPredictor(structure, **settings).fit(X, y, sample_weight=weights)
    assert plain.status_ == compiled.status_ == "converged"
    assert plain.dual_ <= compiled.primal_ * (1 + 1e-12)
    assert compiled.dual_ <= plain.primal_ * (1 + 1e-12)
    assert plain.primal_ == pytest.approx(compiled.primal_, rel=1e-3)
    scores = X @ plain.coef_.reshape(-1, 4)
    assert plain.predict(X) == scores.argmax(axis=1).tolist()
    np.testing.assert_allclose(plain.decision_function(X), scores.max(axis=1), atol=1e-12)


def test_the_estimator_takes_sequences_too():
    X, y, weights = sequences_data()
    settings = {"alpha": 0.5, "tol": 1e-2, "max_iter": 2000, "random_state": 0}
    compiled = SequenceLabeler(fit_intercept=False, **settings)
    compiled.set_params(tol=1e-7, solver="pairwise").fit(X, y, sample_weight=weights)
    plain = StructuredPredictor(Sequences(3), **settings)
    plain.fit(X, y, sample_weight=weights)
    assert plain.status_ == compiled.status_ == "converged"
    assert plain.dual_ <= compiled.primal_ * (1 + 1e-12)
    assert compiled.dual_ <= plain.primal_ * (1 + 1e-12)
    assert plain.primal_ == pytest.approx(compiled.primal_, rel=1e-2)


def test_solvers_that_need_the_parts_of_outputs_are_refused():
    X, y, _ = rows_data()
    with pytest.raises(ValueError, match="pairwise"):
        StructuredPredictor(Rows(4), solver="pairwise").fit(X, y)

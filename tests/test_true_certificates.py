"""Certificates that stay true: whatever the scale of the numbers, however the fit ends."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import hostile
from marks import more
from maxmargin import EarlyStopping, MulticlassClassifier, Polynomial
from maxmargin._kernels.arborescence import best_trees
from maxmargin._kernels.assignment import assign_each
from maxmargin._kernels.simplex import lower_envelope_step
from maxmargin._kernels.subsets import best_subsets
from maxmargin._validation import LARGEST
from maxmargin.features import rows
from maxmargin.solvers import loop
from maxmargin.solvers.problem import Evaluation
from maxmargin.solvers.rounds import run_rounds

CASES = hostile.cases()
# Compiled by other tests, too; the others are for `make test-all`.
QUICK = (
    "multiclass max-margin",
    "multiclass crf rbf",
    "sequences max-margin",
    "sequences crf",
    "label graphs max-margin",
    "graphs max-margin",
    "trees crf",
    "subsets max-min",
    "matchings max-min",
    "plain Python",
)
EACH_CASE = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CASES]
X, Y = np.random.RandomState(0).randn(12, 3), np.arange(12) % 3


def assert_true(found):
    """Finite values, a gap that is none or positive, and a status that means what it says."""
    primal, dual, gap = found.numbers
    assert found.warnings == []
    assert found.status != "failed"
    assert found.weights_finite
    assert math.isfinite(primal)
    if math.isnan(gap):  # random structures certify nothing
        assert found.status != "converged"
        return
    assert gap >= 0.0 and gap == primal - dual
    if found.status == "converged":
        assert gap <= found.tol * abs(primal)


# --- the scale of the numbers ---------------------------------------------------------------


# The largest is for a normal variable times this.
SCALES = [
    (1e-160, 1e30, 0.2 * LARGEST),
    more((1e-300, 1e-30, 1e9)),
]


@pytest.mark.parametrize("scales", SCALES, ids=["extreme", "more"])
@pytest.mark.parametrize("name", EACH_CASE)
def test_features_of_any_accepted_scale(name, scales):
    case = CASES[name]
    assert_true(hostile.outcome(case, 1.0))
    for scale in scales:
        assert_true(hostile.in_child(lambda scale=scale: hostile.outcome(case, scale)))


@pytest.mark.parametrize("name", EACH_CASE)
@pytest.mark.parametrize("scale", [1e60, more(1e155), more(1e300)])
def test_features_beyond_it_are_refused_with_the_limit(name, scale):
    with pytest.raises(ValueError, match=re.escape("1e+50")):
        hostile.in_child(lambda: hostile.outcome(CASES[name], scale))


def test_a_first_step_that_is_far_too_long_leaves_no_false_bound():
    """The entropy of its marginals is the difference of two numbers of 1e17."""
    found = hostile.outcome(CASES["sequences crf"], 1e17, alpha=1e32)
    other = hostile.outcome(CASES["sequences crf bcfw"], 1e17, alpha=1e32)
    assert_true(found)
    assert found.numbers[1] <= other.numbers[0]


@pytest.mark.parametrize("exponents", [(13, 6), (13, -10), (30, 20), (49, 49)])
def test_subsets_with_scores_of_any_size_have_a_true_bound(exponents):
    """The marginals of a CRF were feasible up to the rounding of logarithms of sums only."""
    scale, alpha = (10.0**exponent for exponent in exponents)
    assert_true(hostile.outcome(CASES["subsets crf"], scale, alpha=alpha))


@functools.cache
def compiled(name):
    """Compile what a case needs in this process: children that are forked have it then."""
    hostile.outcome(CASES[name], 1.0)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    name=st.sampled_from(sorted(CASES)),
    exponent=st.floats(-300.0, 49.0),
    alpha=st.one_of(st.just("auto"), st.floats(-39.0, 49.0).map(lambda e: 10.0**e)),
)
def test_no_scale_of_features_and_alpha_breaks_a_certificate(name, exponent, alpha):
    if name.startswith("latent") and alpha == "auto":
        alpha = 0.1
    compiled(name)
    assert_true(hostile.in_child(lambda: hostile.outcome(CASES[name], 10.0**exponent, alpha=alpha)))


@pytest.mark.parametrize("alpha", [1e-320, 1e-41, 1e60])
def test_an_alpha_that_overflows_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be a finite number > 0, at "):
        MulticlassClassifier(alpha=alpha).fit(X, Y)


@pytest.mark.parametrize("weight", [1e307, 1e60, 1e-100, 1e-320])
def test_weights_whose_sum_overflows_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight .*Only ratios matter"):
        MulticlassClassifier().fit(X, Y, sample_weight=np.full(12, weight))


def test_weights_of_any_accepted_scale_give_the_same_model():
    models = [
        MulticlassClassifier(alpha=0.1, tol=1e-6, random_state=0).fit(
            X, Y, sample_weight=np.full(12, weight)
        )
        for weight in (1.0, 1e45, 1e-38)
    ]
    for model in models[1:]:
        assert model.status_ == "converged"
        assert model.primal_ == pytest.approx(models[0].primal_, rel=1e-6)


@pytest.mark.parametrize("parameter", [{"loss": [[0, 1e60, 1], [1, 0, 1], [1, 1, 0]]},
                                       {"class_weight": {0: 1e60, 1: 1, 2: 1}}])  # fmt: skip
def test_losses_that_overflow_are_refused(parameter):
    with pytest.raises(ValueError, match=re.escape("1e+50")):
        MulticlassClassifier(**parameter).fit(X, Y)


def test_a_polynomial_that_overflows_is_refused_with_the_row():
    scaled = X.copy()
    scaled[7] *= 1e20
    with pytest.raises(ValueError, match=r"degree=30.* for row 7 of X; values up to 1e\+100"):
        MulticlassClassifier(kernel=Polynomial(30, gamma=1.0)).fit(scaled, Y)


@pytest.mark.more
def test_sparse_single_precision_is_squared_in_double_precision(monkeypatch):
    monkeypatch.setattr(rows, "NARROW_FROM", 0)
    values = sp.csr_matrix((X * 1e25).astype(np.float32))
    sparse = MulticlassClassifier(alpha=0.1, random_state=0, max_iter=5, tol=0.9).fit(values, Y)
    dense = MulticlassClassifier(alpha=0.1, random_state=0, max_iter=5, tol=0.9).fit(
        values.toarray().astype(np.float64), Y
    )
    assert sparse.primal_ == pytest.approx(dense.primal_)


# --- the status -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(9))
def test_early_stopping_reports_the_weights_it_returns(seed):
    features, labels = load_iris(return_X_y=True)
    model = MulticlassClassifier(
        early_stopping=EarlyStopping(n_iter_no_change=1000), random_state=seed, max_iter=2000
    ).fit(features, labels)
    assert (model.status_ == "converged") == (model.gap_ <= model.tol * model.primal_)
    assert model.status_ in ("converged", "early_stopped")
    random = np.random.RandomState(seed)
    held_out = round(model.early_stopping.validation_fraction * len(labels))
    train = np.sort(random.permutation(len(labels))[held_out:])
    scores = features[train] @ model.coef_.T + model.intercept_
    right = scores[np.arange(len(train)), labels[train]]
    margins = (scores + (np.arange(3) != labels[train, None])).max(axis=1) - right
    square = (model.coef_**2).sum() + (model.intercept_**2).sum()
    primal = 0.5 * model.alpha_ * square + margins.mean()
    assert model.primal_ == pytest.approx(primal, rel=1e-9)


class Stepper(loop.Stepper):
    """Candidates from a list, one check after another."""

    class problem:
        n_examples = 1
        certifies = "global"
        passes_per_round = 0

    def __init__(self, *checks):
        self.checks = list(checks)
        self.oracle_calls = 0

    def advance(self, seconds, most):
        self.oracle_calls += 1

    def check(self):
        weights, *values = self.checks.pop(0) if len(self.checks) > 1 else self.checks[0]
        return [(np.array(weights), Evaluation(*values, 0.0))]


def run(*checks, **params):
    return loop.run(Stepper(*checks), **{"tol": 0.01, "max_iter": 5, **params})


@pytest.mark.parametrize(
    "broken", [([1.0], np.nan, 0.5), ([1.0], np.inf, 0.5), ([np.nan], 0.7, 0.5),
               ([1.0], 0.7, np.nan), ([1.0], 0.7, np.inf), ([1.0], np.inf, -np.inf)],
)  # fmt: skip
def test_what_is_not_finite_is_a_failure_that_keeps_the_weights_before(broken):
    result = run(([0.0], 1.0, 0.0), ([0.5], 0.8, 0.1), broken)
    assert result.status == "failed"
    assert result.weights.tolist() == [0.5]
    assert (result.primal, result.dual, result.gap) == (0.8, 0.1, 0.8 - 0.1)


def test_nothing_finite_at_all_is_a_failure():
    assert run(([0.0], np.nan, np.nan)).status == "failed"
    assert run(([0.0], np.inf, -np.inf)).status == "failed"


def test_a_gap_is_never_negative():
    result = run(([0.0], 1.0, 0.0), ([1.0], 0.5, 0.5 + 2.8e-14))
    assert result.status == "converged"
    assert result.gap == 0.0 and result.dual == result.primal == 0.5
    assert all(check.gap >= 0.0 for check in result.history)


def test_an_objective_below_its_rounding_errors_is_not_proven():
    """Values near 1e-17 of losses near 1 have no correct digit."""
    for primal, dual in ((-8.8e-17, 1e-21), (6e-20, 5.99e-20), (1e-12, 1e-9)):
        result = run(([0.0], 1.0, 0.0), ([1.0], primal, dual))
        assert result.status == "max_iter"
        assert result.gap >= max(4e-16, dual - primal) and result.dual <= primal
    assert run(([0.0], 1.0, 0.0), ([1.0], 1e-12, 0.999e-12)).status == "converged"
    assert run(([0.0], 0.0, 0.0)).status == "converged"  # there is nothing to lose


def test_max_min_of_features_that_are_far_too_large_is_not_proven():
    random = np.random.RandomState(0)
    targets, features = random.randn(3, 5), random.randn(30, 5)
    labels = (features @ targets.T).argmax(axis=1)
    model = MulticlassClassifier("max-min", max_iter=20, tol=0.01, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(1e9 * features, labels)
    assert model.status_ == "max_iter" and model.gap_ >= 1e-16


def test_a_dual_far_above_the_primal_is_a_failure():
    assert run(([0.0], 1.0, 0.0), ([1.0], 0.5, 0.6)).status == "failed"


def test_of_equal_scores_the_weights_nearer_to_the_optimum_are_kept():
    checks = ([0.0], 1.0, 0.0), ([0.5], 0.8, 0.1), ([1.0], 0.5, 0.499)
    result = run(*checks, validate=lambda weights: 1.0, patience=10)
    assert result.status == "converged" and result.primal == 0.5
    better_before = run(*checks, validate=lambda weights: -float(weights[0]), patience=10)
    assert better_before.status == "early_stopped"
    assert (better_before.primal, better_before.dual) == (1.0, 0.499)


class Rounds:
    """A latent model whose objective falls from round to round."""

    problem = Stepper.problem

    def __init__(self):
        self.primals = iter([0.9, 0.7, 0.6, 0.6])

    def complete(self, weights, before):
        return before

    def stepper(self, completion, dual_state):
        primal = next(self.primals)
        return Stepper(([primal], primal, primal - 1e-9))


def test_hidden_labels_with_a_validation_report_the_round_they_return():
    result = run_rounds(
        Rounds(), [0], tol=0.01, max_iter=5, validate=lambda weights: float(weights[0])
    )
    assert result.primal == result.weights[0] == 0.9
    assert result.status in ("stationary", "early_stopped")


# --- kernels that meet what they should never meet ------------------------------------------


def unordered(size):
    """Numbers among which NaN and infinities are more and more frequent: NaN compares with nothing,
    so loops that search for a value must have an end of their own."""
    random = np.random.RandomState(0)
    for share in (0.1, 0.5, 1.0):
        for _ in range(20):
            numbers = random.randn(size)
            chosen = random.uniform(size=size) < share
            numbers[chosen] = random.choice([np.nan, np.nan, np.inf, -np.inf], chosen.sum())
            yield numbers


def subsets_of(numbers):
    labels = np.full(4, -7, np.int32)
    best_subsets(numbers, np.array([0, 4, 8]), np.array([0, 2, 4]), labels)
    return labels


def matching_of(numbers):
    labels = np.full(5, -7, np.int32)
    assign_each(numbers, np.array([0, 2, 5]), labels)
    return labels % 3  # minus one is a column, too: the last


def tree_of(numbers):
    heads, values = np.zeros(5, np.int32), np.empty(2)
    best_trees(numbers, np.array([0, 2, 5]), True, heads, values)
    return heads


def envelope_of(numbers):
    step = lower_envelope_step(numbers[:4], numbers[4:8], numbers[8], numbers[9])
    return np.array([0 if np.isnan(step) else 1])


@pytest.mark.parametrize(
    "kernel, size, most",
    [(subsets_of, 8, 3), (matching_of, 13, 2), (tree_of, 18, 3), (envelope_of, 10, 1)],
)
def test_no_kernel_leaves_its_arrays_when_numbers_are_not_ordered(kernel, size, most):
    kernel(np.arange(float(size)))  # compiled here

    def work():
        return [kernel(numbers) for numbers in unordered(size)]

    for answer in hostile.in_child(work, 30.0):
        assert ((answer >= 0) & (answer <= most)).all()

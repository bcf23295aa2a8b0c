"""Subsets of a fixed size: kernels and oracles against enumeration, fits against Clarabel."""

from __future__ import annotations

from itertools import combinations
from math import comb

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from maxmargin import EarlyStopping, SubsetSelector, load, save
from maxmargin._kernels import protocol as generic
from maxmargin._kernels.jit import compiled
from maxmargin._kernels.subsets import (
    best_subset,
    marginals_of_subsets,
    project_hypersimplex,
    subset_marginals,
)
from maxmargin.structures.subset import Subset
from maxmargin.surrogates.max_min import MaxMin

RANDOM = np.random.RandomState(0)
WEIGHTS = RANDOM.randn(3)
SHAPES = [(5, 2), (4, 1), (6, 3), (3, 3), (5, 2), (6, 2), (4, 2), (5, 3)]
X = [RANDOM.randn(v, 3) for v, _ in SHAPES]
Y = [np.sort(np.argsort(x @ WEIGHTS + RANDOM.randn(v))[-s:]) for x, (v, s) in zip(X, SHAPES)]


def indicators(v, s):
    """Every subset, as a row of zeros and ones."""
    every = np.zeros((len(list(combinations(range(v), s))), v))
    for row, chosen in enumerate(combinations(range(v), s)):
        every[row, list(chosen)] = 1.0
    return every


@compiled
def answers(structure, scores, mu, direction, slope, curvature, work, out):
    """What the structure answers to max-min: value bounds, loss floor, step."""
    upper, lower = generic.best_response(
        MaxMin(), structure, 0, scores, work, np.empty(1, np.int32), out
    )
    floor = generic.loss_floor(structure, 0, mu, work)
    step = generic.loss_floor_step(structure, 0, mu, direction, slope, curvature, work)
    return upper, lower, floor, step


def max_min_program(scores, every, s):
    """``max_mu min_nu 1 - nu @ mu / s + scores @ mu`` by a linear program."""
    n = len(every)
    cost = -np.append(every @ scores, -1.0 / s)
    rows = np.hstack([every @ every.T, -np.ones((n, 1))])
    total = np.append(np.ones(n), 0.0)[None]
    return 1.0 - linprog(cost, rows, np.zeros(n), total, [1.0], bounds=(0, None)).fun


def test_oracles_against_enumeration():
    random = np.random.RandomState(1)
    work = np.empty(200)
    for trial in range(150):
        v = random.randint(1, 8)
        s = random.randint(1, v + 1)
        scores = random.randn(v) * random.choice([0.05, 0.3, 1.0, 5.0])
        if trial % 3 == 0:
            scores = np.round(4 * scores) / 4  # ties
        every = indicators(v, s)
        values = every @ scores
        labels = np.empty(s, np.int32)
        assert best_subset(scores, work, labels) == pytest.approx(values.max(), abs=1e-12)
        assert (np.diff(labels) > 0).all() and scores[labels].sum() == pytest.approx(values.max())
        mu = np.empty(v)
        value = subset_marginals(scores, s, work, mu)
        assert value == pytest.approx(logsumexp(values), abs=1e-11)
        np.testing.assert_allclose(mu, np.exp(values - value) @ every, atol=1e-12)
        structure = Subset(labels, np.array([0, s]), np.array([0, v]), v, s)
        at = random.dirichlet(np.ones(len(every))) @ every
        direction = random.dirichlet(np.ones(len(every))) @ every - at
        slope, curvature = scores @ direction, random.choice([0.01, 1.0, 10.0])
        upper, lower, floor, step = answers(
            structure, scores, at, direction, slope, curvature, work, mu
        )
        exact = max_min_program(scores, every, s)
        assert upper == pytest.approx(exact, abs=1e-9) and lower == pytest.approx(exact, abs=1e-9)
        assert mu.sum() == pytest.approx(s) and mu.min() >= 0.0 and mu.max() <= 1.0 + 1e-12
        assert floor == pytest.approx((1.0 - every @ at / s).min(), abs=1e-12)

        def along(g):
            moved = at + g * direction  # noqa: B023
            floor = (1.0 - every @ moved / s).min()  # noqa: B023
            return floor + g * slope - 0.5 * g * g * curvature  # noqa: B023

        # A step that is right to 2^-40 loses less than this.
        assert along(step) >= max(along(g) for g in np.linspace(0, 1, 101)) - 1e-10


def test_large_scores_do_not_overflow():
    mu = np.empty(4)
    value = subset_marginals(np.array([900.0, 899.0, -900.0, 0.0]), 2, np.empty(100), mu)
    assert value == pytest.approx(1799.0, rel=1e-15)
    np.testing.assert_allclose(mu, [1.0, 1.0, 0.0, 0.0], atol=1e-300)


@pytest.mark.parametrize("scale", [1e3, 1e8, 1e13, 1e40])
def test_marginals_of_large_scores_are_feasible(scale):
    """Their sum times a score is part of the dual: it must not have the error of a logarithm."""
    random = np.random.RandomState(3)
    for _ in range(50):
        v = random.randint(2, 9)
        s = random.randint(1, v)
        scores = scale * random.choice([-1.0, 0.3, 1.0], v)
        scores += scale * random.randn() + random.choice([0.0, 1.0, 30.0], v)  # near ties
        mu = np.empty(v)
        value = subset_marginals(scores, s, np.empty(200), mu)
        assert abs(mu.sum() - s) <= v * np.finfo(float).eps
        assert mu.min() >= 0.0 and mu.max() <= 1.0
        # The entropy is their difference: up to rounding, it is not above that of all subsets.
        rounding = 8 * v * np.finfo(float).eps * np.abs(scores).max()
        assert -rounding <= value - scores @ mu <= np.log(comb(v, s)) + rounding


def test_projection_onto_the_hypersimplex():
    random = np.random.RandomState(2)
    for _ in range(50):
        v = random.randint(1, 9)
        s = random.randint(1, v + 1)
        values, out = 2.0 * random.randn(v), np.empty(v)
        project_hypersimplex(values.copy(), s, out)
        assert out.sum() == pytest.approx(s, abs=1e-12) and out.min() >= 0 and out.max() <= 1
        # The projection is the point at which no vertex lies in the direction of the residual.
        every = indicators(v, s) if v < 9 else out[None]
        assert ((every - out) @ (values - out)).max() <= 1e-10


# --- fits -----------------------------------------------------------------------------------


def selector(surrogate="max-margin", **settings):
    given = {"alpha": 0.1, "tol": 1e-7, "max_iter": 20000, "random_state": 0, **settings}
    return SubsetSelector(surrogate, **given)


def convex_optimum(surrogate, weights=None):
    """The objective as it is written, over all subsets."""
    weights = np.ones(len(X)) if weights is None else weights
    w = cp.Variable(3)
    total = 0.0
    for x, y, weight in zip(X, Y, weights, strict=True):
        every = indicators(len(x), len(y))
        scores, truth = every @ x @ w, x[y].sum(axis=0) @ w
        if surrogate == "crf":
            worst = cp.log_sum_exp(scores)
        elif surrogate == "max-margin":
            worst = cp.max(scores + (1.0 - every[:, y].mean(axis=1)))
        else:  # the inner minimum over nu instead of the outer maximum over mu
            nu = cp.Variable(len(x))
            worst = 1.0 + cp.sum_largest(x @ w - nu / len(y), len(y))
            total = total + weight * worst - weight * truth
            limits.extend([nu >= 0, nu <= 1, cp.sum(nu) == len(y)])
            continue
        total = total + weight * worst - weight * truth
    objective = 0.05 * cp.sum_squares(w) + total / weights.sum()
    found = cp.Problem(cp.Minimize(objective), limits)
    found.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return found.value, w.value


limits: list = []


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_fits_reach_the_optimum_of_a_convex_solver(surrogate):
    limits.clear()
    best, weights = convex_optimum(surrogate)
    model = selector(surrogate).fit(X, Y)
    assert model.status_ == "converged"
    assert model.dual_ - 1e-6 <= best <= model.primal_ + 1e-6
    assert model.primal_ == pytest.approx(best, abs=1e-6)
    # alpha/2 |w - w*|^2 is at most the distance of the objectives.
    assert np.abs(model.coef_ - weights).max() <= np.sqrt(2e-6 / 0.1 * 2)


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_sparse_weights_and_order(surrogate):
    model = selector(surrogate).fit(X, Y)
    if surrogate == "crf":  # the stores of features are the same for all
        sparse = selector(surrogate).fit([sp.csr_matrix(x) for x in X], Y)
        np.testing.assert_allclose(sparse.coef_, model.coef_, atol=1e-3)
    twice = selector(surrogate).fit([*X, X[2]], [*Y, Y[2]])
    weighted = selector(surrogate).fit(X, Y, sample_weight=[1, 1, 2, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(weighted.coef_, twice.coef_, atol=1e-3)
    assert weighted.primal_ == pytest.approx(twice.primal_, rel=1e-6)


def test_what_it_predicts(tmp_path):
    model = selector("crf").fit(X, Y)
    scores = model.decision_function(X)
    sizes = [len(y) for y in Y]
    for found, own, s in zip(model.predict(X, sizes), scores, sizes, strict=True):
        assert found.tolist() == sorted(np.argsort(-own)[:s].tolist())
    for mu, own, s in zip(model.predict_marginals(X, sizes), scores, sizes, strict=True):
        every = indicators(len(own), s)
        p = np.exp(every @ own - logsumexp(every @ own))
        np.testing.assert_allclose(mu, p @ every, atol=1e-12)
    shares = [len(set(found) & set(y)) / len(y) for found, y in zip(model.predict(X, sizes), Y)]
    assert model.score(X, Y) == pytest.approx(np.mean(shares), rel=1e-15)
    assert model.size_ is None
    masks = [np.isin(np.arange(len(x)), y) for x, y in zip(X, Y, strict=True)]
    assert selector("crf").fit(X, masks).coef_.tobytes() == model.coef_.tobytes()
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict(X, 1)[0].tolist() == model.predict(X, 1)[0].tolist()
    alike = [y[:1] for y in Y]
    same = selector().fit(X, alike)
    assert same.size_ == 1 and [len(found) for found in same.predict(X)] == [1] * len(X)
    assert clone(same).fit(X, alike).coef_.tobytes() == same.coef_.tobytes()
    search = GridSearchCV(selector(tol=1e-2), {"alpha": [0.01, 1.0]}, cv=2).fit(X, Y)
    assert 0.0 <= search.best_score_ <= 1.0
    assert (
        selector(early_stopping=EarlyStopping(validation_fraction=0.3)).fit(X, Y).score(X, Y) > 0.3
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], r"y\[1\] must hold the indices"),
        ([], r"y\[1\] chooses no element"),
        ([1, 1], r"y\[1\] names element 1 twice"),
        ([0, 4], r"y\[1\] names element 4, but X\[1\] has 4 elements; expected 0 to 3"),
        ([-1], r"y\[1\] names element -1"),
        ([True, False], r"y\[1\] has 2 bools but X\[1\] has 4 elements"),
        (["a"], r"y\[1\] must hold the indices of the chosen elements of X\[1\]"),
    ],
)
def test_what_is_no_subset(y, message):
    entry = 5 if y == [0] else y
    with pytest.raises(ValueError, match=message):
        selector().fit(X, [Y[0], entry, *Y[2:]])


def test_other_bad_input():
    with pytest.raises(ValueError, match="X has 8 examples but y has 7"):
        selector().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="y must be a list with the chosen elements"):
        selector().fit(X, None)
    with pytest.raises(ValueError, match="solver='bcfw' .* needs the entropy of given marginals"):
        selector("crf", solver="bcfw").fit(X, Y)
    model = selector().fit(X, Y)
    with pytest.raises(ValueError, match="size is needed: the training subsets had different"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"size of example 1 must be between 1 and the 4 elements"):
        model.predict(X, 5)
    with pytest.raises(ValueError, match="size must be an integer, or 8 of them; received 1.5"):
        model.predict(X, 1.5)
    with pytest.raises(ValueError, match="X has 2 features, but SubsetSelector was fitted with 3"):
        model.predict([x[:, :2] for x in X], 1)


@pytest.mark.parametrize("seed", [4, 5])
def test_marginals_of_large_scores_leave_no_false_bound(seed):
    """Scores of 1e8 have rounding errors of 1e-8, and so have exponents: marginals that do not sum
    to the size of the subset are no dual point, and their bound was above the optimum."""
    random = np.random.RandomState(seed)
    X = [random.randn(v, 3) for v in (4, 5, 6, 5)]
    y = [[0, 1], [1, 3], [2, 4], [0, 4]]
    for alpha in (1e-4, 1e-2):
        exact = SubsetSelector("crf", alpha=alpha, tol=1e-9, max_iter=300).fit(X, y)
        for scale in 10.0 ** np.linspace(8.0, 9.5, 9):
            model = SubsetSelector("crf", alpha=alpha * scale**2, tol=0.0, max_iter=3)
            model.fit([x * scale for x in X], y)  # the same problem: weights are smaller
            assert model.status_ == "max_iter"
            assert model.dual_ <= exact.primal_ <= model.primal_ * (1.0 + 1e-9)


def test_marginals_sum_to_the_size_whatever_the_scores():
    random = np.random.RandomState(0)
    for scale in (1.0, 1e5, 1e10, 1e15):
        scores, mu = scale * random.randn(40), np.empty(40)
        marginals_of_subsets(scores, np.array([0, 40]), np.array([7]), mu)
        assert mu.sum() == pytest.approx(7.0, abs=1e-12)
        assert mu.min() >= 0.0 and mu.max() <= 1.0

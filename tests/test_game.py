"""Max-min with any loss matrix: the game, its block, and fits, against other programs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from maxmargin import MulticlassClassifier, OrdinalClassifier
from maxmargin._kernels.game import game_work, solve_game
from maxmargin._kernels.game_block import game_block
from realdata import load_npz

KINDS = ["random", "sparse", "rounded", "0-1", "absolute", "repeated", "tiny", "large", "zero"]


def random_losses(random, kind, k):
    losses = random.random_sample((k, k))
    labels = np.arange(k)
    if kind == "sparse":
        losses *= random.random_sample((k, k)) < 0.5
    elif kind == "rounded":
        losses = np.round(2.0 * losses)
    elif kind == "0-1":
        losses = np.ones((k, k))
    elif kind == "absolute":
        losses = np.abs(labels[:, None] - labels).astype(float)
    elif kind == "repeated":  # equal rows and equal columns
        losses[random.randint(k)] = losses[0]
        losses[:, random.randint(k)] = losses[:, 0]
    elif kind in ("tiny", "large", "zero"):
        losses *= {"tiny": 1e-8, "large": 1e8, "zero": 0.0}[kind]
    np.fill_diagonal(losses, 0.0)
    return losses


def game_value(losses, scores):
    """The game as a linear program, the best score set to zero."""
    k = len(scores)
    answer = linprog(
        -np.append(scores - scores.max(), 1.0),
        A_ub=np.hstack([-losses, np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(None, None)],
    )
    assert answer.status == 0
    return scores.max() - answer.fun


def solve(losses, scores):
    mu = np.full(len(scores), np.nan)
    upper, lower = solve_game(losses, scores, np.full(game_work(len(scores)), np.nan), mu)
    return upper, lower, mu


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 12),
    st.sampled_from([0.0, 0.1, 1.0, 10.0, 1e6]),
    st.booleans(),
)
def test_the_game_against_a_linear_program(kind, seed, k, spread, ties):
    random = np.random.RandomState(seed)
    losses = random_losses(random, kind, k)
    unit = losses.max() or 1.0
    scores = spread * random.randn(k)
    scores = (np.round(scores) if ties else scores) * unit
    upper, lower, mu = solve(losses, scores)
    size = unit + np.abs(scores).max()
    assert mu.min() >= 0.0 and mu.sum() == pytest.approx(1.0, abs=1e-14)
    # The bracket is true, and closed up to rounding.
    value = scores.max() + (losses @ mu).min() + (scores - scores.max()) @ mu
    assert lower == pytest.approx(value, abs=1e-14 * size)
    assert lower <= upper <= lower + 1e-13 * size
    if kind not in ("tiny", "large"):  # where the tolerances of the other program say nothing
        assert lower == pytest.approx(game_value(losses, scores), abs=1e-8 * size)


def test_games_of_many_classes():
    random = np.random.RandomState(0)
    for k in (50, 120):
        losses = random_losses(random, "random", k)
        upper, lower, mu = solve(losses, 0.1 * random.randn(k))
        assert (mu > 0.0).sum() > 10  # a real mixture
        assert lower <= upper <= lower + 1e-12


def test_scale_and_shift():
    random = np.random.RandomState(0)
    losses, scores = random_losses(random, "random", 6), random.randn(6)
    value, _, mu = solve(losses, scores)
    for factor in (1e-12, 1e9):
        found, _, same = solve(factor * losses, factor * scores)
        assert found == pytest.approx(factor * value, rel=1e-12)
        np.testing.assert_allclose(same, mu, atol=1e-12)
    assert solve(losses, scores + 1e6)[0] == pytest.approx(value + 1e6, abs=1e-8)


# --- the block ------------------------------------------------------------------------------


def block(losses, scores, start, curvature):
    mu = solve(losses, scores)[2]
    work = np.full(game_work(len(scores)), np.nan)
    return game_block(losses, scores, start, curvature, work, mu), mu


def block_case(seed, kind, k, spread):
    random = np.random.RandomState(seed)
    losses = random_losses(random, kind, k)
    unit = losses.max()
    scores = spread * random.randn(k) * unit
    corner = np.eye(k)[random.randint(k)]
    start = corner if random.randint(2) else random.dirichlet(np.full(k, 0.3))
    return losses, scores, start, unit * np.exp(random.uniform(-8.0, 5.0))


@pytest.mark.parametrize("kind", KINDS[:-1])
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 10), st.sampled_from([0.0, 0.1, 1.0, 10.0, 1e6]))
def test_the_block_is_a_maximum(kind, seed, k, spread):
    losses, scores, start, curvature = block_case(seed, kind, k, spread)
    unit = losses.max()
    if unit == 0.0:
        return
    moved, mu = block(losses, scores, start, curvature)
    if not moved:
        mu = start
    assert mu.min() >= 0.0 and mu.sum() == pytest.approx(1.0, abs=1e-12)
    # At a maximum nothing is to be gained from the linearised problem: a game once more.
    slopes = scores - curvature * (mu - start)
    upper, _, _ = solve(losses, slopes)
    gain = upper - (losses @ mu).min() - slopes @ mu
    assert gain <= 1e-8 * (unit + 1e-5 * np.abs(slopes).max())


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_the_block_against_a_convex_solver(seed, k):
    losses, scores, start, curvature = block_case(seed, "random", k, 1.0)
    moved, mu = block(losses, scores, start, curvature)
    m, level = cp.Variable(k, nonneg=True), cp.Variable()
    objective = level + scores @ m - 0.5 * curvature * cp.sum_squares(m - start)
    problem = cp.Problem(cp.Maximize(objective), [losses @ m >= level, cp.sum(m) == 1])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)

    def value(m):
        return (losses @ m).min() + scores @ m - 0.5 * curvature * np.sum((m - start) ** 2)

    assert value(mu if moved else start) == pytest.approx(problem.value, abs=1e-7)
    if moved:
        assert value(mu) > value(start)


# --- fits -----------------------------------------------------------------------------------

EXACT = {"tol": 1e-8, "max_iter": 20_000, "random_state": 0}


def wine_like(n=60, k=4):
    random = np.random.RandomState(4)
    y = np.arange(n) % k
    return random.randn(n, 3) + random.randn(k, 3)[y], y


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_zero_one_loss_as_a_matrix(alpha):
    X, y = wine_like()
    formula = MulticlassClassifier("max-min", alpha=alpha, **EXACT).fit(X, y)
    matrix = MulticlassClassifier("max-min", loss=1.0 - np.eye(4), alpha=alpha, **EXACT).fit(X, y)
    assert matrix.primal_ == pytest.approx(formula.primal_, rel=2e-8)
    np.testing.assert_allclose(matrix.decision_function(X), formula.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("estimator", [MulticlassClassifier, OrdinalClassifier])
def test_the_absolute_loss_as_a_matrix(estimator):
    X, y = wine_like()
    labels = np.arange(4)
    loss = np.abs(labels[:, None] - labels)
    formula = OrdinalClassifier("max-min", alpha=0.02, **EXACT).fit(X, y)
    matrix = estimator("max-min", loss=loss, alpha=0.02, **EXACT).fit(X, y)
    assert matrix.primal_ == pytest.approx(formula.primal_, rel=2e-8)


def test_asymmetric_costs_steer_the_prediction():
    """Classes 0 and 1 are equally likely; mistaking a true 1 for a 0 costs ten times as much."""
    X, y = np.ones((20, 1)), np.arange(20) % 2
    for loss, answer in ([[0, 10], [1, 0]], 1), ([[0, 1], [10, 0]], 0):
        model = MulticlassClassifier(
            "max-min", loss=loss, alpha=0.01, fit_intercept=False, random_state=0
        )
        assert model.fit(X, y).predict([[1.0]])[0] == answer


def test_a_matrix_on_real_data():
    data = load_npz("uci_vehicle")
    X, y = data["X"].astype(np.float64), data["y"].astype(int)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    loss = 1.0 - np.eye(4)
    loss[0, 1], loss[1, 0] = 10.0, 0.1  # the two that look alike; one mistake is worse
    model = MulticlassClassifier("max-min", loss=loss, random_state=0).fit(X[::2], y[::2])
    assert model.status_ == "converged" and 0.0 <= model.oracle_error_ < 1e-12
    found = loss[model.predict(X[1::2]), y[1::2]].mean()
    plain = MulticlassClassifier("max-min", random_state=0).fit(X[::2], y[::2])
    assert found < loss[plain.predict(X[1::2]), y[1::2]].mean()
    assert found < 0.5

"""Assignment, projections onto doubly stochastic matrices and the max-min oracle over them,
against scipy, a convex solver, POT, and linear programs."""

from __future__ import annotations

import itertools
import warnings

import cvxpy as cp
import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

from maxmargin._kernels.assignment import assign, assignment_work
from maxmargin._kernels.birkhoff import (
    birkhoff_work,
    project_birkhoff,
    round_to_birkhoff,
    solve_laplacian,
)
from maxmargin._kernels.saddle import mirror_prox, proximal_pair, proximal_saddle, saddle_work
from maxmargin._kernels.sinkhorn import sinkhorn, sinkhorn_work

pytestmark = pytest.mark.more

SEEDS = st.integers(0, 2**32 - 1)
TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}


def best(weights):
    """Best permutation and its weight."""
    n = len(weights)
    labels = np.full(n, -1, np.int32)
    work = np.full(assignment_work(n), np.nan)
    value = assign(np.ascontiguousarray(weights, float), work, labels)
    return value, labels, work[:n], work[n : 2 * n]


def wanted_weight(weights):
    try:
        rows, columns = linear_sum_assignment(weights, maximize=True)
    except ValueError:  # infeasible
        return -np.inf
    return weights[rows, columns].sum()


def project(matrix):
    n = len(matrix)
    out = np.full((n, n), np.nan)
    matrix = np.ascontiguousarray(matrix, float)
    error = project_birkhoff(matrix, np.full(birkhoff_work(n), np.nan), out)
    return out, error


def scale_to(logits, tolerance=1e-9):
    n = len(logits)
    out = np.full((n, n), np.nan)
    logits = np.ascontiguousarray(logits, float)
    error = sinkhorn(logits, tolerance, np.full(sinkhorn_work(n), np.nan), out)
    return out, error


def largest_miss(matrix):
    """How far a matrix is from being doubly stochastic."""
    sums = np.concatenate([matrix.sum(axis=0), matrix.sum(axis=1)])
    return max(np.abs(sums - 1.0).max(), -matrix.min())


@st.composite
def matrices(draw, most=8):
    """Plain, tied, nearly permutations, of all sizes of numbers."""
    random = np.random.RandomState(draw(SEEDS))
    n = draw(st.integers(1, most))
    scale = 10.0 ** draw(st.floats(-3, 4))
    kind = draw(st.sampled_from(["plain", "tied", "permutations", "offsets"]))
    matrix = random.randn(n, n) * scale
    if kind == "tied":
        matrix = np.round(random.randn(n, n)) * scale
    elif kind == "permutations":
        matrix = scale * np.eye(n)[random.permutation(n)] + 0.1 * random.randn(n, n)
        matrix += 0.3 * scale * np.eye(n)[random.permutation(n)]
    elif kind == "offsets":
        matrix = random.randn(n, n) + scale * (random.randn(n, 1) + random.randn(n))
    return matrix


# --- assignment -----------------------------------------------------------------------------


@settings(max_examples=300)
@given(matrices(12), SEEDS, st.sampled_from([0.0, 0.2, 0.6]))
def test_assignment_is_as_good_as_scipys_and_proves_it(weights, seed, forbidden):
    n = len(weights)
    weights[np.random.RandomState(seed).random_sample((n, n)) < forbidden] = -np.inf
    value, labels, u, v = best(weights)
    wanted = wanted_weight(weights)
    if wanted == -np.inf:
        assert value == -np.inf
        return
    size = np.abs(weights[np.isfinite(weights)]).max() + 1.0
    assert value == pytest.approx(wanted, abs=1e-12 * size * n)
    assert sorted(labels) == list(range(n))
    assert weights[np.arange(n), labels].sum() == pytest.approx(value, abs=1e-12 * size * n)
    assert (u[:, None] + v - weights).min() >= -1e-12 * size  # feasible, and as small as the value
    assert u.sum() + v.sum() == pytest.approx(value, abs=1e-12 * size * n)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_assignment_by_enumeration(n):
    random = np.random.RandomState(n)
    for _ in range(50):
        weights = np.round(random.randn(n, n), random.randint(3))
        found = best(weights)[0]
        values = [weights[np.arange(n), y].sum() for y in itertools.permutations(range(n))]
        assert found == pytest.approx(max(values), abs=1e-13)


def test_assignment_where_everything_is_forbidden():
    assert best(np.full((3, 3), -np.inf))[0] == -np.inf
    one_column = np.full((3, 3), -np.inf)
    one_column[:, 1] = 0.0
    assert best(one_column)[0] == -np.inf


# --- projections ----------------------------------------------------------------------------


@settings(max_examples=300)
@given(matrices())
def test_the_nearest_doubly_stochastic_matrix_satisfies_its_optimality_condition(matrix):
    found, error = project(matrix)
    size = np.abs(matrix).max() + 1.0
    assert error <= 1e-13 * size
    assert largest_miss(found) <= 1e-13 * size
    # X is nearest iff no doubly stochastic matrix has a larger product with Z - X than X itself.
    residual = matrix - found
    slack = wanted_weight(residual) - (residual * found).sum()
    assert -1e-11 * size * len(matrix) <= slack <= 1e-11 * size * len(matrix)


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_doubly_stochastic_matrix_by_a_convex_solver(seed):
    random = np.random.RandomState(seed)
    matrix = random.randn(4, 4) * 10.0 ** random.uniform(-1, 1)
    X = cp.Variable((4, 4), nonneg=True)
    sums = [cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]
    objective = cp.Minimize(cp.sum_squares(X - matrix))
    cp.Problem(objective, sums).solve(solver=cp.CLARABEL, **TIGHT)
    np.testing.assert_allclose(project(matrix)[0], X.value, atol=1e-6)


def test_doubly_stochastic_matrices_stay_where_they_are():
    for order in itertools.permutations(range(4)):
        matrix = np.eye(4)[list(order)]
        np.testing.assert_array_equal(project(matrix)[0], matrix)
    np.testing.assert_allclose(project(np.full((5, 5), 7.0))[0], 0.2, rtol=1e-15)


@settings(max_examples=300)
@given(matrices(11))
def test_sinkhorn_reaches_its_tolerance_at_any_scale(logits):
    found, error = scale_to(logits)
    assert error <= 1e-9
    assert found.min() >= 0.0
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-9 + 1e-13)
    # log X = logits - p - q: of no 2 x 2 minor anything may be left. Tiny entries carry no digits.
    large = found > 1e-200
    with np.errstate(divide="ignore"):
        rest = np.where(large, np.log(found), 0.0) - logits
    size = np.abs(logits).max() + 1.0
    for i, j in itertools.combinations(range(len(logits)), 2):
        both = large[i] & large[j]
        if both.sum() > 1:
            difference = (rest[i] - rest[j])[both]
            assert np.ptp(difference) <= 1e-11 * size


@pytest.mark.parametrize("seed", range(4))
def test_sinkhorn_by_a_convex_solver(seed):
    logits = np.random.RandomState(seed).randn(4, 4) * (1 + 0.5 * seed)
    X = cp.Variable((4, 4))
    sums = [cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]
    value = cp.sum(cp.multiply(logits, X)) + cp.sum(cp.entr(X))
    cp.Problem(cp.Maximize(value), sums).solve(solver=cp.CLARABEL, **TIGHT)
    np.testing.assert_allclose(scale_to(logits)[0], X.value, atol=1e-6)


@pytest.mark.parametrize("regularisation", [1.0, 0.1, 0.05])
def test_sinkhorn_agrees_with_pot(regularisation):
    random = np.random.RandomState(0)
    for _ in range(3):
        costs = random.random_sample((11, 11))
        shares = np.full(11, 1.0 / 11.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = 11.0 * ot.sinkhorn(
                shares, shares, costs, regularisation, stopThr=1e-11, numItermax=100_000
            )
        np.testing.assert_allclose(scale_to(-costs / regularisation)[0], wanted, atol=1e-7)


@settings(max_examples=100)
@given(SEEDS, st.integers(1, 8), st.floats(-12, 0.5))
def test_rounding_moves_no_further_than_twice_the_errors(seed, n, exponent):
    random = np.random.RandomState(seed)
    start = scale_to(random.randn(n, n))[0] * (1 + 10.0**exponent * random.random_sample((n, n)))
    missed = np.abs(start.sum(axis=0) - 1).sum() + np.abs(start.sum(axis=1) - 1).sum()
    found = start.copy()
    round_to_birkhoff(found, np.full(2 * n, np.nan))
    assert largest_miss(found) <= 1e-15 * n
    assert np.abs(found - start).sum() <= 2 * missed + 1e-13


def test_laplacian_systems_with_weak_and_missing_links():
    random = np.random.RandomState(0)
    for n in (1, 2, 5, 9):
        links = np.tril(10.0 ** random.uniform(-12, 0, (n, n)), -1)
        if n == 9:
            links[4:, :4] = 0.0  # two components
        links = links + links.T
        laplacian = np.diag(links.sum(axis=1)) - links
        wanted = random.randn(n)
        right = laplacian @ wanted
        solve_laplacian(np.where(np.tri(n, k=-1) > 0, -links, np.nan), right)
        # A constant for each component is free.
        for part in (slice(0, 4), slice(4, n)) if n == 9 else (slice(0, n),):
            difference = right[part] - wanted[part]
            assert np.ptp(difference) <= 1e-2  # of numbers of size one over links of 1e-12


# --- the max-min oracle ---------------------------------------------------------------------


def saddle_value(scores):
    """``max_mu min_nu 1 - <nu, mu> / n + <scores, mu>`` over enumerated permutations."""
    n = len(scores)
    outputs = np.array([np.eye(n)[list(y)].ravel() for y in itertools.permutations(range(n))])
    losses = 1.0 - outputs @ outputs.T / n
    k = len(outputs)
    answer = linprog(
        -np.append(outputs @ scores.ravel(), 1.0),
        A_ub=np.hstack([-losses, np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(None, None)],
    )
    assert answer.status == 0
    return -answer.fun


def start(n):
    mu = np.full(n * n, 1.0 / n)
    return mu, mu.copy(), np.full(saddle_work(n), np.nan)


@settings(max_examples=80)
@given(SEEDS, st.integers(2, 4), st.sampled_from([0.03, 0.3, 1.0, 10.0]), st.booleans())
def test_proximal_oracle_solves_its_linear_program(seed, n, scale, ties):
    scores = scale * np.random.RandomState(seed).randn(n, n)
    scores = scale * np.round(scores / scale) if ties else scores
    mu, nu, work = start(n)
    upper, lower = proximal_saddle(scores.ravel(), 30, 1e-10, n, work, mu, nu)
    wanted = saddle_value(scores)
    assert lower - 1e-9 <= wanted <= upper + 1e-9
    assert upper - lower <= 1e-9
    for matrix in (mu.reshape(n, n), nu.reshape(n, n)):
        assert largest_miss(matrix) <= 1e-11


@settings(max_examples=60)
@given(SEEDS, st.integers(2, 4), st.sampled_from([0.03, 0.3, 3.0]), st.booleans())
def test_the_bracket_of_mirror_prox_contains_the_truth_and_shrinks(seed, n, scale, entropic):
    scores = scale * np.random.RandomState(seed).randn(n, n)
    wanted = saddle_value(scores)
    for iterations in (1, 4, 16, 64, 256):
        mu, nu, work = start(n)
        upper, lower = mirror_prox(scores.ravel(), iterations, entropic, n, work, mu, nu)
        assert lower - 1e-9 <= wanted <= upper + 1e-9
        # The theory: twice the largest entropy (or squared distance) over step times iterations.
        bound = 2 * n * np.log(n) / (2 * n) if entropic else 2 * (n - 1) / (2 * n)
        assert upper - lower <= 2 * bound / iterations + 1e-6
        assert largest_miss(mu.reshape(n, n)) <= 1e-14 * n


@pytest.mark.parametrize("entropic", [False, True])
def test_mirror_prox_goes_on_from_a_saved_pair(entropic):
    random = np.random.RandomState(0)
    scores = 0.2 * random.randn(36)
    mu, nu, work = start(6)
    widths = []
    for _ in range(6):
        upper, lower = mirror_prox(scores, 10, entropic, 6, work, mu, nu)
        widths.append(upper - lower)
    assert widths[-1] < 0.5 * widths[0]


@settings(max_examples=100)
@given(SEEDS, st.integers(2, 9), st.sampled_from([0.05, 0.3, 2.0]), st.floats(-3, 1))
def test_proximal_pairs_are_optimal(seed, n, scale, exponent):
    random = np.random.RandomState(seed)
    scores = scale * random.randn(n * n)
    centre = np.mean([np.eye(n)[random.permutation(n)].ravel() for _ in range(3)], axis=0)
    curvature = 10.0**exponent
    _, _, work = start(n)
    mu, nu = np.full(n * n, np.nan), np.full(n * n, np.nan)
    value = 1 - wanted_weight(centre.reshape(n, n)) / n + scores @ centre
    upper, regret = proximal_pair(centre, value, scores, curvature, n, work, nu, mu)
    # Each is the best answer to the other, up to a share of the gap: no direction ascends.
    enough = 2e-6 * (upper - value) + 1e-9 * (1 + scale)
    slope = (scores - nu / n - curvature * (mu - centre)).reshape(n, n)
    assert wanted_weight(slope) - (slope.ravel() @ mu) <= enough
    assert regret <= enough
    found = (wanted_weight(mu.reshape(n, n)) - mu @ nu) / n
    assert found == pytest.approx(regret, abs=1e-12)
    assert regret >= -1e-12
    best_upper = 1 + wanted_weight((scores - nu / n).reshape(n, n))
    assert upper <= best_upper + 1e-12
    if n <= 4:  # the closed form has no exception there
        assert regret <= 1e-10

"""Projections onto the simplex and the exact max-min blocks, against references that are slow."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxmargin._kernels.simplex import (
    capped_projection,
    clipped_difference,
    lower_envelope_step,
    median_split,
    project,
    threshold,
)

# Whole numbers give ties, the others everything else.
numbers = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e3, 1e3, allow_subnormal=False))
vectors = hnp.arrays(np.float64, st.integers(1, 40), elements=numbers)
masses = st.floats(-3, 3).map(lambda power: 10.0**power)


def threshold_by_sorting(values, total):
    ordered = np.sort(values)[::-1]
    candidates = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    return candidates[np.flatnonzero(ordered > candidates)[-1]]


def simplex_point(random, size):
    point = random.exponential(size=size) * (random.random_sample(size) < 0.7)
    return point / point.sum() if point.any() else np.full(size, 1.0 / size)


def zero_one(costs):
    return (1.0 - np.eye(len(costs))) * costs


def absolute(costs):
    labels = np.arange(len(costs))
    return np.abs(labels[:, None] - labels) * costs


def block_value(losses, scores, start, curvature, point):
    """What the exact block maximises, over its curvature; losses: rows predicted, columns true."""
    gain = (losses @ point).min() + scores @ point
    return gain / curvature - 0.5 * ((point - start) ** 2).sum()


def solve_block(losses, scores, start, curvature):
    """The exact block by a convex solver, moved onto the simplex."""
    point = cp.Variable(len(scores))
    floor = cp.Variable()
    gain = (floor + scores @ point) / curvature - 0.5 * cp.sum_squares(point - start)
    problem = cp.Problem(
        cp.Maximize(gain), [losses @ point >= floor, point >= 0, cp.sum(point) == 1]
    )
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    inside = np.maximum(point.value, 0.0)
    return inside / inside.sum()


def check_block(losses, scores, start, curvature, found):
    """``found`` is feasible, and stands where the solver stands or at a better place."""
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    wanted = solve_block(losses, scores, start, curvature)
    value = block_value(losses, scores, start, curvature, found)
    best = block_value(losses, scores, start, curvature, wanted)
    # An interior-point solver is not exact to 1e-6 where the optimum is degenerate.
    assert value >= best or np.abs(found - wanted).max() <= 1e-6
    assert curvature * value == pytest.approx(curvature * best, abs=1e-6)


block_problems = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(2, 7), st.floats(-3, 3), st.sampled_from([0.3, 1.0, 4.0])
)


def draw_block(seed, size, log_curvature, spread):
    """Scores, a starting point and a curvature; some scores tie."""
    random = np.random.RandomState(seed)
    scores = spread * random.randn(size)
    if seed % 3 == 0:
        scores = np.round(scores)
    return random, scores, simplex_point(random, size), 10.0**log_curvature


@given(vectors, masses)
@example(np.zeros(7), 1.0)
@example(np.array([3.0, 3.0, -2.0]), 0.5)
def test_threshold_agrees_with_sorting(values, total):
    before = values.copy()
    tau = threshold(values, np.empty(len(values)), total)
    size = np.abs(values).max() + total
    assert tau == pytest.approx(threshold_by_sorting(values, total), abs=1e-13 * size)
    above = np.maximum(values - tau, 0.0).sum()
    assert above == pytest.approx(total, abs=1e-13 * size * len(values))
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("top", [1e12, 1e16, 1e18, 1e300])
def test_threshold_of_values_far_above_the_total(top):
    # The threshold is top - 1/2; what of it a double can hold is asked for, not more.
    tau = threshold(np.array([0.0, top, -3.0, top]), np.empty(4), 1.0)
    assert tau == pytest.approx(top - 0.5, rel=1e-15)


@given(vectors, masses)
def test_projection_agrees_with_sorting(values, mass):
    out = np.empty(len(values))
    project(values, np.empty(2 * len(values)), mass, out)
    wanted = np.maximum(values - threshold_by_sorting(values, mass), 0.0)
    size = np.abs(values).max() + mass
    np.testing.assert_allclose(out, wanted, atol=1e-12 * size)
    assert out.min() >= 0.0
    assert out.sum() == pytest.approx(mass, rel=1e-12)


@given(vectors, masses, st.integers(0, 2**32 - 1))
def test_no_point_of_the_simplex_is_nearer_than_the_projection(values, mass, seed):
    out = np.empty(len(values))
    project(values, np.empty(2 * len(values)), mass, out)
    other = mass * simplex_point(np.random.RandomState(seed), len(values))
    size = np.abs(values).max() + mass
    # The obtuse angle characterises the projection onto a convex set.
    assert (values - out) @ (other - out) <= 1e-11 * size**2


@given(vectors)
def test_points_of_the_simplex_stay(values):
    point = np.abs(values) + 1.0
    point /= point.sum()
    out = np.empty(len(point))
    project(point, np.empty(2 * len(point)), 1.0, out)
    np.testing.assert_allclose(out, point, atol=1e-15)


@settings(max_examples=60)
@given(block_problems, st.sampled_from([0.05, 1.0, 3.0]))
def test_clipped_difference_is_the_zero_one_block(problem, size):
    _, scores, start, curvature = draw_block(*problem)
    out = np.empty(len(scores))
    values = scores + curvature * start
    clipped_difference(values, np.empty(len(scores)), curvature, size, out)
    check_block(zero_one(np.full(len(scores), size)), scores, start, curvature, out)


@settings(max_examples=60)
@given(block_problems)
def test_capped_projection_is_the_zero_one_block_with_costs(problem):
    random, scores, start, curvature = draw_block(*problem)
    costs = np.exp(random.uniform(-2.0, 2.0, len(scores)))
    out = np.empty(len(scores))
    capped_projection(scores + costs + curvature * start, costs, curvature, out)
    check_block(zero_one(costs), scores, start, curvature, out)


@settings(max_examples=60)
@given(block_problems, st.sampled_from([0.05, 1.0, 3.0]))
def test_median_split_is_the_absolute_block(problem, size):
    _, scores, start, curvature = draw_block(*problem)
    costs = np.full(len(scores), size)
    out = np.empty(len(scores))
    median_split(scores, start, curvature, costs, np.empty(3 * len(scores)), out)
    check_block(absolute(costs), scores, start, curvature, out)


@settings(max_examples=60)
@given(block_problems)
def test_median_split_is_the_absolute_block_with_costs(problem):
    random, scores, start, curvature = draw_block(*problem)
    costs = np.exp(random.uniform(-2.0, 2.0, len(scores)))
    out = np.empty(len(scores))
    median_split(scores, start, curvature, costs, np.empty(3 * len(scores)), out)
    check_block(absolute(costs), scores, start, curvature, out)


@given(block_problems)
def test_capped_projection_with_equal_costs_is_the_clipped_difference(problem):
    _, scores, start, curvature = draw_block(*problem)
    n = len(scores)
    clipped, capped = np.empty(n), np.empty(n)
    clipped_difference(scores + curvature * start, np.empty(n), curvature, 0.7, clipped)
    capped_projection(scores + 0.7 + curvature * start, np.full(n, 0.7), curvature, capped)
    tolerance = 1e-12 * (1.0 + np.abs(scores).max() / curvature)
    np.testing.assert_allclose(capped, clipped, atol=tolerance)


lines = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*[hnp.arrays(np.float64, n, elements=st.floats(-10, 10, width=32))] * 2)
)
curvatures = st.one_of(st.just(0.0), st.floats(-3, 3).map(lambda power: 10.0**power))


@settings(max_examples=150)
@given(lines, st.floats(-10, 10, width=32), curvatures)
@example((np.zeros(3), np.array([1.0, -1.0, 0.0])), 0.5, 1.0)
@example((np.array([0.0, 1.0]), np.array([2.0, 0.0])), 0.0, 0.0)
def test_lower_envelope_step_finds_the_maximum(envelope, slope, curvature):
    start, change = envelope

    def value(g):
        g = np.asarray(g)[..., None]
        height = (start + g * change).min(axis=-1)
        return height + g[..., 0] * slope - 0.5 * curvature * g[..., 0] ** 2

    step = lower_envelope_step(start, change, slope, curvature)
    assert 0.0 <= step <= 1.0
    best = value(np.linspace(0.0, 1.0, 2001)).max()
    low, high = 0.0, 1.0
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(80):  # concave, so golden section cannot miss
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (left, high) if value(left) < value(right) else (low, right)
        best = max(best, float(value(left)), float(value(right)))
    assert value(step) >= best - 1e-12 * (1.0 + abs(best) + curvature)

"""Counts of factor graphs: projections onto them, and certificates where they are tight."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import steppers
from graph_models import PlainModel, make_problem, random_truth
from maxmargin import GraphLabeler
from maxmargin.graphs._soft_counts import (
    ROUNDING,
    capped_shift,
    make_count_room,
    project_counts,
)
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.packing import pack_graphs, plan_layout
from maxmargin.solvers.loop import run

# Whole numbers and halves give ties, the others everything else.
numbers = st.one_of(
    st.integers(-4, 4).map(lambda i: i / 2), st.floats(-3, 3, allow_subnormal=False)
)


def with_counts(rng, n_variables, counts, edges=True):
    """A graph with tables on all pairs, or none, and ``(variables, low, high)`` counts."""
    graph = FactorGraph(rng.randn(n_variables, 2), 2)
    if edges:
        graph.add_tables(list(itertools.combinations(range(n_variables), 2)))
    for variables, low, high in counts:
        graph.add_count(variables, at_least=low, at_most=high)
    return graph


def permutation_counts(k):
    cells = np.arange(k * k).reshape(k, k)
    return [(line, 1, 1) for line in (*cells, *cells.T)]


def window_counts(n, low=1, high=1):
    return [(range(i, i + 3), low, high) for i in range(n - 2)]


def train(problem, tol=1e-6, passes=3000):
    stepper = steppers.soft(problem, rng=np.random.RandomState(0))
    return run(stepper, tol=tol, max_iter=passes, check_every=50)


def check_certificate(problem, result, tol=1e-6):
    optimum, _ = PlainModel(problem).solve()
    assert result.status == "converged"
    assert result.gap <= tol * result.primal
    # The convex solver is accurate to about 1e-8.
    assert result.dual <= optimum + 1e-7
    assert optimum <= result.primal + 1e-7


# --- projections --------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_projection_onto_one_count_is_feasible_and_optimal(data):
    values = data.draw(hnp.arrays(np.float64, st.integers(1, 30), elements=numbers))
    n = len(values)
    low = data.draw(st.integers(0, n))
    high = data.draw(st.integers(low, n))
    shift = capped_shift(values, low, high)
    x = np.clip(values - shift, 0.0, 1.0)
    total = x.sum()
    assert low - n * ROUNDING <= total <= high + n * ROUNDING
    # x = clip(v - t) has the gradient x - v = -t inside, at most that at 1, at least that at 0:
    # optimal if t is 0 between the bounds, not negative at the upper and not positive at the lower.
    if shift > 0.0:
        assert total == pytest.approx(high, abs=n * ROUNDING)
    elif shift < 0.0:
        assert total == pytest.approx(low, abs=n * ROUNDING)


@pytest.mark.parametrize(
    ("n", "counts"),
    [
        (5, [([0, 1, 2], 1, 2), ([3, 4], 0, 0)]),
        (9, permutation_counts(3)),
        (25, permutation_counts(5)),
        (40, window_counts(40)),
        (40, window_counts(40, 1, 2)),
    ],
)
def test_projection_onto_all_counts_against_a_convex_solver(n, counts):
    rng = np.random.RandomState(0)
    graph = with_counts(rng, n, counts, edges=False)
    packed, _ = pack_graphs([graph], plan_layout([graph]))
    room = make_count_room(packed, 0)
    for spread in (0.01, 0.3):
        x = np.clip(0.4 + spread * rng.randn(n), 0.0, 1.0)
        out = np.column_stack([1.0 - x, x]).ravel()
        assert project_counts(packed, 0, out, room) <= 1.0
        found = out[1::2]
        assert found.min() >= 0.0 and found.max() <= 1.0
        np.testing.assert_allclose(out[::2] + found, 1.0, atol=2.0**-52)
        for variables, low, high in counts:
            inside = found[list(variables)]
            slack = len(inside) * ROUNDING
            assert low - slack <= inside.sum() <= high + slack
        point = cp.Variable(n)
        sums = [cp.sum(point[list(variables)]) for variables, _, _ in counts]
        rules = [point >= 0, point <= 1]
        rules += [s >= low for s, (_, low, _) in zip(sums, counts, strict=True)]
        rules += [s <= high for s, (_, _, high) in zip(sums, counts, strict=True)]
        cp.Problem(cp.Minimize(cp.sum_squares(point - x)), rules).solve(solver="CLARABEL")
        np.testing.assert_allclose(found, point.value, atol=1e-4)
        # Both are feasible (one up to 1e-8): none is nearer.
        assert ((found - x) ** 2).sum() <= ((point.value - x) ** 2).sum() + 1e-6


# --- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("max_min", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_gap_closes_with_exactly_two_of_four(seed, max_min, edges):
    rng = np.random.RandomState(seed)
    graphs = [with_counts(rng, 4, [(range(4), 2, 2)], edges) for _ in range(3)]
    problem = make_problem(graphs, [random_truth(rng, g) for g in graphs], max_min=max_min)
    check_certificate(problem, train(problem))


@pytest.mark.parametrize(
    ("n", "counts"),
    [
        (4, [(range(4), 1, 3)]),
        (6, [(range(4), 2, 2), (range(2, 6), 1, 3)]),
        (6, [(range(4), 2, 2), (range(2, 6), 2, 2)]),
        (9, permutation_counts(3)),
        (9, window_counts(9)),
    ],
)
def test_gap_closes_with_counts_that_overlap(n, counts):
    rng = np.random.RandomState(1)
    graphs = [with_counts(rng, n, counts, edges=n < 9) for _ in range(3)]
    problem = make_problem(graphs, [random_truth(rng, g) for g in graphs])
    check_certificate(problem, train(problem))


def test_gap_closes_in_the_example_of_the_documentation():
    graph = FactorGraph([[0.2], [1.5], [0.9]], n_states=2)
    graph.add_tables([(0, 1, 2)], group="triple").add_count([0, 1, 2], at_least=1, at_most=1)
    model = GraphLabeler(random_state=0).fit([graph], [[0, 1, 0]])
    assert model.status_ == "converged"
    assert model.gap_ <= model.tol * model.primal_
    assert model.predict([graph])[0].tolist() == [0, 1, 0]

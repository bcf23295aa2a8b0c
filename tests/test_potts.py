"""Tables with one weight for equal states: their exact step, and what is kept of them."""

from __future__ import annotations

import numpy as np
import pytest

import steppers
from graph_models import small_problem
from maxmargin.graphs._tighten_kernel import _best_of_other_potts
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.kernels.potts import best_potts, solve_potts
from maxmargin.graphs.packing import pack_graphs, plan_layout, with_short_potts


def solve(u, v, ratio, wish):
    k = len(u)
    p, q = np.empty(k), np.empty(k)
    mass = solve_potts(u.copy(), v.copy(), ratio, wish, np.empty(k), np.empty(2 * k), p, q)
    return p, q, mass


def objective(p, q, mass, u, v, ratio, wish):
    return 0.5 * np.sum((p - u) ** 2 + (q - v) ** 2) + (mass - wish) ** 2 / (2.0 * ratio)


def some_case(rng):
    """Attraction, repulsion and neither; targets far apart, near each other, near a vertex."""
    k = int(rng.choice([2, 3, 5, 21]))
    spread = 10 ** rng.uniform(-1, 0.7)
    u, v = spread * rng.randn(k), spread * rng.randn(k)
    kind = rng.randint(3)
    if kind == 1:
        v = u + 0.2 * spread * rng.randn(k)
    elif kind == 2:
        v = 2.0 * np.eye(k)[1] + 0.1 * rng.randn(k)
        u = v + 0.1 * rng.randn(k)
    return u, v, 10 ** rng.uniform(-2, 2), rng.uniform(-3, 4)


def test_step_against_a_convex_solver():
    cp = pytest.importorskip("cvxpy")
    rng = np.random.RandomState(0)
    for _ in range(25):
        u, v, ratio, wish = some_case(rng)
        table = cp.Variable((len(u), len(u)), nonneg=True)
        apart = cp.sum_squares(cp.sum(table, 1) - u) + cp.sum_squares(cp.sum(table, 0) - v)
        value = 0.5 * apart + cp.square(cp.trace(table) - wish) / (2.0 * ratio)
        truth = cp.Problem(cp.Minimize(value), [cp.sum(table) == 1]).solve(solver="CLARABEL")
        found = objective(*solve(u, v, ratio, wish), u, v, ratio, wish)
        assert found == pytest.approx(truth, abs=1e-6, rel=1e-6)


def test_answers_are_feasible_and_no_move_of_mass_is_better():
    rng = np.random.RandomState(1)
    for _ in range(3000):
        u, v, ratio, wish = some_case(rng)
        p, q, mass = solve(u, v, ratio, wish)
        assert p.min() >= 0.0 and q.min() >= 0.0
        assert p.sum() == pytest.approx(1.0, abs=1e-10) and q.sum() == pytest.approx(1.0, abs=1e-10)
        assert max(0.0, (p + q).max() - 1.0) - 1e-10 <= mass <= np.minimum(p, q).sum() + 1e-10
        # At the optimum no entry (a, b) is better than the mean: the Frank-Wolfe gap is zero.
        price = (wish - mass) / ratio
        table = (u - p)[:, None] + (v - q)[None, :] + price * np.eye(len(u))
        mean = (u - p) @ p + (v - q) @ q + price * mass
        assert table.max() - mean < 1e-8 * (1.0 + np.abs(table).max())


def test_targets_of_any_size_have_an_answer():
    rng = np.random.RandomState(3)
    for size in (1e-3, 1.0, 1e3, 1e6):
        for _ in range(200):
            u, v, ratio, wish = some_case(rng)
            p, q, mass = solve(size * u, size * v, ratio, wish)
            assert 0.0 <= mass <= 1.0 + 1e-12
            assert p.sum() == pytest.approx(1.0) and q.sum() == pytest.approx(1.0)


def test_best_entry_and_messages_against_the_whole_table():
    rng = np.random.RandomState(2)
    for _ in range(300):
        k = int(rng.randint(2, 6))
        left, right = rng.randint(-3, 4, (2, k)).astype(float)  # with ties
        score = float(rng.randint(-4, 5))
        table = score * np.eye(k) - left[:, None] - right[None, :]
        assert best_potts(score, left, right) == table.max()
        out = np.empty(k)
        _best_of_other_potts(score, right, out)
        np.testing.assert_array_equal(out, (table + left[:, None]).max(axis=1))


def test_only_potts_tables_are_short():
    graph = FactorGraph(np.zeros((5, 1)), [3, 3, 3, 2, 2], groups=[0, 0, 0, 1, 1])
    graph.add_tables([(0, 1), (1, 2)], tie="potts", group="same")
    graph.add_tables([(0, 2)], group="full")
    graph.add_tables([(3, 4)], tie="potts", group="binary")
    graph.add_tables([(0, 1, 2)], group="three")
    lone = FactorGraph(np.zeros((2, 1)), [3, 3], groups=[0, 0]).add_tables(
        [(0, 1)], tie="potts", group="same"
    )
    graphs = [graph, lone, graph]
    packed, _ = pack_graphs(graphs, plan_layout(graphs))
    short = with_short_potts(packed)
    assert packed.potts.tolist() == [True, True, False, True, False, True]
    assert packed.n_mass.tolist() == packed.n_entries.tolist()
    assert short.n_mass.tolist() == [1, 1, 9, 1, 27, 1]
    assert short.mass_at.tolist() == [0, 1, 2, 11, 12, 0]
    assert short.first_mass.tolist() == [0, 39, 40, 79]


def test_short_tables_reach_the_optimum_of_whole_ones():
    problem = small_problem("potts", n=4, n_states=4, n_variables=5)
    found = {}
    for steps in ("exact", "frank-wolfe"):
        stepper = steppers.soft(problem, steps=steps, rng=np.random.RandomState(0))
        for _ in range(2000):
            stepper.advance(10.0, problem.n_examples)
        found[steps] = min(evaluation.primal for _, evaluation in stepper.check())
    assert found["exact"] == pytest.approx(found["frank-wolfe"], rel=1e-3)
    assert found["exact"] <= found["frank-wolfe"] * (1.0 + 1e-6)


def test_a_state_of_other_steps_is_not_used():
    problem = small_problem("potts", n=2, n_states=3)
    rng = np.random.RandomState(0)
    whole = steppers.soft(problem, steps="frank-wolfe", rng=rng).dual_state
    stepper = steppers.soft(problem, rng=rng, dual_state=whole)
    assert len(stepper.dual_state.tables) < len(whole.tables)
    stepper.advance(10.0, 2)

"""Baselines on factor graphs: all reach the optimum that a general convex solver finds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments import figure1
from experiments.baselines.dlpw import DLPW
from experiments.baselines.lp_bcfw import LPBlockFrankWolfe
from experiments.baselines.lp_oracles import PottsProgram, is_potts, make_oracle
from experiments.baselines.lp_subgradient import LPSubgradient

import steppers
from graph_models import PlainModel, small_problem
from maxmargin.graphs.inference.linear_program import LinearProgram
from maxmargin.solvers.loop import run
from realdata import data_file

pytestmark = pytest.mark.more  # baselines of the experiments


def check_gaps(result):
    for check in result.history:
        assert check.gap >= -1e-9


CASES = [
    ("pairs", {}, ("roof-duality", "highs-warm", "highs-cold")),
    ("pairs", {"n_states": 3, "edge_features": 2}, ("highs-warm",)),
    pytest.param(
        "potts",
        {"n_states": 3, "edge_features": 2},
        ("potts", "highs-cold"),
        marks=pytest.mark.slow,
    ),
    ("triples", {}, ("highs-warm",)),
    ("tree", {}, ("roof-duality",)),
    ("count", {}, ("highs-warm",)),
]


@pytest.mark.parametrize("kind,options,oracles", CASES)
def test_frank_wolfe_with_an_lp_oracle_reaches_the_optimum(kind, options, oracles):
    problem = small_problem(kind, alpha=0.5, **options)
    best, _ = PlainModel(problem).solve()
    for oracle in oracles:
        stepper = LPBlockFrankWolfe(problem, oracle=oracle, rng=np.random.RandomState(0))
        result = run(stepper, tol=5e-3, max_iter=3000)
        check_gaps(result)
        assert result.status == "converged"
        assert result.dual <= best + 1e-7
        assert best - 1e-7 <= result.primal <= best * (1.0 + 5e-3) + 1e-7
        assert make_oracle(problem).primal(result.weights) == pytest.approx(result.primal, abs=1e-9)


def test_frank_wolfe_and_multipliers_have_the_same_optimum():
    problem = small_problem("pairs", n=4, alpha=0.5)
    lp = run(LPBlockFrankWolfe(problem, rng=np.random.RandomState(0)), tol=1e-4, max_iter=20000)
    soft = run(steppers.soft(problem, rng=np.random.RandomState(0)), tol=1e-5, max_iter=5000)
    assert lp.status == soft.status == "converged"
    assert lp.primal == pytest.approx(soft.primal, rel=1e-4)


def test_weights_stay_those_of_the_marginals_and_the_dual_never_falls():
    for kind, options in (("pairs", {}), ("potts", {"n_states": 3, "edge_features": 1})):
        problem = small_problem(kind, **options)
        stepper = LPBlockFrankWolfe(problem, rng=np.random.RandomState(1))
        before = stepper.dual()
        assert before == pytest.approx(0.0, abs=1e-15)
        for _ in range(200):
            stepper.advance(1.0, 1)
            now = stepper.dual()
            assert now >= before - 1e-12
            before = now
        np.testing.assert_allclose(
            stepper.weights, problem.weights_of(stepper.dual_state), atol=1e-10
        )
        assert not stepper._spare.any()


def test_average_is_the_weighted_average_of_the_iterates():
    problem = small_problem()
    stepper = LPBlockFrankWolfe(problem, average=1.0, rng=np.random.RandomState(2))
    total, mass = np.zeros(problem.n_weights), 0.0
    for t in range(1, 31):
        stepper.advance(1.0, 1)
        total += t * stepper.weights
        mass += t
    average = stepper.weights - stepper.averaged / stepper._mass[0]
    np.testing.assert_allclose(average, total / mass, atol=1e-12)


@pytest.mark.parametrize(
    "oracle", ["roof-duality", pytest.param("highs-warm", marks=pytest.mark.slow)]
)
def test_subgradient_with_an_lp_oracle_comes_near_the_optimum(oracle):
    problem = small_problem("pairs")
    best, _ = PlainModel(problem).solve()
    stepper = LPSubgradient(problem, oracle=oracle, rng=np.random.RandomState(0))
    result = run(stepper, tol=0.0, max_iter=1500, check_every=250)
    check_gaps(result)
    assert best - 1e-7 <= result.primal <= 1.01 * best
    assert 0.95 * best <= result.dual <= best + 1e-7


@pytest.mark.parametrize(
    "kind,options", [("pairs", {}), ("triples", {}), ("pairs", {"n_states": 3})]
)
def test_smooth_dlpw_comes_near_the_optimum(kind, options):
    problem = small_problem(kind, **options)
    best, _ = PlainModel(problem).solve()
    stepper = DLPW(problem, temperature=2e-3, sweeps=5, rng=np.random.RandomState(0))
    result = run(stepper, tol=0.0, max_iter=3000, check_every=500)
    check_gaps(result)
    assert best - 1e-7 <= result.primal <= 1.02 * best


def test_plain_dlpw_bounds_the_optimum_and_descends():
    problem = small_problem("pairs")
    best, _ = PlainModel(problem).solve()
    result = run(DLPW(problem, rng=np.random.RandomState(0)), tol=0.0, max_iter=500, check_every=50)
    check_gaps(result)
    assert best - 1e-7 <= result.primal < result.history[0].primal
    assert result.primal <= 1.5 * best  # block minimisation of hard maxima may get stuck


def test_block_minimisation_never_raises_the_bound():
    problem = small_problem("triples", n=3)
    rng = np.random.RandomState(3)
    stepper = DLPW(problem, rate=0.0, average=False, rng=rng)
    stepper._stored[:] = rng.randn(problem.n_weights)
    before = problem.primal(stepper.weights, stepper.messages)
    for _ in range(20):
        stepper.advance(1.0, problem.n_examples)
        now = problem.primal(stepper.weights, stepper.messages)
        assert now <= before + 1e-12
        before = now
    assert before >= make_oracle(problem).primal(stepper.weights) - 1e-9


def test_potts_program_has_the_optimum_of_the_whole_one():
    problem = small_problem("potts", n=1, n_states=4, n_variables=5)
    graphs = problem.graphs
    assert is_potts(graphs)
    assert not is_potts(small_problem("pairs").graphs)
    oracle = make_oracle(problem, "potts")
    small, whole = PottsProgram(oracle.plan, 0), LinearProgram(graphs, 0, plan=oracle.plan)
    rng = np.random.RandomState(4)
    for _ in range(20):
        pull = 2.0 * rng.randn(len(graphs.kind))
        tables = (pull[:, None] * np.eye(4).ravel()).ravel()
        unary = rng.randn(20)
        states, diagonals, value = small.solve(unary, tables)
        assert value == pytest.approx(whole.solve(unary, tables)[2], abs=1e-7)
        assert unary @ states + tables @ diagonals == pytest.approx(value, abs=1e-12)


def test_results_do_not_depend_on_how_the_work_is_cut():
    problem = small_problem()
    for make in (LPBlockFrankWolfe, LPSubgradient, DLPW):
        found = []
        for most in (1, 1000):
            stepper = make(problem, rng=np.random.RandomState(5))
            while stepper.oracle_calls < 50:
                stepper.advance(1.0, min(most, 50 - stepper.oracle_calls))
            found.append(stepper.check()[0][0])
        assert np.array_equal(found[0], found[1])


def test_what_does_not_fit_is_refused():
    rng = np.random.RandomState(0)
    with pytest.raises(ValueError, match='oracle="roof-duality" needs variables with two states'):
        LPBlockFrankWolfe(small_problem(n_states=3), oracle="roof-duality", rng=rng)
    with pytest.raises(ValueError, match='oracle="potts" needs pairs'):
        LPBlockFrankWolfe(small_problem(), oracle="potts", rng=rng)
    with pytest.raises(ValueError, match="oracle must be one of"):
        LPBlockFrankWolfe(small_problem(), oracle="glpk", rng=rng)
    with pytest.raises(ValueError, match="max-margin surrogate only"):
        LPSubgradient(small_problem(max_min=True), rng=rng)
    with pytest.raises(ValueError, match="all tables"):
        DLPW(small_problem("count"), rng=rng)


def test_quick_figure_of_the_soft_objective_keeps_its_order(tmp_path):
    data_file("yeast.npz")
    figure1.main(["--quick", "--folder", str(tmp_path)])
    content = json.loads((tmp_path / "figure1.json").read_text())
    for model in ("paper", "full tables"):
        found = content[model]
        low, high = found["optimum"]
        assert 0.0 < low <= high
        lines = [*found["passes"].values()]
        lines += [line for parts in found["budgets"].values() for line in parts.values()]
        for line in lines:
            for primal, dual, hard in zip(line["soft"], line["dual"], line["hard"], strict=True):
                assert dual <= primal + 1e-9
                assert low - 1e-5 * low <= hard <= primal + 1e-9
    for name in ("figure1.svg", "figure1.md"):
        assert (tmp_path / name).stat().st_size > 1000

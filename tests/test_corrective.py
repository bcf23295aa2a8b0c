"""Corrections of all mixtures of trees together: a convex solver, certificates, resumed fits."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import Corrective, LabelRanker, TreeParser
from maxmargin.datasets_made import make_sentences
from maxmargin.solvers._corrective_program import solve_program
from maxmargin.solvers.auto import make_solver
from maxmargin.solvers.averaging import Averaged
from maxmargin.solvers.corrective import _fewest, _learn_trees, _program
from maxmargin.solvers.loop import run
from steppers import Stepper
from test_cli_resume import killed_and_resumed, numbers
from test_problems import packed
from test_tree_parser import ALPHA, optimum, problem_data

pytestmark = pytest.mark.more


@pytest.mark.parametrize("single_root", [True, False])
def test_the_optimum_is_that_of_a_convex_solver(single_root):
    X, y, weights = problem_data(single_root=single_root)
    model = TreeParser(
        "max-min", alpha=ALPHA, tol=1e-8, random_state=0, single_root=single_root,
        solver=Corrective(switch=0.5),
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    wanted = optimum("max-min", X, y, weights, single_root)
    assert model.status_ == "converged"
    assert model.dual_ <= wanted + 1e-7 and model.primal_ >= wanted - 1e-7
    assert model.gap_ <= 1e-8 * model.primal_


@pytest.mark.parametrize("most_trees", [1, 8])
def test_with_too_many_trees_the_first_solver_goes_on_alone(most_trees, monkeypatch):
    X, y, weights = problem_data()
    advance, rounds = Corrective.advance, []

    def watched(self, problem, state, steps):
        found = advance(self, problem, state, steps)
        rounds.append((found.inertia > 0.0, found.idle))
        return found

    monkeypatch.setattr(Corrective, "advance", watched)
    model = TreeParser(
        "max-min", alpha=ALPHA, tol=1e-4, max_iter=5000, random_state=0,
        solver=Corrective(switch=0.5, most_trees=most_trees),
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    corrected = [k for k, (corrections, _) in enumerate(rounds) if corrections]
    alone = next(k for k, (corrections, idle) in enumerate(rounds) if idle and not corrections)
    assert bool(corrected) == (most_trees > 1) and all(k < alone for k in corrected)
    assert model.status_ == "converged" and len(rounds) > alone + 1
    wanted = optimum("max-min", X, y, weights)
    assert model.dual_ <= wanted + 1e-7 and model.primal_ >= wanted - 1e-7
    assert model.primal_ - model.dual_ <= 1e-4 * model.primal_


def test_fewer_trees_have_the_same_marginals():
    random = np.random.RandomState(0)
    for words, count in ((2, 5), (5, 12), (8, 40)):
        trees = random.randint(0, 3, (count, words)).astype(np.int32)
        before = random.dirichlet(np.ones(count))
        before[1] = 0.0
        after = _fewest(trees, before)
        arcs = (trees[:, :, None] == np.arange(3)).reshape(count, -1).astype(float)
        np.testing.assert_allclose(after @ arcs, before @ arcs, atol=1e-14)
        used = np.flatnonzero(after)
        assert after.min() >= 0.0 and after[1] == 0.0
        assert len(used) == np.linalg.matrix_rank(arcs[used]) <= 2 * words + 1


def made_problem(tol=1e-6):
    made = make_sentences(7)
    model = TreeParser("max-min", alpha=1.0, tol=tol, hash_bits=10, random_state=0)
    problem = packed(model, made.X, made.y)
    problem.tolerance = tol
    return problem


def test_every_check_encloses_the_optimum():
    problem = made_problem(1e-7)
    solver = make_solver(Corrective(switch=0.3), problem)
    best = run(Stepper(solver, problem, rng=np.random.RandomState(0)), tol=1e-7, max_iter=3000)
    assert best.gap <= 1e-7 * best.primal
    stepper = Stepper(solver, problem, rng=np.random.RandomState(1))
    for _ in range(45):
        for _, found in stepper.check():
            assert found.dual <= best.primal + 1e-12 and found.primal >= best.dual - 1e-12
        stepper.advance(1.0, problem.n_examples)
    assert stepper.state.inertia > 0.0


def test_the_program_has_no_better_mixture():
    """Optimality conditions, and the value of the dual without its multipliers."""
    problem = made_problem()
    solver = make_solver(Corrective(switch=0.3), problem)
    stepper = Stepper(solver, problem, rng=np.random.RandomState(0))
    while stepper.state.inertia == 0.0:
        stepper.advance(1.0, problem.n_examples)
        stepper.check()
    _learn_trees(problem, stepper.state)
    program = _program(problem, stepper.state)
    at = solve_program(program, 1e-11)
    np.testing.assert_allclose(at.x.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(at.nu.sum(axis=1), program.costs, atol=1e-9)
    worth = np.where(program.rows, np.einsum("nbc,nc->nb", program.losses, at.x), np.inf)
    np.testing.assert_allclose(worth.min(axis=1), at.t, atol=1e-7)
    moved = np.zeros(at.x.shape)
    moved[program.columns] = program.features @ (program.features.T @ at.x[program.columns])
    slope = moved + program.linear - np.einsum("nbc,nb->nc", program.losses, at.nu)
    least = np.where(program.columns, slope, np.inf).min(axis=1)
    # No column of an example is better than those that have mass.
    assert np.abs((at.x * (slope - least[:, None]))[program.columns]).max() < 1e-8


def test_small_tolerances_choose_it_and_others_are_refused():
    for tol, kind in ((1e-2, Averaged), (1e-5, Corrective)):
        assert isinstance(make_solver("auto", made_problem(tol)), kind)
    made = make_sentences(7)
    with pytest.raises(ValueError, match="trees with surrogate='max-min'"):
        TreeParser("max-margin", solver=Corrective()).fit(made.X, made.y)
    with pytest.raises(ValueError, match="trees with surrogate='max-min'"):
        LabelRanker("max-min", solver=Corrective(), y_format="ranks").fit(
            np.eye(3), [[1, 2, 3], [2, 1, 3], [3, 2, 1]]
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_killed_fit_ends_as_if_nothing_had_happened(tmp_path):
    X, y, _ = problem_data()

    def make():
        solver = Corrective(switch=0.5)
        return TreeParser("max-min", alpha=ALPHA, tol=1e-8, random_state=0, solver=solver)

    whole = make().fit(X, y)
    assert whole.status_ == "converged"
    last = whole.history_[-1].passes
    resumed = killed_and_resumed(make, X, y, tmp_path / "c", [2, int(last) - 5])
    assert numbers(resumed) == numbers(whole)

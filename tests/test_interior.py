"""The interior-point methods of max-min: a game against a linear program, fits against a solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from sklearn.exceptions import ConvergenceWarning

import test_matchings
import test_rankings
from maxmargin import LabelRanker, Matcher, MulticlassClassifier
from maxmargin._kernels.birkhoff_game import birkhoff_game_work
from maxmargin._kernels.saddle import interior_pair, lower_bound, saddle_work
from maxmargin.solvers.auto import make_solver
from maxmargin.solvers.averaging import Averaged
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.interior import Interior
from test_cli_resume import killed_and_resumed, numbers

SEEDS = st.integers(0, 10_000)


def best_weight(matrix):
    return matrix[linear_sum_assignment(matrix, maximize=True)].sum()


def game_value(scores, n):
    """The value of the game: a linear program with the potentials of the assignment."""
    size = n * n
    rows, columns = np.divmod(np.arange(size), n)
    above = np.zeros((size, size + 2 * n))
    above[np.arange(size), np.arange(size)] = 1.0
    above[np.arange(size), size + rows] = -1.0
    above[np.arange(size), size + n + columns] = -1.0
    sums = np.zeros((2 * n, size + 2 * n))
    sums[rows, np.arange(size)] = 1.0
    sums[n + columns, np.arange(size)] = 1.0
    found = linprog(
        np.append(-scores, np.full(2 * n, 1.0 / n)), above, np.zeros(size), sums, np.ones(2 * n),
        bounds=[(0, None)] * size + [(None, None)] * (2 * n),
    )  # fmt: skip
    assert found.status == 0
    return 1.0 - found.fun


def solved(scores, centre, curvature, factor, accuracy, n):
    """Bounds on the game without the quadratic term, the pair, and the regret of nu."""
    mu, nu = np.full(n * n, np.nan), np.full(n * n, np.nan)
    work = np.full(birkhoff_game_work(n, factor.shape[1]), np.nan)
    upper, regret = interior_pair(centre, scores, curvature, factor, accuracy, n, work, nu, mu)
    lower = lower_bound(scores, mu, n, np.full(saddle_work(n), np.nan))
    for matrix in (mu.reshape(n, n), nu.reshape(n, n)):
        assert matrix.min() >= 0.0
        np.testing.assert_allclose(matrix.sum(axis=0), 1.0, atol=1e-12)
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-12)
    return upper, lower, mu, nu, regret


@pytest.mark.more
@settings(max_examples=80, deadline=None)
@given(SEEDS, st.integers(1, 9), st.sampled_from([0.03, 0.3, 3.0, 300.0]), st.booleans())
def test_the_game_agrees_with_its_linear_program(seed, n, scale, ties):
    scores = np.random.RandomState(seed).randn(n * n)
    scores = scale * (np.round(scores) if ties else scores)
    nothing = np.empty((n * n, 0))
    upper, lower, *_ = solved(scores, np.zeros(n * n), 0.0, nothing, 1e-10, n)
    wanted = game_value(scores, n)
    rounding = 1e-9 * (1.0 + scale)
    assert lower - rounding <= wanted <= upper + rounding
    assert upper - lower <= 1e-7 * (1.0 + scale)  # the widest of 2880 such games: 3e-8


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(2, 7), st.integers(0, 5), st.sampled_from([1e-3, 0.1, 10.0]))
@example(228, 6, 5, 0.1)  # nearly singular systems: the method stopped at 5e-8
@example(361, 6, 5, 0.1)
@example(420, 7, 4, 0.1)  # second-order terms let the gap go up and down between 2e-4 and 6e-4
def test_with_a_quadratic_term_neither_player_can_do_better(seed, n, columns, size):
    random = np.random.RandomState(seed)
    scores = 0.3 * random.randn(n * n)
    centre = np.mean([np.eye(n)[random.permutation(n)].ravel() for _ in range(3)], axis=0)
    factor = np.sqrt(size) * random.randn(n * n, columns)
    curvature = 0.0 if columns else size
    upper, lower, mu, nu, regret = solved(scores, centre, curvature, factor, 1e-10, n)
    moved = mu - centre
    slope = scores - nu / n - curvature * moved - factor @ (factor.T @ moved)
    # The largest of 86400 such games, relative to 1 + size: gain 1.1e-8, regret 1.1e-8.
    gain = best_weight(slope.reshape(n, n)) - slope @ mu
    assert gain <= 2e-8 * (1.0 + size)
    assert -1e-12 <= regret <= 2e-8
    assert regret == pytest.approx((best_weight(mu.reshape(n, n)) - mu @ nu) / n, abs=1e-12)
    assert lower - 1e-9 <= game_value(scores, n) <= upper + 1e-9


@pytest.mark.parametrize("accuracy", [10.0, 0.1, 1e-3])
def test_the_bracket_of_a_poor_answer_is_true(accuracy):
    n = 6
    for seed in range(20):
        scores = 0.3 * np.random.RandomState(seed).randn(n * n)
        upper, lower, *_ = solved(scores, np.zeros(n * n), 0.0, np.empty((n * n, 0)), accuracy, n)
        assert lower - 1e-9 <= game_value(scores, n) <= upper + 1e-9
        if accuracy < 1.0:
            assert upper - lower <= 2.0 * accuracy


# --- fits -----------------------------------------------------------------------------------


def of_rankings(M=3, tol=1e-6):
    X, positions, weights = test_rankings.problem_data(M)
    model = LabelRanker("max-min", alpha=test_rankings.ALPHA, tol=tol, random_state=0)
    problem = test_rankings.packed_problem(model, X, positions + 1, weights)
    return problem, lambda: test_rankings.optimum("max-min", X, positions, weights)


def of_matchings(tol=1e-6):
    X, y, weights = test_matchings.problem_data()
    model = Matcher("max-min", alpha=test_matchings.ALPHA, tol=tol, random_state=0)
    problem = test_rankings.packed_problem(model, X, y, weights)
    return problem, lambda: test_matchings.optimum("max-min", X, y, weights)


@pytest.mark.parametrize("make", [of_rankings, of_matchings])
def test_every_check_encloses_the_optimum_and_the_last_one_is_it(make):
    problem, optimum = make()
    wanted = optimum()
    climb = Climb(Interior(), problem, rng=np.random.RandomState(0))
    gaps = []
    for _ in range(40):
        [(weights, found)] = climb.check()
        assert found.dual <= wanted + 1e-8
        assert found.primal >= wanted - 1e-8
        # The dual point that is handed on has the value that was reported.
        again = problem.evaluate(
            weights, climb.dual_state, None, problem.weights_of(climb.dual_state)
        )
        assert again.dual == pytest.approx(found.dual, abs=1e-12)
        assert again.primal <= found.primal + 1e-9
        gaps.append(found.primal - found.dual)
        climb.advance(0.0, 1)
    assert gaps[-1] <= 1e-9
    assert gaps[0] > 1e-3


@pytest.mark.more
@pytest.mark.parametrize(("alpha", "M"), [(0.1, 5), (1e-3, 5), (1e-2, 6)])
def test_larger_rankings_agree_with_passes_over_the_blocks(alpha, M):
    X, positions, weights = test_rankings.problem_data(M, n=12, seed=2)
    fits = [
        LabelRanker("max-min", alpha=alpha, tol=tol, solver=solver, random_state=0, max_iter=20_000)
        .fit(X, positions + 1, sample_weight=weights)
        for solver, tol in (("accelerated", 1e-4), (Interior(), 1e-7))
    ]  # fmt: skip
    assert [fit.status_ for fit in fits] == ["converged", "converged"]
    passes, newton = fits
    assert passes.dual_ - 1e-10 <= newton.primal_ and newton.dual_ <= passes.primal_ + 1e-10
    assert newton.gap_ <= 1e-7 * newton.primal_
    assert newton.n_iter_ <= 60


def test_a_fit_that_rounding_stops_ends_there_and_says_so():
    X, positions, _ = test_rankings.problem_data(4, n=30)
    model = LabelRanker("max-min", alpha=1e-3, tol=1e-16, solver=Interior(), random_state=0)
    with pytest.warns(ConvergenceWarning, match="because of rounding errors"):
        model.fit(X, positions + 1)
    assert model.status_ == "stalled" and model.n_iter_ < 100 < model.max_iter
    # Where rounding stops it depends on the processor; it is chosen for tolerances of 1e-6.
    assert 0.0 <= model.gap_ <= 1e-6 * model.primal_


def test_small_tolerances_choose_newton_steps():
    X, positions, _ = test_rankings.problem_data()
    passes = {}
    for tol in (1e-2, 1e-5):
        model = LabelRanker("max-min", alpha=1e-3, tol=tol, random_state=0)
        problem = test_rankings.packed_problem(model, X, positions + 1)
        problem.tolerance = tol
        passes[tol] = make_solver("auto", problem)
    assert isinstance(passes[1e-2], Averaged)
    assert isinstance(passes[1e-5], Interior)
    problem.from_scratch = False  # an earlier fit is continued
    assert isinstance(make_solver("auto", problem), Averaged)


def test_what_it_is_not_made_for_is_refused():
    X, y = np.random.RandomState(0).randn(20, 3), np.arange(20) % 3
    with pytest.raises(ValueError, match="rankings or matchings"):
        MulticlassClassifier("max-min", solver=Interior()).fit(X, y)
    X, positions, _ = test_rankings.problem_data()
    for settings_ in ({"surrogate": "max-margin"}, {"kernel": "rbf"}):
        with pytest.raises(ValueError, match="rankings or matchings"):
            LabelRanker(**{"surrogate": "max-min", "solver": Interior(), **settings_}).fit(
                X, positions + 1
            )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_killed_fit_ends_as_if_nothing_had_happened(tmp_path):
    X, positions, _ = test_rankings.problem_data(4, n=30)

    def make():
        return LabelRanker("max-min", alpha=1e-3, tol=1e-7, random_state=0)

    whole = make().fit(X, positions + 1)
    resumed = killed_and_resumed(make, X, positions + 1, tmp_path / "c", [2, 4])
    assert numbers(resumed) == numbers(whole)

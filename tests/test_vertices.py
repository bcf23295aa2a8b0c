"""Frank-Wolfe steps towards half-integral vertices: against linear programs and soft agreement."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from maxmargin import Accelerated, MultiLabelClassifier, VertexFrankWolfe, load, save
from maxmargin._dual_checks import check_dual
from maxmargin.features.rows import pack_rows
from maxmargin.graphs.label_graph import all_pairs, label_graphs
from maxmargin.graphs.problem import GraphProblem
from maxmargin.graphs.soft import SoftAgreement
from maxmargin.graphs.vertices import relaxed_primal
from maxmargin.solvers.auto import make_solver
from maxmargin.solvers.climb import Climb
from maxmargin.solvers.loop import run

N_LABELS = 5

pytestmark = pytest.mark.more  # 13 s from an empty cache


def data(n=30, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 4))
    Y = (X @ rng.normal(size=(4, N_LABELS)) + rng.normal(size=(n, N_LABELS)) > 0.3).astype(int)
    return X, Y


def make(alpha=0.1, n=30, seed=0, weighted=True):
    X, Y = data(n, seed)
    rng = np.random.RandomState(seed + 1)
    weights = rng.randint(0, 3, n).astype(float) if weighted else np.ones(n)
    costs = rng.uniform(0.5, 2.0, n * N_LABELS) if weighted else np.ones(n * N_LABELS)
    graphs = label_graphs(all_pairs(N_LABELS), N_LABELS, n, "both-on")
    return GraphProblem(
        graphs, pack_rows(X, fit_intercept=True), np.ones((1, 1)), Y.ravel(), costs, alpha=alpha,
        sample_weight=weights,
    )  # fmt: skip


def climb(problem, solver=None, start=None):
    solver = solver or VertexFrankWolfe()
    return Climb(solver, problem, rng=np.random.RandomState(0), start=start)


def naive_primal(problem, weights):
    """The objective by one linear program per example, written without the library's kernels."""
    n, k = problem.n_examples, N_LABELS
    unary, factor = problem.split(weights)
    X = np.column_stack([problem.rows.values, np.ones(n)])
    truth, costs = problem.truth.reshape(n, k), problem.costs.reshape(n, k)
    pairs = all_pairs(k)
    A, b = [], []
    for p, (i, j) in enumerate(pairs):
        for signs, bound in (((-1, 0, 1), 0), ((0, -1, 1), 0), ((1, 1, -1), 1)):
            row = np.zeros(k + len(pairs))
            row[[i, j, k + p]] = signs
            A.append(row)
            b.append(bound)
    total = 0.0
    for m in range(n):
        y, plain = truth[m], X[m] @ unary
        scores = np.concatenate([plain + costs[m] * (1 - 2 * y), factor[0]])
        found = linprog(-scores, np.array(A), b, bounds=(0.0, 1.0))
        both = y[pairs[:, 0]] * y[pairs[:, 1]]
        loss = -found.fun + costs[m] @ y - plain @ y - factor[0] @ both
        total += problem.sample_weight[m] * loss
    return 0.5 * problem.alpha * weights @ weights + total / problem.total_weight


@pytest.mark.parametrize("seed", range(3))
def test_primal_values_are_those_of_linear_programs(seed):
    problem = make(seed=seed)
    weights = 2.0 * np.random.RandomState(seed).normal(size=problem.n_weights)
    assert relaxed_primal(problem, weights) == pytest.approx(naive_primal(problem, weights))


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("accelerated", [False, True])
def test_optimum_is_that_of_soft_agreement(alpha, accelerated):
    problem = make(alpha)
    solver = Accelerated(VertexFrankWolfe()) if accelerated else VertexFrankWolfe()
    found = run(climb(problem, solver), tol=2e-3, max_iter=20_000)
    other = run(climb(problem, Accelerated(SoftAgreement())), tol=1e-4, max_iter=20_000)
    assert found.status == other.status == "converged"
    assert found.dual <= other.primal and other.dual <= found.primal
    assert found.primal == pytest.approx(naive_primal(problem, found.weights))


def test_dual_point_stays_feasible_and_has_the_dual_value():
    problem = make(0.03)
    stepper = climb(problem)
    result = run(stepper, tol=0.0, max_iter=25)
    dual = stepper.dual_state
    check_dual(dual, problem)
    n = problem.n_examples
    truth, costs = problem.truth.reshape(n, -1), problem.costs.reshape(n, -1)
    first, second = all_pairs(N_LABELS).T
    X = np.column_stack([problem.rows.values, np.ones(n)])
    off = problem.scales[:, None] * (truth - dual.labels)
    pairs = problem.scales @ (truth[:, first] * truth[:, second] - dual.pairs)
    weights = np.concatenate([(X.T @ off).ravel(), pairs])
    np.testing.assert_allclose(stepper.weights, weights, atol=1e-10)
    losses = (costs * np.abs(truth - dual.labels)).sum(axis=1)
    value = problem.sample_weight @ losses / problem.total_weight
    value -= 0.5 * problem.alpha * weights @ weights
    assert result.dual == pytest.approx(value)


def test_dual_never_decreases():
    problem = make(0.03, n=60)
    stepper, before = climb(problem), 0.0
    for _ in range(40):
        stepper.advance(0.0, 15)
        now = stepper.check()[0][1].dual
        assert now >= before - 1e-12
        before = now


def test_steps_do_not_depend_on_how_they_are_divided():
    whole, parts = climb(make(0.05)), climb(make(0.05))
    for _ in range(4):
        whole.state = whole.solver.advance(whole.problem, whole.state, 30)
    while parts.oracle_calls < whole.oracle_calls:
        parts.state = parts.solver.advance(parts.problem, parts.state, 7)
    np.testing.assert_array_equal(whole.weights, parts.weights)
    np.testing.assert_array_equal(whole.state.mean_weights, parts.state.mean_weights)


def test_start_from_other_dual_points():
    problem = make(0.1)
    soft = climb(problem, Accelerated(SoftAgreement()))
    run(soft, tol=1e-4, max_iter=5000)
    for start in (soft.dual_state, run(climb(problem), tol=1e-3, max_iter=5000).dual_state):
        stepper = climb(problem, start=start)
        check_dual(stepper.state.dual, problem)
        first = stepper.check()[0][1]
        assert first.primal - first.dual < 0.1 * first.primal
    # Weights of a stronger regularisation are scaled: the dual value is not below zero.
    weak = climb(make(0.001), start=start)
    assert weak.check()[0][1].dual > 0.0
    check_dual(weak.state.dual, weak.problem)


def test_damaged_dual_points_are_refused():
    dual = climb(make()).dual_state
    dual.pairs[3, 2] = dual.labels[3].max() + 0.1
    with pytest.raises(ValueError, match="pairs must not be negative"):
        check_dual(dual, make())


def test_estimator_chooses_it_and_saves_its_dual(tmp_path):
    X, Y = data(80)
    model = MultiLabelClassifier(
        edges="full", interactions="both-on", alpha=0.1, tol=0.01, warm_start=True, random_state=0
    )
    model.fit(X, Y)
    assert type(model._dual[1]).__name__ == "PairMarginals" and model.gap_ <= 0.01 * model.primal_
    save(model, tmp_path / "model", dual=True)
    again = load(tmp_path / "model").fit(X, Y)
    # The best weights were an average, which is not saved: fewer passes, but not none.
    assert again.n_iter_ < model.n_iter_ and again.status_ == "converged"
    assert again.dual_ >= model.dual_ - 1e-9


def test_auto():
    assert type(make_solver("auto", make(1.0)).solver) is VertexFrankWolfe
    assert type(make_solver("auto", make(1e-3)).solver) is SoftAgreement  # strongly curved
    assert type(make_solver("soft", make(1.0)).solver) is SoftAgreement


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"interactions": "full", "edges": "full"}, "all pairs of labels"),
        ({"interactions": "both-on", "edges": "tree"}, "all pairs of labels"),
        ({"edges": "none"}, "all pairs of labels"),
        ({"interactions": "both-on", "edges": "full", "surrogate": "max-min"}, "max-margin"),
        ({"interactions": "both-on", "edges": "full", "kernel": "rbf"}, "linear"),
    ],
)
def test_what_it_cannot_train_is_refused_by_name(options, match):
    X, Y = data(20)
    with pytest.raises(ValueError, match=match):
        MultiLabelClassifier(solver=VertexFrankWolfe(), **options).fit(X, Y)


def test_parameters():
    with pytest.raises(ValueError, match='order="gap" needs the exact gap'):
        VertexFrankWolfe(order="gap").validate()
    with pytest.raises(ValueError, match="average"):
        VertexFrankWolfe(average=99).validate()

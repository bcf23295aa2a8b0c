"""Label sets with one weight per pair: the model of the soft-constraints paper."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import steppers
from graph_models import PlainModel, make_problem, random_graph, random_truth
from maxmargin import RBF, MultiLabelClassifier, load, save
from maxmargin.features.rows import pack_rows
from maxmargin.graphs.graph import BinaryGraphs, PairGraphs
from maxmargin.graphs.label_graph import all_pairs, label_graphs
from maxmargin.graphs.problem import GraphProblem
from realdata import load_npz

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(30, 3)
Y = (X @ RANDOM.randn(3, 4) + 0.5 * RANDOM.randn(30, 4) > 0.0).astype(int)


def paper_optimum(X, Y, alpha):
    """``min alpha/2 |w|^2 + 1/n sum_m max_mu`` over the local polytope, summed loss, no intercept.

    In the form of the paper's problem G: messages ``d`` of the presence of each end of a pair.
    """
    n, L = Y.shape
    first, second = all_pairs(L).T
    inputs = np.linalg.qr(X.T, mode="r").T  # the same inner products, n columns
    w, p = cp.Variable((inputs.shape[1], L)), cp.Variable(len(first))
    left, right = cp.Variable((n, len(first))), cp.Variable((n, len(first)))
    to_first, to_second = np.eye(L)[first], np.eye(L)[second]
    scores = inputs @ w
    messages = left @ to_first + right @ to_second
    variables = cp.maximum(1.0 * (Y == 1), scores + messages + 1.0 * (Y == 0))
    tables = cp.maximum(0.0, -left, -right, np.ones((n, 1)) @ p[None, :] - left - right)
    truth = cp.sum(cp.multiply(Y, scores)) + cp.sum((Y[:, first] * Y[:, second]) @ p)
    surrogate = (cp.sum(variables) + cp.sum(tables) - truth) / n
    penalty = 0.5 * alpha * (cp.sum_squares(w) + cp.sum_squares(p))
    problem = cp.Problem(cp.Minimize(penalty + surrogate))
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    return float(problem.value)


def test_the_paper_s_objective_on_yeast_against_a_convex_solver():
    data = load_npz("yeast")
    x, y = data["X"][:30].astype(float), data["Y"][:30].astype(int)
    expected = paper_optimum(x, y, 0.1)
    model = MultiLabelClassifier(
        edges="full", interactions="both-on", fit_intercept=False, alpha=0.1,
        class_weight=dict.fromkeys(range(14), 14.0), tol=1e-3, max_iter=2000, random_state=0,
    ).fit(x, y)  # fmt: skip
    assert model.status_ == "converged"
    assert model.dual_ <= expected + 1e-5 and expected <= model.primal_ + 1e-5
    assert model.coef_.size + len(model.edges_) == 1533
    weights = np.sum(model.coef_**2) + np.sum(model.interactions_**2)
    assert 0.0 < 0.05 * weights < model.primal_


def test_weights_scores_and_files(tmp_path):
    settings = {"edges": "full", "alpha": 0.02, "random_state": 0}
    model = MultiLabelClassifier(interactions="both-on", **settings).fit(X, Y)
    assert (model.interactions_[:, [0, 0, 1], [0, 1, 0]] == 0.0).all()
    assert (model.interactions_[:, 1, 1] != 0.0).any()
    every = np.array(np.meshgrid(*[[0, 1]] * 4, indexing="ij")).reshape(4, -1).T
    first, second = model.edges_.T
    pairs = every[:, first] * every[:, second] @ model.interactions_[:, 1, 1]
    values = (X @ model.coef_.T + model.intercept_) @ every.T + pairs
    assert (model.predict(X) == every[values.argmax(axis=1)]).all()
    # The objective at these weights, by enumeration, is at most the relaxed one.
    norm = np.sum(model.coef_**2) + np.sum(model.intercept_**2) + np.sum(model.interactions_**2)
    loss = (every[None] != Y[:, None]).mean(axis=2)
    truth = values[np.arange(30), Y @ [8, 4, 2, 1]]
    exact = 0.01 * norm + np.mean((values + loss).max(axis=1) - truth)
    assert model.dual_ - 1e-9 <= exact + model.gap_ and exact <= model.primal_ + 1e-9
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.interactions == "both-on" and (again.predict(X) == model.predict(X)).all()
    with pytest.raises(ValueError, match="interactions must be one of"):
        MultiLabelClassifier(interactions="both").fit(X, Y)


@pytest.mark.parametrize("max_min", [False, True])
def test_one_vector_per_label_against_a_convex_solver(max_min):
    problem = GraphProblem(
        label_graphs(all_pairs(4), 4, 6, "both-on"), pack_rows(X[:6], fit_intercept=True),
        np.ones((1, 1)), Y[:6].ravel(), np.full(24, 0.25), alpha=0.1,
        sample_weight=np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0]), max_min=max_min,
    )  # fmt: skip
    for kappa in (None, 0.5):
        truth, _ = PlainModel(problem).solve(kappa=kappa)
        options = {} if kappa is None else {"agreement": "soft", "rho": 1.0 / kappa}
        for steps in ("exact", "frank-wolfe"):
            stepper = steppers.soft(
                problem, rng=np.random.RandomState(0), steps=steps, order="permutation", **options
            )
            for _ in range(1500):
                stepper.advance(10.0, 6)
            found = [value for _, value in stepper.check()]
            primal, dual = min(v.primal for v in found), max(v.dual for v in found)
            accuracy = 1e-6 if steps == "exact" else 2e-3
            assert truth - 1e-7 <= primal <= truth + accuracy
            assert truth - accuracy <= dual <= truth + 1e-7


@pytest.mark.more
def test_kernels_and_hidden_entries():
    """A linear kernel is the linear model; hidden entries are completed."""
    settings = {"interactions": "both-on", "alpha": 0.1, "tol": 1e-4, "max_iter": 5000}
    linear = MultiLabelClassifier(random_state=0, **settings).fit(X, Y)
    kernel = MultiLabelClassifier(kernel="precomputed", random_state=0, **settings).fit(X @ X.T, Y)
    assert max(linear.dual_, kernel.dual_) <= min(linear.primal_, kernel.primal_) + 1e-9
    assert MultiLabelClassifier(kernel=RBF(gamma=0.5), **settings).fit(X, Y).score(X, Y) > 0.5
    some = Y.astype(float)
    some[::3, 1] = np.nan
    partly = MultiLabelClassifier(random_state=0, hidden=True, **settings).fit(X, some)
    assert partly.objective_ <= partly.primal_ + 1e-9


@pytest.mark.parametrize("kind", ["both on", "own ties", "potts"])
def test_binary_tables_have_the_optimum_of_tables_of_any_kind(kind):
    """Six edges: with and without what is known of binary pairs."""
    rng = np.random.RandomState(3)
    graphs = [random_graph(rng, kind=kind, n_variables=4) for _ in range(4)]
    truth = [random_truth(rng, graph) for graph in graphs]
    found = []
    for plain in (False, True):
        problem = make_problem(graphs, truth)
        if plain:
            none = np.zeros_like(problem.graphs.binary_pairs)
            problem.graphs = problem.graphs._replace(binary_pairs=none)
        stepper = steppers.soft(problem, rng=np.random.RandomState(0), order="permutation")
        assert isinstance(stepper.problem.graphs, PairGraphs if plain else BinaryGraphs)
        for _ in range(600):
            stepper.advance(10.0, 4)
        found.append(min(stepper.check(), key=lambda candidate: candidate[1].primal))
    (weights, one), (others, other) = found
    assert one.primal == pytest.approx(other.primal, abs=1e-6)
    assert one.dual == pytest.approx(other.dual, abs=1e-6)
    np.testing.assert_allclose(weights, others, atol=2e-3)

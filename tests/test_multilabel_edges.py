"""Labels that interact: the objective, the graphs, scikit-learn's interface, real data."""

from __future__ import annotations

import itertools
import pickle
import warnings
from contextlib import nullcontext

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import hamming_loss
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from marks import more
from maxmargin import (
    RBF,
    Accelerated,
    EarlyStopping,
    MultiLabelClassifier,
    SoftAgreement,
    datasets_made,
    load,
    save,
)
from maxmargin.graphs.factor_graph import FactorGraph
from maxmargin.graphs.label_graph import chow_liu_tree, label_graphs, mutual_information
from maxmargin.graphs.packing import pack_graphs, plan_layout
from maxmargin.solvers import acceleration
from realdata import load_npz
from samebits import assert_same

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(40, 3)
Y = (X @ RANDOM.randn(3, 4) + 0.5 * RANDOM.randn(40, 4) > 0.0).astype(int)
NAMES = ["ant", "bee", "cat", "dog"]
PAIRS = [(0, 1), (1, 2), (3, 2)]


def fitted(y=Y, x=X, weights=None, **settings):
    """A fit that may end before it has converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MultiLabelClassifier(**{"random_state": 0, **settings}).fit(x, y, weights)


# --- the graph ------------------------------------------------------------------------------


def test_graphs_over_labels_are_factor_graphs():
    graph = FactorGraph(np.zeros(3), 2, groups=range(4))
    for pair in PAIRS:
        graph.add_tables([pair], group=pair)
    expected, _ = pack_graphs([graph] * 5, plan_layout([graph]))
    found = label_graphs(np.array(PAIRS), 4, 5)
    for name, one, other in zip(found._fields, found, expected, strict=True):
        assert np.array_equal(one, other), name
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None), name


def test_the_tree_has_the_largest_mutual_information():
    weights = RANDOM.rand(40)
    found = mutual_information(Y, weights)
    share = weights / weights.sum()
    for i, j in itertools.combinations(range(4), 2):
        joint = np.array(
            [[share @ ((Y[:, i] == a) & (Y[:, j] == b)) for b in (0, 1)] for a in (0, 1)]
        )
        ratio = joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))
        expected = np.sum(joint * np.log(np.where(joint > 0, ratio, 1.0)))
        assert found[i, j] == pytest.approx(expected, abs=1e-12)
    pairs = list(itertools.combinations(range(4), 2))
    trees = [
        tree
        for tree in itertools.combinations(pairs, 3)
        if len({v for pair in tree for v in pair}) == 4  # three edges that reach all have no cycle
    ]
    best = max(trees, key=lambda tree: sum(found[pair] for pair in tree))
    assert {tuple(pair) for pair in chow_liu_tree(Y, weights).tolist()} == set(best)
    constant = np.ones((5, 3), int)
    assert chow_liu_tree(constant, np.ones(5)).tolist() == [[0, 1], [0, 2]]


def test_which_labels_interact():
    assert fitted(max_iter=1).edges_.tolist() == [
        list(p) for p in itertools.combinations(range(4), 2)
    ]
    assert len(fitted(edges="tree", max_iter=1).edges_) == 3
    named = fitted(edges=[("dog", "ant")], classes=NAMES, max_iter=1)
    assert named.edges_.tolist() == [[3, 0]] and named.interactions_.shape == (1, 2, 2)
    many = RANDOM.randint(0, 2, (40, 31))
    assert len(fitted(many, max_iter=1).edges_) == 30
    for separate in (fitted(edges=[]), fitted(edges="none"), fitted(surrogate="crf")):
        assert separate.edges_.shape == (0, 2) and separate.interactions_.shape == (0, 2, 2)
        assert separate.bounds_ == {}
    assert not len(fitted(Y[:, :1]).edges_)


# --- the objective --------------------------------------------------------------------------


def exact_optimum(edges, alpha, x, y, weights):
    """The max-margin problem by its definition, over all sets of labels."""
    n, L = y.shape
    every = np.array(list(itertools.product([0, 1], repeat=L)))
    inputs = np.hstack([x, np.ones((n, 1))])
    states = [cp.Variable((inputs.shape[1], L)) for _ in range(2)]
    tables = [cp.Variable(4) for _ in edges]
    total = 0.0
    for i in range(n):
        unary = [inputs[i] @ state for state in states]
        scores = []
        for z in [*every, y[i]]:
            score = sum(unary[z[k]][k] for k in range(L))
            score += sum(t[2 * z[a] + z[b]] for t, (a, b) in zip(tables, edges, strict=True))
            scores.append(score + np.mean(z != y[i]))
        total += weights[i] * (cp.max(cp.hstack(scores[:-1])) - scores[-1])
    penalty = sum(cp.sum_squares(part) for part in [*states, *tables])
    problem = cp.Problem(cp.Minimize(0.5 * alpha * penalty + total / weights.sum()))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def test_the_optimum_on_a_tree_is_exact():
    weights = 1.0 + np.arange(8.0) % 3
    x, y = X[:8], Y[:8]
    expected = exact_optimum(PAIRS, 0.1, x, y, weights)
    model = fitted(y, x, weights, edges=PAIRS, alpha=0.1, tol=1e-5, max_iter=5000)
    assert model.dual_ <= expected + 1e-6 and model.primal_ >= expected - 1e-6
    assert model.gap_ <= 1e-4 * expected
    assert model.bounds_["hard_gap"] == pytest.approx(model.gap_, abs=1e-12)


def test_scores_values_and_bounds():
    model = fitted(alpha=0.02)
    found = model.decode(X)
    every = np.array(list(itertools.product([0, 1], repeat=4)))
    scores = X @ model.coef_.T + model.intercept_
    first, second = model.edges_.T
    pairs = model.interactions_[np.arange(6), every[:, first], every[:, second]].sum(axis=1)
    values = scores @ (every - 0.5).T + pairs
    assert (found.labels == every[values.argmax(axis=1)]).all()
    np.testing.assert_allclose(found.values, values.max(axis=1), atol=1e-12)
    assert (found.bounds == found.values).all()
    assert (model.predict(X) == found.labels).all()
    for k in range(4):  # what the label adds, the others as predicted
        both = [found.labels.copy(), found.labels.copy()]
        both[0][:, k], both[1][:, k] = 0, 1
        at = [(labels * [8, 4, 2, 1]).sum(axis=1) for labels in both]
        gain = values[np.arange(40), at[1]] - values[np.arange(40), at[0]]
        np.testing.assert_allclose(model.decision_function(X)[:, k], gain, atol=1e-12)
    assert ((model.decision_function(X) > 0) == found.labels).all()
    separate = fitted(edges="none").decode(X)
    assert (separate.values == separate.bounds).all()


def test_max_min_and_soft_agreement():
    consistent = fitted(surrogate="max-min", alpha=0.05, tol=1e-3, max_iter=2000)
    assert consistent.status_ == "converged" and consistent.gap_ >= -1e-12
    soft = fitted(solver=Accelerated(SoftAgreement("soft", rho=0.5, order="active")), alpha=0.05)
    hard = fitted(alpha=0.05, tol=1e-3, max_iter=2000)
    assert soft.bounds_["rho"] == pytest.approx(0.5)
    assert soft.bounds_["soft_gap"] == pytest.approx(soft.gap_)
    # A soft problem is an upper bound on the hard one.
    assert soft.primal_ >= hard.dual_
    assert soft.bounds_["hard_dual"] <= hard.primal_ <= soft.bounds_["hard_primal"] + hard.gap_


# --- interface ------------------------------------------------------------------------------


def test_dense_is_sparse_and_weight_two_a_duplicate():
    settings = {"alpha": 0.1, "tol": 1e-4, "max_iter": 3000, "edges": PAIRS}
    dense, sparse = fitted(**settings), fitted(x=sp.csr_matrix(X), **settings)
    assert max(dense.dual_, sparse.dual_) <= min(dense.primal_, sparse.primal_) + 1e-12
    weights = 1.0 + (np.arange(40) < 10)
    twice = np.r_[np.arange(40), np.arange(10)]
    one, other = fitted(weights=weights, **settings), fitted(Y[twice], X[twice], **settings)
    assert one.alpha_ == other.alpha_
    assert max(one.dual_, other.dual_) <= min(one.primal_, other.primal_) + 1e-12
    assert one.gap_ < 2e-4 * one.primal_ and other.gap_ < 2e-4 * other.primal_


def test_names_clones_files_and_pickles(tmp_path):
    sets = [{NAMES[k] for k in np.flatnonzero(row)} for row in Y]
    model = clone(MultiLabelClassifier(edges=[("dog", "ant")], random_state=0, warm_start=True))
    model.set_params(max_iter=20, tol=0.0).fit(X, sets)
    assert model.interactions_.shape == (1, 2, 2)
    save(model, tmp_path / "model", dual=True)
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.predict(X) == model.predict(X)
        assert_same(again.bounds_, model.bounds_)
        assert_same(again._dual, model._dual)
    assert model.decode(X).labels == model.predict(X)


def test_one_by_one_is_the_batch():
    model = fitted(max_iter=20)
    batch = model.decode(X)
    for i in range(40):
        labels, values, bounds = model.decode(X[i : i + 1])
        assert (labels[0] == batch.labels[i]).all()
        # Products of matrices round differently than those of a row.
        assert values[0] == pytest.approx(batch.values[i], rel=1e-12)
        assert bounds[0] == pytest.approx(batch.bounds[i], rel=1e-12)


def test_warm_start_and_threads():
    model = fitted(warm_start=True, alpha=0.05, tol=1e-3, max_iter=2000)
    passes = model.n_iter_
    again = model.fit(X, Y)
    assert again.n_iter_ < passes
    one, two = fitted(n_jobs=1), fitted(n_jobs=2)
    assert_same(one.coef_, two.coef_)
    assert_same(one.decode(X), two.decode(X))


def test_searches_pipelines_and_early_stopping():
    pipeline = make_pipeline(StandardScaler(), MultiLabelClassifier(random_state=0, max_iter=20))
    grid = {"multilabelclassifier__edges": ["none", "tree", "full"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_score_ > 0.3
    model = fitted(early_stopping=EarlyStopping(validation_fraction=0.3), tol=0.0)
    assert model.status_ == "early_stopped"
    assert not hasattr(model, "predict_proba")
    assert model.predict_marginals(X).shape == (40, 4)


@pytest.mark.slow
def test_kernels():
    """The only labels a plane cannot separate: those of an exclusive or."""
    x = RANDOM.uniform(-1.0, 1.0, (60, 2))
    odd = (x[:, 0] * x[:, 1] > 0).astype(int)
    y = np.stack([odd, 1 - odd, x[:, 0] > 0], axis=1).astype(int)
    model = fitted(y, x, kernel=RBF(2.0), alpha=0.003)
    assert model.score(x, y) > 0.9 > fitted(y, x).score(x, y)


@pytest.mark.more
def test_a_precomputed_linear_kernel_is_linear():
    settings = {"alpha": 0.1, "tol": 1e-3, "max_iter": 2000, "edges": PAIRS}
    linear, dual = fitted(**settings), fitted(x=X @ X.T, kernel="precomputed", **settings)
    assert max(linear.dual_, dual.dual_) <= min(linear.primal_, dual.primal_) + 1e-12
    assert dual.status_ == linear.status_ == "converged"


# --- real data ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["yeast", more("scene")])
def test_defaults_get_more_sets_right_than_one_svm_a_label(name):
    data = load_npz(name)
    train = data["is_train"]
    inputs, labels = data["X"].astype(np.float64), data["Y"]
    model = fitted(labels[train], inputs[train])
    svms = OneVsRestClassifier(LinearSVC(random_state=0)).fit(inputs[train], labels[train])
    expected = svms.predict(inputs[~train])
    right = np.mean((expected == labels[~train]).all(axis=1))
    assert model.score(inputs[~train], labels[~train]) > right + 0.02
    found = model.decode(inputs[~train])
    assert hamming_loss(labels[~train], found.labels) < hamming_loss(labels[~train], expected)
    assert (found.values == found.bounds).mean() > 0.99


def test_sparse_news():
    data = load_npz("rcv1subset1")
    parts = data["X_data"].astype(np.float64), data["X_indices"], data["X_indptr"]
    inputs = sp.csr_matrix(parts, shape=tuple(data["X_shape"]))[:1000]
    labels = np.unpackbits(data["Y_packed"], axis=1)[:1000, data["top30"][:8]]
    model = fitted(labels[:600], inputs[:600], max_iter=40)
    svms = OneVsRestClassifier(LinearSVC(random_state=0)).fit(inputs[:600], labels[:600])
    right = np.mean((svms.predict(inputs[600:]) == labels[600:]).all(axis=1))
    assert model.score(inputs[600:], labels[600:]) > right - 0.02


@pytest.mark.parametrize("rule", [True, False])
def test_weak_regularisation_does_not_leave_the_dual_behind(rule, monkeypatch):
    """With the inertia of the start the weights of the dual point stay away from the iterate."""
    if not rule:
        monkeypatch.setattr(acceleration, "_MATTERS", np.inf)
    data = datasets_made.make_label_sets(300, random_state=0)
    model = MultiLabelClassifier(edges="full", alpha=1e-3, max_iter=600, random_state=0)
    with nullcontext() if rule else pytest.warns(ConvergenceWarning):
        model.fit(data.X, data.y)
    assert (model.gap_ <= 0.01 * model.primal_) == rule

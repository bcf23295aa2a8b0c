"""Hidden labels of nodes, cells and label sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import (
    Accelerated,
    GraphLabeler,
    GridLabeler,
    Hidden,
    MultiLabelClassifier,
    SoftAgreement,
    load,
    save,
)

pytestmark = pytest.mark.more

RANDOM = np.random.RandomState(0)
TREE = [(0, 1), (1, 2), (1, 3)]
CYCLE = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)]


def graphs(edges, n=14, n_labels=2, hidden=0.4):
    """Noisy graphs of four nodes whose labels mostly agree; some are hidden (-1)."""
    y = [np.where(RANDOM.rand(4) < 0.8, RANDOM.randint(n_labels), RANDOM.randint(n_labels, size=4))
         for _ in range(n)]  # fmt: skip
    X = [(np.eye(n_labels)[labels] + RANDOM.randn(4, n_labels), edges) for labels in y]
    marked = [np.where(RANDOM.rand(4) < hidden, -1, labels) for labels in y]
    for labels, truth in zip(marked, y, strict=True):
        labels[0] = truth[0]  # at least one is known
    return X, y, marked


X, Y, MARKED = graphs(TREE)
X3, Y3, MARKED3 = graphs(CYCLE)


def labeler(**settings):
    given = {"hidden": True, "alpha": 0.05, "tol": 1e-3, "max_iter": 400, "random_state": 0}
    return GraphLabeler(**{**given, **settings})


def score_of(model, graph, labels):
    features, edges = graph
    unary = features @ model.coef_.T + model.intercept_
    total = unary[np.arange(4), labels].sum()
    return total + sum(model.pairwise_coef_[0][labels[u], labels[v]] for u, v in edges)


def enumerated(model, X, marked):
    """The objective with exact maxima, over all labellings."""
    total = 0.0
    every = [np.array(labels) for labels in product(range(len(model.classes_)), repeat=4)]
    for graph, labels in zip(X, marked, strict=True):
        known = labels >= 0
        scores = np.array([score_of(model, graph, z) for z in every])
        loss = np.array([(z != labels)[known].sum() / 4 for z in every])
        agrees = np.array([(z == labels)[known].all() for z in every])
        total += (scores + loss).max() - scores[agrees].max()
    square = (model.coef_**2).sum() + (model.intercept_**2).sum() + (model.factor_coef_**2).sum()
    return 0.5 * model.alpha_ * square + total / len(X)


def test_nothing_hidden_is_ordinary_training():
    plain, same = labeler(hidden=False).fit(X, Y), labeler(hidden=Hidden(2)).fit(X, Y)
    assert same.coef_.tobytes() == plain.coef_.tobytes()
    assert same.factor_coef_.tobytes() == plain.factor_coef_.tobytes()
    assert not hasattr(same, "objective_")


def test_objective_on_trees_is_that_of_the_enumeration():
    model = labeler(hidden=Hidden(2), max_iter=5000).fit(X, MARKED)
    value = enumerated(model, X, MARKED)
    # What is reported is an upper bound, by no more than the gap.
    assert value <= model.objective_ + 1e-9 and model.objective_ <= value + model.gap_ + 1e-9
    assert model.status_ == "stationary" and model.unproven_completions_ == 0
    assert model.gap_ <= 1e-3 * model.primal_ + 1e-9
    assert len(model.start_objectives_) == 2


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_the_objective_never_rises_on_cycles(surrogate, tmp_path):
    model = labeler(surrogate=surrogate, tol=1e-2).fit(X3, MARKED3)
    falls = np.diff([found.objective for found in model.rounds_])
    assert len(model.rounds_) and (falls <= 0.0).all()
    assert model.objective_ == model.rounds_[-1].objective <= model.primal_
    if surrogate == "max-margin":  # relaxed: an upper bound on the exact objective
        assert enumerated(model, X3, MARKED3) <= model.objective_ + 1e-9
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").objective_ == model.objective_


def test_hidden_is_not_void():
    void = labeler(hidden=False, void=-1).fit(X, MARKED)
    hidden = labeler().fit(X, MARKED)
    both = labeler(void=-1).fit(X, MARKED)  # what is void is not hidden
    assert both.coef_.tobytes() == void.coef_.tobytes()
    assert np.abs(hidden.coef_ - void.coef_).max() > 1e-3
    known = [[None if label < 0 else int(label) for label in labels] for labels in MARKED]
    assert labeler().fit(X, known).coef_.tobytes() == hidden.coef_.tobytes()
    assert hidden.score(X, MARKED) == pytest.approx(void.score(X, MARKED), abs=0.2)
    mixed = [["?" if t == 3 else label for t, label in enumerate(row)] for row in known]
    assert labeler(void="?").fit(X, mixed).status_ == "stationary"


def test_cells_of_grids():
    y = [np.tile(RANDOM.randint(0, 2, (3, 1)), (1, 4)) for _ in range(4)]
    x = [labels[:, :, None] + 0.5 * RANDOM.randn(3, 4, 1) for labels in y]
    marked = [np.where(RANDOM.rand(3, 4) < 0.5, -1, labels) for labels in y]
    marked[0][0, 0] = y[0][0, 0]
    settings = {
        "pairwise": "potts", "hidden": True, "classes": [0, 1], "alpha": 3.0, "random_state": 0
    }  # fmt: skip
    model = GridLabeler(**settings, max_iter=200).fit(x, marked)
    assert model.status_ == "stationary" and model.score(x, y) > 0.7


def test_bad_nodes():
    with pytest.raises(ValueError, match="all nodes of the graphs that count are hidden or void"):
        labeler().fit(X, [[None] * 4 for _ in X])
    some = [[None] * 4, *[list(labels) for labels in Y[1:]]]
    with pytest.warns(UserWarning, match=r"1 graphs have hidden labels only \(indices 0\)"):
        labeler().fit(X, some)
    with pytest.raises(ValueError, match="all nodes of y are void or hidden"):
        labeler().fit(X, MARKED).score(X[:1], [[None] * 4])


# --- sets of labels -------------------------------------------------------------------------

L = 3
ROWS = RANDOM.randn(40, 4)
SETS = (ROWS @ RANDOM.randn(4, L) + 0.5 * RANDOM.randn(40, L) > 0).astype(int)
PARTIAL = np.where(RANDOM.rand(40, L) < 0.4, -1, SETS)
PARTIAL[:, 0] = SETS[:, 0]


def multilabel(surrogate="max-margin", **settings):
    given = {"hidden": True, "alpha": 0.05, "tol": 1e-8, "max_iter": 5000, "random_state": 0}
    return MultiLabelClassifier(surrogate, **{**given, **settings})


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min", "crf"])
def test_without_edges_hidden_entries_cost_nothing(surrogate):
    """Each label is a problem of its own, over the examples where it is known."""
    model = multilabel(surrogate, edges="none").fit(ROWS, PARTIAL)
    assert model.status_ == "converged"
    for k in range(L):
        known = PARTIAL[:, k] >= 0
        alpha = 0.05 * len(ROWS) / known.sum()
        # A loss of 1/L instead of 1 is the same problem with weights L times as large.
        scale = 1.0 if surrogate == "crf" else L
        alone = multilabel(surrogate, edges="none", alpha=alpha / scale)
        alone.fit(ROWS[known], PARTIAL[known, k : k + 1])
        # Strong convexity: |w - w*|^2 <= 2 gap / alpha, and coefficients are sqrt(2) times that.
        error = 2.0 * np.sqrt(model.gap_ / 0.05) + 2.0 * np.sqrt(alone.gap_ / alpha * scale)
        np.testing.assert_allclose(model.coef_[k], alone.coef_[0] / scale, atol=error + 1e-9)


def test_marks_of_hidden_entries():
    reference = multilabel(edges="none").fit(ROWS, PARTIAL)
    as_nan = np.where(PARTIAL < 0, np.nan, PARTIAL)
    as_none = PARTIAL.astype(object)
    as_none[PARTIAL < 0] = None
    masked = np.ma.masked_array(SETS, PARTIAL < 0)
    for y in (as_nan, as_none, masked, sp.csr_matrix(PARTIAL)):
        assert multilabel(edges="none").fit(ROWS, y).coef_.tobytes() == reference.coef_.tobytes()
    assert reference.score(ROWS, PARTIAL) >= reference.score(ROWS, SETS)
    plain = multilabel(edges="none", hidden=False).fit(ROWS, SETS)
    same = multilabel(edges="none").fit(ROWS, SETS)
    assert plain.coef_.tobytes() == same.coef_.tobytes()
    balanced = multilabel(edges="none", class_weight="balanced").fit(ROWS, PARTIAL)
    assert balanced.status_ == "converged"


@pytest.mark.parametrize("edges", ["full", "tree"])
def test_with_edges_the_objective_never_rises(edges):
    model = multilabel(edges=edges, tol=1e-3, max_iter=500).fit(ROWS, PARTIAL)
    assert model.status_ == "stationary" and model.unproven_completions_ == 0
    assert (np.diff([found.objective for found in model.rounds_]) <= 0.0).all()
    every = np.array(list(product((0, 1), repeat=L)))
    scores = ROWS @ model.coef_.T + model.intercept_
    total = 0.0
    for row, labels in zip(scores, PARTIAL, strict=True):
        values = (every - 0.5) @ row
        for (a, b), table in zip(model.edges_, model.interactions_, strict=True):
            values = values + table[every[:, a], every[:, b]]
        known = labels >= 0
        loss = (every != labels)[:, known].sum(axis=1) / L
        agrees = (every == labels)[:, known].all(axis=1)
        total += (values + loss).max() - values[agrees].max()
    square = 0.5 * (model.coef_**2).sum() + 0.5 * (model.intercept_**2).sum()
    square += (model.interactions_**2).sum()
    value = 0.5 * model.alpha_ * square + total / len(ROWS)
    # An upper bound; on a tree by no more than the gap.
    assert value <= model.objective_ + 1e-9
    if edges == "tree":
        assert model.objective_ <= value + model.gap_ + 1e-9


def test_bad_entries():
    with pytest.raises(ValueError, match="all entries of y are hidden"):
        multilabel().fit(ROWS, np.full((40, L), np.nan))
    with pytest.raises(ValueError, match=r"hidden entries \(-1\) and no 0"):
        multilabel().fit(ROWS, np.where(SETS == 1, 1, -1))
    with pytest.raises(ValueError, match="received 2 at row 3, column 1"):
        bad = PARTIAL.copy()
        bad[3, 1] = 2
        multilabel().fit(ROWS, bad)
    with pytest.raises(ValueError, match=r"pass the indicator matrix as numpy.array\(y\)"):
        multilabel().fit(ROWS, [[None, 1, 0]] * 40)
    some = PARTIAL.copy()
    some[4] = -1
    with pytest.warns(UserWarning, match=r"1 examples have hidden labels only \(indices 4\)"):
        multilabel(edges="none").fit(ROWS, some)


@pytest.mark.parametrize("edges", ["none", "full"])
def test_entries_known_at_prediction(edges):
    model = multilabel(edges=edges, hidden=False, tol=1e-2).fit(ROWS, SETS)
    partial = np.where(RANDOM.rand(40, L) < 0.5, 1 - SETS, -1)
    found = model.predict(ROWS, partial_y=partial)
    assert (found == partial)[partial >= 0].all()
    every = np.array(list(product((0, 1), repeat=L)))
    scores = ROWS @ model.coef_.T + model.intercept_
    for row, labels, chosen in zip(scores, partial, found, strict=True):
        values = (every - 0.5) @ row
        for (a, b), table in zip(model.edges_, model.interactions_, strict=True):
            values = values + table[every[:, a], every[:, b]]
        agrees = (every == labels)[:, labels >= 0].all(axis=1)
        best = values[agrees].max()
        assert values[(every == chosen).all(axis=1)][0] == pytest.approx(best, abs=1e-9)
    nothing = np.full((40, L), np.nan)
    assert (model.predict(ROWS, partial_y=nothing) == model.predict(ROWS)).all()
    with pytest.raises(ValueError, match=r"partial_y must have shape \(40, 3\)"):
        model.predict(ROWS, partial_y=partial[:3])
    with pytest.raises(ValueError, match="received 7 at row 0, column 0"):
        model.predict(ROWS, partial_y=np.where(partial == partial[0, 0], 7, partial))


# --- bounds_ ------------------------------------------------------------------------------------


def check_bounds(model):
    """Those of the last convex problem, whose dual value is that of the fit."""
    assert model.bounds_["hard_dual"] == pytest.approx(model.dual_, abs=1e-12)
    assert model.bounds_["hard_primal"] >= model.bounds_["hard_dual"] - 1e-12
    assert model.bounds_["hard_gap"] == model.bounds_["hard_primal"] - model.bounds_["hard_dual"]


def test_bounds_belong_to_the_last_fit_of_graphs():
    model = labeler(tol=0.01).fit(X3, MARKED3)
    assert model.status_ == "stationary"
    check_bounds(model)
    hidden = model.bounds_
    check_bounds(model.fit(X3, Y3))  # nothing is hidden
    assert model.bounds_["hard_dual"] != hidden["hard_dual"]
    model.set_params(solver=Accelerated(SoftAgreement("soft", rho=0.5))).fit(X3, Y3)
    assert model.bounds_["soft_gap"] == pytest.approx(model.gap_) and "soft_gap" not in hidden
    model.set_params(solver="auto").fit(X3, MARKED3)
    assert model.bounds_ == hidden  # the same fit as the first


def test_bounds_belong_to_the_last_fit_of_grids_and_label_sets():
    images = [np.kron(np.eye(2), np.ones((2, 2))) + 0.3 * RANDOM.randn(4, 4) for _ in range(4)]
    cells = [np.kron(np.eye(2, dtype=int), np.ones((2, 2), int)) for _ in images]
    cells[0][0, 0] = -1
    grid = GridLabeler(hidden=True, alpha=0.05, tol=0.01, max_iter=400, random_state=0)
    check_bounds(grid.fit(images, cells))
    features = RANDOM.randn(30, 2)
    sets = (features @ RANDOM.randn(2, 3) > 0).astype(int)
    some = sets.copy()
    some[::3, 0] = -1
    model = MultiLabelClassifier(
        edges="full", hidden=True, alpha=0.05, tol=0.01, max_iter=400, random_state=0
    )
    check_bounds(model.fit(features, some))
    assert model.set_params(edges="none").fit(features, sets).bounds_ == {}
    check_bounds(model.set_params(edges="full").fit(features, sets))

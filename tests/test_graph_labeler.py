"""Labels of graphs: agreement with chains, formats, void nodes, interface, factor graphs."""

from __future__ import annotations

import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from maxmargin import (
    EarlyStopping,
    FactorGraph,
    GraphLabeler,
    HammingLoss,
    SequenceLabeler,
    UnseenLabelWarning,
    load,
    save,
)
from realdata import load_npz
from samebits import assert_same

KINDS = np.array(["land", "marsh", "sea"])


def some_graphs(n=20, edge_features=0, seed=0):
    """Random graphs of different sizes; neighbours tend to be alike."""
    random = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        size = random.randint(3, 9)
        pairs = list(itertools.combinations(range(size), 2))
        chosen = random.permutation(len(pairs))[: random.randint(1, size + 2)]
        edges = np.array([pairs[e] for e in chosen])
        labels = random.randint(0, 3, size)
        for a, b in edges:
            labels[b] = labels[a]
        nodes = np.eye(3)[labels] + 0.8 * random.randn(size, 3)
        extra = (random.rand(len(edges), edge_features),) if edge_features else ()
        X.append((nodes, edges, *extra))
        y.append(KINDS[labels])
    return X, y


X, Y = some_graphs()


def fitted(x=X, y=Y, weights=None, **settings):
    """A fit that may end before it has converged."""
    more = {"node_weight": settings.pop("node_weight", None)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GraphLabeler(**{"random_state": 0, **settings}).fit(x, y, weights, **more)


def assert_same_optimum(one, other, tol=2e-3):
    """Both brackets hold the same number, and are narrow."""
    assert max(one.dual_, other.dual_) <= min(one.primal_, other.primal_) + 1e-9
    assert one.gap_ <= tol * one.primal_ and other.gap_ <= tol * other.primal_


NARROW = {"tol": 2e-3, "max_iter": 3000, "alpha": 0.1}


@pytest.mark.parametrize("surrogate", ["max-margin", "max-min"])
def test_a_chain_is_a_sequence(surrogate):
    random = np.random.RandomState(0)
    lengths = random.randint(1, 7, 12)
    x = [random.randn(t, 2) for t in lengths]
    y = [random.randint(0, 3, t) for t in lengths]
    chains = [(nodes, [(t, t + 1) for t in range(len(nodes) - 1)]) for nodes in x]
    model = fitted(chains, y, surrogate=surrogate, **NARROW)
    mean = HammingLoss(normalize=True)
    expected = SequenceLabeler(
        surrogate, loss=mean, boundary_weights=False, random_state=0, **NARROW
    )
    expected.fit(x, y)
    assert_same_optimum(model, expected)
    sizes = [(nodes**2).sum() + len(nodes) for nodes in x]
    assert fitted(chains, y, max_iter=1).alpha_ == pytest.approx(np.mean(sizes) / 5 / 12)
    found = model.decode(chains)
    assert (found.values == found.bounds).all()
    expected.transitions_ = model.pairwise_coef_[0]
    expected.weights_ = np.concatenate(
        [model.coef_.T.ravel(), model.intercept_, model.pairwise_coef_.ravel()]
    )
    for one, other in zip(expected.predict(x), found.labels, strict=True):
        assert (one == other).all()


def test_neighbours_help():
    model = fitted()
    assert model.classes_.tolist() == KINDS.tolist()
    assert model.coef_.shape == (3, 3) and model.pairwise_coef_.shape == (1, 3, 3)
    alone = fitted([(nodes, []) for nodes, _ in X])
    assert not alone.pairwise_coef_.any()
    other, truth = some_graphs(40, seed=1)
    assert model.score(other, truth) > alone.score(other, truth) + 0.05
    # Edges in prediction only: their weights are there, and zero.
    found = alone.predict(other)
    bare = alone.predict([(nodes, np.empty((0, 2))) for nodes, _ in other])
    assert all((one == two).all() for one, two in zip(found, bare, strict=True))


@pytest.mark.parametrize("pairwise", ["potts", "symmetric", "full"])
def test_tables(pairwise):
    x, y = some_graphs(10, edge_features=2)
    model = fitted(x, y, pairwise=pairwise, max_iter=20)
    tables = model.pairwise_coef_
    assert tables.shape == (3, 3, 3) and model.n_edge_features_ == 2
    if pairwise != "full":
        assert (tables == tables.transpose(0, 2, 1)).all()
    if pairwise == "potts":
        assert (tables[:, ~np.eye(3, dtype=bool)] == 0).all()
    n_weights = {"potts": 1, "symmetric": 6, "full": 9}[pairwise]
    assert model.factor_coef_.shape == (3, n_weights)
    found = model.decode(x)
    codes = [np.searchsorted(KINDS, labels) for labels in found.labels]
    for (nodes, edges, features), labels, value in zip(x, codes, found.values, strict=True):
        scores = nodes @ model.coef_.T + model.intercept_
        total = scores[np.arange(len(nodes)), labels].sum()
        for (a, b), given in zip(edges, features, strict=True):
            total += (tables[0] + np.tensordot(given, tables[1:], 1))[labels[a], labels[b]]
        assert value == pytest.approx(total, abs=1e-9)
    assert (found.bounds >= found.values - 1e-9).all()


def test_the_order_of_an_edge_matters_only_for_full_tables():
    turned = [(nodes, np.asarray(edges)[:, ::-1]) for nodes, edges in X]
    for pairwise in ("potts", "symmetric"):
        one, other = (
            fitted(pairwise=pairwise, **NARROW),
            fitted(turned, pairwise=pairwise, **NARROW),
        )
        assert_same_optimum(one, other)
        for a, b in zip(one.predict(X), one.predict(turned), strict=True):
            assert (a == b).all()


# --- the same problem in two guises ---------------------------------------------------------


def test_dense_is_sparse_and_weight_two_a_duplicate():
    sparse = [(sp.csr_matrix(nodes), edges) for nodes, edges in X]
    one, other = fitted(**NARROW), fitted(sparse, **NARROW)
    assert_same_optimum(one, other)
    assert all((a == b).all() for a, b in zip(one.predict(X), one.predict(sparse), strict=True))
    weights = 1.0 + (np.arange(20) < 5)
    one, other = fitted(weights=weights, **NARROW), fitted(X + X[:5], [*Y, *Y[:5]], **NARROW)
    assert_same_optimum(one, other)
    weights[7] = 0.0
    left = [*range(7), *range(8, 20), *range(5)]
    one = fitted(weights=weights, **NARROW)
    other = fitted([X[i] for i in left], [Y[i] for i in left], **NARROW)
    assert_same_optimum(one, other)


def test_void_nodes_are_left_out():
    bare, full, labels = [], [], []
    for i, ((nodes, edges), names) in enumerate(zip(X, Y, strict=True)):
        bare.append((nodes, edges))
        size = len(nodes)
        extra = np.array([[0, size], [size, 1]]) if i % 2 else np.empty((0, 2), int)
        full.append((np.vstack([nodes, 100.0 * np.ones(3)]), np.vstack([edges, extra])))
        labels.append([*names.tolist(), "?"])
    full.append((np.ones((2, 3)), [(0, 1)]))
    labels.append(["?", "?"])
    one, other = fitted(bare, **NARROW), fitted(full, labels, void="?", **NARROW)
    assert other.classes_.tolist() == KINDS.tolist()
    assert_same(one.coef_, other.coef_)
    assert_same(one.primal_, other.primal_)
    assert len(other.predict(full)[0]) == len(full[0][0])
    assert other.score(full[:20:2], labels[:20:2]) == one.score(X[::2], Y[::2])


def test_weights_of_classes_and_nodes():
    costs = {"land": 0.5, "sea": 2.0}
    weights = [np.array([costs.get(label, 1.0) for label in labels]) for labels in Y]
    one = fitted(class_weight=costs, max_iter=10)
    other = fitted(node_weight=weights, max_iter=10)
    assert_same(one.coef_, other.coef_)
    assert fitted(class_weight="balanced", max_iter=10).primal_ != fitted(max_iter=10).primal_


# --- interface ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kinds", [[3, -1, 7], [("a", 1), ("a", 2), ("b",)], ["x", None, 1]], ids=["int", "tuple", "mix"]
)
def test_any_hashable_labels(kinds):
    codes = [np.searchsorted(KINDS, labels) for labels in Y]
    y = [[kinds[code] for code in labels] for labels in codes]
    model = fitted(y=y, classes=kinds, max_iter=10)
    expected = fitted(max_iter=10)
    for one, other in zip(model.predict(X), expected.predict(X), strict=True):
        assert one.tolist() == [kinds[code] for code in np.searchsorted(KINDS, other)]


def test_one_by_one_is_the_batch():
    model = fitted()
    batch = model.decode(X)
    for i, x in enumerate(X):
        found = model.decode([x])
        assert_same(found.labels[0], batch.labels[i])
        # Products of matrices round differently than those of a part of them.
        assert found.values[0] == pytest.approx(batch.values[i], rel=1e-12)
        assert found.bounds[0] == pytest.approx(batch.bounds[i], rel=1e-12)


def test_known_labels_stay():
    model = fitted()
    free = model.predict(X)
    partial = [None, *([None] * (len(labels) - 1) + ["marsh"] for labels in Y[1:])]
    found = model.decode(X, partial_y=partial)
    assert all(labels[-1] == "marsh" for labels in found.labels[1:])
    assert (found.labels[0] == free[0]).all()
    assert (found.values <= model.decode(X).bounds + 1e-9).all()
    for i, (nodes, _) in enumerate(X[1:6], start=1):  # the best of all that keep it
        if len(nodes) > 6:
            continue
        every = [list(z) for z in itertools.product(KINDS, repeat=len(nodes)) if z[-1] == "marsh"]
        values = [model.decode([X[i]], partial_y=[z]).values[0] for z in every[:: len(every) // 9]]
        assert found.bounds[i] >= max(values) - 1e-9


def test_clones_searches_files_and_warm_starts(tmp_path):
    model = clone(GraphLabeler(random_state=0, warm_start=True, alpha=0.1, tol=2e-3, max_iter=3000))
    model.fit(X, Y)
    passes = model.n_iter_
    save(model, tmp_path / "model", dual=True)
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_same(again.decode(X), model.decode(X))
        assert_same(again.bounds_, model.bounds_)
        assert_same(again.layout_, model.layout_)
        assert again.fit(X, Y).n_iter_ < passes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(
            GraphLabeler(random_state=0, max_iter=5), {"pairwise": ["potts", "full"]}, cv=2,
            error_score="raise",
        ).fit(X, Y)  # fmt: skip
    assert search.best_score_ > 0.6
    stopped = fitted(early_stopping=EarlyStopping(validation_fraction=0.3), tol=0.0)
    assert stopped.status_ == "early_stopped"


def test_scores():
    model = fitted()
    found = np.concatenate(model.predict(X)) == np.concatenate(Y)
    assert model.score(X, Y) == pytest.approx(found.mean())
    weights = np.arange(1.0, 21.0)
    sizes = [len(labels) for labels in Y]
    expected = np.average(found, weights=np.repeat(weights, sizes))
    assert model.score(X, Y, weights) == pytest.approx(expected)
    with pytest.warns(UnseenLabelWarning, match="'sky'"):
        assert model.score(X[:1], [["sky"] * sizes[0]]) == 0.0
    with pytest.raises(ValueError, match="X has 2 node features, but GraphLabeler was fitted with"):
        model.predict([(np.ones((2, 2)), [])])
    with pytest.raises(ValueError, match=r"X\[0\] has 1 features of factors \(edges\), but"):
        model.predict([(np.ones((2, 3)), [(0, 1)], [[1.0]])])


# --- factor graphs --------------------------------------------------------------------------


def test_factor_graphs_are_graphs():
    graphs = [FactorGraph(nodes, 3).add_tables(edges) for nodes, edges in X]
    one, other = fitted(graphs, max_iter=10), fitted(max_iter=10)
    assert_same(one.coef_, other.coef_)
    assert_same(one.factor_coef_, other.factor_coef_)
    assert not hasattr(one, "pairwise_coef_")
    assert_same(one.predict(graphs), other.predict(X))
    with pytest.raises(ValueError, match=r"factors of group 'triple', which the model was not"):
        one.predict([FactorGraph(np.ones((3, 3)), 3).add_tables([(0, 1, 2)], group="triple")])


def test_triples_and_counts():
    """One of three nodes is marked: what only a count, or a table over all, can know."""
    random = np.random.RandomState(0)
    X, y = [], []
    for _ in range(40):
        marked = random.randint(3)
        nodes = random.randn(3, 1)
        nodes[marked] += 1.0
        X.append(nodes)
        y.append([int(v == marked) for v in range(3)])
    counted = [FactorGraph(x, 2).add_count([0, 1, 2], at_least=1, at_most=1) for x in X]
    model = fitted(counted, y)
    assert all(labels.sum() == 1 for labels in model.predict(counted))
    likeliest = np.array([x[:, 0].argmax() for x in X])
    assert (np.array([labels.argmax() for labels in model.predict(counted)]) == likeliest).all()
    triples = [FactorGraph(x, 2).add_tables([(0, 1, 2)], group="all") for x in X]
    table = fitted(triples, y, alpha=0.01)
    assert table.factor_coef_.shape == (1, 8)
    assert np.mean([labels.sum() == 1 for labels in table.predict(triples)]) > 0.9
    alone = fitted([(x, []) for x in X], y, alpha=0.01)
    assert table.score(triples, y) > alone.score([(x, []) for x in X], y)


def marked(n, seed=0, size=4):
    """Graphs of which exactly one node is marked, and their labels."""
    random = np.random.RandomState(seed)
    y = np.eye(size, dtype=int)[random.randint(size, size=n)]
    x = [4.0 * labels[:, None] - 2.0 + 0.1 * random.randn(size, 1) for labels in y]
    graphs = [FactorGraph(nodes, 2).add_count(range(size), at_least=1, at_most=1) for nodes in x]
    return graphs, list(y)


def test_known_labels_stay_against_counts():
    graphs, y = marked(6)
    model = fitted(graphs, y, max_iter=5)
    nodes = np.array([[20.0], [-20.0], [-20.0], [-20.0]])
    strong = FactorGraph(nodes, 2).add_count(range(4), at_least=1, at_most=1)
    assert model.predict([strong])[0].tolist() == [1, 0, 0, 0]
    found = model.decode([graphs[0], strong], partial_y=[None, [None, 1, None, None]])
    assert found.labels[1].tolist() == [0, 1, 0, 0]
    assert found.values[1] == found.bounds[1]
    nothing = [None, [0, 0, 0, 0]]
    message = r"partial_y\[1\] breaks a count of X\[1\]: expected 1 of the nodes \[0, 1, 2, 3\]"
    with pytest.raises(ValueError, match=message + r" to have the label 1, received 0\. Correct"):
        model.predict([strong, strong], partial_y=nothing)
    twice = [[1, None, None, 1]]
    with pytest.raises(ValueError, match=r"partial_y\[0\] breaks .* received 2 to 4"):
        model.predict([strong], partial_y=twice)
    # Each count could be met, but not all together.
    rows = FactorGraph(nodes, 2).add_count([0, 1], at_least=1, at_most=1)
    rows.add_count([1, 2], at_least=1, at_most=1)
    with pytest.raises(
        ValueError, match=r"partial_y\[0\] with the other counts breaks .* \[1, 2\]"
    ):
        model.predict([rows], partial_y=[[0, None, 1, None]])
    rows.add_count([0, 2], at_least=1, at_most=1)
    with pytest.raises(ValueError, match=r"no labels were found .* partial_y\[0\] and all counts"):
        model.predict([rows], partial_y=[[None, None, None, 1]])


@pytest.mark.more
def test_known_labels_stay_in_permutations():
    size = 4
    graphs, y = marked(6)
    model = fitted(graphs, y, max_iter=5)
    random = np.random.RandomState(1)
    cells = np.arange(size * size).reshape(size, size)
    for _ in range(5):
        nodes = 10.0 * random.randn(size * size, 1)
        grid = FactorGraph(nodes, 2)
        for line in (*cells, *cells.T):
            grid.add_count(line, at_least=1, at_most=1)
        wanted = random.randint(size, size=2)
        partial = np.full((size, size), None)
        partial[tuple(wanted)] = 1
        found = model.predict([grid], partial_y=[partial.ravel().tolist()])[0].reshape(size, size)
        assert found[tuple(wanted)] == 1
        assert (found.sum(axis=0) == 1).all() and (found.sum(axis=1) == 1).all()


def test_known_labels_stay_in_trees():
    """A leaf that is known against the will of all others, through tables of equal labels."""
    edges = [(0, leaf) for leaf in range(1, 7)]
    random = np.random.RandomState(0)
    y = [np.full(7, k % 2) for k in range(6)]
    x = [labels[:, None] - 0.5 + 0.1 * random.randn(7, 1) for labels in y]
    model = fitted([FactorGraph(nodes, 2).add_tree(edges) for nodes in x], y, max_iter=5)
    model.coef_[:] = 0.0
    model.intercept_[:] = 0.0
    model.factor_coef_[:] = [[0.0, -5.0, 5.0, 0.0]]  # all push the centre to 1
    star = FactorGraph(np.zeros((7, 1)), 2).add_tree(edges)
    assert model.predict([star])[0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    found = model.decode([star, star], partial_y=[[0, *[None] * 6], None])
    assert found.labels[0][0] == 0 and found.values[0] == 0.0 == found.bounds[0]
    assert found.labels[1][0] == 1 and found.values[1] == 30.0


def test_groups_of_variables():
    nodes = np.array([[1.0], [-1.0], [2.0]])
    y = [[1, 0, 1], [0, 1, 1]]
    bare = [FactorGraph(nodes, 2).add_tables([(0, 1)]) for _ in y]
    named = [FactorGraph(nodes, 2, groups=["a"] * 3).add_tables([(0, 1)]) for _ in y]
    for labels, void in ((y, None), ([[1, 0, -1], y[1]], -1)):
        one = fitted(bare, labels, void=void, max_iter=5)
        other = fitted(named, labels, void=void, max_iter=5)
        assert_same(one.coef_, other.coef_)
        assert_same(one.predict(bare), other.predict(named))
    with pytest.raises(ValueError, match=r"X\[0\]: variable 0 is of group None.* knows \['a'\]"):
        other.predict(bare)
    # One variable with a row that it has for itself is a graph like others.
    single = FactorGraph([-1.0], [2])
    model = fitted([*bare, single], [*y, [0]], max_iter=5)
    as_row = fitted([*bare, FactorGraph([[-1.0]], 2)], [*y, [0]], max_iter=5)
    assert_same(model.coef_, as_row.coef_)
    assert_same(model.predict([single, bare[0]]), as_row.predict([single, bare[0]]))


# --- size and real data ---------------------------------------------------------------------


@pytest.mark.more
def test_a_hundred_thousand_nodes():
    random = np.random.RandomState(0)
    side = 320
    cells = np.arange(side * side).reshape(side, side)
    right = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    labels = np.kron(random.randint(0, 2, (10, 10)), np.ones((32, 32), int)).ravel()
    nodes = labels[:, None] + random.randn(side * side, 1)
    graph = (nodes, np.concatenate([right, down]))
    # A single graph is one visit a pass, and its cells share all weights: some passes are needed.
    model = fitted([graph], [labels], max_iter=20, pairwise="potts")
    assert model.score([graph], [labels]) > 0.9


def test_superpixels():
    data = load_npz("msrc21_superpixels")
    nodes = data["X"].astype(np.float64)
    nodes = (nodes - nodes.mean(axis=0)) / (nodes.std(axis=0) + 1e-9)
    starts, edge_starts = data["node_offsets"], data["edge_offsets"]

    def graphs(images):
        x, y = [], []
        for m in images:
            span = slice(starts[m], starts[m + 1])
            edges = data["edges"][edge_starts[m] : edge_starts[m + 1]].astype(int)
            x.append((nodes[span], edges))
            y.append(data["y"][span].astype(int))
        return x, y

    x, y = graphs(np.flatnonzero(data["split"] < 2)[::5])
    other, truth = graphs(np.flatnonzero(data["split"] == 2)[::5])
    model = fitted(x, y, void=21, max_iter=5)
    assert 21 not in model.classes_
    known = np.concatenate(y) < 21
    rows = np.concatenate([graph[0] for graph in x])[known]
    alone = LogisticRegression(max_iter=500).fit(rows, np.concatenate(y)[known])
    known = np.concatenate(truth) < 21
    rows = np.concatenate([graph[0] for graph in other])[known]
    expected = np.mean(alone.predict(rows) == np.concatenate(truth)[known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenLabelWarning)
        assert model.score(other, truth) > expected + 0.02

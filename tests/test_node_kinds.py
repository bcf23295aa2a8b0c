"""Graphs whose nodes are of different kinds, each with its own labels and weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maxmargin
from maxmargin import FactorGraph, GraphLabeler, MultiLabelClassifier

SKY, DRESS = ["clear", "cloudy", "rain"], ["coat", "shirt"]


def day(random, n_people=2):
    """The sky over some people: what they wear depends on it."""
    sky = random.randint(3)
    dress = (sky == 0) ^ (random.rand(n_people) < 0.1)
    features = random.randn(1 + n_people, 2)
    features[0, 0] += 2.0 * sky
    features[1:, 1] += dress
    graph = FactorGraph(
        features, [3] + [2] * n_people, groups=["sky"] + ["person"] * n_people
    ).add_tables([(0, 1 + p) for p in range(n_people)], group="wears")
    return graph, [SKY[sky], *(DRESS[int(d)] for d in dress)]


def days(n, seed=0):
    random = np.random.RandomState(seed)
    return [list(part) for part in zip(*(day(random, 1 + k % 3) for k in range(n)), strict=True)]


@pytest.fixture(scope="module")
def fitted():
    X, y = days(60)
    return GraphLabeler(random_state=0, tol=1e-3, max_iter=1000).fit(X, y), X, y


def score_of(model, graph, labels):
    """The score of some labels, written out."""
    total = 0.0
    states = []
    for v, (group, label) in enumerate(zip(graph.groups, labels, strict=True)):
        state = model.group_classes_[group].tolist().index(label)
        column = model.layout_.unary[group][0] + state
        total += model.coef_[column] @ graph.features[v] + model.intercept_[column]
        states.append(state)
    for block in graph.blocks:
        first = model.layout_.factor[block.kind, block.group][0]
        for a, b in block.variables:
            entry = states[a] * graph.n_states[b] + states[b]
            total += model.factor_coef_[0, first + entry]
    return total


def test_each_kind_has_its_labels(fitted):
    model, X, y = fitted
    assert model.classes_.tolist() == sorted(SKY + DRESS)
    assert {g: labels.tolist() for g, labels in model.group_classes_.items()} == {
        "sky": SKY,
        "person": DRESS,
    }
    assert model.coef_.shape == (5, 2)
    assert model.status_ == "converged"
    found = model.predict(X)
    assert all(labels[0] in SKY and set(labels[1:]) <= set(DRESS) for labels in found)
    assert model.score(X, y) == np.mean(np.concatenate(found) == np.concatenate(y))
    assert model.score(X, y) > 0.75


def test_decoding_against_enumeration(fitted):
    model, X, _ = fitted
    decoded = model.decode(X[:9])
    for graph, labels, value in zip(X, decoded.labels, decoded.values, strict=False):
        spaces = [model.group_classes_[group].tolist() for group in graph.groups]
        best = max(score_of(model, graph, z) for z in itertools.product(*spaces))
        assert value == pytest.approx(best, abs=1e-9)
        assert score_of(model, graph, labels.tolist()) == pytest.approx(best, abs=1e-9)


def test_known_labels_stay(fitted):
    model, X, y = fitted
    known = [[None] * graph.n_variables for graph in X]
    known[0] = ["rain", *known[0][1:]]
    known[1] = [None, "coat", *known[1][2:]]
    found = model.predict(X, partial_y=known)
    assert found[0][0] == "rain" and found[1][1] == "coat"
    with pytest.raises(ValueError, match=r"partial_y\[1\]\[0\] is 'coat'.*group 'sky'"):
        model.predict(X, partial_y=[None, ["coat", None, None], *[None] * (len(X) - 2)])


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, X, _ = fitted
    maxmargin.save(model, tmp_path / "days.mm")
    again = maxmargin.load(tmp_path / "days.mm").predict(X)
    for one, other in zip(model.predict(X), again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_kinds_with_the_same_labels_are_columns_of_their_own():
    """Weights of two kinds are those of one with the features of each in its own columns."""
    random = np.random.RandomState(3)
    split, wide, y = [], [], []
    for _ in range(25):
        features, kind = random.randn(4, 2), np.arange(4) % 2
        edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
        split.append(FactorGraph(features, 2, groups=kind.tolist()).add_tables(edges))
        columns = np.zeros((4, 2, 3))
        columns[np.arange(4), kind] = np.column_stack([features, np.ones(4)])
        wide.append(FactorGraph(columns.reshape(4, 6), 2).add_tables(edges))
        y.append((features[:, 0] * np.where(kind, 1, -1) + 0.5 * random.randn(4) > 0).astype(int))
    options = {"alpha": 0.1, "tol": 1e-5, "max_iter": 2000, "random_state": 0}
    one = GraphLabeler(**options).fit(split, y)
    other = GraphLabeler(fit_intercept=False, **options).fit(wide, y)
    assert one.dual_ <= other.primal_ and other.dual_ <= one.primal_
    assert one.primal_ == pytest.approx(other.primal_, rel=2e-5)
    assert one.group_classes_.keys() == {0, 1}


def test_labels_of_one_row_are_a_multilabel_classifier():
    random = np.random.RandomState(5)
    X = random.randn(50, 3)
    Y = (X @ random.randn(3, 3) + random.randn(50, 3) > 0).astype(int)
    pairs = list(itertools.combinations(range(3), 2))
    graphs = []
    for row in X:
        graph = FactorGraph(row, [2, 2, 2])
        for pair in pairs:
            graph.add_tables([pair], group=pair)
        graphs.append(graph)
    options = {"alpha": 0.1, "tol": 1e-5, "max_iter": 2000, "random_state": 0}
    one = GraphLabeler(**options).fit(graphs, list(Y))
    other = MultiLabelClassifier(edges="full", **options).fit(X, Y)
    assert one.primal_ == pytest.approx(other.primal_, rel=2e-5)
    share = np.mean(np.array(one.predict(graphs)) == other.predict(X))
    assert share > 0.97  # up to what nearly ties


def test_hidden_and_void_labels():
    X, y = days(40, seed=2)
    hidden = [[None if k % 4 == 1 and v else label for v, label in enumerate(labels)]
              for k, labels in enumerate(y)]  # fmt: skip
    hidden[0][0] = "?"
    model = GraphLabeler(void="?", hidden=True, random_state=0).fit(X, hidden)
    assert model.score(X, y) > 0.7
    assert set(model.group_classes_["person"]) == set(DRESS)


def test_a_kind_that_may_have_all_labels():
    """As many states as labels in all: labels need not occur in every kind."""
    graphs = [FactorGraph([[1.0], [2.0]], 2, groups=["a", "b"]).add_tables([(0, 1)])] * 3
    model = GraphLabeler(random_state=0).fit(graphs, [["x", "x"], ["y", "x"], ["y", "x"]])
    assert all(labels.tolist() == ["x", "y"] for labels in model.group_classes_.values())


def test_what_does_not_fit_is_refused():
    X, y = days(6)
    wrong = [list(labels) for labels in y]
    wrong[2][0] = "coat"
    with pytest.raises(ValueError, match=r"X\[0\]: variable 0 of group 'sky' has 3 states.* 4 cl"):
        GraphLabeler().fit(X, wrong)
    declared = {"sky": SKY, "person": DRESS}
    with pytest.raises(ValueError, match=r"y\[2\]\[0\] is 'coat'.*not among.*group 'sky'"):
        GraphLabeler(classes=declared).fit(X, wrong)
    with pytest.raises(ValueError, match="there are variables of group 'person'"):
        GraphLabeler(classes={"sky": SKY + DRESS}).fit(X, y)
    with pytest.raises(ValueError, match="empty dict"):
        GraphLabeler(classes={}).fit(X, y)
    with pytest.raises(ValueError, match=r"classes\['sky'\] must be a list of labels"):
        GraphLabeler(classes={"sky": "rain"}).fit(X, y)
    nobody = [FactorGraph(g.features, g.n_states, groups=["sky", *"p" * (len(labels) - 1)])
              for g, labels in zip(X, y, strict=True)]  # fmt: skip
    with pytest.raises(ValueError, match="no variable of group 'p' has a label in y"):
        GraphLabeler(void="?").fit(nobody, [[ls[0]] + ["?"] * (len(ls) - 1) for ls in y])
    model = GraphLabeler(classes=declared, random_state=0).fit(X, y)
    assert model.classes_.tolist() == SKY + DRESS
    other = FactorGraph([[0.0, 1.0]], [3], groups=["sea"])
    with pytest.raises(ValueError, match=r"X\[0\]: variable 0 is of group 'sea'.*\['sky', 'per"):
        model.predict([other])
    with pytest.raises(ValueError, match=r"variable 0 of group 'sky' has 2 states.*3 classes"):
        model.predict([FactorGraph([[0.0, 1.0]], [2], groups=["sky"])])

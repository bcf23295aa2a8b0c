"""Plots draw what the models hold, and say what they need."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from maxmargin import LatentPredictor, MulticlassClassifier, plot
from maxmargin.solvers.result import Check

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    matplotlib.pyplot.close("all")


def labels_of(texts) -> list[str]:
    return [text.get_text() for text in texts]


HISTORY = [Check(1.0, 0.1, 3.0, -np.inf, np.inf, 0.0, 1), Check(2.0, 0.4, 2.0, 1.5, 0.5, 0.0, 2)]


def fitted(**values):
    defaults = {"history_": HISTORY, "gap_": 0.5, "primal_": 2.0, "fit": None}
    return SimpleNamespace(**{**defaults, **values})


def test_convergence_draws_primal_and_dual():
    model = MulticlassClassifier(random_state=0)
    model.history_, model.gap_, model.primal_ = HISTORY, 0.5, 2.0
    ax = plot.convergence(model)
    primal, dual = ax.get_lines()
    assert primal.get_xydata().tolist() == [[1.0, 3.0], [2.0, 2.0]]
    assert dual.get_xydata().tolist() == [[2.0, 1.5]], "bounds that are minus infinity are left out"
    assert "25.00%" in ax.get_title()
    assert plot.convergence(model, over="seconds", ax=ax) is ax
    assert ax.get_lines()[-2].get_xdata().tolist() == [0.1, 0.4]


def test_convergence_of_latent_variables():
    model = LatentPredictor()
    model.history_, model.gap_, model.objective_ = HISTORY, np.nan, 2.0
    assert plot.convergence(model).get_title() == "LatentPredictor"


def test_convergence_refuses():
    model = MulticlassClassifier()
    with pytest.raises(ValueError, match="not fitted"):
        plot.convergence(model)
    model.history_ = []
    with pytest.raises(ValueError, match="history_ is empty"):
        plot.convergence(model)
    with pytest.raises(ValueError, match="'passes' or 'seconds'; received 'days'"):
        plot.convergence(model, over="days")


def test_strengths():
    model = MulticlassClassifier(random_state=0)
    with pytest.raises(TypeError, match='strengths needs a model fitted with alpha="cv"'):
        plot.strengths(model)
    model.cv_results_ = {
        "param_alpha": np.array([1.0, 0.1]), "mean_test_score": np.array([0.5, 0.75]),
        "std_test_score": np.array([0.1, 0.0]), "split0_test_score": np.array([0.6, 0.75]),
        "split1_test_score": np.array([0.4, 0.75]),
    }  # fmt: skip
    ax = plot.strengths(model)
    assert ax.get_lines()[0].get_ydata().tolist() == [0.5, 0.75]
    assert ax.get_lines()[1].get_xdata() == pytest.approx([0.1, 0.1])
    assert "chosen: 0.1" in labels_of(ax.get_legend().get_texts())


def test_transitions():
    allowed = np.array([[True, True], [False, True]])
    model = fitted(
        classes_=np.array(["B", "I"]), transitions_=np.array([[1.0, -2.0], [9.0, 0.5]]),
        allowed_transitions_=allowed,
    )  # fmt: skip
    ax = plot.transitions(model)
    shown = ax.images[0].get_array()
    assert np.isnan(shown.filled(np.nan)[1, 0])
    assert labels_of(ax.texts) == ["1.00", "-2.00", "0.50"]
    assert labels_of(ax.get_xticklabels()) == ["B", "I"]
    assert ax.images[0].get_clim() == (-2.0, 2.0), "zero is white"
    with pytest.raises(TypeError, match="received SimpleNamespace"):
        plot.transitions(SimpleNamespace())


def test_interactions_of_labels():
    table = np.array([[[1.0, 2.0], [3.0, 10.0]]])
    model = fitted(classes_=np.arange(3), edges_=np.array([[0, 2]]), interactions_=table)
    values = plot.interactions(model).images[0].get_array().filled(np.nan)
    assert values[0, 2] == values[2, 0] == 10 - 2 - 3 + 1
    assert np.isnan(values[0, 1])
    model.edges_ = np.empty((0, 2), int)
    with pytest.raises(ValueError, match="do not interact"):
        plot.interactions(model)


def test_interactions_of_grids():
    tables = np.arange(8.0).reshape(2, 2, 2)
    model = SimpleNamespace(best_estimator_=fitted(classes_=["a", "b"], pairwise_coef_=tables))
    assert plot.interactions(model, table=1).images[0].get_array().tolist() == tables[1].tolist()
    with pytest.raises(ValueError, match="from 0 to 1; received 2"):
        plot.interactions(model, table=2)
    with pytest.raises(TypeError, match="received SimpleNamespace"):
        plot.interactions(SimpleNamespace())


def test_tree():
    ax = plot.tree([2, 0, 2], ["the", "cat", "sleeps"])
    assert [t for t in labels_of(ax.texts) if t and t != "root"] == ["the", "cat", "sleeps"]
    for line, (head, word) in zip(ax.get_lines(), [(2, 1), (2, 3)], strict=True):
        x = line.get_xdata()
        assert abs(x[0] - head) < 0.1 and abs(x[-1] - word) < 1e-9
    assert "2" in labels_of(plot.tree([0, 1]).texts)


@pytest.mark.parametrize(
    ("heads", "words", "message"),
    [
        ([0, 5], None, r"heads\[1\] is 5; expected 0 .* from 1 to 2"),
        ([1, 0], None, r"heads\[0\] is 1"),
        ([0, 1], ["one"], "2 heads but 1 words"),
        ([0.5], None, "sequence of integers"),
        ([], None, "sequence of integers"),
    ],
)
def test_tree_refuses(heads, words, message):
    with pytest.raises(ValueError, match=message):
        plot.tree(heads, words)


def test_grid():
    y = np.array([["sea", "sea"], ["land", "sea"]])
    ax = plot.grid(y)
    image = ax.images[0].get_array()
    assert (image[0, 0] == image[1, 1]).all() and (image[0, 0] != image[1, 0]).any()
    assert labels_of(ax.get_legend().get_texts()) == ["land", "sea"]
    other = plot.grid(y[:1], classes=["land", "sea"]).images[0].get_array()
    assert (other[0, 0] == image[0, 0]).all(), "the same label, the same colour"
    with pytest.raises(ValueError, match=r"y\[1, 0\] is .*land.*not among the 1 classes"):
        plot.grid(y, classes=["sea"])
    with pytest.raises(ValueError, match=r"received shape \(3,\)"):
        plot.grid(["a", "b", "c"])


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it fails
    with pytest.raises(ImportError, match=r"Plotting needs matplotlib.*maxmargin\[plot\]"):
        plot.tree([0])


def test_reliability_draws_shares_that_are_right():
    model = MulticlassClassifier("crf", random_state=0)
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
    model.fit(X, y)
    ax = plot.reliability(model, X, y, n_bins=5)
    drawn = ax.get_lines()[1].get_xydata()
    shares = model.predict_marginals(X)
    sure, right = shares.max(axis=1), model.predict(X) == y
    for low in (0.4, 0.6, 0.8):
        inside = (sure >= low) & (sure < low + 0.2)
        if inside.any():
            point = sure[inside].mean(), right[inside].mean()
            assert np.isclose(drawn, point).all(axis=1).any()
    with pytest.raises(ValueError, match="y has 39 labels"):
        plot.reliability(model, X, y[:39])
    with pytest.raises(TypeError, match="predict_marginals"):
        plot.reliability(LatentPredictor(), X, y)

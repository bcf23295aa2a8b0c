"""Labels of the cells of grids: the same as graphs, and snakes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxmargin import GraphLabeler, GridLabeler, Neighbors, load, save
from maxmargin.estimators.grid import DIRECTIONS, grid_edges
from realdata import load_npz
from samebits import assert_same

RANDOM = np.random.RandomState(0)
SHAPES = [(3, 4), (1, 5), (4, 1), (1, 1), (5, 5)]
Y = [RANDOM.randint(0, 2, shape) for shape in SHAPES]
X = [labels[:, :, None] + RANDOM.randn(*labels.shape, 2) for labels in Y]


def fitted(x=X, y=Y, weights=None, model=GridLabeler, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model(**{"random_state": 0, "max_iter": 20, **settings}).fit(x, y, weights)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_edges_join_neighbours(direction):
    down, right = DIRECTIONS[direction]
    for height, width in SHAPES:
        found = {tuple(edge) for edge in grid_edges(height, width, direction).tolist()}
        expected = {
            (r * width + c, (r + down) * width + c + right)
            for r in range(height)
            for c in range(width)
            if r + down < height and 0 <= c + right < width
        }
        assert found == expected


@pytest.mark.parametrize("neighbors", [4, 8])
def test_a_grid_is_a_graph(neighbors):
    names = list(DIRECTIONS)[: neighbors // 2]
    graphs = [
        (x.reshape(-1, 2), np.concatenate([grid_edges(*x.shape[:2], name) for name in names]))
        for x in X
    ]
    grid = fitted(neighbors=Neighbors(neighbors, directions="shared"))
    graph = fitted(graphs, [labels.ravel() for labels in Y], model=GraphLabeler)
    assert_same(grid.coef_, graph.coef_)
    assert_same(grid.pairwise_coef_, graph.pairwise_coef_)
    for one, other, labels in zip(grid.predict(X), graph.predict(graphs), Y, strict=True):
        assert one.shape == labels.shape and (one.ravel() == other).all()
    assert grid.score(X, Y) == graph.score(graphs, [labels.ravel() for labels in Y])
    separate = fitted(neighbors=neighbors)
    assert separate.pairwise_coef_.shape == (neighbors // 2, 2, 2)


def test_directions_have_their_own_tables():
    """Rows are alike, columns alternate."""
    y = [np.tile(np.arange(6) % 2, (6, 1)) ^ (i % 2) for i in range(6)]
    x = [labels + RANDOM.randn(6, 6) for labels in y]
    model = fitted(x, y, alpha=0.1, max_iter=100)
    right, down = model.pairwise_coef_
    assert right[0, 1] + right[1, 0] > right[0, 0] + right[1, 1]
    assert down[0, 0] + down[1, 1] > down[0, 1] + down[1, 0]
    assert model.score(x, y) > 0.9


def test_formats_void_and_known_cells(tmp_path):
    names = np.array(["no", "yes"])
    lists = [names[labels].tolist() for labels in Y]
    lists[4][2][2] = "?"
    model = clone(GridLabeler(void="?", random_state=0, max_iter=20, tol=0.1)).fit(X, lists)
    assert model.classes_.tolist() == ["no", "yes"]
    partial = [None, None, None, [["yes"]], None]
    assert model.predict(X, partial_y=partial)[3].tolist() == [["yes"]]
    assert model.predict(X, partial_y=[None, None, None, [["no"]], None])[3].tolist() == [["no"]]
    save(model, tmp_path / "model")
    assert_same(load(tmp_path / "model").decode(X), model.decode(X))
    flat = fitted([x[:, :, 0] for x in X])
    assert flat.coef_.shape == (2, 1)
    weighted = GridLabeler(random_state=0, max_iter=20, tol=0.1)
    weighted.fit(X, Y, node_weight=[np.ones(labels.shape) for labels in Y])
    assert_same(weighted.coef_, GridLabeler(random_state=0, max_iter=20, tol=0.1).fit(X, Y).coef_)


def load_snakes():
    """Colours of a cell and its eight neighbours, and the place along the snake."""
    data = load_npz("snakes")
    _, colours = np.unique(data["rgb"], axis=0, return_inverse=True)
    X, y = [], []
    for i, (height, width) in enumerate(data["grid_shape"]):
        span = slice(data["offsets"][i], data["offsets"][i + 1])
        padded = np.zeros((height + 2, width + 2, 6))
        padded[..., 5] = 1.0  # outside
        padded[1:-1, 1:-1] = np.eye(6)[colours.ravel()[span].reshape(height, width)]
        around = [padded[r : r + height, c : c + width] for r in range(3) for c in range(3)]
        X.append(np.concatenate(around, axis=2))
        y.append(data["labels"][span].reshape(height, width).astype(int))
    return X, y, data["is_train"]


def test_snakes():
    X, y, train = load_snakes()
    x, truth = ([v for v, used in zip(part, train) if used] for part in (X, y))
    other, hidden = ([v for v, used in zip(part, train) if not used] for part in (X, y))
    model = fitted(x, truth, max_iter=30)
    found = np.concatenate([labels.ravel() for labels in model.predict(other)])
    expected = np.concatenate([labels.ravel() for labels in hidden])
    # By its colour alone, .758 of the cells are right, and .093 of those of the snake.
    assert np.mean(found == expected) > 0.86
    assert np.mean((found == expected)[expected > 0]) > 0.45

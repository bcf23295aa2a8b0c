"""Labels for the cells of grids, such as the pixels of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import has_length, is_array, is_list
from ..graphs.features import NodeGraph, check_widths, node_features, take_graphs
from ._base import with_parameters
from ._docs import documented
from .graph import GRAPH_DOCS, GraphLabeler
from .values import Neighbors

# Steps from a cell to its neighbours, in rows and columns, each pair of cells once.
DIRECTIONS = {"right": (0, 1), "down": (1, 0), "down-right": (1, 1), "down-left": (1, -1)}
_REMEDY = "pass a list with an array of shape (height, width, n_features) for each grid"


def grid_edges(height: int, width: int, direction: str) -> np.ndarray:
    """Pairs of cells that lie in one direction of each other, the upper or left one first."""
    down, right = DIRECTIONS[direction]
    cells = np.arange(height * width, dtype=np.int32).reshape(height, width)
    start = cells[: height - down, max(0, -right) : width - max(0, right)]
    end = cells[down:, max(0, right) : width - max(0, -right)]
    return np.stack([start.ravel(), end.ravel()], axis=1)


@documented(
    **{
        **GRAPH_DOCS,
        "alpha_note": """``s / (5 * total weight)``, where s is the mean over grids of the squared
        norms of their labelled cells, summed. The constant of an intercept is part of the norm, and
        squared norms above 20 count as 20.""",
        "class_weight_note": "Factor of the loss at a cell by its true label;",
        "rows": "cells",
        "where": "cells of all grids, one below the other,",
    }
)
@with_parameters
class GridLabeler(GraphLabeler):
    """Labels the cells of grids, such as the pixels of images.

    A :class:`~maxmargin.GraphLabeler` whose nodes are the cells, row by row, and whose edges join
    neighbours; the objective, the surrogates and the certificate are those given there.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min"}, default="max-margin"
        Max-min is the consistent correction of max-margin.
    neighbors : {4, 8} or Neighbors, default=4
        Whether neighbours are those to the right and below, or also those across a corner. Each
        direction has a table of its own; with ``Neighbors(4, directions="shared")`` all share one.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        What the tables look like: a weight for each ordered pair of labels (the left or upper cell
        first), for each unordered pair, or one for equal labels.
    void : hashable, optional
        The label in ``y`` of cells whose label is not known. In training they are left out
        together with their edges; in prediction they are cells like all others; scores do not
        count them. (A hidden cell is something else: it stays in the grid, and its neighbours
        see it.)
    %(hidden)s
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array of shape (n_classes, n_features)
        With ``kernel="linear"`` only.
    intercept_ : array of shape (n_classes,)
    pairwise_coef_ : array of shape (n_directions, n_classes, n_classes)
        Tables of right, down, and for 8 neighbours down-right and down-left; only one if they
        share it.
    factor_coef_ : array of shape (1, n_weights)
        The weights in these tables, each once.
    n_features_in_ : int
    %(kernel_attributes)s
    %(agreement_attributes)s
    %(attributes)s
    %(hidden_attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import GridLabeler
    >>> image = np.array([[-1.0, -0.8, 0.9], [-0.9, 0.2, 1.0], [-1.1, -0.7, 0.8]])
    >>> truth = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 1]])
    >>> GridLabeler(pairwise="potts", random_state=0).fit([image], [truth]).predict([image])[0]
    array([[0, 0, 1],
           [0, 0, 1],
           [0, 0, 1]])
    """

    neighbors: Any = 4

    _unit = "grid"
    _groups = ("all", *DIRECTIONS)

    def _check_graph_settings(self) -> None:
        super()._check_graph_settings()
        Neighbors.of(self.neighbors).validate()

    def _read(self, X: Any) -> list[NodeGraph]:
        listed = take_graphs(X, "grid", _REMEDY)
        graphs = [self._read_grid(x, i) for i, x in enumerate(listed)]
        check_widths(graphs)
        return graphs

    def _read_grid(self, x: Any, i: int) -> NodeGraph:
        try:
            cells = np.asarray(x)
        except ValueError:
            raise ValueError(f"X[{i}] has rows of different lengths; {_REMEDY}.") from None
        if cells.ndim not in (2, 3):
            raise ValueError(
                f"X[{i}] must have shape (height, width, n_features) or (height, width); received "
                f"shape {cells.shape}."
            )
        if cells.size == 0:
            raise ValueError(
                f"X[{i}] has no cells: its shape is {cells.shape}. Leave it out of X and y."
            )
        height, width = cells.shape[:2]
        rows = node_features(cells.reshape(height * width, -1), i)
        neighbors = Neighbors.of(self.neighbors)
        names = list(DIRECTIONS)[: 2 if neighbors.number == 4 else 4]
        edges = {name: grid_edges(height, width, name) for name in names}
        if neighbors.directions == "shared":
            edges = {"all": np.concatenate(list(edges.values()))}
        return NodeGraph(rows, height * width, edges, shape=(height, width))

    def _flat(self, values: Any, graphs: list[NodeGraph], name: str) -> Any:
        optional = name == "partial_y"
        if not is_list(values) or len(values) != len(graphs):
            return values  # refused with the reason where it is used
        flat: list[Any] = []
        for i, (entry, graph) in enumerate(zip(values, graphs, strict=True)):
            if entry is None and optional:
                flat.append(None)
                continue
            cells = entry if is_array(entry) else _as_cells(entry)
            if cells.shape != graph.shape:
                raise ValueError(
                    f"{name}[{i}] must have shape {graph.shape}, an entry for each cell of "
                    f"X[{i}]; received shape {cells.shape}."
                )
            flat.append(cells.ravel())
        return flat

    def _in_shape(self, values: np.ndarray, graphs: list[NodeGraph]) -> list[np.ndarray]:
        cells = super()._in_shape(values, graphs)
        return [part.reshape(graph.shape) for part, graph in zip(cells, graphs, strict=True)]


def _as_cells(rows: Any) -> np.ndarray:
    """A matrix of labels, whatever hashables they are."""
    if not is_list(rows) or not len(rows):
        return np.empty(0)
    widths = {len(row) if has_length(row) else -1 for row in rows}
    if len(widths) > 1 or -1 in widths:
        return np.empty((len(rows),))
    cells = np.empty((len(rows), widths.pop()), object)
    for r, row in enumerate(rows):
        for c, label in enumerate(row):
            cells[r, c] = label
    return cells

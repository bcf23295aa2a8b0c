"""Graphs given by features of nodes, edges between them, and features of edges."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._matrix_checks import check_rows_of_numbers, refuse_times_and_texts
from .._validation import (
    first_unusable,
    has_length,
    is_iterable,
    is_plain_list,
    take_examples,
    unusable,
)
from .factor_graph import FactorBlock, FactorGraph
from .graph import TABLE

EDGE = "edge"  # the group of the tables of all edges
_REMEDY = (
    "pass a list with a tuple (node_features, edges), a tuple (node_features, edges, "
    "edge_features) or a FactorGraph for each graph"
)


@dataclass
class NodeGraph:
    """One graph, checked: rows of features, and groups of edges with or without features."""

    features: Any
    n_nodes: int
    edges: dict[Any, np.ndarray] = field(default_factory=dict)
    edge_features: np.ndarray | None = None
    given: FactorGraph | None = None
    shape: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """Rows of features: one for all nodes, or one per node."""
        return self.features.shape[0]

    def factor_graph(self, n_states: int, tie: str, keep: np.ndarray | None = None) -> FactorGraph:
        """The factor graph over all nodes, or those in ``keep``; features are packed elsewhere."""
        if keep is not None and keep.all():
            keep = None
        if self.given is not None:
            return self.given if keep is None else induced(self.given, keep)
        n = self.n_nodes if keep is None else int(keep.sum())
        graph = FactorGraph(np.empty((n, 0)), n_states)
        for group, edges in self.edges.items():
            features = self.edge_features
            if keep is not None:
                inside = keep[edges].all(axis=1)
                edges = (np.cumsum(keep) - 1)[edges[inside]]
                features = None if features is None else features[inside]
            graph.add_tables(edges, features, group=group, tie=tie)
        return graph


def induced(graph: FactorGraph, keep: np.ndarray) -> FactorGraph:
    """The graph without some variables, and without the tables that contain them."""
    number = np.cumsum(keep) - 1
    groups = [group for group, kept in zip(graph.groups, keep, strict=True) if kept]
    smaller = FactorGraph(np.empty((len(groups), 0)), graph.n_states[keep], groups=groups)
    if graph.shared_row:
        smaller.shared_row = True
    for block in graph.blocks:
        inside = keep[block.variables].all(axis=1)
        if block.kind != TABLE and not inside.all():
            raise ValueError(
                "a count, chain or tree holds a void node, and cannot be left out of training in "
                "part; use tables, or label the node."
            )
        if inside.any():
            features = None if block.features is None else block.features[inside]
            smaller.blocks.append(
                block._replace(
                    variables=number[block.variables[inside]].astype(np.int32), features=features
                )
            )
    return smaller


# --- reading --------------------------------------------------------------------------------


def take_graphs(X: Any, unit: str = "graph", remedy: str = _REMEDY) -> list:
    """A non-empty list of graphs."""
    return take_examples(X, unit, remedy, single=(tuple, FactorGraph))


def read_graphs(X: Any) -> list[NodeGraph]:
    """Graphs of one kind, each checked, with features of one width."""
    listed = take_graphs(X)
    graphs = [_read_graph(x, i) for i, x in enumerate(listed)]
    kinds = [graph.given is not None for graph in graphs]
    if len(set(kinds)) > 1:
        i = kinds.index(not kinds[0])
        raise ValueError(
            f"X[{i}] is a {type(listed[i]).__name__}, X[0] a {type(listed[0]).__name__}; describe "
            "all graphs in one way."
        )
    check_widths(graphs)
    return _with_plain_groups(graphs)


def _with_plain_groups(graphs: list[NodeGraph]) -> list[NodeGraph]:
    """Treat the shared row of a single variable as its own, if other graphs have a row per node.

    Variables that share a row get numbers as groups where no groups were given.
    """
    numbered = [
        graph.given is not None and graph.given.shared_row and not graph.given.has_own_groups
        for graph in graphs
    ]
    alone = [n and graph.n_nodes == 1 for n, graph in zip(numbered, graphs, strict=True)]
    if not any(alone) or any(n and not a for n, a in zip(numbered, alone, strict=True)):
        return graphs
    for k, graph in enumerate(graphs):
        if alone[k]:
            given = copy(graph.given)
            assert given is not None
            given.groups = [None]
            graphs[k] = replace(graph, given=given)
    return graphs


def _read_graph(x: Any, i: int) -> NodeGraph:
    if isinstance(x, FactorGraph):
        return _read_factor_graph(x, i)
    if not is_plain_list(x) or len(x) not in (2, 3):
        found = f"{type(x).__name__} of length {len(x)}" if has_length(x) else repr(x)
        raise ValueError(f"X[{i}] must be a graph; received {found}; {_REMEDY}.")
    features = node_features(x[0], i)
    n = features.shape[0]
    edges = read_edges(x[1], n, i)
    edge_features = read_edge_features(x[2], len(edges), i) if len(x) == 3 else None
    return NodeGraph(features, n, {EDGE: edges}, edge_features)


def _read_factor_graph(graph: FactorGraph, i: int) -> NodeGraph:
    if not graph.n_variables:
        _refuse_empty(i)
    features = graph.features.reshape(1, -1) if graph.shared_row else graph.features
    return NodeGraph(node_features(features, i), graph.n_variables, given=graph)


def _refuse_empty(i: int) -> None:
    raise ValueError(
        f"X[{i}] has no nodes; every graph needs at least one. Leave it out of X and y."
    )


def node_features(x: Any, i: int) -> Any:
    """A matrix of numbers with a row for each node, as float64."""
    if sp.issparse(x):
        matrix = sp.csr_array(x)
        if matrix.dtype.kind not in "fiub":
            raise ValueError(f"X[{i}] must hold real numbers; received {matrix.dtype}.")
    else:
        refuse_times_and_texts(x, f"X[{i}]", "node")
        try:
            matrix = np.asarray(x)
            numbers = matrix.dtype.kind in "fiub"
            matrix = matrix if numbers else matrix.astype(np.float64)
        except (TypeError, ValueError):
            if is_iterable(x):
                check_rows_of_numbers(x, f"X[{i}]", "node")  # names the position, if it can
            raise ValueError(
                f"X[{i}] must hold node features as a matrix of real numbers; received "
                f"{type(x).__name__}."
            ) from None
    if matrix.shape[0] == 0 if matrix.ndim else False:
        _refuse_empty(i)
    if matrix.ndim != 2:
        raise ValueError(
            f"X[{i}] must have node features of shape (n_nodes, n_features); received shape "
            f"{matrix.shape}."
        )
    matrix = matrix.astype(np.float64, copy=False)
    values = matrix.data if sp.issparse(matrix) else matrix
    bad = first_unusable(values)
    if bad >= 0:
        if sp.issparse(matrix):
            node = int(np.searchsorted(matrix.indptr, bad, side="right") - 1)
            column = int(matrix.indices[bad])
        else:
            node, column = divmod(bad, matrix.shape[1])
        found = unusable(values.ravel()[bad])
        raise ValueError(
            f"X[{i}] contains {found} at node {node}, feature {column}; expected finite numbers. "
            "Impute, drop or scale it first."
        )
    return matrix


def read_edges(edges: Any, n: int, i: int) -> np.ndarray:
    """Pairs of different nodes of the graph, each pair once."""
    try:
        found = np.asarray(edges)
    except ValueError:
        found = np.empty(0, object)
    if found.dtype != object and found.size == 0:
        return np.empty((0, 2), np.int32)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise ValueError(
            f"X[{i}] must have edges as an integer array of shape (n_edges, 2), a pair of nodes "
            f"each; received {_described(edges, found)}."
        )
    outside = (found < 0) | (found >= n)
    if outside.any():
        e, end = np.argwhere(outside)[0]
        raise ValueError(
            f"X[{i}]: edge {e} = {tuple(found[e].tolist())} names node {found[e, end]}, but the "
            f"graph has nodes 0 to {n - 1}."
        )
    found = found.astype(np.int32)
    loops = np.flatnonzero(found[:, 0] == found[:, 1])
    if len(loops):
        e = int(loops[0])
        raise ValueError(
            f"X[{i}]: edge {e} joins node {found[e, 0]} with itself; remove self-loops (what a "
            "node has to say about itself belongs to its features)."
        )
    keys = found.min(axis=1).astype(np.int64) * n + found.max(axis=1)
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(again):
        first, second = (int(order[at]) for at in (again[0], again[0] + 1))
        raise ValueError(
            f"X[{i}]: edge {second} = {tuple(found[second].tolist())} joins the nodes of edge "
            f"{first} again; keep each pair once, in one direction, and put what differs into "
            "edge features."
        )
    return found


def _described(edges: Any, found: np.ndarray) -> str:
    if found.dtype == object:
        return f"a {type(edges).__name__} of pairs of different lengths or of no numbers"
    return f"an array of shape {found.shape} and type {found.dtype}"


def read_edge_features(features: Any, n_edges: int, i: int) -> np.ndarray | None:
    """A matrix of numbers with a row for each edge."""
    if features is None:
        return None
    refuse_times_and_texts(features, f"X[{i}]", "edge")
    try:
        found = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"X[{i}] must have edge features of shape ({n_edges}, n_edge_features), numbers and as "
            "many for every edge; received rows of different lengths or of no numbers."
        ) from None
    if n_edges == 0 and found.size == 0:
        return found if found.ndim == 2 else None
    if found.ndim != 2 or found.shape[0] != n_edges:
        raise ValueError(
            f"X[{i}] must have edge features of shape ({n_edges}, n_edge_features), a row for each "
            f"edge; received shape {found.shape}."
        )
    bad = first_unusable(found)
    if bad >= 0:
        e, column = divmod(bad, found.shape[1])
        raise ValueError(
            f"X[{i}] contains {unusable(found[e, column])} at edge {e}, edge feature {column}; "
            "expected finite numbers. Impute, drop or scale it first."
        )
    return found


def check_widths(graphs: Sequence[NodeGraph]) -> None:
    """Refuse graphs with different numbers of features of nodes, or of edges."""
    width = graphs[0].features.shape[1]
    for i, graph in enumerate(graphs):
        if graph.features.shape[1] != width:
            raise ValueError(
                f"X[{i}] has {graph.features.shape[1]} node features but X[0] has {width}; all "
                "graphs must have the same features in the same columns."
            )
    if width == 0:
        raise ValueError("X[0] has 0 node features; expected at least one column.")
    first: tuple[int, int] | None = None
    for i, graph in enumerate(graphs):
        p = edge_width(graph)
        if p is None:
            continue
        if first is not None and p != first[1]:
            raise ValueError(
                f"X[{i}] has {p} edge features but X[{first[0]}] has {first[1]}; expected as many "
                "everywhere."
            )
        first = first or (i, p)


def edge_width(graph: NodeGraph) -> int | None:
    """Number of edge features; None if there are no edges."""
    if graph.edge_features is not None:
        return graph.edge_features.shape[1]
    return 0 if any(len(edges) for edges in graph.edges.values()) else None


def stack_features(graphs: Sequence[NodeGraph]) -> Any:
    """Rows of all graphs, stacked: an array or a CSR matrix."""
    if any(sp.issparse(graph.features) for graph in graphs):
        return sp.csr_array(sp.vstack([sp.csr_array(graph.features) for graph in graphs]))
    if len(graphs) == 1:
        return graphs[0].features
    return np.concatenate([graph.features for graph in graphs])


def row_numbers(graphs: Sequence[NodeGraph]) -> np.ndarray:
    """Row of every node in the stacked features."""
    starts = np.cumsum([0, *(graph.n_rows for graph in graphs)])
    return np.concatenate(
        [
            starts[g] + (np.arange(graph.n_nodes) if graph.n_rows == graph.n_nodes else 0)
            + np.zeros(graph.n_nodes, np.int64)
            for g, graph in enumerate(graphs)
        ]
    )  # fmt: skip


# --- scores ---------------------------------------------------------------------------------


def block_scores(block: FactorBlock, layout: Any, coef: np.ndarray) -> np.ndarray:
    """Scores of the entries of the tables of one group, one row per factor."""
    first, _, n_tied = layout.factor[block.kind, block.group]
    columns = coef[:, first : first + n_tied]
    values = np.repeat(columns[:1], len(block.variables), axis=0)
    if block.features is not None:
        values = values + block.features @ columns[1:]
    # A tie of -1 is the last column: no weight.
    return np.concatenate([values, np.zeros((len(values), 1))], axis=1)[:, block.tie]


def node_starts(graphs: Sequence[NodeGraph]) -> np.ndarray:
    """Nodes ``indptr[i]`` to ``indptr[i+1]`` are those of graph i."""
    return np.cumsum([0, *(graph.n_nodes for graph in graphs)])

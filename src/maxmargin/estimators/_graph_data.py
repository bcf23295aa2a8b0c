"""Labelled graphs between the user and the solver: flat, encoded, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._labels import LabelCodes, place_in_sequences, plain
from .._validation import check_sample_weight
from ..graphs.factor_graph import FactorGraph, check_memory
from ..graphs.features import (
    NodeGraph,
    block_scores,
    edge_width,
    node_starts,
    row_numbers,
    stack_features,
)
from ..graphs.graph import COUNT, TREE, Graphs
from ..graphs.inference.decode import Decoded
from ..graphs.packing import Layout, plan_layout
from ..tasks.parts import check_lengths, flatten_labels
from ..tasks.unknown import find_hidden, is_void, warn_without_labels
from ._node_kinds import NodeKinds, all_labels
from ._sequence_data import encode_positions

# What the parts of an example are called.
PARTS = {"graph": "node", "grid": "cell"}
VOID = -1
HIDDEN = -2


class Parts(NamedTuple):
    """Graphs to train on: their nodes, and which rows of features these use."""

    graphs: list
    sizes: np.ndarray  # numbers of nodes
    nodes: np.ndarray
    rows: np.ndarray
    row_of_node: np.ndarray  # in ``rows``


@dataclass
class LabelledGraphs:
    """Graphs with the codes of their labels, VOID and HIDDEN where there is none, and weights."""

    graphs: list[NodeGraph]
    indptr: np.ndarray
    truth: np.ndarray
    weights: np.ndarray

    def n_labelled(self) -> np.ndarray:
        """Number of labelled nodes of each graph."""
        cumulated = np.concatenate([[0], np.cumsum(self.truth >= 0)])
        return np.diff(cumulated[self.indptr])

    def n_kept(self) -> np.ndarray:
        """Number of nodes of each graph that are not void."""
        cumulated = np.concatenate([[0], np.cumsum(self.truth != VOID)])
        return np.diff(cumulated[self.indptr])

    def without_hidden(self) -> LabelledGraphs:
        """The same with hidden nodes void."""
        return replace(self, truth=np.where(self.truth == HIDDEN, VOID, self.truth))

    def counts(self, n_classes: int) -> np.ndarray:
        """Weighted frequency of each class."""
        weights = np.repeat(self.weights, np.diff(self.indptr))
        known = self.truth >= 0
        return np.bincount(self.truth[known], weights=weights[known], minlength=n_classes)

    def used(self) -> np.ndarray:
        """Graphs to learn from: they count, and have labelled nodes."""
        found = np.flatnonzero((self.weights > 0) & (self.n_labelled() > 0))
        if not len(found):
            raise ValueError("all labels of y are void; at least one must be known.")
        return found

    def nodes(self, i: int) -> slice:
        """Where the nodes of a graph are."""
        return slice(int(self.indptr[i]), int(self.indptr[i + 1]))


def _places(graphs: list[NodeGraph], indptr: np.ndarray) -> Callable[[int], str]:
    """Names of the places of labels: ``y[3][0]``, in a grid ``y[3][0, 2]``."""
    of_nodes = place_in_sequences(indptr)

    def place(at: int) -> str:
        i = int(np.searchsorted(indptr, at, side="right") - 1)
        shape = graphs[i].shape
        if not shape:
            return of_nodes(at)
        row, column = divmod(at - int(indptr[i]), shape[1])
        return f"y[{i}][{row}, {column}]"

    return place


def label_graphs(
    graphs: list[NodeGraph],
    y: Any,
    declared: Any,
    void: Any,
    sample_weight: Any,
    unit: str,
    hidden: bool | str = False,
) -> tuple[LabelledGraphs, np.ndarray]:
    """Encode the labels; also the classes. Labels of graphs of weight 0 are not looked at.

    With ``hidden``, None and -1 (if that is not void) are labels that are not known.
    """
    declared = all_labels(declared)
    part = PARTS[unit]
    labels, lengths = flatten_labels(y, graphs, unit, part)
    indptr = node_starts(graphs)
    check_lengths(lengths, indptr, part)
    weights = check_sample_weight(sample_weight, len(graphs), unit)
    looked_at = np.repeat(weights > 0, lengths) & ~is_void(labels, void)
    unknown = np.zeros(len(labels), bool)
    unknown[looked_at] = find_hidden(labels[looked_at], declared, hidden)
    counted = np.flatnonzero(looked_at & ~unknown)
    if hidden and not len(counted):
        raise ValueError(
            f"all {part}s of the {unit}s that count are hidden or void; at least one must have a "
            "label."
        )
    if not len(counted):
        raise ValueError(
            f"all {part}s of the {unit}s that count are void ({plain(void)!r}); at least one must "
            "have a label."
        )
    place = _places(graphs, indptr)
    codes = LabelCodes.from_labels(labels[counted], declared, lambda at: place(int(counted[at])))
    truth = np.full(len(labels), VOID, np.int32)
    truth[counted] = encode_positions(codes, labels[counted], counted, indptr)
    truth[unknown] = HIDDEN
    data = LabelledGraphs(graphs, indptr, truth, weights)
    if hidden:
        without = (data.n_labelled() == 0) & (data.n_kept() > 0) & (weights > 0)
        warn_without_labels(np.flatnonzero(without), unit)
    return data, codes.classes


def with_states(data: LabelledGraphs, kinds: NodeKinds) -> LabelledGraphs:
    """The same with states instead of codes; refuse labels that a kind of nodes does not have."""
    of_node = kinds.of(data.graphs)
    states = kinds.states(data.truth, of_node)
    lost = np.flatnonzero((states < 0) & (data.truth >= 0))
    if len(lost):
        v = int(lost[0])
        group = kinds.groups[of_node[v]]
        raise ValueError(
            f"{place_in_sequences(data.indptr)(v)} is {plain(kinds.classes[data.truth[v]])!r}, "
            f"which is not among the labels of group {group!r}: "
            f"{kinds.group_classes[group].tolist()}. Correct it, or declare it with classes=."
        )
    return replace(data, truth=states.astype(np.int32))


def take_parts(data: LabelledGraphs, train: np.ndarray, n_states: int, tie: str) -> Parts:
    """Some graphs without their void nodes."""
    row_of = row_numbers(data.graphs)
    graphs: list = []
    nodes: list = []
    rows: list = []
    row_of_node: list = []
    n_rows = 0
    for i in train.tolist():
        span = data.nodes(i)
        keep = data.truth[span] != VOID
        graph = data.graphs[i]
        try:
            graphs.append(graph.factor_graph(n_states, tie, keep))
        except ValueError as error:
            raise ValueError(f"X[{i}]: {error}") from None
        nodes.append(np.arange(span.start, span.stop)[keep])
        own = graph.n_rows == graph.n_nodes
        rows.append(row_of[nodes[-1]] if own else row_of[span][:1])
        row_of_node.append(n_rows + np.arange(len(nodes[-1])) * own)
        n_rows += len(rows[-1])
    sizes = np.array([len(part) for part in nodes])
    flat = (np.concatenate(part) for part in (nodes, rows, row_of_node))
    return Parts(graphs, sizes, *flat)


# --- weights of the factors -----------------------------------------------------------------


def training_layout(graphs: list[NodeGraph], n_states: int, tie: str) -> tuple[Layout, int]:
    """Where the weights of the factors are, and the number of edge features."""
    if graphs[0].given is not None:
        layout = plan_layout([graph.factor_graph(n_states, tie) for graph in graphs])
        return layout, layout.n_factor_inputs - 1
    # Tables of every direction, also if no graph of the training set has such an edge.
    width = next((p for p in map(edge_width, graphs) if p is not None), 0)
    template = FactorGraph(np.empty((2, 0)), n_states)
    features = np.zeros((1, width)) if width else None
    for group in graphs[0].edges:
        template.add_tables([(0, 1)], features, group=group, tie=tie)
    return plan_layout([template]), width


def check_layout(graphs: Sequence[FactorGraph], layout: Layout) -> None:
    """Refuse factors that the model has no weights for."""
    for i, graph in enumerate(graphs):
        for block in graph.blocks:
            if block.kind == COUNT:
                continue
            known = layout.factor.get((block.kind, block.group))
            if known is None:
                raise ValueError(
                    f"X[{i}] has factors of group {block.group!r}, which the model was not trained "
                    f"with; it knows {sorted(str(key[1]) for key in layout.factor)}."
                )
            width = 0 if block.features is None else block.features.shape[1]
            if block.parents is None and width != layout.n_factor_inputs - 1:
                raise ValueError(
                    f"X[{i}] has {width} features of factors (edges), but the model was fitted "
                    f"with {layout.n_factor_inputs - 1}."
                )
            fits = int(block.tie.max(initial=-1)) < known[2]
            if not fits or (block.parents is None and block.tie.tobytes() != known[1]):
                raise ValueError(
                    f"X[{i}]: factors of group {block.group!r} have other tables than in training."
                )


def check_state_size(graphs: Graphs) -> None:
    """Refuse a fit whose dual state would not fit: beliefs, implied ones and multipliers."""
    numbers = graphs.first_state[-1] + graphs.first_mass[-1] + 2 * graphs.first_message[-1]
    check_memory(8.0 * float(numbers), "the tables and messages of all graphs")


# --- scores ---------------------------------------------------------------------------------


def column_scores(graphs: Sequence[NodeGraph], scores_of: Any) -> np.ndarray:
    """Scores of all columns for all nodes, shape (n_nodes, n_columns)."""
    scores = scores_of(stack_features(graphs))
    if all(graph.n_rows == graph.n_nodes for graph in graphs):
        return scores
    return scores[row_numbers(graphs)]


def table_scores(graphs: Sequence[FactorGraph], layout: Layout, coef: np.ndarray) -> np.ndarray:
    """Scores of the entries of all tables, in the order of the packed graphs."""
    found = [
        block_scores(block, layout, coef).ravel()
        for graph in graphs
        for block in graph.blocks
        if block.kind != COUNT
    ]
    return np.concatenate(found) if found else np.empty(0)


def clamp(unary: np.ndarray, tables: np.ndarray, known: np.ndarray, graphs: Graphs) -> np.ndarray:
    """Scores with states that are ruled out so low that no other labels make up for it.

    One known label may force many others: the penalty is more than what the scores of any two
    labellings differ by.
    """
    ruled_out = ~known
    if not ruled_out.any():
        return unary
    unary = unary.copy()
    spread = np.ptp(unary, axis=1)
    starts = [_table_starts(graphs, s) for s in range(len(graphs.factors) - 1)]
    for m in range(graphs.n_examples):
        nodes = slice(int(graphs.first_variable[m]), int(graphs.first_variable[m + 1]))
        entries = tables[graphs.first_entry[m] : graphs.first_entry[m + 1]]
        most = spread[nodes].sum()
        first = starts[graphs.shape[m]]
        if len(first):
            most += np.maximum.reduceat(entries, first).sum()
            most -= np.minimum.reduceat(entries, first).sum()
        unary[nodes][ruled_out[nodes]] -= 1.0 + 1.001 * most
    return unary


def _table_starts(graphs: Graphs, s: int) -> np.ndarray:
    """First entries of all tables of a shape, each edge of a tree with its own."""
    starts: list[int] = []
    for f in range(int(graphs.factors[s]), int(graphs.factors[s + 1])):
        at = int(graphs.entry_at[f])
        if graphs.kind[f] == TREE:
            edges = graphs.edge_entry[graphs.scope_at[f] : graphs.scope_at[f + 1]]
            starts += (at + edges[edges >= 0]).tolist()
        elif graphs.kind[f] != COUNT:
            starts.append(at)
    return np.array(starts, np.int64)


def check_kept(found: Decoded, known: np.ndarray, graphs: Graphs, first: int) -> None:
    """Refuse labels that do not keep what is known, or break a count to keep it."""
    kept = known[np.arange(len(known)), found.labels]
    for m in range(graphs.n_examples):
        nodes = slice(int(graphs.first_variable[m]), int(graphs.first_variable[m + 1]))
        if known[nodes].all() or (kept[nodes].all() and np.isfinite(found.values[m])):
            continue
        raise ValueError(
            f"no labels were found that keep the known ones of partial_y[{first + m}] and all "
            f"counts of X[{first + m}]; they contradict each other, or the counts are too "
            "entangled. Correct the known labels, give fewer or more of them, or relax "
            "at_least and at_most of add_count."
        )


def check_labels_of_kinds(
    states: np.ndarray,
    labels: np.ndarray,
    of_node: np.ndarray,
    kinds: NodeKinds,
    starts: np.ndarray,
) -> None:
    """Refuse a known label that nodes of that kind do not have."""
    if len(kinds.groups) == 1:
        return
    possible = [states[v, : kinds.n_states[k]].any() for v, k in enumerate(of_node)]
    for v in np.flatnonzero(~np.array(possible)).tolist():
        i = int(np.searchsorted(starts, v, side="right")) - 1
        group = kinds.groups[of_node[v]]
        raise ValueError(
            f"partial_y[{i}][{v - starts[i]}] is "
            f"{plain(kinds.classes[int(np.argmax(labels[v]))])!r}, which is not among the labels "
            f"of group {group!r}: {kinds.group_classes[group].tolist()}."
        )


def chunk_bounds(graphs: Sequence[NodeGraph], n_states: int, at_once: int) -> list[tuple[int, int]]:
    """First and last (exclusive) graph of what is scored together."""
    sizes = []
    for graph in graphs:
        if graph.given is None:
            n_edges = sum(len(edges) for edges in graph.edges.values())
            sizes.append(graph.n_nodes * n_states + n_edges * n_states**2)
        else:
            blocks = [
                len(b.variables) * len(b.tie) for b in graph.given.blocks if b.tie is not None
            ]
            sizes.append(graph.n_nodes * n_states + sum(blocks))
    bounds, filled = [0], 0
    for i, size in enumerate(sizes):
        if filled and filled + size > at_once:
            bounds.append(i)
            filled = 0
        filled += size
    bounds.append(len(sizes))
    return list(zip(bounds[:-1], bounds[1:], strict=True))

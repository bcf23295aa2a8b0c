"""Graphs over the labels of a multilabel problem: the same binary variables in every example."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from .graph import TABLE, Graphs
from .packing import Shape, assemble

# Weights of an edge: one per joint state, or one for both labels present.
FULL, BOTH_ON = "full", "both-on"
INTERACTIONS = (FULL, BOTH_ON)
# Which weight the joint states of a pair have with the latter; none where it is -1.
BOTH_ON_TIE = (-1, -1, -1, 0)


def label_graphs(
    edges: np.ndarray, n_labels: int, n_examples: int, interactions: str = FULL
) -> Graphs:
    """Copies of a graph with one binary variable per label and one table per edge.

    All variables of an example share its row of features. With "full" interactions variable l has
    columns 2l (absent) and 2l + 1 (present) of the weights, and edge e has columns 4e to 4e + 3 of
    those of the factors. With "both-on", variable l has column l (present; absence scores 0) and
    edge e has column e, the weight of both labels being present.
    """
    n_edges = len(edges)
    on = interactions == BOTH_ON
    states, weights = (1, 1) if on else (2, 4)
    scope = np.ascontiguousarray(edges, dtype=np.int32).reshape(-1)
    none, zero = np.full(2 * n_edges, -1), np.zeros(n_edges, np.int32)
    arrays: dict[str, np.ndarray] = {
        "n_states": np.full(n_labels, 2, np.int32),
        "state_at": 2 * np.arange(n_labels),
        "row_step": np.zeros(n_labels, np.int32),
        "column": np.arange(n_labels) - 1 if on else 2 * np.arange(n_labels),
        "scored_from": np.full(n_labels, int(on)),
        "held": np.argsort(scope, kind="stable"),
        "held_at": np.concatenate([[0], np.cumsum(np.bincount(scope, minlength=n_labels))]),
        "kind": np.full(n_edges, TABLE),
        "scope": scope,
        "scope_at": 2 * np.arange(n_edges + 1),
        "entry_at": 4 * np.arange(n_edges),
        "n_entries": np.full(n_edges, 4),
        "factor_step": zero,
        "factor_column": weights * np.arange(n_edges),
        "n_tied": np.full(n_edges, weights),
        "tie_at": np.full(n_edges, 0 if on else -1),
        "ties": np.array(BOTH_ON_TIE if on else [], np.int32),
        "low": zero,
        "high": zero,
        "message_at": 2 * np.arange(2 * n_edges),
        "slot_factor": np.repeat(np.arange(n_edges), 2),
        "parent": none,
        "edge_entry": none,
        "map_at": np.tile([0, 4], n_edges),
        "maps": np.array([0, 0, 1, 1, 0, 1, 0, 1]),
    }
    return assemble(
        [Shape(arrays, 2 * n_labels, 4 * n_edges, 4 * n_edges)],
        np.zeros(n_examples, np.int32),
        np.full(n_examples, n_labels),
        np.ones(n_examples, np.int64),
        np.zeros(n_examples, np.int64),
        states * n_labels,
        weights * n_edges,
    )


def all_pairs(n_labels: int) -> np.ndarray:
    """Every pair of labels, the smaller number first."""
    return np.stack(np.triu_indices(n_labels, 1), axis=1).astype(np.int64)


def mutual_information(indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mutual information of every pair of labels, in nats."""
    total = weights.sum()
    on = indicator.astype(np.float64)
    both = (on * weights[:, None]).T @ on / total
    share = np.diag(both)
    information = np.zeros_like(both)
    for a, first in ((1, share), (0, 1.0 - share)):
        for b, second in ((1, share), (0, 1.0 - share)):
            joint = both
            if a == 0:
                joint = share[None, :] - joint
            if b == 0:
                joint = first[:, None] - joint
            seen = joint > 1e-12  # differences of shares are rounded
            ratio = np.where(seen, joint, 1.0) / np.where(seen, np.outer(first, second), 1.0)
            information += np.where(seen, joint * np.log(ratio), 0.0)
    return information


def chow_liu_tree(indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The spanning tree of the labels with the largest mutual information.

    References
    ----------
    Chow, Liu. Approximating discrete probability distributions with dependence trees. 1968.
    """
    information = mutual_information(indicator, weights)
    # A weight of 0 would mean no edge; rounding makes ties independent of the order of sums.
    costs = np.triu(-1.0 - np.round(np.maximum(information, 0.0), 12), 1)
    tree = minimum_spanning_tree(costs).tocoo()
    pairs = np.stack([tree.row, tree.col], axis=1).astype(np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def effect_of_presence(edges: np.ndarray, tables: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Change of the scores of the edges by the presence of each label, the others being given.

    Of labels i, j with table T: ``T[1, y_j] - T[0, y_j]``, which is linear in ``y_j``.
    """
    first, second = edges.T
    alone = np.zeros(labels.shape[1])
    np.add.at(alone, first, tables[:, 1, 0] - tables[:, 0, 0])
    np.add.at(alone, second, tables[:, 0, 1] - tables[:, 0, 0])
    together = np.zeros((labels.shape[1], labels.shape[1]))
    mixed = tables[:, 1, 1] - tables[:, 1, 0] - tables[:, 0, 1] + tables[:, 0, 0]
    together[first, second] = together[second, first] = mixed
    return alone + labels @ together

"""Visits to batches of graphs by several threads (see :mod:`~maxmargin._kernels.team`).

For graphs whose variables share one row of features: the row is read at the start of a visit and
added to at its end. Weights of factors change during a visit, so a thread has a copy of them.

The examples of a batch do not see each other's steps. As the parts in
:mod:`~maxmargin.solvers.partitions`, an example overestimates what it changes by the number of
examples of the batch, so that the sum of all steps increases the dual.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.jit import implements
from .._kernels.protocol import add_row
from .._kernels.team import answer_item, apply_item, in_batches
from .._kernels.vector import copy
from ._soft_kernel import MeanMessages, Progress, visit_example
from .graph import GraphData, GraphWeights
from .kernels.agreement import Beliefs, Penalty, make_room


class GraphVisits(NamedTuple):
    """Visits to graphs, and the steps of a batch: along rows of features, and the number of changed
    weights of factors, their columns and changes, a row per input. ``caution`` is a factor in
    ``data.scales`` that the changes of the weights do not have."""

    data: GraphData
    weights: GraphWeights
    beliefs: Beliefs
    penalty: Penalty
    order: np.ndarray
    progress: Progress
    mean: MeanMessages
    change: np.ndarray
    count: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    caution: float


@implements(answer_item, GraphVisits)
def _answer(task, item, scratch):
    room, own = scratch
    graphs, factor = task.data.graphs, task.weights.factor
    m = task.order[item]
    slot = item % task.count.shape[0]
    s = graphs.shape[m]
    first, last = graphs.factors[s], graphs.factors[s + 1]
    n_inputs = factor.shape[0]
    for f in range(first, last):
        column = graphs.factor_column[f]
        for p in range(n_inputs):
            for j in range(column, column + graphs.n_tied[f]):
                own[p, j] = factor[p, j]
    weights = GraphWeights(task.weights.unary, own)
    visit_example(
        task.data, weights, task.beliefs, task.penalty, task.progress, task.mean, room, m, False
    )
    copy(task.change[slot], room.change)
    count = 0
    for f in range(first, last):
        column = graphs.factor_column[f]
        for j in range(column, column + graphs.n_tied[f]):
            moved = False
            for p in range(n_inputs):
                moved = moved or own[p, j] != factor[p, j]
            if moved:
                task.columns[slot, count] = j
                for p in range(n_inputs):
                    task.values[slot, p, count] = (own[p, j] - factor[p, j]) / task.caution
                    own[p, j] = factor[p, j]  # another factor may have the same column
                count += 1
    task.count[slot] = count


@implements(apply_item, GraphVisits)
def _apply(task, item, scratch):
    graphs, factor = task.data.graphs, task.weights.factor
    m = task.order[item]
    slot = item % task.count.shape[0]
    scale = task.data.scales[m] / task.caution
    if scale == 0.0:
        return
    row = graphs.first_row[m]
    add_row(task.data.rows, task.weights.unary, row, task.change[slot], -scale)
    for p in range(factor.shape[0]):
        for place in range(task.count[slot]):
            factor[p, task.columns[slot, place]] += task.values[slot, p, place]


def soft_batches(
    problem: Any, weights: np.ndarray, beliefs: Beliefs, penalty: Penalty, visits: Any,
    progress: Progress, mean: MeanMessages,
) -> None:  # fmt: skip
    """As ``soft_steps``, in batches."""
    graphs, size = problem.graphs, problem.batch
    split = problem.split(weights)
    tied = np.add.reduceat(np.append(graphs.n_tied, 0), graphs.factors[:-1])
    most = int((tied * (np.diff(graphs.factors) > 0)).max(initial=0))
    data, caution = problem.data(problem.shared_rows), float(size)
    data = data._replace(scales=data.scales * caution)
    task = GraphVisits(
        data, split, beliefs, penalty, visits.order, progress, mean,
        np.empty((size, graphs.n_columns)), np.zeros(size, np.int64),
        np.empty((size, most), np.int32), np.empty((size, split.factor.shape[0], most)),
        caution,
    )  # fmt: skip

    def scratch():
        return make_room(graphs), np.empty_like(split.factor)

    in_batches(task, len(visits.order), size, problem.n_threads, scratch)

"""Threads that share the visits of soft agreement: ranges of the factors, and some variables each.

The beliefs of a label set are read and changed by all threads, between two steps of which all wait
for each other: the same steps as by one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels import team
from ..features.rows import FeatureRows
from .graph import BinaryGraphs, GraphWeights
from .kernels.agreement import Room, make_room
from .kernels.binary_pairs import IN_ORDER
from .kernels.ranges import FEWEST_FACTORS, FEWEST_PER_VARIABLE, RANGES, Share

# Variables of a thread begin at multiples of this number: whole cache lines of the weights.
_TOGETHER = 8


def can_share(problem: Any) -> bool:
    """Whether threads can share a visit, and it is long enough for them to wait for each other.

    All examples have the same graph, whose factors are binary pairs with weights of their own, and
    one row of features for all variables.
    """
    graphs, rows = problem.graphs, problem.rows
    if not isinstance(graphs, BinaryGraphs) or len(graphs.factors) != 2:
        return False
    plain = isinstance(rows, FeatureRows) and not rows.in_kernel_space and not len(rows.seen)
    begins, ends = graphs.column + graphs.scored_from, graphs.column + graphs.n_states
    return (
        plain
        and graphs.binary_pairs[0] >= IN_ORDER
        and graphs.factors[1] >= FEWEST_FACTORS
        and graphs.factors[1] >= FEWEST_PER_VARIABLE * graphs.variables[1]
        and bool((np.diff(graphs.first_row) == 1).all())
        and np.array_equal(begins, np.append(0, ends[:-1]))
        and ends[-1] == graphs.n_columns <= graphs.n_factor_columns
    )


def _shares(graphs: Any, n_threads: int) -> list[Share]:
    """About equal shares for a power of two of threads; fewer if there are few variables."""
    n = int(graphs.variables[1])
    lines = -(-n // _TOGETHER)
    n_threads = 1 << (min(n_threads, lines, RANGES).bit_length() - 1)
    ends = [_TOGETHER * (lines * t // n_threads) for t in range(n_threads)] + [n]
    columns = graphs.column + graphs.scored_from
    return [
        Share(
            t, n_threads, ends[t], ends[t + 1], int(columns[ends[t]]),
            RANGES * t // n_threads, RANGES * (t + 1) // n_threads,
        )
        for t in range(n_threads)
    ]  # fmt: skip


def visit_together(
    problem: Any, weights: np.ndarray, n_threads: int, visit: Callable[[GraphWeights, Room], None]
) -> None:
    """Call ``visit`` with the weights and with scratch, in several threads where they can share."""
    graphs, room = problem.graphs, make_room(problem.graphs)
    n_threads = min(n_threads, team.processors())
    if n_threads == 1 or not can_share(problem):
        visit(problem.split(weights), room)
        return
    shares = _shares(graphs, n_threads)
    counters = team.make_counters(len(shares))
    unary, factor = problem.split(weights)
    starts = [share.first_column for share in shares] + [graphs.n_columns]
    work = []
    for share, begin, end in zip(shares, starts[:-1], starts[1:], strict=True):
        # Row by row, the columns of a thread come first; the last row ends in the factor weights.
        own = weights[begin : begin + unary.size].reshape(unary.shape)
        scratch = make_room(graphs)._replace(
            scores=np.empty((1, end - begin)), change=np.empty(end - begin),
            gaps=room.gaps, found=room.found, share=share, counters=counters,
        )  # fmt: skip
        work.append((GraphWeights(own, factor), scratch))
    team.in_step(lambda number: visit(*work[number]), counters)

"""Permutations: Sinkhorn projections of 11 x 11 matrices to 1e-9, and best assignments."""

from __future__ import annotations

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment

from maxmargin._kernels.assignment import assign, assignment_work
from maxmargin._kernels.sinkhorn import sinkhorn, sinkhorn_work

from .harness import Line, Target, alternate, seconds

SIDE, MATRICES, TOLERANCE = 11, 20, 1e-9
REGULARISATIONS = (1.0, 0.1, 0.05)


def _projections(costs: np.ndarray, regularisation: float, repeats: int) -> Line:
    shares = np.full(SIDE, 1.0 / SIDE)
    work, out = np.empty(sinkhorn_work(SIDE)), np.empty((SIDE, SIDE))

    def ours(run: int) -> float:
        def calls() -> None:
            for matrix in costs:
                sinkhorn(-matrix / regularisation, TOLERANCE, work, out)

        return seconds(calls) / MATRICES

    def peer(run: int) -> float:
        def calls() -> None:
            for matrix in costs:
                ot.sinkhorn(
                    shares, shares, matrix, regularisation, stopThr=TOLERANCE, numItermax=100_000
                )

        return seconds(calls) / MATRICES

    ours(0)  # compiles
    found = alternate(repeats, {"ours": ours, "peer": peer})
    return Line(
        "sinkhorn",
        f"Sinkhorn projection, {SIDE}x{SIDE}, regularisation {regularisation:g}",
        "µs",
        found["ours"].scaled(1e6),
        found["peer"].scaled(1e6),
        "POT ot.sinkhorn",
        target=Target("ratio", 20.0),
        note=f"to {TOLERANCE:g} on the marginals",
    )


def _assignments(weights: np.ndarray, repeats: int) -> Line:
    work, labels = np.empty(assignment_work(SIDE)), np.empty(SIDE, np.int32)

    def ours(run: int) -> float:
        def calls() -> None:
            for matrix in weights:
                assign(matrix, work, labels)

        return seconds(calls) / MATRICES

    def peer(run: int) -> float:
        def calls() -> None:
            for matrix in weights:
                linear_sum_assignment(matrix, maximize=True)

        return seconds(calls) / MATRICES

    ours(0)
    found = alternate(repeats, {"ours": ours, "peer": peer})
    return Line(
        "sinkhorn",
        f"best assignment, {SIDE}x{SIDE}, one call",
        "µs",
        found["ours"].scaled(1e6),
        found["peer"].scaled(1e6),
        "scipy linear_sum_assignment",
    )


def run(repeats: int) -> list[Line]:
    """Random costs between 0 and 1, the same for all sides."""
    costs = np.random.RandomState(0).random_sample((MATRICES, SIDE, SIDE))
    lines = [_projections(costs, regularisation, repeats) for regularisation in REGULARISATIONS]
    return [*lines, _assignments(costs, repeats)]

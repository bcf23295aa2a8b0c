"""How much the weights of a column of features are coupled with all others.

The second derivatives of a loss with respect to the weights are at most a multiple of ``X^T X``.
Its row sums, with absolute values, are

    c_j = sum_i |x_ij| sum_k |x_ik|,

and ``diag(1 / c) X^T X`` has no eigenvalue above 1 (Gershgorin), whatever the features are: many
small values in a row count as much as few large ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._kernels.jit import compiled, seldom
from .rows import FEATURES, FeatureRows


class Couplings(NamedTuple):
    """``c_j`` of all columns, each of which has ``n_columns`` weights, one after another."""

    sums: np.ndarray
    n_columns: int


def couplings_of(structure: Any, rows: Any) -> Couplings | None:
    """The couplings of all columns; None where weights are not those of columns."""
    if not isinstance(rows, FeatureRows) or rows.weighs != FEATURES or len(rows.seen):
        return None
    sums = np.zeros(rows.n_inputs)
    _add_couplings(rows, sums)
    return Couplings(sums, structure.n_weights(1) - structure.n_weights(0))


@compiled
@seldom
def _add_couplings(rows, sums):
    dense = rows.indptr.shape[0] == 0
    bias = abs(rows.bias)
    for r in range(rows.values.shape[0] if dense else rows.indptr.shape[0] - 1):
        row = rows.values[r] if dense else rows.data[rows.indptr[r] : rows.indptr[r + 1]]
        total = bias
        for value in row:
            total += abs(value)
        for k in range(row.shape[0]):
            column = k if dense else rows.indices[rows.indptr[r] + k]
            sums[column] += abs(row[k]) * total
        if bias > 0.0:
            sums[sums.shape[0] - 1] += bias * total

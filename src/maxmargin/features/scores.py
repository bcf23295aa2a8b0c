"""Scores that were computed before, for instance by a network, in place of rows of features.

A row *is* the scores of its labels (or arcs, pairs, elements), so weights of inputs are not used;
what is left of a weight vector are transitions. Adding a row writes a gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import implements, leaf
from .._kernels.protocol import add_row, score_rows

_IN_ORDER = np.empty(0, np.int64)


class ScoreRows(NamedTuple):
    """Row r is ``values[place[r]]``, or ``values[r]`` if ``place`` is empty."""

    values: np.ndarray  # (rows, labels), in single or double precision
    place: np.ndarray = _IN_ORDER
    n_inputs: int = 0  # of weights that are passed over


@implements(score_rows, ScoreRows)
def _score_rows(rows, matrix, first, last, out):
    count, n = last - first, out.shape[1]
    if rows.place.shape[0] > 0:
        for r in range(count):
            given = rows.values[rows.place[first + r]]
            for k in range(n):
                out[r, k] = given[k]
    else:
        flat, into = rows.values[first:last].reshape(count * n), out.reshape(count * n)
        for k in range(count * n):
            into[k] = flat[k]


@leaf
def write_rows(rows, first, values, scale):
    """Overwrite rows, from one on, by ``scale * values``."""
    count, n = values.shape
    if rows.place.shape[0] > 0:
        for r in range(count):
            into = rows.values[rows.place[first + r]]
            for k in range(n):
                into[k] = scale * values[r, k]
    else:
        flat, into = (
            values.reshape(count * n),
            rows.values[first : first + count].reshape(count * n),
        )
        for k in range(count * n):
            into[k] = scale * flat[k]


@implements(add_row, ScoreRows)
def _add_row(rows, matrix, row, values, scale):
    at = rows.place[row] if rows.place.shape[0] > 0 else row
    for k in range(values.shape[0]):
        rows.values[at, k] += scale * values[k]

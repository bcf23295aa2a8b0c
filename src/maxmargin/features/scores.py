"""Scores that somebody else computed, such as a network, in place of rows of features.

A row *is* the scores of its labels (or arcs, pairs, elements), so there are no inputs and no
weights of inputs; what is left of a weight vector are transitions. Adding a row writes a gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels.jit import implements
from .._kernels.protocol import add_row, score_rows


class ScoreRows(NamedTuple):
    """Row r is ``values[place[r]]``, or ``values[r]`` if ``place`` is empty."""

    values: np.ndarray  # (rows, labels), in single or double precision
    place: np.ndarray
    n_inputs: int = 0


@implements(score_rows, ScoreRows)
def _score_rows(rows, matrix, first, last, out):
    for r in range(first, last):
        at = rows.place[r] if rows.place.shape[0] > 0 else r
        for k in range(out.shape[1]):
            out[r - first, k] = rows.values[at, k]


@implements(add_row, ScoreRows)
def _add_row(rows, matrix, row, values, scale):
    at = rows.place[row] if rows.place.shape[0] > 0 else row
    for k in range(values.shape[0]):
        rows.values[at, k] += scale * values[k]

"""Checks of arrays from other libraries, in one pass each."""

from __future__ import annotations

import numpy as np

from .jit import compiled, leaf, ordered_leaf


@ordered_leaf
def _is_finite(number):
    return number - number == 0.0  # without fast-math: NaN for NaN and infinity


@leaf
def count_not_finite(row):
    """Number of entries that are NaN or infinite."""
    bad = 0
    for k in range(row.shape[0]):
        bad += not _is_finite(row[k])
    return bad


@compiled
def all_finite(matrix):
    """Whether a matrix holds neither NaN nor infinity."""
    return count_not_finite(matrix.reshape(matrix.size)) == 0


@compiled
def narrow(given, low, high, out):
    """Copy integers to ``out``, which is int32; returns whether all are from low to below high."""
    bad = 0
    for k in range(given.shape[0]):
        bad += given[k] < low or given[k] >= high
        out[k] = np.int32(given[k])
    return bad == 0

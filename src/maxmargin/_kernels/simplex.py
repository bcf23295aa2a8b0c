"""Euclidean projections onto the simplex, and the two-threshold form of the max-min block."""

from __future__ import annotations

import numpy as np

from .jit import compiled


@compiled
def threshold(values, work, total):
    """The tau with ``sum_j (values_j - tau)_+ = total``, for ``total > 0``.

    Michelot's algorithm: start from all entries and drop those below the threshold; expected
    linear time, no sorting.
    """
    n = values.shape[0]
    top = values[0]
    for j in range(1, n):
        if values[j] > top:
            top = values[j]
    # Only entries above max - total can lie above the threshold: usually a handful.
    kept = 0
    mass = 0.0
    for j in range(n):
        if values[j] > top - total:
            work[kept] = values[j] - top
            mass += work[kept]
            kept += 1
    tau = (mass - total) / kept
    while True:
        left = 0
        mass = 0.0
        for j in range(kept):
            if work[j] > tau:
                work[left] = work[j]
                mass += work[left]
                left += 1
        if left == kept:
            return tau + top
        kept = left
        tau = (mass - total) / kept


@compiled
def project(values, work, mass, out):
    """Projection of ``values`` onto the simplex of vectors that sum to ``mass``.

    Large values keep their precision when their maximum is near zero: shift them first.
    """
    tau = threshold(values, work, mass)
    total = 0.0
    for j in range(values.shape[0]):
        above = values[j] - tau
        out[j] = above if above > 0.0 else 0.0
        total += out[j]
    for j in range(values.shape[0]):  # rounding only
        out[j] *= mass / total


@compiled
def _project_gain(scores, mu, slope, middle, curvature, work, mass, out):
    """Projection of ``mu + (scores + slope * |. - middle|) / curvature``, shifted."""
    n = scores.shape[0]
    top = -np.inf
    for z in range(n):
        work[z] = scores[z] + slope * abs(z - middle)
        top = max(top, work[z])
    for z in range(n):
        work[z] = mu[z] + (work[z] - top) / curvature
    project(work[:n], work[n:], mass, out)


@compiled
def median_split(scores, mu, curvature, slope, work, out):
    """Exact max-min block for the loss ``slope * |y - z|``.

    The inner minimum is attained at a median of m, so the maximum of
    ``min_j sum_z slope |j - z| m_z + scores @ m - curvature/2 |m - mu|^2`` is either the projection
    with the loss to one class that is a median of the result, found by bisection, or it has half
    of its mass below and half above a place between two classes: two projections.
    """
    n = scores.shape[0]
    low, high = 0, n - 1
    while True:
        middle = (low + high) // 2
        _project_gain(scores, mu, slope, middle, curvature, work, 1.0, out)
        below = 0.0
        for z in range(middle):
            below += out[z]
        if below > 0.5:
            high = middle - 1
        elif below + out[middle] < 0.5:
            low = middle + 1
        else:
            return
        if low > high:
            break
    # low = high + 1: class `high` is too low a median, class `low` too high a one.
    _project_gain(scores[:low], mu[:low], slope, low, curvature, work, 0.5, out[:low])
    _project_gain(scores[low:], mu[low:], slope, -1, curvature, work, 0.5, out[low:])


@compiled
def clipped_difference(values, work, curvature, size, out):
    """Exact max-min block for the loss ``size * 1[y != z]``.

    With ``values = scores + curvature * mu0`` the maximum of
    ``size * (1 - max_j mu_j) + scores @ mu - curvature/2 |mu - mu0|^2`` over the simplex is
    ``[(values - tau)_+ - (values - u)_+] / curvature`` where
    ``sum (values - tau)_+ = curvature + size`` and ``sum (values - u)_+ = size``.
    """
    tau = threshold(values, work, curvature + size)
    upper = threshold(values, work, size)
    total = 0.0
    for j in range(values.shape[0]):
        high = values[j] if values[j] < upper else upper
        out[j] = (high - tau) / curvature if high > tau else 0.0
        total += out[j]
    for j in range(values.shape[0]):  # rounding only
        out[j] /= total


@compiled
def lower_envelope_step(start, change, slope, curvature):
    """Maximise ``min_j (start_j + g change_j) + g slope - g^2/2 curvature`` over [0, 1].

    The derivative only falls: walk along the lower envelope from g = 0 until it turns.
    """
    n = start.shape[0]
    here = 0
    for j in range(1, n):
        if start[j] < start[here] or (start[j] == start[here] and change[j] < change[here]):
            here = j
    g = 0.0
    while True:
        nearest = np.inf
        after = here
        for j in range(n):
            fall = change[here] - change[j]
            if fall > 0.0:
                meet = (start[j] - start[here]) / fall
                if meet < nearest or (meet == nearest and change[j] < change[after]):
                    nearest = meet
                    after = j
        if nearest < g:
            nearest = g
        ascent = change[here] + slope
        if curvature > 0.0:
            best = ascent / curvature
        else:
            best = np.inf if ascent > 0.0 else -np.inf
        if best <= g:
            return g
        if best <= nearest or nearest >= 1.0:
            return min(best, 1.0)
        g = nearest
        here = after

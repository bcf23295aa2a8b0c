"""Euclidean projections onto the simplex, and the two-threshold form of the max-min block."""

from __future__ import annotations

import numpy as np

from .jit import leaf
from .vector import SHORT, lowest_bit, mask_above


@leaf
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
    # Only entries above max - total can be above the threshold: usually few.
    kept = 0
    mass = 0.0
    for j in range(n):
        below = values[j] - top
        if below > -total:
            work[kept] = below
            mass += below
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


@leaf
def project(values, work, mass, out):
    """Projection of ``values`` onto the simplex of vectors that sum to ``mass``.

    ``work`` has twice the length. Only the few entries within ``mass`` of the largest one can be
    positive. Large values keep their precision when their maximum is near zero: shift them first.
    """
    n = values.shape[0]
    top = values[0]
    for j in range(1, n):
        top = values[j] if values[j] > top else top
    kept = 0
    bound = top - mass
    if n <= SHORT:
        for j in range(n):  # without branches, which would be mispredicted
            work[kept] = values[j] - top
            work[n + kept] = j
            kept += values[j] > bound
    else:
        eights = n - n % 8
        for first in range(0, eights, 8):
            mask = mask_above(values, first, bound)
            while mask != 0:
                j = first + lowest_bit(mask)
                mask &= mask - 1
                work[kept] = values[j] - top
                work[n + kept] = j
                kept += 1
        for j in range(eights, n):
            if values[j] > bound:
                work[kept] = values[j] - top
                work[n + kept] = j
                kept += 1
    total = 0.0
    for place in range(kept):
        total += work[place]
    if kept == 0:  # mass below the precision of the values: all of it for the largest
        for j in range(n):
            out[j] = mass if values[j] == top else 0.0
            top = np.inf if values[j] == top else top
        return
    tau = (total - mass) / kept
    while True:
        left = 0
        total = 0.0
        for place in range(kept):
            if work[place] > tau:
                work[left] = work[place]
                work[n + left] = work[n + place]
                total += work[left]
                left += 1
        if left == kept:
            break
        kept = left
        tau = (total - mass) / kept
    out[:] = 0.0
    scale = mass / (total - kept * tau)  # 1 up to rounding
    for place in range(kept):
        out[int(work[n + place])] = (work[place] - tau) * scale


@leaf
def _project_gain(scores, mu, costs, middle, curvature, work, out):
    """Projection of ``mu + (scores + costs * |. - middle|) / curvature``, and its balance:
    the cost-weighted mass below ``middle`` minus that above."""
    n = scores.shape[0]
    top = -np.inf
    for z in range(n):
        work[z] = scores[z] + costs[z] * abs(z - middle)
        top = max(top, work[z])
    for z in range(n):  # a shift does not change the projection, and keeps small steps exact
        work[z] = mu[z] + (work[z] - top) / curvature
    project(work[:n], work[n:], 1.0, out)
    balance = 0.0
    for z in range(n):
        if z < middle:
            balance += costs[z] * out[z]
        elif z > middle:
            balance -= costs[z] * out[z]
    return balance


@leaf
def median_split(scores, mu, curvature, costs, work, out):
    """Exact max-min block for the loss ``costs[z] * |y - z|``.

    For a fixed mixture of predictions with mean p the block maximum is a projection; the best
    mixture has its mass on the two classes around p, where its loss to z is ``costs[z] |z - p|``.
    The remaining function is convex in the single number p, and its derivative is the balance of
    the projection: bisection over the classes, then between two of them.
    """
    n = scores.shape[0]
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        balance = _project_gain(scores, mu, costs, middle, curvature, work, out)
        if balance + costs[middle] * out[middle] >= 0.0:  # the derivative to the right
            high = middle
        else:
            low = middle + 1
    # `low` is the first class with a derivative >= 0 to its right: stop there if it is the
    # minimum, else between it and the class before.
    balance = _project_gain(scores, mu, costs, low, curvature, work, out)
    if low == 0 or balance - costs[low] * out[low] <= 0.0:
        return
    left, right = low - 1.0, low * 1.0
    for _ in range(100):
        place = 0.5 * (left + right)
        if place <= left or place >= right:
            break
        balance = _project_gain(scores, mu, costs, place, curvature, work, out)
        if balance == 0.0:
            break
        if balance > 0.0:
            right = place
        else:
            left = place


@leaf
def _capped_residuals(values, costs, curvature, tau, cap):
    """The two residuals of :func:`capped_projection`, and their derivatives by tau and cap."""
    mass, price = -1.0, -1.0
    mass_tau, mass_cap, price_tau, price_cap = 0.0, 0.0, 0.0, 0.0
    for j in range(values.shape[0]):
        inner = (values[j] - tau) / curvature
        limit = cap / costs[j]
        if inner >= limit:
            mass += limit
            mass_cap += 1.0 / costs[j]
            price += curvature * (inner - limit) / costs[j]
            price_tau -= 1.0 / costs[j]
            price_cap -= curvature / (costs[j] * costs[j])
        elif inner > 0.0:
            mass += inner
            mass_tau -= 1.0 / curvature
    return mass, price, mass_tau, mass_cap, price_tau, price_cap


@leaf
def _capped_by_bisection(values, costs, curvature, lowest, top):
    """tau and cap by nested bisection: slow and reliable."""
    cap_low, cap_high = 0.0, 0.0
    for j in range(costs.shape[0]):
        cap_low += 1.0 / costs[j]
        cap_high = max(cap_high, costs[j])
    cap_low = 1.0 / cap_low
    tau = top
    for _ in range(80):
        cap = 0.5 * (cap_low + cap_high)
        tau_low, tau_high = lowest - curvature, top
        for _ in range(80):
            tau = 0.5 * (tau_low + tau_high)
            if _capped_residuals(values, costs, curvature, tau, cap)[0] > 0.0:
                tau_low = tau
            else:
                tau_high = tau
        if _capped_residuals(values, costs, curvature, tau, cap)[1] > 0.0:
            cap_low = cap
        else:
            cap_high = cap
    return tau, cap


@leaf
def capped_projection(values, costs, curvature, out):
    """Exact max-min block for the loss ``costs[z] * 1[y != z]``, all costs positive.

    With ``values = scores + costs + curvature * mu0``, maximise
    ``values @ m - curvature/2 |m|^2 - max_j costs_j m_j`` over the simplex. The solution is
    ``m_j = clip((values_j - tau) / curvature, 0, cap / costs_j)``, where ``sum m_j = 1`` and
    ``sum (values_j - tau - curvature cap / costs_j)_+ / costs_j = 1``: two equations in tau and
    cap, linear for given sets of entries at 0 and at the cap. They are solved by Newton's method,
    and by bisection where that does not converge.
    """
    n = values.shape[0]
    top, lowest, cheapest = values[0], values[0], costs[0]
    for j in range(1, n):
        top = max(top, values[j])
        lowest = min(lowest, values[j])
        cheapest = min(cheapest, costs[j])
    tau, cap = top - curvature, 0.5 * cheapest
    settled = False
    for _ in range(30):
        mass, price, mass_tau, mass_cap, price_tau, price_cap = _capped_residuals(
            values, costs, curvature, tau, cap
        )
        determinant = mass_tau * price_cap - mass_cap * price_tau
        if determinant == 0.0:
            break
        step_tau = (mass_cap * price - price_cap * mass) / determinant
        step_cap = (price_tau * mass - mass_tau * price) / determinant
        tau += step_tau
        cap += step_cap
        if cap <= 0.0:
            break
        if abs(step_tau) <= 1e-14 * (abs(tau) + abs(top)) and abs(step_cap) <= 1e-14 * cap:
            settled = True
            break
    if not settled:
        tau, cap = _capped_by_bisection(values, costs, curvature, lowest, top)
    total = 0.0
    for j in range(n):
        inner = (values[j] - tau) / curvature
        out[j] = min(max(inner, 0.0), cap / costs[j])
        total += out[j]
    for j in range(n):  # rounding only
        out[j] /= total


@leaf
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


@leaf
def lower_envelope_step(start, change, slope, curvature):
    """Maximise ``min_j (start_j + g change_j) + g slope - g^2/2 curvature`` over [0, 1].

    The derivative decreases: follow the lower envelope from g = 0 until it changes its sign.
    """
    n = start.shape[0]
    here = 0
    for j in range(1, n):
        if start[j] < start[here] or (start[j] == start[here] and change[j] < change[here]):
            here = j
    g = 0.0
    for _ in range(n):  # every line is active at most once
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
    return min(g, 1.0)

"""The exact step of a Potts table: a pair of variables with one weight for equal states.

A distribution of the pair with marginals p and q can have any mass D on equal states with

    max(0, max_a p_a + q_a - 1)  <=  D  <=  sum_a min(p_a, q_a),

and weights and messages depend on p, q and D only. The block is

    max  score D - c/2 (D - D0)^2 - kappa/2 |p - u|^2 - kappa/2 |q - v|^2 ,

``u = belief - eta / kappa`` and v the same for the second variable; c is the curvature of the
feature. Divided by kappa, with ``ratio = kappa / c`` and ``wish = D0 + score / c``:

    min  1/2 |p - u|^2 + 1/2 |q - v|^2 + (D - wish)^2 / (2 ratio) .

If ``wish`` is within the bounds at the projections of u and v, these are the solution. If it is
above them, D is ``sum min(p, q)``, which is 1 minus half of ``|p - q|_1``: with a price tau on it,
p and q are a fused pair within two simplices, ``p, q = (a -+ clip((a - b) / 2, tau / 2))_+`` at
``a = u - x``, ``b = v - y``, and the three numbers x, y and tau are found by Newton's method on a
concave, piecewise quadratic function. If it is below, at most one state has ``p_a + q_a > 1``; its
price is the root of a function of one variable.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import leaf
from ..._kernels.simplex import project, threshold
from .agreement import factor_row

# Newton's method takes two or three steps; where rounding prevents convergence, it is close.
_MOST_STEPS = 40
_TOLERANCE = 1e-12
# Curvature added to directions that have none.
_RIDGE = 1e-10
_MOST_HALVINGS = 25
_MOST_SECANTS = 60


@leaf
def _fuse(u, v, x, y, tau, p, q):
    """Write the fused pair at two thresholds and a price.

    Returns the sums of p, q and their minimum, ``1/2 |p|^2 - u p + 1/2 |q|^2 - v q``, and the
    numbers of positive entries: equal ones, and of p and of q where the other is smaller or larger.
    """
    sum_p, sum_q, both, value = 0.0, 0.0, 0.0, 0.0
    equal, p_more, p_less, q_more, q_less = 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(u.shape[0]):
        left, right = u[a] - x, v[a] - y
        apart = left - right
        half = 0.5 * min(max(apart, -tau), tau)
        left -= half
        right += half
        left = left if left > 0.0 else 0.0
        right = right if right > 0.0 else 0.0
        p[a] = left
        q[a] = right
        sum_p += left
        sum_q += right
        both += min(left, right)
        value += 0.5 * (left * (left - 2.0 * u[a]) + right * (right - 2.0 * v[a]))
        has_p = 1.0 if left > 0.0 else 0.0
        has_q = 1.0 if right > 0.0 else 0.0
        above = 1.0 if apart > tau else 0.0
        below = 1.0 if apart < -tau else 0.0
        equal += has_p * (1.0 - above - below)
        p_more += has_p * above
        p_less += has_p * below
        q_more += has_q * below
        q_less += has_q * above
    return sum_p, sum_q, both, value, equal, p_more, p_less, q_more, q_less


@leaf
def _normalise(p, q, sum_p, sum_q):
    """Normalise two vectors that are nearly distributions; returns their common mass."""
    both = 0.0
    for a in range(p.shape[0]):
        p[a] /= sum_p
        q[a] /= sum_q
        both += min(p[a], q[a])
    return both


@leaf
def _attract(u, v, ratio, wish, x, y, tau, p, q):
    """The answer where D is ``sum min(p, q) < 1``, from thresholds and a price near the best ones.

    Maximises the dual over X = x + tau/2, Y = y + tau/2 and tau >= 0. Returns D, or -1 if it did
    not converge.
    """
    sum_p, sum_q, both, value, equal, p_more, p_less, q_more, q_less = _fuse(u, v, x, y, tau, p, q)
    dual = value + (x + 0.5 * tau) * (sum_p - 1.0) + (y + 0.5 * tau) * (sum_q - 1.0)
    dual += tau * (wish - both - 0.5 * ratio * tau)
    for _ in range(_MOST_STEPS):
        g1, g2, g3 = sum_p - 1.0, sum_q - 1.0, wish - ratio * tau - both
        if abs(g1) + abs(g2) + abs(g3) < _TOLERANCE * (1.0 + abs(x) + abs(y) + tau):
            return _normalise(p, q, sum_p, sum_q)
        h11 = 0.5 * equal + p_more + p_less + _RIDGE
        h22 = 0.5 * equal + q_more + q_less + _RIDGE
        h33 = 0.5 * equal + p_less + q_less + ratio + _RIDGE
        h12, h13, h23 = 0.5 * equal, -0.5 * equal - p_less, -0.5 * equal - q_less
        # The determinants of a 3 x 3 system.
        c11, c12, c13 = h22 * h33 - h23 * h23, h12 * h33 - h23 * h13, h12 * h23 - h22 * h13
        det = h11 * c11 - h12 * c12 + h13 * c13
        d1 = (g1 * c11 - h12 * (g2 * h33 - h23 * g3) + h13 * (g2 * h23 - h22 * g3)) / det
        d2 = (h11 * (g2 * h33 - h23 * g3) - g1 * c12 + h13 * (h12 * g3 - g2 * h13)) / det
        d3 = (h11 * (h22 * g3 - g2 * h23) - h12 * (h12 * g3 - g2 * h13) + g1 * c13) / det
        step = 1.0
        if tau + d3 < 0.0:
            step = min(1.0, -0.9 * tau / d3)
        slope = g1 * d1 + g2 * d2 + g3 * d3
        before = dual - 1e-13 * (1.0 + abs(dual))
        new_x, new_y, new_tau = x, y, tau
        for _ in range(_MOST_HALVINGS):
            new_tau = tau + step * d3
            new_x = x + step * (d1 - 0.5 * d3)
            new_y = y + step * (d2 - 0.5 * d3)
            sum_p, sum_q, both, value, equal, p_more, p_less, q_more, q_less = _fuse(
                u, v, new_x, new_y, new_tau, p, q
            )
            dual = value + (new_x + 0.5 * new_tau) * (sum_p - 1.0)
            dual += (new_y + 0.5 * new_tau) * (sum_q - 1.0)
            dual += new_tau * (wish - both - 0.5 * ratio * new_tau)
            if dual >= before + 1e-4 * step * slope:
                break
            step *= 0.4
        x, y, tau = new_x, new_y, new_tau
    return -1.0


@leaf
def _stay_together(u, v, tau, middle, work, p):
    """Write the projection of ``(u + v) / 2``; returns whether p = q = it is best at a price.

    The multipliers of the two simplices are ``z +- h/2``: some h must keep each state equal.
    Returns z and h too.
    """
    n = u.shape[0]
    for a in range(n):
        middle[a] = 0.5 * (u[a] + v[a])
    z = threshold(middle, work, 1.0)
    low, high = -np.inf, np.inf
    for a in range(n):
        over = middle[a] - z
        p[a] = over if over > 0.0 else 0.0
        apart = u[a] - v[a]
        least = apart if over > 0.0 else 2.0 * (u[a] - z)
        most = apart if over > 0.0 else 2.0 * (z - v[a])
        low = max(low, least - tau)
        high = min(high, most + tau)
    return low <= high, z, 0.5 * (low + high)


@leaf
def _sum_at(u, v, price, top, work, p, q):
    """Projections of u and v, both lowered by a price at one state: the sum of their mass there."""
    left, right = u[top], v[top]
    u[top] -= price
    v[top] -= price
    project(u, work, 1.0, p)
    project(v, work, 1.0, q)
    u[top] = left
    v[top] = right
    return p[top] + q[top]


@leaf
def _repel(u, v, ratio, wish, top, work, p, q):
    """The answer where D is ``max(0, p_a + q_a - 1)`` at the state ``top``; returns D.

    Regula falsi for the price at which ``wish``, raised by it, is the mass ``p_a + q_a - 1``.
    """
    low, high = 0.0, 1.0
    at_low = _sum_at(u, v, low, top, work, p, q) - 1.0 - max(wish, 0.0)
    at_high = at_low
    for _ in range(_MOST_SECANTS):
        at_high = _sum_at(u, v, high, top, work, p, q) - 1.0 - max(wish + ratio * high, 0.0)
        if at_high <= 0.0:
            break
        low, at_low = high, at_high
        high *= 4.0
    side = 0
    for _ in range(_MOST_SECANTS):
        if not at_low > at_high:
            break
        price = (low * at_high - high * at_low) / (at_high - at_low)
        value = _sum_at(u, v, price, top, work, p, q) - 1.0 - max(wish + ratio * price, 0.0)
        if abs(value) < _TOLERANCE:
            break
        if value > 0.0:
            low, at_low = price, value
            at_high = 0.5 * at_high if side > 0 else at_high
            side = 1
        else:
            high, at_high = price, value
            at_low = 0.5 * at_low if side < 0 else at_low
            side = -1
    return max(0.0, p[top] + q[top] - 1.0)


@leaf
def solve_potts(u, v, ratio, wish, middle, work, p, q):
    """Write the best p and q; returns the best D, or -1 if it was not found."""
    n = u.shape[0]
    if wish >= 1.0:  # most tables of a trained model
        tau = (wish - 1.0) / ratio
        together, z, h = _stay_together(u, v, tau, middle, work, p)
        if together:
            for a in range(n):
                q[a] = p[a]
            return 1.0
        return _attract(u, v, ratio, wish, z + 0.5 * h, z - 0.5 * h, tau, p, q)
    x, y = threshold(u, work, 1.0), threshold(v, work, 1.0)
    both, most, top = 0.0, 0.0, 0
    for a in range(n):
        left, right = max(u[a] - x, 0.0), max(v[a] - y, 0.0)
        p[a] = left
        q[a] = right
        both += min(left, right)
        if left + right > most:
            most = left + right
            top = a
    if wish < both:
        least = max(0.0, most - 1.0)
        if wish >= least or least == 0.0:
            return max(wish, least)
        return _repel(u, v, ratio, wish, top, work, p, q)
    return _attract(u, v, ratio, wish, x, y, 0.0, p, q)


@leaf
def best_potts(score, left, right):
    """``max_ab score [a = b] - left_a - right_b``."""
    low_left, low_right, low_both = np.inf, np.inf, np.inf
    for a in range(left.shape[0]):
        low_left = min(low_left, left[a])
        low_right = min(low_right, right[a])
        low_both = min(low_both, left[a] + right[a])
    if low_left + low_right < low_both:  # at different states
        return max(score - low_both, -low_left - low_right)
    # The lowest of both are at one state: one of them must be another.
    second_left, second_right = np.inf, np.inf
    place = -1
    for a in range(left.shape[0]):
        if place < 0 and left[a] + right[a] == low_both:
            place = a
        else:
            second_left = min(second_left, left[a])
            second_right = min(second_right, right[a])
    differ = min(low_left + second_right, second_left + low_right)
    return max(score - low_both, -differ)


@leaf
def potts_step(graphs, features, beliefs, weights, scale, penalty, m, f, wants_gap, room):
    """The exact step; also updates the multipliers. Returns gap of the block and disagreement."""
    kappa = penalty.kappa
    base = graphs.variables[graphs.shape[m]]
    z = graphs.scope_at[f]
    k = graphs.n_states[base + graphs.scope[z]]
    own = graphs.first_state[m] + graphs.state_at[base + graphs.scope[z]]
    other = graphs.first_state[m] + graphs.state_at[base + graphs.scope[z + 1]]
    at = graphs.first_message[m] + graphs.message_at[z]
    next_at = graphs.first_message[m] + graphs.message_at[z + 1]
    eta_p, eta_q = beliefs.eta[at : at + k], beliefs.eta[next_at : next_at + k]
    old_p, old_q = beliefs.implied[at : at + k], beliefs.implied[next_at : next_at + k]
    own_p, own_q = beliefs.variables[own : own + k], beliefs.variables[other : other + k]
    place = graphs.first_mass[m] + graphs.mass_at[f]
    mass = beliefs.tables[place]
    column = graphs.factor_column[f]
    row = features[factor_row(graphs, m, f)]
    score, square = 0.0, 0.0
    for j in range(row.shape[0]):
        score += row[j] * weights[j, column]
        square += row[j] * row[j]
    curvature = scale * square
    u, v = room.theta[:k], room.theta[k : 2 * k]
    inverse = 1.0 / kappa
    for a in range(k):
        u[a] = own_p[a] - inverse * eta_p[a]
        v[a] = own_q[a] - inverse * eta_q[a]
    gap = 0.0
    if wants_gap:
        left, right = room.delta[:k], room.delta[k : 2 * k]
        mean = score * mass
        for a in range(k):
            left[a] = kappa * (old_p[a] - u[a])
            right[a] = kappa * (old_q[a] - v[a])
            mean -= left[a] * old_p[a] + right[a] * old_q[a]
        gap = best_potts(score, left, right) - mean
    p, q = room.table[:k], room.table[k : 2 * k]
    wish = mass + score / curvature
    new = solve_potts(u, v, kappa / curvature, wish, room.values[:k], room.work, p, q)
    if new >= 0.0:
        for j in range(row.shape[0]):
            weights[j, column] -= scale * (new - mass) * row[j]
        beliefs.tables[place] = new
        for a in range(k):
            old_p[a] = p[a]
            old_q[a] = q[a]
    residual = 0.0
    if penalty.augmented:
        for a in range(k):
            residual += (old_p[a] - own_p[a]) ** 2 + (old_q[a] - own_q[a]) ** 2
            eta_p[a] = kappa * (old_p[a] - u[a])
            eta_q[a] = kappa * (old_q[a] - v[a])
    return gap, residual

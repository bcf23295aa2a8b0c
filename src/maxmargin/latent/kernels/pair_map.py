"""The map of pairs: an output is a set of elements, the latent variable flips two pairs.

With bits ``x_ij`` for all pairs of elements, a set y and two pairs h::

    w @ Phi(x, y, h) = sum of w_ij (x_ij xor h_ij) over pairs i < j in y

Latent space H: two pairs that share an element. Superset: any two pairs. Flipping a pair inside y
gains ``g_ij = w_ij (1 - 2 x_ij)``, outside nothing, so the best two flips of a set of m elements
are found in O(m^2): in the superset the two largest gains, in H the best element's two largest.

Scores are summed in one order and without re-association: outputs with equal features have equal
scores, and local search depends on the weights through the order of the scores only.
"""

from __future__ import annotations

import numpy as np

from ..._kernels.jit import compiled, leaf, ordered_leaf
from .space_moves import (
    ACYCLIC,
    below,
    draw_set,
    holds,
    is_member,
    neighbour,
    set_distortion,
    start_stream,
)

# Objectives that an oracle maximises over (y, h), given score s and distortion d.
SCORE, SLACK, MARGIN, INDICATOR = 0, 1, 2, 3


@leaf
def worth(objective, score, distortion, reference):
    """``s``, ``d (1 - (reference - s))``, ``d + s``, or d where ``reference - s <= 1``."""
    if objective == SCORE:
        return score
    if objective == SLACK:
        return distortion * (1.0 - reference + score)
    if objective == MARGIN:
        return distortion + score
    return distortion if reference - score <= 1.0 else 0.0


@leaf
def pair_index(n, i, j):
    """Index of the pair i < j of n elements."""
    return i * (2 * n - i - 1) // 2 + j - i - 1


@leaf
def pair_ends(n, p):
    """The elements i < j of a pair."""
    i = 0
    while p >= n - 1 - i:
        p -= n - 1 - i
        i += 1
    return i, i + 1 + p


@leaf
def _ordered_pair(n, i, j):
    return pair_index(n, i, j) if i < j else pair_index(n, j, i)


@leaf
def spread_weights(w, wide):
    """Write ``w_ij`` as a symmetric matrix."""
    n = wide.shape[0]
    p = 0
    for i in range(n):
        wide[i, i] = 0.0
        for j in range(i + 1, n):
            wide[i, j] = wide[j, i] = w[p]
            p += 1


@leaf
def spread(x, wide, active):
    """Write ``w_ij x_ij`` as a symmetric matrix."""
    n = wide.shape[0]
    p = 0
    for i in range(n):
        active[i, i] = 0.0
        for j in range(i + 1, n):
            active[i, j] = active[j, i] = wide[i, j] if x[p] != 0 else 0.0
            p += 1


@leaf
def toggle(wide, active, p):
    """Flip a pair; -1 is none."""
    if p >= 0:
        i, j = pair_ends(wide.shape[0], p)
        active[i, j] = active[j, i] = wide[i, j] - active[i, j]


@ordered_leaf
def set_score(active, y):
    """Sum over the pairs of a set, in one order."""
    total = 0.0
    for a in range(1, y[0] + 1):
        row = active[y[a]]
        for b in range(a + 1, y[0] + 1):
            total += row[y[b]]
    return total


@leaf
def best_flips(wide, active, y, relaxed, flips):
    """Write the best two pairs to flip, -1 for a pair outside the set; return their gain.

    The set must not hold all elements. ``active`` is not changed.
    """
    n, m = wide.shape[0], y[0]
    flips[0] = flips[1] = -1
    best = 0.0  # two pairs outside
    one = two = 0.0
    for a in range(1, m + 1):
        p1 = p2 = -1
        if not relaxed:
            # Pairs of this element with one outside the set gain nothing; there may be several.
            one = 0.0
            two = 0.0 if n - m > 1 else -np.inf
        for b in range(a + 1 if relaxed else 1, m + 1):
            if a == b:
                continue
            gain = wide[y[a], y[b]] - 2.0 * active[y[a], y[b]]
            if gain <= two:
                continue
            p = _ordered_pair(n, y[a], y[b])
            if relaxed:
                if gain > one:
                    one, two = gain, one
                    flips[1], flips[0] = flips[0], p
                else:
                    two = gain
                    flips[1] = p
            elif gain > one:
                one, two = gain, one
                p2, p1 = p1, p
            else:
                two = gain
                p2 = p
        if not relaxed and one + two > best:
            best = one + two
            flips[0], flips[1] = p1, p2
    return one + two if relaxed else best


@leaf
def flipped_score(wide, active, y, flips):
    """Score of a set under two flips."""
    toggle(wide, active, flips[0])
    toggle(wide, active, flips[1])
    score = set_score(active, y)
    toggle(wide, active, flips[1])
    toggle(wide, active, flips[0])
    return score


@leaf
def _copy(y, out):
    for k in range(y[0] + 1):
        out[k] = y[k]


@compiled
def complete_pairs(n, X, Y, w, relaxed, examples, flips, scores):
    """Best latent variables of the true outputs, and their scores."""
    wide, active = np.empty((n, n)), np.empty((n, n))
    spread_weights(w, wide)
    for i in examples:
        spread(X[i], wide, active)
        best_flips(wide, active, Y[i], relaxed, flips[i])
        scores[i] = flipped_score(wide, active, Y[i], flips[i])


@compiled
def worst_pairs(space, X, Y, w, references, objective, examples, sets, flips, losses):
    """Maximise ``worth`` over all outputs of the table and all latent variables.

    The distortion ignores h, so that the best h of each output is enough.
    """
    n = space.n_elements
    wide, active = np.empty((n, n)), np.empty((n, n))
    spread_weights(w, wide)
    trial = np.empty(2, np.int32)
    for i in examples:
        top = -np.inf
        spread(X[i], wide, active)
        for row in space.table:
            d = set_distortion(Y[i], row)
            score = set_score(active, row) + best_flips(wide, active, row, False, trial)
            value = worth(objective, score, d, references[i])
            if value > top:
                top = value
                losses[i] = d
                flips[i, 0], flips[i, 1] = trial[0], trial[1]
                _copy(row, sets[i])


@compiled
def worst_pairs_all(space, latents, X, Y, w, references, objective, examples, found):
    """The same by enumeration of all outputs and all latent variables (rows of pairs)."""
    sets, flips, losses = found
    n = space.n_elements
    wide, active = np.empty((n, n)), np.empty((n, n))
    spread_weights(w, wide)
    gains = np.empty(n * (n - 1) // 2)
    for i in examples:
        top = -np.inf
        spread(X[i], wide, active)
        for row in space.table:
            d = set_distortion(Y[i], row)
            base = set_score(active, row)
            gains[:] = 0.0
            for a in range(1, row[0] + 1):
                for b in range(a + 1, row[0] + 1):
                    gain = wide[row[a], row[b]] - 2.0 * active[row[a], row[b]]
                    gains[pair_index(n, row[a], row[b])] = gain
            for k in range(latents.shape[0]):
                score = base + gains[latents[k, 0]] + gains[latents[k, 1]]
                value = worth(objective, score, d, references[i])
                if value > top:
                    top = value
                    losses[i] = d
                    flips[i, 0], flips[i, 1] = latents[k, 0], latents[k, 1]
                    _copy(row, sets[i])


# --- random structures ---------------------------------------------------------------------------


@leaf
def draw_flips(n, rng, flips):
    """Draw two pairs that share an element, uniformly."""
    centre, one = below(rng, n), below(rng, n - 1)
    two = below(rng, n - 2)
    one += 1 if one >= centre else 0
    low, high = min(centre, one), max(centre, one)
    two += 1 if two >= low else 0
    two += 1 if two >= high else 0
    flips[0] = _ordered_pair(n, centre, one)
    flips[1] = _ordered_pair(n, centre, two)


@leaf
def _touch(active, y, contact):
    """``contact[e]``: sum over the pairs of element e with those of y."""
    for element in range(active.shape[0]):
        contact[element] = 0.0
    for k in range(1, y[0] + 1):
        row = active[y[k]]
        for element in range(active.shape[0]):
            contact[element] += row[element]


@leaf
def _climb_sets(space, active, y, value, trial, contact, work):
    """One sweep over the neighbours of y that accepts every strict increase.

    The gain of a change follows from ``contact`` up to rounding. Only where it may be an increase
    is the sum computed in order, and only true increases are checked for membership.
    """
    n = space.n_elements
    lowest = -1 if space.kind == ACYCLIC else 0
    _touch(active, y, contact)
    position = lowest
    while position < y[0]:
        old = y[position + 1] if position >= 0 else -1
        floor = (contact[old] if old >= 0 else 0.0) - 1e-9 * (1.0 + abs(value))
        for element in range(lowest, n):
            gained = 0.0
            if element >= 0:
                gained = contact[element] - (active[old, element] if old >= 0 else 0.0)
            if gained < floor or (element >= 0 and holds(y, element)):
                continue
            if position < 0 and (element < 0 or y[0] == space.width):
                continue
            neighbour(y, position, element, trial)
            score = set_score(active, trial)
            if score > value and is_member(space, trial, work):
                _copy(trial, y)
                value = score
                _touch(active, y, contact)
                if position >= y[0]:
                    break
                old = y[position + 1] if position >= 0 else -1
                floor = (contact[old] if old >= 0 else 0.0) - 1e-9 * (1.0 + abs(value))
        position += 1
    return value


@leaf
def _first_outside(n, y, i, j):
    """A pair that shares an element with the pair (i, j) and is not inside the set y."""
    for other in range(n):
        if other != i and other != j and not holds(y, other):
            return _ordered_pair(n, i, other)
    for other in range(n):  # all others are in y, so i or j is not
        if other != i and other != j:
            return _ordered_pair(n, i if not holds(y, i) else j, other)
    return -1


@leaf
def _climb_flips(wide, active, y, flips, value):
    """One sweep over latent neighbours: one pair changes, and still shares an element.

    Pairs outside y all have the same score, so that only the first of them is tried.
    """
    n = wide.shape[0]
    for side in range(2):
        i, j = pair_ends(n, flips[1 - side])
        toggle(wide, active, flips[side])
        bare = set_score(active, y)
        if bare > value:
            value = bare
            flips[side] = _first_outside(n, y, i, j)
        for end in range(2):
            centre = i if end == 0 else j
            if not holds(y, centre):
                continue
            for k in range(1, y[0] + 1):
                other = y[k]
                if other == i or other == j:
                    continue
                now = active[centre, other]
                if bare + wide[centre, other] - 2.0 * now < value - 1e-9 * (1.0 + abs(value)):
                    continue
                active[centre, other] = active[other, centre] = wide[centre, other] - now
                score = set_score(active, y)
                active[centre, other] = active[other, centre] = now
                if score > value:
                    value = score
                    flips[side] = _ordered_pair(n, centre, other)
        toggle(wide, active, flips[side])
    return value


@leaf
def climb_pairs(space, wide, active, y, flips, trial, contact, work):
    """Change y and h locally while the score increases strictly; returns the score.

    ``active`` has no flips, before and after.
    """
    toggle(wide, active, flips[0])
    toggle(wide, active, flips[1])
    value = set_score(active, y)
    settled = False  # whether the last sweep over h found nothing
    while True:
        before = value
        value = _climb_sets(space, active, y, value, trial, contact, work)
        if settled and value == before:
            break
        middle = value
        value = _climb_flips(wide, active, y, flips, value)
        settled = value == middle
        if value == before:
            break
    toggle(wide, active, flips[1])
    toggle(wide, active, flips[0])
    return value


@compiled
def sample_pairs(space, X, Y, w, references, objective, draws, examples, found):
    """Maximise ``worth`` over random structures of each example (Algorithm 1).

    ``draws`` are their number, whether each is improved to a local optimum, and the seed.
    """
    n_samples, greedy, seed = draws
    sets, flips, losses = found
    n = space.n_elements
    wide, active = np.empty((n, n)), np.empty((n, n))
    spread_weights(w, wide)
    rng, work = np.empty(1, np.uint64), np.empty(2 * space.n_nodes + 1, np.int32)
    y, trial = np.empty(space.width + 1, np.int32), np.empty(space.width + 1, np.int32)
    h, contact = np.empty(2, np.int32), np.empty(n)
    for i in examples:
        top = -np.inf
        spread(X[i], wide, active)
        for t in range(n_samples):
            start_stream(rng, seed, i, t)
            draw_set(space, rng, y, trial, work)
            draw_flips(n, rng, h)
            if greedy:
                score = climb_pairs(space, wide, active, y, h, trial, contact, work)
            else:
                score = flipped_score(wide, active, y, h)
            d = set_distortion(Y[i], y)
            value = worth(objective, score, d, references[i])
            if value > top:
                top = value
                losses[i] = d
                flips[i, 0], flips[i, 1] = h[0], h[1]
                _copy(y, sets[i])


@compiled
def pair_rows(n, X, sets, flips, examples, indices, counts):
    """The pairs whose feature is 1; all others are 0."""
    for i in examples:
        y, count = sets[i], 0
        for a in range(1, y[0] + 1):
            for b in range(a + 1, y[0] + 1):
                p = pair_index(n, y[a], y[b])
                if (X[i, p] != 0) != (p == flips[i, 0] or p == flips[i, 1]):
                    indices[i, count] = p
                    count += 1
        counts[i] = count

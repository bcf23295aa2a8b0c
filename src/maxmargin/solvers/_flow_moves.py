"""Moves of mass at one position of a chain, and the scratch memory of a visit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.flows import put_mass, take_mass
from .._kernels.jit import inner, leaf
from .._kernels.maxima import largest_sum
from .._kernels.vector import copy

# Moves at one position end when one gains less than this share of the first, or after this number.
_ENOUGH = 0.1
_MOST_MOVES = 2
# Largest number of new edges at a position after a visit: of the moves there, of those at the
# position before, and of a move of whole outputs.
NEW_EDGES = 2 * _MOST_MOVES + 1
# Share of a position's own curvature that the prox term of the predictions may add.
_PROX_SHARE = 0.05


class Curvature(NamedTuple):
    """What the prox term of the predictions adds to the curvature of a move."""

    spread: np.ndarray  # |L e_j - L e_k|^2 up to constants, (K, K); zeros for a linear H
    cost: float  # size of the loss


class Scratch(NamedTuple):
    """Scratch memory for one visit."""

    scores: np.ndarray  # of the block
    augmented: np.ndarray
    mu: np.ndarray
    total: np.ndarray  # mass moved, over the parts of the block
    pair: np.ndarray  # one move of a whole output; zeros between uses
    work: np.ndarray
    table: np.ndarray  # (K, K) scores of transitions, forbidden ones minus infinity
    turned: np.ndarray  # its transpose
    paths: np.ndarray  # (T, K) lowest score of a path through the flow
    labels: np.ndarray
    worst: np.ndarray
    before: np.ndarray  # (T, K)
    row: np.ndarray  # (4, K)
    parts: np.ndarray


@inner
def make_scratch(structure, rows):
    """Scratch memory for the largest example."""
    n, longest = structure.n_labels, structure.longest
    largest = generic.largest_block(structure)
    return Scratch(
        np.empty(largest),
        np.empty(largest),
        np.empty(largest),
        np.empty(largest),
        np.zeros(largest),
        np.empty(generic.work_size(structure, rows) + 4 * n),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty((longest, n)),
        np.empty(longest, np.int32),
        np.empty(longest, np.int32),
        np.empty((longest, n), np.int32),
        np.empty((4, n)),
        np.empty(generic.most_parts(structure), np.int32),
    )


@leaf
def prox_step(structure, curvature, p, own):
    """Length of the prox step of the predictions at a position with curvature ``own``."""
    scale = structure.loss_scale[p]
    least = 1.0 / curvature.cost
    if scale <= 0.0:
        return least
    return max(least, _PROX_SHARE * own / (scale * curvature.cost * curvature.cost))


@leaf
def own_square(structure, rows, i, t):
    """Squared norm of the features that a label at position t has."""
    first, last = structure.indptr[i], structure.indptr[i + 1]
    square = rows.squares[first + t]
    if structure.ends:
        square += int(t == 0) + int(t == last - first - 1)
    return square


@leaf
def _best_detour(flows, p, t, length, gains, zeros, scratch):
    """The mass at position t that gains most from another label there.

    Mass enters by one edge and leaves by another; both neighbours keep their labels. Returns the
    gain, and the indices of the entering and the leaving edge (-1 at the end of the sequence).
    """
    n = gains.shape[0]
    table, turned = scratch.table, scratch.turned
    best, best_in, best_out = 0.0, -1, -1
    for place in range(flows.start[p], flows.start[p] + flows.count[p]):
        edge = flows.edge[place]
        before, label = edge // n, edge % n
        come = table[before] if t > 0 else zeros
        if t == length - 1:
            gain = largest_sum(come, gains, zeros) - come[label] - gains[label]
            if gain > best:
                best, best_in = gain, place
            continue
        for onward in range(flows.start[p + 1], flows.start[p + 1] + flows.count[p + 1]):
            if flows.edge[onward] // n != label:
                continue
            go = turned[flows.edge[onward] % n]
            here = come[label] + gains[label] + go[label]
            gain = largest_sum(come, gains, go) - here
            if gain > best:
                best, best_in, best_out = gain, place, onward
    return best, best_in, best_out


@leaf
def _detour_label(gains, come, go):
    """The label with the largest sum."""
    best = 0
    for k in range(1, gains.shape[0]):
        if come[k] + gains[k] + go[k] > come[best] + gains[best] + go[best]:
            best = k
    return best


@leaf
def _transition_square(n, before, after, old, new):
    """Squared norm of the change of the summed transitions; -1: there is no such neighbour."""
    if before < 0 and after < 0:
        return 0.0
    if before < 0 or after < 0:
        return 2.0
    total = 4.0  # the four edges, then those that are the same, twice each
    into_new, into_old = before * n + new, before * n + old
    onto_new, onto_old = new * n + after, old * n + after
    total += 2.0 * (int(into_new == onto_new) + int(into_old == onto_old))
    return total - 2.0 * (int(into_new == onto_old) + int(into_old == onto_new))


@leaf
def _shift_tables(scratch, j, k, amount):
    scratch.table[j, k] += amount
    scratch.turned[k, j] += amount


@leaf
def _take_detour(structure, flows, i, t, best_in, best_out, new, gamma, scale, scratch):
    """Move mass at position t from the label of two edges to another label."""
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    p = first + t
    into = flows.edge[best_in]
    onto = flows.edge[best_out] if best_out >= 0 else 0
    before, old, after = into // n, into % n, onto % n
    base = length * n
    scratch.total[t * n + new] += gamma
    scratch.total[t * n + old] -= gamma
    put_mass(flows, p, before * n + new, gamma)
    take_mass(flows, p, into, gamma)
    if t > 0:
        scratch.total[base + before * n + new] += gamma
        scratch.total[base + before * n + old] -= gamma
        _shift_tables(scratch, before, new, -gamma * scale)
        _shift_tables(scratch, before, old, gamma * scale)
    if best_out >= 0:
        put_mass(flows, p + 1, new * n + after, gamma)
        take_mass(flows, p + 1, onto, gamma)
        scratch.total[base + new * n + after] += gamma
        scratch.total[base + old * n + after] -= gamma
        _shift_tables(scratch, new, after, -gamma * scale)
        _shift_tables(scratch, old, after, gamma * scale)


@leaf
def visit_position(surrogate, structure, rows, curvature, flows, i, t, scale, scores, scratch):
    """Moves at one position; updates ``scores`` of its labels. Returns whether mass was moved."""
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    p = first + t
    square = own_square(structure, rows, i, t)
    step = prox_step(structure, curvature, p, scale * square)
    loss_scale = structure.loss_scale[p]
    mu = scratch.mu[t * n : (t + 1) * n]
    gains, zeros, nu = scratch.row[0], scratch.row[1], scratch.row[2]
    first_gain, moved = 0.0, False
    for move in range(_MOST_MOVES + 1):
        generic.position_response(
            surrogate, structure, i, t, flows.predictions[p], mu, step, scratch.work, nu
        )
        if move == _MOST_MOVES:
            break
        copy(gains, scores)
        generic.add_position_loss(surrogate, structure, i, t, nu, gains)
        generic.forbid_labels(structure, i, t, gains)
        gain, best_in, best_out = _best_detour(flows, p, t, length, gains, zeros, scratch)
        if move == 0:
            first_gain = gain
        if gain <= _ENOUGH * first_gain and move > 0 or gain <= 1e-14:
            break
        before, old = flows.edge[best_in] // n, flows.edge[best_in] % n
        room = flows.mass[best_in]
        after = -1
        if best_out >= 0:
            after = flows.edge[best_out] % n
            room = min(room, flows.mass[best_out])
        new = _detour_label(
            gains,
            scratch.table[before] if t > 0 else zeros,
            scratch.turned[after] if after >= 0 else zeros,
        )
        if new == old:
            break
        bend = _transition_square(n, before if t > 0 else -1, after, old, new)
        bend = scale * (bend + 2.0 * square) + loss_scale * step * curvature.spread[old, new]
        gamma = room if gain >= room * bend else gain / bend
        _take_detour(structure, flows, i, t, best_in, best_out, new, gamma, scale, scratch)
        mu[new] += gamma
        mu[old] = max(0.0, mu[old] - gamma)
        scores[new] -= gamma * scale * square
        scores[old] += gamma * scale * square
        moved = True
    copy(flows.predictions[p], nu)
    return moved

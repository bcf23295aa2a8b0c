"""The compiled pass of local ascent over flows: moves of mass through the labels of a chain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.flows import find_edge, put_mass, take_mass
from .._kernels.jit import compiled
from .._kernels.maxima import largest_sum
from .._kernels.protocol import add_row, score_rows
from .._kernels.vector import add_scaled, copy, dot
from ._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree

# Moves at one position end when one gains less than this share of the first, or after so many.
_ENOUGH = 0.1
_MOST_MOVES = 2
# Share of a position's own curvature that the prox term of the predictions may add.
_PROX_SHARE = 0.05


class Curvature(NamedTuple):
    """What the prox term of the predictions adds to the curvature of a move."""

    spread: np.ndarray  # |L e_j - L e_k|^2 up to constants, (K, K); zeros for a linear H
    cost: float  # size of the loss


class Scratch(NamedTuple):
    """Room for one visit."""

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


@compiled
def make_scratch(structure, rows):
    """Room for the largest example."""
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


@compiled
def prox_step(structure, curvature, p, own):
    """Length of the prox step of the predictions at a position with curvature ``own``."""
    scale = structure.loss_scale[p]
    least = 1.0 / curvature.cost
    if scale <= 0.0:
        return least
    return max(least, _PROX_SHARE * own / (scale * curvature.cost * curvature.cost))


@compiled
def own_square(structure, rows, i, t):
    """Squared norm of the features that a label at position t has."""
    first, last = structure.indptr[i], structure.indptr[i + 1]
    square = rows.squares[first + t]
    if structure.ends:
        square += int(t == 0) + int(t == last - first - 1)
    return square


@compiled
def augment(surrogate, structure, predictions, i, scores, out):
    """Scores plus the losses that the predictions, one row a position, expect."""
    n = structure.n_labels
    copy(out, scores)
    for t in range(structure.indptr[i + 1] - structure.indptr[i]):
        at = out[t * n : (t + 1) * n]
        generic.add_position_loss(surrogate, structure, i, t, predictions[t], at)


@compiled
def true_score(structure, i, scores):
    """Score of the true output."""
    n = structure.n_labels
    first, last = structure.indptr[i], structure.indptr[i + 1]
    total = 0.0
    for t in range(last - first):
        total += scores[t * n + structure.truth[first + t]]
        if t > 0:
            edge = structure.truth[first + t - 1] * n + structure.truth[first + t]
            total += scores[(last - first) * n + edge]
    return total


@compiled
def _worst_path(structure, flows, i, scratch):
    """The output in the flow with the lowest augmented score: its labels, score, and room."""
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    scores, lowest, before = scratch.augmented, scratch.paths, scratch.before
    for t in range(length):
        p = first + t
        for k in range(n):
            lowest[t, k] = np.inf
        for place in range(flows.start[p], flows.start[p] + flows.count[p]):
            edge = flows.edge[place]
            j, k = edge // n, edge % n
            value = scores[t * n + k]
            if t > 0:
                value += lowest[t - 1, j] + scores[length * n + edge]
            if value < lowest[t, k]:
                lowest[t, k] = value
                before[t, k] = j
    end = 0
    for k in range(1, n):
        if lowest[length - 1, k] < lowest[length - 1, end]:
            end = k
    value = lowest[length - 1, end]
    room = 1.0
    if value == np.inf:  # nothing but dust of rounding
        return value, 0.0
    for t in range(length - 1, -1, -1):
        scratch.worst[t] = end
        j = before[t, end]
        place = find_edge(flows, first + t, j * n + end)
        room = min(room, flows.mass[place])
        end = j
    return value, room


@compiled
def _mark_pair(structure, i, scratch, amount):
    """Set (1) or clear (0) the direction from the worst output to the best one."""
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    pair, best, worst = scratch.pair, scratch.labels, scratch.worst
    for t in range(length):
        good, bad = t * n + best[t], t * n + worst[t]
        pair[good] = pair[good] + 1.0 if amount else 0.0
        pair[bad] = pair[bad] - 1.0 if amount else 0.0
        if t > 0:
            good = (length + best[t - 1]) * n + best[t]
            bad = (length + worst[t - 1]) * n + worst[t]
            pair[good] = pair[good] + 1.0 if amount else 0.0
            pair[bad] = pair[bad] - 1.0 if amount else 0.0


@compiled
def _swap_outputs(surrogate, structure, rows, curvature, flows, i, scale, gain, room, scratch):
    """Move mass from the worst output in the flow to the best output of all.

    The direction times the mass moved is left in ``scratch.total``.
    """
    n = structure.n_labels
    first = structure.indptr[i]
    length = structure.indptr[i + 1] - first
    size = generic.block_size(structure, i)
    best, worst = scratch.labels, scratch.worst
    _mark_pair(structure, i, scratch, 1)
    bend = scale * generic.squared_norm(structure, rows, i, scratch.pair[:size], scratch.work)
    for t in range(length):
        added = curvature.spread[worst[t], best[t]]
        if added > 0.0:
            own = scale * own_square(structure, rows, i, t)
            step = prox_step(structure, curvature, first + t, own)
            bend += structure.loss_scale[first + t] * step * added
    gamma = room if gain >= room * bend else gain / bend
    add_scaled(scratch.total[:size], scratch.pair[:size], gamma)
    add_scaled(scratch.mu[:size], scratch.pair[:size], gamma)
    _mark_pair(structure, i, scratch, 0)
    for t in range(length):
        good = best[t] + (best[t - 1] * n if t > 0 else 0)
        bad = worst[t] + (worst[t - 1] * n if t > 0 else 0)
        if good != bad:
            flows = put_mass(flows, first + t, good, gamma)
            take_mass(flows, first + t, bad, gamma)
    return flows


@compiled
def _fill_tables(structure, transitions, scratch):
    """Scores of transitions with what is forbidden, and their transpose."""
    n = structure.n_labels
    for j in range(n):
        for k in range(n):
            value = transitions[j * n + k]
            if structure.masked:
                value += structure.transition_mask[j, k]
            scratch.table[j, k] = value
            scratch.turned[k, j] = value


@compiled
def _best_detour(flows, p, t, length, gains, zeros, scratch):
    """The mass at position t that gains most from another label there.

    Mass flows in by an edge and out by another one; both neighbours keep their labels. Returns the
    gain, the place of the edge in and of the edge out (-1 at the end of the sequence).
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


@compiled
def _detour_label(gains, come, go):
    """The label with the largest sum."""
    best = 0
    for k in range(1, gains.shape[0]):
        if come[k] + gains[k] + go[k] > come[best] + gains[best] + go[best]:
            best = k
    return best


@compiled
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


@compiled
def _shift_tables(scratch, j, k, amount):
    scratch.table[j, k] += amount
    scratch.turned[k, j] += amount


@compiled
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
    flows = put_mass(flows, p, before * n + new, gamma)
    take_mass(flows, p, into, gamma)
    if t > 0:
        scratch.total[base + before * n + new] += gamma
        scratch.total[base + before * n + old] -= gamma
        _shift_tables(scratch, before, new, -gamma * scale)
        _shift_tables(scratch, before, old, gamma * scale)
    if best_out >= 0:
        flows = put_mass(flows, p + 1, new * n + after, gamma)
        take_mass(flows, p + 1, onto, gamma)
        scratch.total[base + new * n + after] += gamma
        scratch.total[base + old * n + after] -= gamma
        _shift_tables(scratch, new, after, -gamma * scale)
        _shift_tables(scratch, old, after, gamma * scale)
    return flows


@compiled
def _visit_position(surrogate, structure, rows, curvature, flows, i, t, scale, scores, scratch):
    """Moves at one position; ``scores`` of its labels follow. Returns whether mass was moved."""
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
        flows = _take_detour(structure, flows, i, t, best_in, best_out, new, gamma, scale, scratch)
        mu[new] += gamma
        mu[old] = max(0.0, mu[old] - gamma)
        scores[new] -= gamma * scale * square
        scores[old] += gamma * scale * square
        moved = True
    copy(flows.predictions[p], nu)
    return flows, moved


@compiled
def _spread_move(structure, i, t, moved, scale, unary):
    """Tell the other positions of a sequence with known products what a move changes for them."""
    base = structure.products_indptr[i]
    for s in range(unary.shape[0]):
        if s != t:
            low, high = min(s, t), max(s, t)
            product = structure.products[base + high * (high + 1) // 2 + low]
            add_scaled(unary[s], moved, -scale * product)


@compiled
def _apply_position(structure, rows, weights, i, t, moved, scale):
    """Change the weights by a move at one position of a long sequence."""
    n = structure.n_labels
    first, last = structure.indptr[i], structure.indptr[i + 1]
    split = rows.n_inputs * n
    add_row(rows, weights[:split].reshape(rows.n_inputs, n), first + t, moved, -scale)
    if structure.ends:
        ends = split + n * n
        if t == 0:
            add_scaled(weights[ends : ends + n], moved, -scale)
        if t == last - first - 1:
            add_scaled(weights[ends + n :], moved, -scale)


@compiled
def _score_position(structure, rows, weights, i, t, out):
    """Scores of the labels at one position."""
    n = structure.n_labels
    first, last = structure.indptr[i], structure.indptr[i + 1]
    split = rows.n_inputs * n
    matrix = weights[:split].reshape(rows.n_inputs, n)
    score_rows(rows, matrix, first + t, first + t + 1, out.reshape(1, n))
    if structure.ends:
        ends = split + n * n
        if t == 0:
            add_scaled(out, weights[ends : ends + n], 1.0)
        if t == last - first - 1:
            add_scaled(out, weights[ends + n :], 1.0)


@compiled
def _sweep(surrogate, structure, rows, curvature, flows, i, scale, known, weights, scratch):
    """Visit all positions of a sequence.

    With ``known`` inner products the scores of all positions follow every move, and the weights
    change once, after the sweep; otherwise they change, and give new scores, at every position.
    """
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size = generic.block_size(structure, i)
    unary = scratch.scores[: length * n].reshape(length, n)
    total, earlier = scratch.total, scratch.row[3]
    for t in range(length):
        moved_here = total[t * n : (t + 1) * n]
        copy(earlier, moved_here)
        if not known:
            _score_position(structure, rows, weights, i, t, unary[t])
        flows, moved = _visit_position(
            surrogate, structure, rows, curvature, flows, i, t, scale, unary[t], scratch
        )
        if moved:
            for k in range(n):
                earlier[k] = moved_here[k] - earlier[k]
            if known:
                _spread_move(structure, i, t, earlier, scale, unary)
            else:
                _apply_position(structure, rows, weights, i, t, earlier, scale)
    if not known:  # what is left are the transitions
        for part in range(length * n):
            total[part] = 0.0
    generic.add_block(structure, rows, weights, i, total[:size], -scale)
    return flows


@compiled
def _visit(surrogate, structure, rows, curvature, flows, i, scale, weights, scratch):
    """Visit one example; returns its surrogate value, its concave part and its gap beforehand."""
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size = generic.block_size(structure, i)
    scores, mu = scratch.scores[:size], scratch.mu[:size]
    augmented, total = scratch.augmented[:size], scratch.total[:size]
    generic.score_block(structure, rows, weights, i, scores)
    generic.load_dual(structure, flows, i, scratch.parts, mu)
    predictions = flows.predictions[structure.indptr[i] : structure.indptr[i + 1]]
    augment(surrogate, structure, predictions, i, scores, augmented)
    value = generic.decode(structure, i, augmented, scratch.work, scratch.labels[:length])
    concave = generic.concave_part(surrogate, structure, i, mu, scratch.work)
    gap = value - dot(mu, scores) - concave
    loss = value - true_score(structure, i, scores)
    known = structure.products_indptr[i + 1] > structure.products_indptr[i]
    total[:] = 0.0
    lowest, room = _worst_path(structure, flows, i, scratch)
    gain = value - lowest
    if gain > 1e-14 and gain < np.inf:
        flows = _swap_outputs(
            surrogate, structure, rows, curvature, flows, i, scale, gain, room, scratch
        )
        if known:
            generic.add_gram(structure, rows, i, total, -scale, scores)
        else:
            generic.add_block(structure, rows, weights, i, total, -scale)
            add_scaled(scores[length * n :], total[length * n :], -scale)
            total[:] = 0.0
    _fill_tables(structure, scores[length * n :], scratch)
    flows = _sweep(surrogate, structure, rows, curvature, flows, i, scale, known, weights, scratch)
    return flows, loss, concave, gap


@compiled
def flow_steps(
    surrogate, structure, rows, curvature, scales, order, draws, tree, gaps, losses, concaves,
    weights, flows,
):  # fmt: skip
    """Visit examples: one move between whole outputs, then moves at every position.

    Parameters
    ----------
    curvature : Curvature
    scales : array
        ``sample_weight_i / (strength * total weight)``: the step of w in a block.
    order, draws, tree : arrays
        The examples to visit, as in ``bcfw_steps``.
    gaps, losses, concaves : arrays
        Receive the gap of the block, the value of the surrogate and the concave part of the
        dual, all as the visit found them.

    Returns
    -------
    flows
        The storage of the dual.
    """
    scratch = make_scratch(structure, rows)
    scratch.row[1, :] = 0.0
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    for step in range(steps):
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
        if scales[i] == 0.0:
            continue
        flows, loss, concave, gap = _visit(
            surrogate, structure, rows, curvature, flows, i, scales[i], weights, scratch
        )
        losses[i], concaves[i], gaps[i] = loss, concave, gap
        if by_gap:
            set_in_sum_tree(tree, i, scales[i] * max(gap, 0.0))
    return flows

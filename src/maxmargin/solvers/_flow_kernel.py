"""The compiled pass of accelerated ascent over flows: one kernel for all chains."""

from __future__ import annotations

import numpy as np

from .._kernels import protocol as generic
from .._kernels.flows import find_edge, grow, make_room, put_mass, take_mass
from .._kernels.jit import leaf
from .._kernels.protocol import add_row, score_rows
from .._kernels.vector import add_scaled, copy, dot
from ._bcfw_kernel import draw_from_sum_tree, set_in_sum_tree
from ._flow_moves import NEW_EDGES, make_scratch, own_square, prox_step, visit_position


@leaf
def augment(surrogate, structure, predictions, i, scores, out):
    """Scores plus the expected losses of the predictions, one row per position."""
    n = structure.n_labels
    copy(out, scores)
    for t in range(structure.indptr[i + 1] - structure.indptr[i]):
        at = out[t * n : (t + 1) * n]
        generic.add_position_loss(surrogate, structure, i, t, predictions[t], at)


@leaf
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


@leaf
def _worst_path(structure, flows, i, scratch):
    """The output in the flow with the lowest augmented score: its labels, score, and mass."""
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
    if value == np.inf:  # only rounding errors are left
        return value, 0.0
    for t in range(length - 1, -1, -1):
        scratch.worst[t] = end
        j = before[t, end]
        place = find_edge(flows, first + t, j * n + end)
        room = min(room, flows.mass[place])
        end = j
    return value, room


@leaf
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


@leaf
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
            put_mass(flows, first + t, good, gamma)
            take_mass(flows, first + t, bad, gamma)


@leaf
def _fill_tables(structure, transitions, scratch):
    """Scores of transitions, minus infinity where forbidden, and their transpose."""
    n = structure.n_labels
    for j in range(n):
        for k in range(n):
            value = transitions[j * n + k]
            if structure.masked:
                value += structure.transition_mask[j, k]
            scratch.table[j, k] = value
            scratch.turned[k, j] = value


@leaf
def _spread_move(structure, i, t, moved, scale, unary):
    """Update the scores of the other positions after a move, from the known inner products."""
    base = structure.products_indptr[i]
    for s in range(unary.shape[0]):
        if s != t:
            low, high = min(s, t), max(s, t)
            product = structure.products[base + high * (high + 1) // 2 + low]
            add_scaled(unary[s], moved, -scale * product)


@leaf
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


@leaf
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


@leaf
def _sweep(surrogate, structure, rows, curvature, flows, i, scale, known, weights, scratch):
    """Visit all positions of a sequence.

    With ``known`` inner products the scores of all positions are updated after every move, and the
    weights once, after the sweep; otherwise the weights are updated, and scores computed from them,
    at every position.
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
        moved = visit_position(
            surrogate, structure, rows, curvature, flows, i, t, scale, unary[t], scratch
        )
        if moved:
            for k in range(n):
                earlier[k] = moved_here[k] - earlier[k]
            if known:
                _spread_move(structure, i, t, earlier, scale, unary)
            else:
                _apply_position(structure, rows, weights, i, t, earlier, scale)
    if not known:  # only the transitions remain
        for part in range(length * n):
            total[part] = 0.0
    generic.add_block(structure, rows, weights, i, total[:size], -scale)


@leaf
def visit_examples(
    surrogate, structure, rows, curvature, scales, visits, weights, flows, first, scratch
):
    """The loop of :func:`flow_steps` from step ``first`` on, until the pool of the flows is full;
    returns the number of steps done so far, and the number of entries missing in the pool."""
    n = structure.n_labels
    order, draws, tree, gaps, _ = visits
    by_gap = draws.shape[0] > 0
    steps = draws.shape[0] if by_gap else order.shape[0]
    for step in range(first, steps):
        i = draw_from_sum_tree(tree, draws[step]) if by_gap else order[step]
        if not by_gap and step + 1 < steps:
            generic.prefetch_block(structure, rows, order[step + 1])
        scale = scales[i]
        if scale == 0.0:
            continue
        low, high = structure.indptr[i], structure.indptr[i + 1]
        missing = make_room(flows, low, high, NEW_EDGES)
        if missing > 0:
            return step, missing
        length = high - low
        size = generic.block_size(structure, i)
        scores, mu = scratch.scores[:size], scratch.mu[:size]
        augmented, total = scratch.augmented[:size], scratch.total[:size]
        generic.score_block(structure, rows, weights, i, scores)
        generic.load_dual(structure, flows, i, scratch.parts, mu)
        augment(surrogate, structure, flows.predictions[low:high], i, scores, augmented)
        value = generic.decode(structure, i, augmented, scratch.work, scratch.labels[:length])
        concave = generic.concave_part(surrogate, structure, i, mu, scratch.work)
        gaps[i] = value - dot(mu, scores) - concave
        if by_gap:
            set_in_sum_tree(tree, i, scale * max(gaps[i], 0.0))
        known = structure.products_indptr[i + 1] > structure.products_indptr[i]
        total[:] = 0.0
        lowest, room = _worst_path(structure, flows, i, scratch)
        gain = value - lowest
        if gain > 1e-14 and gain < np.inf:
            _swap_outputs(
                surrogate, structure, rows, curvature, flows, i, scale, gain, room, scratch
            )
            if known:
                generic.add_gram(structure, rows, i, total, -scale, scores)
            else:
                generic.add_block(structure, rows, weights, i, total, -scale)
                add_scaled(scores[length * n :], total[length * n :], -scale)
                total[:] = 0.0
        _fill_tables(structure, scores[length * n :], scratch)
        _sweep(surrogate, structure, rows, curvature, flows, i, scale, known, weights, scratch)
    return steps, 0


def flow_steps(surrogate, structure, rows, curvature, scales, visits, weights, flows):
    """Visit examples: one move between whole outputs, then moves at every position.

    Parameters
    ----------
    curvature : Curvature
    scales : array
        ``sample_weight_i / (strength * total weight)``: the step of w in a block.
    visits : Visits
        The examples to visit; receives the gap of each block at its visit.

    Returns
    -------
    flows
        The storage of the dual.
    """
    scratch = make_scratch(structure, rows)
    scratch.row[1, :] = 0.0
    done = 0
    while True:
        done, missing = visit_examples(
            surrogate, structure, rows, curvature, scales, visits, weights, flows, done, scratch
        )
        if done == visits.n_steps:
            return flows
        flows = grow(flows, missing)

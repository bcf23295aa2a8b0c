"""Smooth max-min of chains: a game between a distribution over labellings and predictions.

With ``c_t`` the cost of a wrong label at position t and nu_t a distribution over the labels there,

    max_mu  v @ mu + s entropy(mu) + sum_t c_t (1 - max_k mu_t(k))
        =  min_nu  s log sum_y exp( (v @ phi(y) + sum_t c_t (1 - nu_t(y_t))) / s ).

The right-hand side is convex in nu. With all positions but one fixed, the sum over labellings is
one over the labels of that position, with the messages from both sides added to their scores, and
its minimum has the closed form of single labels: nu_t is proportional to ``(b - threshold)_+`` for
the beliefs b. Sweeps from end to end update one position after another, each with the messages that
are current there.

Any nu gives an upper bound, and its marginals mu a lower bound: they differ by
``sum_t c_t (max_k mu_t(k) - nu_t @ mu_t)``. Scores are divided by s throughout.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._kernels import protocol as generic
from .._kernels.batches import own_weights
from .._kernels.exponential import exp_difference, exp_row, extremes, log_row
from .._kernels.jit import compiled, implements, leaf
from .._kernels.maxima import largest
from .._kernels.simplex import threshold
from .._kernels.sum_product import chain_marginals_summed
from .._kernels.vector import add_scaled, combine_rows, copy, dot, max_plus
from .chain import Chain, score_labels
from .chain_sums import apply_masks
from .entropy_chain import EntropyChain

# Sweeps end when no score, a logarithm of a probability, changes by more than this.
_CLOSE = 1e-10
_MOST_SWEEPS = 300
# Sweeps, of which most examples need no more, before steps are accelerated.
_PLAIN_SWEEPS = 4
# Transitions whose logarithms differ by less are exponentiated once, not for every message.
_RANGE = 300.0


class _Game(NamedTuple):
    """Scores over s, those with the losses of nu, messages from both sides, and the transitions:
    as scores, and as the messages use them (exponentiated if ``plain``), also transposed."""

    scores: np.ndarray
    tilted: np.ndarray
    ahead: np.ndarray
    behind: np.ndarray
    before: np.ndarray
    transitions: np.ndarray
    table: np.ndarray
    turned: np.ndarray
    rest: np.ndarray
    plain: bool


@leaf
def _set_up(structure, strength, i, unary, transitions, work):
    """Divide the scores by s, apply the masks, and cut the scratch."""
    length, n = unary.shape
    size, square = length * n, n * n
    scores = work[:size].reshape(length, n)
    scaled = work[2 * size : 2 * size + square].reshape(n, n)
    later = work[2 * size + square :]
    apply_masks(structure, i, unary, transitions, scores, scaled)
    for t in range(length):
        for k in range(n):
            scores[t, k] /= strength
    for j in range(n):
        for k in range(n):
            scaled[j, k] /= strength
    low, top = extremes(scaled.reshape(square))
    plain = top - low <= _RANGE and not structure.masked
    table = later[3 * size : 3 * size + square].reshape(n, n)
    turned = later[3 * size + square : 3 * size + 2 * square].reshape(n, n)
    if plain:
        exp_row(scaled.reshape(square), top, table.reshape(square))
    else:
        copy(table.reshape(square), scaled.reshape(square))
    for j in range(n):
        for k in range(n):
            turned[k, j] = table[j, k]
    return _Game(
        scores,
        work[size : 2 * size].reshape(length, n),
        later[:size].reshape(length, n),
        later[size : 2 * size].reshape(length, n),
        later[2 * size : 3 * size].reshape(length, n),
        scaled,
        table,
        turned,
        later[3 * size + 2 * square :],
        plain,
    )


@leaf
def _send(game, message, matrix, out):
    """Logarithms of the sums over the labels of a neighbour, up to a constant."""
    n = message.shape[0]
    scratch = game.rest[n : 2 * n]
    if game.plain:
        exp_row(message, largest(message), scratch)
        out[:] = 0.0
        combine_rows(matrix, None, scratch, 0, n, out)
        log_row(out, out)
        return
    best = game.rest[2 * n : 3 * n]
    max_plus(message, matrix, best)
    for k in range(n):
        out[k] = 0.0
        if best[k] == -np.inf:
            best[k] = 0.0
    for j in range(n):
        exp_difference(matrix[j], message[j], best, scratch, out)
    log_row(out, out)
    top = largest(best)
    for k in range(n):
        out[k] += best[k] - top


@leaf
def _play(game, t, cost, fresh):
    """Best predictions at a position against all others; returns the largest change of a score.

    ``fresh``: without messages.
    """
    n = game.scores.shape[1]
    beliefs, scratch = game.rest[:n], game.rest[n : 2 * n]
    scores, tilted = game.scores[t], game.tilted[t]
    for k in range(n):
        beliefs[k] = scores[k] if fresh else scores[k] + game.behind[t, k] + game.ahead[t, k]
    level = threshold(beliefs, scratch, cost) if cost > 0.0 else np.inf
    change = 0.0
    for k in range(n):
        if beliefs[k] > level:
            new = scores[k] + cost - (beliefs[k] - level)
        else:
            new = scores[k] + cost
        if new > -np.inf:
            change = max(change, abs(new - tilted[k]))
        tilted[k] = new
    return change


@leaf
def _receive(game, t, by, matrix, messages):
    """The message to position t from the one before it (``by`` = -1) or after it (1)."""
    n = game.scores.shape[1]
    if t + by < 0 or t + by >= game.scores.shape[0]:
        messages[t, :] = 0.0
        return
    message = game.rest[:n]
    for k in range(n):
        message[k] = messages[t + by, k] + game.tilted[t + by, k]
    _send(game, message, matrix, messages[t])


@leaf
def _sweep(game, structure, i, factor, forward):
    """Play at all positions, in either direction; returns the largest change."""
    length = game.scores.shape[0]
    first = structure.indptr[i]
    change = 0.0
    for step in range(length):
        t = step if forward else length - 1 - step
        if forward:
            _receive(game, t, -1, game.table, game.behind)
        else:
            _receive(game, t, 1, game.turned, game.ahead)
        change = max(change, _play(game, t, structure.loss_scale[first + t] * factor, False))
    return change


@leaf
def _extrapolate(game, share):
    """Continue the last change of the scores, and keep those of now."""
    for t in range(game.scores.shape[0]):
        for k in range(game.scores.shape[1]):
            now = game.tilted[t, k]
            if share > 0.0 and now > -np.inf:
                game.tilted[t, k] += share * (now - game.before[t, k])
            game.before[t, k] = now


@leaf
def play(structure, strength, i, unary, transitions, work):
    """Find nu: write the scores with its losses."""
    game = _set_up(structure, strength, i, unary, transitions, work)
    length = unary.shape[0]
    factor = structure.loss.costs[0] / strength
    first = structure.indptr[i]
    for t in range(length):
        _play(game, t, structure.loss_scale[first + t] * factor, True)
    momentum, last = 1.0, np.inf
    for sweep in range(_MOST_SWEEPS):
        if sweep == 0 or sweep > _PLAIN_SWEEPS:
            for t in range(length - 1, -1, -1):
                _receive(game, t, 1, game.turned, game.ahead)
        change = _sweep(game, structure, i, factor, True)
        if change > _CLOSE:
            change = _sweep(game, structure, i, factor, False)
        if change <= _CLOSE:
            break
        # The iterate before is kept, so that accelerated steps have a direction.
        if change > last:
            momentum = 1.0
        last = change
        following = 0.5 + np.sqrt(0.25 + momentum * momentum)
        ahead = (momentum - 1.0) / following if _PLAIN_SWEEPS <= sweep < _MOST_SWEEPS - 1 else 0.0
        momentum = following if sweep >= _PLAIN_SWEEPS else 1.0
        _extrapolate(game, ahead)
    return game


@leaf
def _regret(game, structure, i, factor, marginals):
    """What nu loses against the best predictions, over s; its expected losses enter the scores."""
    first = structure.indptr[i]
    total = 0.0
    for t in range(marginals.shape[0]):
        cost = structure.loss_scale[first + t] * factor
        lost = cost * largest(marginals[t])
        for k in range(marginals.shape[1]):
            if marginals[t, k] > 0.0:
                lost -= (cost + game.scores[t, k] - game.tilted[t, k]) * marginals[t, k]
        total += lost
    return max(total, 0.0)


@leaf
def _solve(structure, strength, i, scores, work, mu):
    """Write the marginals; returns an upper and a lower bound on the value, and the entropy."""
    n = structure.n_labels
    length = structure.indptr[i + 1] - structure.indptr[i]
    size, square = length * n, n * n
    unary, transitions = scores[:size].reshape(length, n), scores[size : size + square]
    game = play(structure, strength, i, unary, transitions.reshape(n, n), work)
    marginals = mu[:size].reshape(length, n)
    summed = mu[size : size + square]
    scratch = work[2 * size + square :]
    value = chain_marginals_summed(
        game.tilted, game.transitions, scratch, marginals, summed.reshape(n, n)
    )
    regret = _regret(game, structure, i, structure.loss.costs[0] / strength, marginals)
    if not structure.masked:
        expected = dot(game.tilted.reshape(size), mu[:size])
        expected += dot(game.transitions.reshape(square), summed)
    else:
        expected = 0.0
        for part in range(size):
            if mu[part] > 0.0:
                expected += mu[part] * game.tilted[part // n, part % n]
        for part in range(square):
            if summed[part] > 0.0:
                expected += summed[part] * game.transitions[part // n, part % n]
    return strength * value, strength * (value - regret), max(value - expected, 0.0)


@implements(generic.smooth_max_min, Chain)
def _smooth_max_min(structure, strength, i, scores, work, mu):
    upper, lower, _ = _solve(structure, strength, i, scores, work, mu)
    return upper, lower


@implements(generic.smooth_max_min, EntropyChain)
def _bounded_smooth_max_min(structure, strength, i, scores, work, mu):
    last = mu.shape[0] - 1
    upper, lower, entropy = _solve(structure.chain, strength, i, scores[:last], work, mu[:last])
    mu[last] = entropy
    return upper, lower


@implements(generic.loss_floor, EntropyChain)
def _loss_floor(structure, i, mu, work):
    return generic.loss_floor(structure.chain, i, mu, work)


@leaf
def _tilt(structure, strength, i, unary, transitions, work, out):
    """Scores over s with the losses of nu, finite where labels are forbidden, too."""
    game = play(structure, strength, i, unary, transitions, work)
    for t in range(unary.shape[0]):
        for k in range(unary.shape[1]):
            out[t, k] = unary[t, k] / strength
            if game.scores[t, k] > -np.inf:
                out[t, k] = game.tilted[t, k]


@compiled
def tilted_scores(structure, rows, weights, strength, first, last, scores):
    """Write the scores of labels at positions, with the losses of nu, over s: those of mu. The
    weights of the ends are not in them. ``weights`` has one row for all sequences, or one each."""
    n = structure.n_labels
    buffer = np.empty(generic.largest_block(structure))
    work = np.empty(generic.work_size(structure, rows))
    split = rows.n_inputs * n
    for i in range(first, last):
        own = own_weights(weights, i)
        transitions, ends = own[split : split + n * n].reshape(n, n), own[split + n * n :]
        low, high = structure.indptr[i], structure.indptr[i + 1]
        unary = buffer[: (high - low) * n].reshape(high - low, n)
        score_labels(structure, rows, own, i, unary)
        _tilt(structure, strength, i, unary, transitions, work, scores[low:high])
        if structure.ends:
            add_scaled(scores[low], ends[:n], -1.0 / strength)
            add_scaled(scores[high - 1], ends[n:], -1.0 / strength)

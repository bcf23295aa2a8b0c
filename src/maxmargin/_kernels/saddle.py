"""Max-min over doubly stochastic matrices: ``max_mu min_nu 1 - <nu, mu> / n + <scores, mu>``.

Two methods for the saddle point. Both can be stopped at any time, and return bounds that are always
valid: the upper bound ``1 + assignment(scores - nu / n)``, and the value of mu as the lower bound.

*Proximal*: with ``- curvature/2 |mu - centre|^2`` added, nu is the projection of
``n (curvature centre + scores)`` onto the doubly stochastic matrices and mu that of
``centre + (scores - nu / n) / curvature``: two projections, exact wherever nu is a best response to
mu, which is checked and nearly always true for small n. Otherwise an interior-point method solves
the same problem. Repeated from the last answer with decreasing curvature, two projections solve the
original problem in a few steps; where one of them is not exact, the interior-point method does.

*Mirror-prox* (SP-MP, the method of the paper): two steps per iteration, in the entropy of the
marginals (Sinkhorn) or in Euclidean distance; returns the average, whose error decreases like one
over the number of iterations.

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020, appendix G.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .assignment import best_weight
from .birkhoff import birkhoff_work, project_birkhoff, round_to_birkhoff
from .birkhoff_game import birkhoff_game, birkhoff_game_work
from .jit import leaf
from .sinkhorn import sinkhorn, sinkhorn_work
from .vector import add_scaled, copy, dot

# Accuracy of the interior-point method in a step, as a share of the gap, and its smallest value.
_STEP_SHARE = 1e-6
_ROUNDING = 1e-12
# Accuracy in an evaluation, as a share of the requested one: rounding its answers costs some.
_EVALUATION_SHARE = 0.1
# Smallest curvature: a smaller one gives no improvement, and makes projections less accurate.
_LEAST_CURVATURE = 1e-4
# Accuracy of scaling in mirror-prox: that of the method is enough, as its answer is rounded.
_SCALING_TOLERANCE = 1e-7
# Smallest entry of a saved pair: multiplicative steps must be able to increase it again.
_SMALLEST = 1e-12


class Proximal(NamedTuple):
    """Proximal steps, until the bracket is within the accuracy, at most ``iterations``."""

    iterations: int
    accuracy: float


class MirrorProx(NamedTuple):
    """Iterations of SP-MP, in the entropy of the marginals or in Euclidean distance."""

    iterations: int
    entropic: bool


@leaf
def saddle_work(n):
    """Length of the scratch vector of the functions here, for n rows."""
    return 8 * n * n + max(birkhoff_work(n), sinkhorn_work(n), birkhoff_game_work(n, 0))


@leaf
def flat_best_weight(weights, n, work):
    """Weight of the best permutation under flat ``weights``."""
    return best_weight(weights.reshape(n, n), work)


@leaf
def upper_bound(scores, nu, n, target, work):
    """Upper bound on the value of any mu, from any nu."""
    copy(target, scores)
    add_scaled(target, nu, -1.0 / n)
    return 1.0 + flat_best_weight(target, n, work)


@leaf
def lower_bound(scores, mu, n, work):
    """Value of mu against the best response to it."""
    return 1.0 - flat_best_weight(mu, n, work) / n + dot(scores, mu)


@leaf
def _answer_to(nu, centre, scores, curvature, n, target, work, mu):
    """The best mu against nu, with a proximal term at the centre."""
    copy(target, centre)
    add_scaled(target, scores, 1.0 / curvature)
    add_scaled(target, nu, -1.0 / (n * curvature))
    project_birkhoff(target.reshape(n, n), work, mu.reshape(n, n))


@leaf
def _regret(mu, nu, n, work):
    """Regret of nu against the best response to mu."""
    return (flat_best_weight(mu, n, work) - dot(nu, mu)) / n


@leaf
def _two_projections(centre, scores, curvature, n, work, nu, mu):
    """The closed form of :func:`proximal_pair`."""
    size = n * n
    target, rest = work[:size], work[size:]
    for k in range(size):
        target[k] = n * (curvature * centre[k] + scores[k])
    project_birkhoff(target.reshape(n, n), rest, nu.reshape(n, n))
    _answer_to(nu, centre, scores, curvature, n, target, rest, mu)
    return upper_bound(scores, nu, n, target, rest), _regret(mu, nu, n, rest)


@leaf
def interior_pair(centre, scores, curvature, factor, accuracy, n, work, nu, mu):
    """:func:`proximal_pair` by the interior-point method, whose quadratic term may also have a
    ``factor``; ``work`` is that of the method."""
    birkhoff_game(scores, centre, curvature, factor, accuracy, n, work, mu, nu)
    round_to_birkhoff(mu.reshape(n, n), work)
    round_to_birkhoff(nu.reshape(n, n), work)
    return upper_bound(scores, nu, n, work[: n * n], work[n * n :]), _regret(mu, nu, n, work)


@leaf
def proximal_pair(centre, value, scores, curvature, n, work, nu, mu):
    """Solve the max-min problem with ``- curvature/2 |mu - centre|^2``.

    Parameters
    ----------
    centre, value : array, float
        The centre, doubly stochastic, and its value: the lower bound.
    nu, mu : arrays
        The answer.

    Returns
    -------
    upper, regret : float
        An upper bound on the problem *without* the quadratic term, and the regret of nu against the
        best response to mu: 0 where the answer is exact.
    """
    upper, regret = _two_projections(centre, scores, curvature, n, work, nu, mu)
    accuracy = max(_STEP_SHARE * (upper - value), _ROUNDING)
    if regret <= accuracy:
        return upper, regret
    none = work[:0].reshape(n * n, 0)
    found, regret = interior_pair(centre, scores, curvature, none, accuracy, n, work, nu, mu)
    return min(upper, found), regret


@leaf
def proximal_saddle(scores, iterations, accuracy, n, work, mu, nu):
    """Improve the pair (mu, nu) by proximal steps; returns an upper and a lower bound.

    Stops when they are within ``accuracy``. The pair has the best mu and the best nu so far.
    """
    size = n * n
    next_mu, next_nu, rest = work[:size], work[size : 2 * size], work[2 * size :]
    lower = lower_bound(scores, mu, n, rest)
    upper = upper_bound(scores, nu, n, next_nu, rest)
    curvature = 1.0 / n
    for _ in range(iterations):
        if upper - lower <= accuracy:
            break
        found, regret = _two_projections(mu, scores, curvature, n, rest, next_nu, next_mu)
        is_exact = regret <= accuracy
        if not is_exact:
            none = rest[:0].reshape(size, 0)
            goal = max(_EVALUATION_SHARE * accuracy, _ROUNDING)
            found, _ = interior_pair(mu, scores, 0.0, none, goal, n, rest, next_nu, next_mu)
        if found < upper:
            upper = found
            copy(nu, next_nu)
        worth = lower_bound(scores, next_mu, n, rest)
        if worth > lower:
            lower = worth
            copy(mu, next_mu)
        if not is_exact:
            break
        curvature = max(0.25 * curvature, _LEAST_CURVATURE / n)
    return upper, lower


@leaf
def _mirror_step(entropic, base, gradient, step, n, work, target, out):
    """Step from ``base`` (logarithms if ``entropic``) along a gradient, then project."""
    copy(target, base)
    add_scaled(target, gradient, step)
    if entropic:
        sinkhorn(target.reshape(n, n), _SCALING_TOLERANCE, work, out.reshape(n, n))
    else:
        project_birkhoff(target.reshape(n, n), work, out.reshape(n, n))


@leaf
def mirror_prox(scores, iterations, entropic, n, work, mu, nu):
    """Replace the pair (mu, nu) by the average of ``iterations`` of SP-MP that start there.

    Returns an upper and a lower bound on the saddle value; mu is doubly stochastic up to rounding.
    """
    size = n * n
    buffers = work[: 8 * size].reshape(8, size)
    rest = work[8 * size :]
    base_mu, base_nu, next_mu, next_nu = buffers[0], buffers[1], buffers[2], buffers[3]
    sum_mu, sum_nu, gradient, target = buffers[4], buffers[5], buffers[6], buffers[7]
    # The coupling <nu, mu> / n has Lipschitz constant 1/(2n) between the norms in which the two
    # entropies are strongly convex (rows differ by vectors of sum zero), 1/n in Euclidean norm.
    step = 2.0 * n if entropic else 1.0 * n
    for k in range(size):
        base_mu[k] = np.log(max(mu[k], _SMALLEST)) if entropic else mu[k]
        base_nu[k] = np.log(max(nu[k], _SMALLEST)) if entropic else nu[k]
    sum_mu[:] = 0.0
    sum_nu[:] = 0.0
    for _ in range(iterations):
        copy(gradient, scores)
        add_scaled(gradient, nu, -1.0 / n)
        _mirror_step(entropic, base_mu, gradient, step, n, rest, target, next_mu)
        _mirror_step(entropic, base_nu, mu, step / n, n, rest, target, next_nu)
        add_scaled(sum_mu, next_mu, 1.0)
        add_scaled(sum_nu, next_nu, 1.0)
        copy(gradient, scores)
        add_scaled(gradient, next_nu, -1.0 / n)
        _mirror_step(entropic, base_mu, gradient, step, n, rest, target, mu)
        copy(base_mu, target if entropic else mu)
        _mirror_step(entropic, base_nu, next_mu, step / n, n, rest, target, nu)
        copy(base_nu, target if entropic else nu)
    for k in range(size):
        mu[k] = sum_mu[k] / iterations
        nu[k] = sum_nu[k] / iterations
    round_to_birkhoff(mu.reshape(n, n), rest)
    round_to_birkhoff(nu.reshape(n, n), rest)
    return upper_bound(scores, nu, n, target, rest), lower_bound(scores, mu, n, rest)

"""Vector operations of an accelerated proximal point method, without temporary arrays: with sparse
features the vectors are long, and temporary arrays would take as much time as a pass.

The iterate is ``w = (bare + inertia * centre) / (1 + inertia)`` with ``bare = w(mu)``, so
``bare = (1 + inertia) w - inertia * centre`` need not be stored.
"""

from __future__ import annotations

from .._kernels.jit import compiled


def mix_in(mean, vector, share):
    """``mean += share * (vector - mean)``."""
    mix_bare(mean, vector, vector, 0.0, share)


@compiled
def movement(centre, weights, before):
    """Squared distances of weights and centre from ``before``, and the product of both changes."""
    own, ahead, product = 0.0, 0.0, 0.0
    for j in range(weights.shape[0]):
        moved, led = weights[j] - before[j], centre[j] - before[j]
        own += moved * moved
        ahead += led * led
        product += moved * led
    return own, ahead, product


@compiled
def move_centre(weights, before, centre, momentum, inertia, new_inertia):
    """Move the centre to ``weights + momentum * (weights - before)``, change the inertia, and adapt
    the weights to both; ``before`` becomes the old weights."""
    for j in range(weights.shape[0]):
        here = weights[j]
        there = here + momentum * (here - before[j])
        bare = (1.0 + inertia) * here - inertia * centre[j]
        before[j] = here
        weights[j] = (bare + new_inertia * there) / (1.0 + new_inertia)
        centre[j] = there


@compiled
def bare_products(best, weights, centre, inertia):
    """``best @ best``, ``bare @ bare`` and ``best @ bare``."""
    old, new, cross = 0.0, 0.0, 0.0
    for j in range(weights.shape[0]):
        bare = (1.0 + inertia) * weights[j] - inertia * centre[j]
        old += best[j] * best[j]
        new += bare * bare
        cross += best[j] * bare
    return old, new, cross


@compiled
def mix_bare(best, weights, centre, inertia, step):
    """``best += step * (bare - best)``."""
    for j in range(weights.shape[0]):
        bare = (1.0 + inertia) * weights[j] - inertia * centre[j]
        best[j] += step * (bare - best[j])

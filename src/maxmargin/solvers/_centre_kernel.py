"""Vector operations of an accelerated proximal point method, without temporary arrays: with sparse
features the vectors are long, and temporary arrays would take as much time as a pass.

The iterate is ``w = (bare + inertia * centre) / (1 + inertia)`` with ``bare = w(mu)``, so
``bare = (1 + inertia) w - inertia * centre`` need not be stored.
"""

from __future__ import annotations

from .._kernels.jit import compiled
from .groups import in_threads

# Numbers that a thread handles at a time: 8 MB of each vector.
_CHUNK = 1 << 20
# Share of the way to ``bare`` that the centre of a weight goes which is coupled with no other, and
# the factor of its last movement that it goes back.
_PULL, _BACK = 0.3, 0.2


def _in_chunks(kernel, vectors, numbers, n_threads):
    """Results of a kernel for all chunks of some vectors, in order."""

    def work(first, last):
        return kernel(*[vector[first:last] for vector in vectors], *numbers)

    size = len(vectors[0])
    if size <= _CHUNK:
        return [kernel(*vectors, *numbers)]
    starts = range(0, size, _CHUNK)
    return in_threads(work, [(first, min(first + _CHUNK, size)) for first in starts], n_threads)


def _sums(results):
    return tuple(sum(values) for values in zip(*results, strict=True))


def mix_in(mean, vector, share, n_threads=1):
    """``mean += share * (vector - mean)``."""
    mix_bare(mean, vector, vector, 0.0, share, n_threads)


def movement(centre, weights, before, n_threads=1):
    """Squared distances of weights and centre from ``before``, and the product of both changes."""
    return _sums(_in_chunks(_movement, (centre, weights, before), (), n_threads))


def move_centre(weights, before, centre, momentum, inertia, new_inertia, n_threads=1):
    """Move the centre to ``weights + momentum * (weights - before)``, change the inertia, and adapt
    the weights to both; ``before`` becomes the old weights."""
    numbers = (float(momentum), float(inertia), float(new_inertia))
    _in_chunks(_move_centre, (weights, before, centre), numbers, n_threads)


def pull_centre(weights, before, centre, pulls, momentum, inertia, new_inertia, n_threads=1):
    """The same with a share of the way to ``bare`` per weight, which takes the place of as much of
    the momentum."""
    numbers = (float(momentum), float(inertia), float(new_inertia))
    _in_chunks(_pull_centre, (weights, before, centre, pulls), numbers, n_threads)


def bare_products(best, weights, centre, inertia, n_threads=1):
    """``best @ best``, ``bare @ bare`` and ``best @ bare``."""
    return _sums(_in_chunks(_bare_products, (best, weights, centre), (inertia,), n_threads))


def write_bare(out, weights, centre, inertia, n_threads=1):
    """``out = bare``."""
    _in_chunks(_write_bare, (out, weights, centre), (float(inertia),), n_threads)


def mix_bare(best, weights, centre, inertia, step, n_threads=1):
    """``best += step * (bare - best)``."""
    _in_chunks(_mix_bare, (best, weights, centre), (float(inertia), float(step)), n_threads)


@compiled
def _movement(centre, weights, before):
    own, ahead, product = 0.0, 0.0, 0.0
    for j in range(weights.shape[0]):
        moved, led = weights[j] - before[j], centre[j] - before[j]
        own += moved * moved
        ahead += led * led
        product += moved * led
    return own, ahead, product


@compiled
def _move_centre(weights, before, centre, momentum, inertia, new_inertia):
    for j in range(weights.shape[0]):
        here = weights[j]
        there = here + momentum * (here - before[j])
        bare = (1.0 + inertia) * here - inertia * centre[j]
        before[j] = here
        weights[j] = (bare + new_inertia * there) / (1.0 + new_inertia)
        centre[j] = there


@compiled
def _pull_centre(weights, before, centre, pulls, momentum, inertia, new_inertia):
    for j in range(weights.shape[0]):
        here = weights[j]
        bare = (1.0 + inertia) * here - inertia * centre[j]
        alone = pulls[j]
        factor = momentum - alone * (momentum + _BACK)
        there = here + factor * (here - before[j]) + _PULL * alone * (bare - here)
        before[j] = here
        weights[j] = (bare + new_inertia * there) / (1.0 + new_inertia)
        centre[j] = there


@compiled
def _bare_products(best, weights, centre, inertia):
    old, new, cross = 0.0, 0.0, 0.0
    for j in range(weights.shape[0]):
        bare = (1.0 + inertia) * weights[j] - inertia * centre[j]
        old += best[j] * best[j]
        new += bare * bare
        cross += best[j] * bare
    return old, new, cross


@compiled
def _mix_bare(best, weights, centre, inertia, step):
    for j in range(weights.shape[0]):
        bare = (1.0 + inertia) * weights[j] - inertia * centre[j]
        best[j] += step * (bare - best[j])


@compiled
def _write_bare(out, weights, centre, inertia):
    for j in range(weights.shape[0]):
        out[j] = (1.0 + inertia) * weights[j] - inertia * centre[j]

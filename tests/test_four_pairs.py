"""Moves within four tables at once against the same moves written out for one table."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin._kernels.jit import compiled
from maxmargin.graphs.kernels.agreement import NEGLIGIBLE, Beliefs, Penalty
from maxmargin.graphs.kernels.four_pairs import LANES, move_four, move_four_tied

LEFT, RIGHT = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])  # states of the four entries


@compiled
def four(tables, eta, implied, weights, values, kappa, scale, augmented, most, enough):
    beliefs = Beliefs(values, tables, implied, eta)
    penalty = Penalty(kappa, 0.0, False, True, augmented, 1)
    return move_four(beliefs, 4, 8, weights, 2, values, penalty, scale, most, enough)


@compiled
def four_tied(tables, eta, implied, values, kappa, scale, augmented, most, enough):
    beliefs = Beliefs(values, tables, implied, eta)
    penalty = Penalty(kappa, 0.0, False, True, augmented, 1)
    return move_four_tied(beliefs, 4, 8, values, penalty, scale, most, enough)


def move(mass, eta, weights, own, kappa, scale, most, shared):
    """Moves within one table; returns everything it ends with, and the gap it began with.

    ``weights`` are those of the entries; ``shared`` says which entries have the same.
    """
    mass, weights = mass.copy(), weights.copy()
    gap = None
    for _ in range(most):
        implied = np.array([mass[LEFT == 1].sum(), mass[RIGHT == 1].sum()])
        left, right = np.asarray(eta) + kappa * (implied - own)
        theta = weights - np.where(LEFT, left, -left) - np.where(RIGHT, right, -right)
        if gap is None:
            gap = theta.max() - theta @ mass
        best = int(np.argmax(theta))
        worst = int(np.argmin(np.where(mass > 0, theta, np.inf)))
        diff = theta[best] - theta[worst]
        if diff <= NEGLIGIBLE:
            break
        apart = (LEFT[best] != LEFT[worst]) + int(RIGHT[best] != RIGHT[worst])
        direction = np.eye(4)[best] - np.eye(4)[worst]
        curvature = scale * direction @ shared @ direction + 2.0 * kappa * apart
        step = min(mass[worst], diff / curvature)
        mass += step * direction
        weights -= scale * step * (shared @ direction)
    implied = np.array([mass[LEFT == 1].sum(), mass[RIGHT == 1].sum()])
    return mass, weights, implied, np.asarray(eta) + kappa * (implied - own), gap


# The weight of each entry, -1 for none; None: four weights, next to each other.
TIES = (None, (-1, -1, -1, 0), (0, -1, -1, 0), (0, 1, 1, 2), (1, -1, 0, 0), (-1, -1, -1, -1))


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("augmented", [True, False])
@pytest.mark.parametrize("most", [1, 3000])
@pytest.mark.parametrize("seed", range(3))
def test_four_tables_move_as_each_would(seed, most, augmented, tie):
    """One move, and all moves: the maximum. After an exact move two entries tie."""
    rng = np.random.RandomState(seed)
    shared = np.eye(4)
    if tie is not None:
        shared = np.equal.outer(tie, tie) * (np.array(tie) >= 0).astype(float)
    kappa, scale = rng.uniform(0.01, 2.0, 2)
    mass = rng.dirichlet(np.full(4, 0.5), LANES)
    mass[rng.rand(LANES, 4) < 0.4] = 0.0
    mass[mass.sum(axis=1) == 0, 0] = 1.0
    mass /= mass.sum(axis=1, keepdims=True)
    eta, own = 0.3 * rng.randn(LANES, 2), rng.rand(LANES, 2)
    weights = rng.randn(LANES, 4)
    if tie is not None:
        weights = np.concatenate([weights, np.zeros((LANES, 1))], axis=1)[:, tie]
    wanted = [
        move(mass[k], eta[k], weights[k], own[k], kappa, scale, most, shared) for k in range(LANES)
    ]

    # Numbers around those of the four tables must not change.
    tables = np.concatenate([[7.0] * 4, mass.ravel(), [7.0] * 3])
    both = np.stack([-eta, eta], axis=2).reshape(LANES, 4)
    multipliers = np.concatenate([[7.0] * 8, both.ravel(), [7.0]])
    implied = np.full(len(multipliers), 7.0)
    flat = np.concatenate([[7.0] * 2, weights.ravel(), [7.0]])
    values = own.T.ravel().copy()
    numbers = kappa, scale, augmented, most, 0.0
    if tie is None:
        gap, square = four(tables, multipliers, implied, flat, values, *numbers)
    else:
        values = np.concatenate([values, weights.T.ravel(), shared.ravel()])
        gap, square = four_tied(tables, multipliers, implied, values, *numbers)
        flat[2:18] = values[8:24].reshape(4, LANES).T.ravel()
        values = values[:8]

    for array, first, last in ((tables, 4, 20), (multipliers, 8, 24), (implied, 8, 24)):
        assert (np.delete(array, slice(first, last)) == 7.0).all()
    # Moves end where the best of them gains nothing to rounding: a square root of it is left.
    close = {"rtol": 0, "atol": 1e-13 if most == 1 else 1e-7}
    got = implied[8:24].reshape(LANES, 4)
    for k, (new_mass, new_weights, new_implied, message, _) in enumerate(wanted):
        np.testing.assert_allclose(tables[4:20].reshape(LANES, 4)[k], new_mass, **close)
        np.testing.assert_allclose(flat[2:18].reshape(LANES, 4)[k], new_weights, **close)
        np.testing.assert_allclose(got[k, 1::2], new_implied, **close)
        np.testing.assert_allclose(got[k, ::2], 1.0 - new_implied, **close)
        kept = message if augmented else eta[k]
        found = multipliers[8:24].reshape(LANES, 4)[k]
        np.testing.assert_allclose(found, [-kept[0], kept[0], -kept[1], kept[1]], **close)
        np.testing.assert_allclose(values[k::LANES], kept + kappa * new_implied, **close)
    assert gap == pytest.approx(sum(found[-1] for found in wanted), abs=1e-12)
    moved = sum(((found[3] - eta[k]) ** 2).sum() for k, found in enumerate(wanted))
    assert square == pytest.approx(2.0 * moved, abs=close["atol"])


def test_moves_end_when_none_gains_enough():
    """All mass is where it belongs: nothing changes, whatever number of moves is allowed."""
    tables = np.tile([1.0, 0.0, 0.0, 0.0], LANES + 1)
    before = tables.copy()
    weights = np.concatenate([[0.0] * 2, np.tile([5.0, 0.0, 0.0, 0.0], LANES)])
    zeros = np.zeros(24)
    gap, _ = four(tables, zeros, np.empty(24), weights, np.zeros(8), 0.5, 1.0, True, 10, 0.3)
    assert gap == 0.0
    np.testing.assert_array_equal(tables, before)

"""Bounds on the excess risk: constants by enumeration, the best alpha, a known distribution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from maxmargin import MulticlassClassifier
from maxmargin.certificates import (
    best_alpha,
    calibration_constant,
    excess_risk_bound,
    iterations_for,
    loss_constants,
)

PERMUTATIONS = [np.eye(3)[list(order)].ravel() for order in itertools.permutations(range(3))]
SETS = [np.concatenate([np.eye(2)[a], np.eye(3)[b]]) for a in range(2) for b in range(3)]
ABSOLUTE = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


@pytest.mark.parametrize(
    ("name", "size", "outputs", "losses"),
    [
        ("0-1", 4, np.eye(4), 1.0 - np.eye(4)),
        ("absolute", 4, np.eye(4), ABSOLUTE),
        ("hamming", [2, 3], SETS, 1.0 - np.array(SETS) @ np.array(SETS).T / 2),
        (
            "permutation",
            3,
            PERMUTATIONS,
            1.0 - np.array(PERMUTATIONS) @ np.array(PERMUTATIONS).T / 3,
        ),
    ],
)
def test_constants_of_losses_against_all_outputs(name, size, outputs, losses):
    found, outputs = loss_constants(name, size), np.array(outputs)
    # A polytope is as wide as its two farthest vertices.
    widths = np.linalg.norm(outputs[:, None] - outputs[None], axis=2)
    assert found.lipschitz >= widths.max() - 1e-12
    if name != "permutation":  # of three items, no two orders differ more than others
        assert found.lipschitz == pytest.approx(widths.max())
    assert found.largest_loss == pytest.approx(losses.max())
    # Some A with this norm and some constant give the losses: no A has less on their span.
    for constant in (0.0, 0.5 * losses.max(), losses.max()):
        pinv = np.linalg.pinv(outputs)
        A = pinv @ (losses - constant) @ pinv.T
        np.testing.assert_allclose(outputs @ A @ outputs.T + constant, losses, atol=1e-12)
        if np.linalg.norm(A, 2) <= found.decomposition_norm + 1e-12:
            break
    else:
        pytest.fail("no decomposition of the loss is as small as the constant")


def test_best_alpha_minimises_the_bound_and_has_its_closed_form():
    constants, n, confidence = loss_constants("0-1", 5), 2000, 0.9
    common = {
        "calibration": 5.0,
        "constants": constants,
        "radius": 3.0,
        "target_norm": 0.7,
        "confidence": confidence,
    }

    def value(log_alpha):
        return excess_risk_bound(n, alpha=math.exp(log_alpha), **common).value

    numeric = minimize_scalar(value, bounds=(-12, 8), method="bounded", options={"xatol": 1e-10})
    found = excess_risk_bound(n, **common)
    assert found.value == pytest.approx(numeric.fun, rel=1e-9)
    assert math.log(found.alpha) == pytest.approx(numeric.x, abs=1e-4)
    assert found.alpha == best_alpha(
        n, lipschitz=constants.lipschitz, radius=3.0, target_norm=0.7, confidence=confidence
    )
    # Theorem 3.4: C L B |g*| / sqrt(n), with the constants of Theorem D.1.
    spread = math.sqrt((32.0 + math.log(10.0)) / n)
    expected = 5.0 * 4.0 * math.sqrt(2.0) * constants.lipschitz * 3.0 * 0.7 * spread
    assert found.value == pytest.approx(expected)
    assert found.estimation == pytest.approx(found.approximation)


def test_a_gap_costs_twice_its_value_times_the_calibration():
    common = {
        "calibration": 3.0,
        "constants": loss_constants("0-1", 3),
        "radius": 1.0,
        "target_norm": 1.0,
    }
    exact = excess_risk_bound(10**8, **common)
    found = excess_risk_bound(10**8, gap=0.01, **common)
    assert found.value == pytest.approx(exact.value + 3.0 * 2.0 * 0.01)
    assert excess_risk_bound(100, **common).vacuous and not found.vacuous


def test_the_bound_holds_for_a_distribution_that_is_known():
    """One input, classes .3, .3, .4: g* has the scores -A'phi(f*), and every risk is known."""
    chances, n = np.array([0.3, 0.3, 0.4]), 4000
    constants = loss_constants("0-1", 3)
    random = np.random.RandomState(0)
    counts = random.multinomial(n, chances)
    target = np.array([-1.0, -1.0, 2.0]) / 3.0
    alpha = best_alpha(
        n, lipschitz=constants.lipschitz, radius=math.sqrt(3.0),
        target_norm=float(np.linalg.norm(target)),
    )  # fmt: skip
    model = MulticlassClassifier("max-min", alpha=alpha, fit_intercept=False, tol=1e-6)
    model.fit(np.ones((3, 1)), [0, 1, 2], sample_weight=counts)
    bound = excess_risk_bound(
        n, calibration=calibration_constant("0-1", 3), constants=constants, radius=math.sqrt(3.0),
        target_norm=float(np.linalg.norm(target)), alpha=alpha, gap=max(model.gap_, 0.0),
    )  # fmt: skip

    def surrogate(scores):
        ordered = np.sort(scores)[::-1].cumsum() - 1.0
        return 1.0 + (ordered / np.arange(1, 4)).max() - scores @ chances

    excess = surrogate(model.coef_[:, 0]) - surrogate(target)
    assert 0.0 <= excess <= bound.optimization + bound.estimation + bound.approximation
    # The best of all: its surrogate risk is the Bayes risk.
    assert surrogate(target) == pytest.approx(1.0 - chances.max())


def test_iterations_are_those_of_the_theorems():
    found = iterations_for(
        0.05, 500, alpha=0.01, radius=2.0, diameter=1.5, smoothness=3.0, oracle_error=0.5
    )
    bound = 2.0 * 2.5 * (2.0 * 1.5) ** 2 / 0.01
    assert bound / (found.steps + 1000) <= 0.05 < bound / (found.steps - 1 + 1000)
    assert 4.0 * 3.0 / found.oracle <= 0.025 < 4.0 * 3.0 / (found.oracle - 1)
    assert iterations_for(10.0, 500, alpha=1.0, radius=1, diameter=1, smoothness=1).steps == 0


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"target_norm": 0.0}, {"radius": -1.0}])
def test_wrong_numbers_are_refused_by_name(wrong):
    given = {"lipschitz": 1.0, "radius": 1.0, "target_norm": 1.0, **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        best_alpha(10, **given)


def test_hamming_needs_its_parts():
    with pytest.raises(ValueError, match="number of labels of each part"):
        loss_constants("hamming", 2)

"""Bounds on the excess risk of max-min margin: Theorems 3.4 and 5.2 of the paper with constants.

Let ``g*`` minimise the expected surrogate R over all functions, and let it have weights of norm at
most ``target_norm`` in the space that the model is trained in. With probability ``1 - delta`` over
n independent examples, weights w with a certified gap satisfy (Theorem D.1 of the paper)::

    R(w) - R(g*)  <=  2 gap + 16 L^2 B^2 (32 + log(1/delta)) / (alpha n) + alpha/2 |g*|^2

where L is the Lipschitz constant of the surrogate in the scores, the diameter of the marginal
polytope, and B bounds the features. The excess risk of the predictions is at most the calibration
constant C times that. The alpha that minimises the last two terms gives Theorem 3.4, with
``|g*| <= |A| |phi(f*)|``; the gap in place of "after O(n) iterations" gives Theorem 5.2.

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020. Theorems 3.3, 3.4, 5.1, 5.2, D.1 and G.1.
Sridharan, Shalev-Shwartz, Srebro. Fast rates for regularized objectives. NeurIPS 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._validation import (
    check_choice,
    check_integer,
    check_loss_matrix,
    check_number,
    has_length,
    is_text,
)

# Of Theorem D.1.
_GAP_FACTOR, _VARIANCE, _CONSTANT = 2.0, 16.0, 32.0


class LossConstants(NamedTuple):
    """Constants of a loss ``L(y, z) = phi(y)' A phi(z) + a``.

    Attributes
    ----------
    lipschitz : float
        Diameter of the marginal polytope: no gradient of the surrogate is longer.
    decomposition_norm : float
        Largest singular value of A: ``|g*| <= |A| |phi(f*)|``.
    largest_loss : float
        A bound on the excess risk that is at least this says nothing.
    """

    lipschitz: float
    decomposition_norm: float
    largest_loss: float


def loss_constants(loss: Any, size: Any = None) -> LossConstants:
    """Constants of a loss for :func:`excess_risk_bound`.

    Parameters
    ----------
    loss, size
        As in :func:`calibration_constant`. "hamming" is the mean over parts, of which ``size`` has
        the numbers of labels.

    Examples
    --------
    >>> from maxmargin.certificates import loss_constants
    >>> loss_constants("0-1", 10).decomposition_norm
    1.0
    """
    if not is_text(loss):
        matrix = check_loss_matrix(loss, len(loss))
        return _of_matrix(matrix)
    check_choice("loss", loss, ("0-1", "absolute", "hamming", "permutation"))
    if loss == "hamming":
        if not has_length(size):
            raise ValueError(
                "loss='hamming' needs the number of labels of each part as size, such as [2] * 14; "
                f"received {size!r}."
            )
        parts = [check_integer(f"size[{m}]", part, 2) for m, part in enumerate(size)]
        return LossConstants(math.sqrt(2.0 * len(parts)), 1.0 / len(parts), 1.0)
    k = check_integer("size", size, 2)
    if loss == "permutation":
        return LossConstants(math.sqrt(2.0 * k), 1.0 / k, 1.0)
    if loss == "0-1":  # 1 - phi(y)' phi(z)
        return LossConstants(math.sqrt(2.0), 1.0, 1.0)
    places = np.arange(k, dtype=float)
    return _of_matrix(np.abs(places[:, None] - places))


def _of_matrix(matrix: np.ndarray) -> LossConstants:
    # The middle of the range can be the constant a: that leaves a smaller A.
    centred = matrix - 0.5 * matrix.max()
    norm = min(np.linalg.norm(matrix, 2), np.linalg.norm(centred, 2))
    return LossConstants(math.sqrt(2.0), float(norm), float(matrix.max()))


@dataclass(frozen=True)
class ExcessRiskBound:
    """A bound on ``E loss(prediction) - min_f E loss(f)``, and what it is made of.

    Attributes
    ----------
    value : float
        ``calibration * (optimization + estimation + approximation)``.
    calibration : float
        The constant C of the loss.
    optimization, estimation, approximation : float
        Bounds on the excess of the surrogate: twice the certified gap, the term that falls with n,
        and the price of the penalty.
    alpha, confidence : float
    vacuous : bool
        Whether the largest loss is no larger: then the bound says nothing.
    """

    value: float
    calibration: float
    optimization: float
    estimation: float
    approximation: float
    alpha: float
    confidence: float
    vacuous: bool


def best_alpha(
    n: int, *, lipschitz: float, radius: float, target_norm: float, confidence: float = 0.95
) -> float:
    """The strength of regularisation that minimises :func:`excess_risk_bound`.

    ``L B sqrt(32 (32 + log(1/delta)) / n) / target_norm``, which falls like ``1/sqrt(n)``: the
    lambda of Theorem 3.4 with the constants of Theorem D.1.
    """
    variance = _variance(n, lipschitz, radius, confidence)
    return math.sqrt(2.0 * variance) / check_number("target_norm", target_norm, above=0)


def _variance(n: int, lipschitz: float, radius: float, confidence: float) -> float:
    """The second term of the bound, times alpha."""
    check_integer("n", n, 1)
    check_number("lipschitz", lipschitz, above=0)
    check_number("radius", radius, above=0)
    if not 0.0 < check_number("confidence", confidence, above=0) < 1.0:
        raise ValueError(f"confidence must be between 0 and 1; received {confidence!r}.")
    spread = _CONSTANT - math.log(1.0 - confidence)
    return _VARIANCE * (lipschitz * radius) ** 2 * spread / n


def excess_risk_bound(
    n: int,
    *,
    calibration: float,
    constants: LossConstants,
    radius: float,
    target_norm: float,
    alpha: float | None = None,
    gap: float = 0.0,
    confidence: float = 0.95,
) -> ExcessRiskBound:
    """Bound the excess risk of max-min margin after n examples (Theorems 3.4 and 5.2).

    Parameters
    ----------
    n : int
        Number of independent training examples.
    calibration : float
        :func:`calibration_constant` of the loss.
    constants : LossConstants
        :func:`loss_constants` of the loss.
    radius : float
        Bound on the features of an input: ``sup_x Tr K(x, x)^(1/2)``, which is ``sqrt(k) |x|`` if
        each of k parts has its own weights of x.
    target_norm : float
        Bound on the norm of weights that minimise the expected surrogate. It is an assumption:
        no data tell it. If phi(f*), the indicator of the best predictions, has the norm r, then
        ``constants.decomposition_norm * r`` is one.
    alpha : float, optional
        Strength of the regularisation; by default :func:`best_alpha`, as in Theorem 3.4.
    gap : float, default=0.0
        Certified gap of the fit, ``gap_`` of an estimator; 0 is the exact minimiser.
    confidence : float, default=0.95
        The bound holds with this probability over training sets.

    Returns
    -------
    ExcessRiskBound

    Notes
    -----
    Constants are those of Theorem D.1 of the paper, which takes them from Sridharan et al. and
    prints ``|g|`` of the weights found where its proof has that of the target. They are large: with
    everyday sizes the bound is vacuous, and what is worth knowing is how it scales.

    Examples
    --------
    >>> from maxmargin.certificates import calibration_constant, excess_risk_bound, loss_constants
    >>> bound = excess_risk_bound(
    ...     10**9, calibration=calibration_constant("0-1", 3), constants=loss_constants("0-1", 3),
    ...     radius=3**0.5, target_norm=1.0)
    >>> bound.vacuous, round(bound.value, 3)
    (False, 0.008)
    """
    if alpha is None:
        alpha = best_alpha(
            n, lipschitz=constants.lipschitz, radius=radius, target_norm=target_norm,
            confidence=confidence,
        )  # fmt: skip
    alpha = check_number("alpha", alpha, above=0)
    check_number("target_norm", target_norm, at_least=0)
    estimation = _variance(n, constants.lipschitz, radius, confidence) / alpha
    optimization = _GAP_FACTOR * check_number("gap", gap, at_least=0)
    approximation = 0.5 * alpha * target_norm**2
    value = calibration * (optimization + estimation + approximation)
    return ExcessRiskBound(
        value, calibration, optimization, estimation, approximation, alpha, confidence,
        value >= constants.largest_loss,
    )  # fmt: skip


class Iterations(NamedTuple):
    """Steps of block Frank-Wolfe, and iterations of mirror-prox within each."""

    steps: int
    oracle: int


def iterations_for(
    gap: float,
    n: int,
    *,
    alpha: float,
    radius: float,
    diameter: float,
    smoothness: float,
    oracle_error: float = 1.0,
) -> Iterations:
    """Iterations after which the paper's algorithm has an expected gap (Theorems 5.1 and G.1).

    The expected gap of block Frank-Wolfe with steps ``2n/(t+2n)`` is at most
    ``2 (2 + oracle_error) radius^2 diameter^2 / (alpha (t + 2n))`` after t steps, and mirror-prox
    is within ``4 smoothness / K`` of a saddle point after K iterations, which are to leave half of
    the gap. With the gap and alpha of Theorem 3.4 these are the O(n) steps and O(sqrt(n))
    iterations of Theorem 5.2. (Appendix F.2 adds the 2n instead of taking it off.)

    Parameters
    ----------
    gap : float
    n : int
        Number of examples.
    alpha, radius, diameter : float
        Strength of the regularisation, largest norm of the features, diameter of the marginals.
    smoothness : float
        L of Theorem G.1: M for permutations of M items.
    oracle_error : float, default=1.0
        Error of the oracle, in units of the curvature: delta of Appendix F.1.

    Examples
    --------
    >>> from maxmargin.certificates import iterations_for
    >>> iterations_for(0.01, 1000, alpha=0.1, radius=1.0, diameter=2.0, smoothness=5.0)
    Iterations(steps=22000, oracle=4000)
    """
    gap = check_number("gap", gap, above=0)
    check_integer("n", n, 1)
    curvature = 2.0 * (2.0 + oracle_error) * (radius * diameter) ** 2
    steps = curvature / (check_number("alpha", alpha, above=0) * gap) - 2 * n
    return Iterations(max(0, math.ceil(steps - 1e-9)), math.ceil(8.0 * smoothness / gap - 1e-9))

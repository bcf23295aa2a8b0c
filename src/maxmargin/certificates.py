"""What a fit proves: its certificate in words, and the calibration constant of a loss.

A fit with max-min margin ends with two guarantees. The duality gap bounds how far the objective is
from its optimum (:func:`summary`). And the max-min surrogate is consistent: its excess risk
bounds the excess risk of the predictions, up to a constant that depends on the loss alone
(:func:`calibration_constant`).

References
----------
Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
ICML 2020. Theorems 3.3 and C.8, Propositions C.10 and C.11.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog
from sklearn.utils.validation import check_is_fitted

from ._excess_risk import (
    ExcessRiskBound,
    Iterations,
    LossConstants,
    best_alpha,
    excess_risk_bound,
    iterations_for,
    loss_constants,
)
from ._validation import check_choice, check_integer, check_loss_matrix, has_length, is_text
from .latent.certificates import (
    BetaEstimate,
    GeneralisationBound,
    GibbsDistortion,
    estimate_beta,
    generalisation_bound,
    gibbs_distortion,
    largest_norm,
    sample_size,
)
from .tasks import estimator_names, unwrap

__all__ = [
    "BetaEstimate",
    "Certificate",
    "ExcessRiskBound",
    "GeneralisationBound",
    "GibbsDistortion",
    "Iterations",
    "LossConstants",
    "best_alpha",
    "calibration_constant",
    "estimate_beta",
    "excess_risk_bound",
    "generalisation_bound",
    "gibbs_distortion",
    "iterations_for",
    "largest_norm",
    "loss_constants",
    "sample_size",
    "summary",
]

LOSSES = ("0-1", "absolute", "hamming", "permutation")
METHODS = ("theorem", "exact")
# Vertices are enumerated: 9 classes would have a quarter of a million candidates.
MOST_CLASSES = 8
_ZERO = 1e-8
_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Smallest marginal of an optimal permutation of 2 and 3 items, inverted; of 4 items it can be 0.
_PERMUTATIONS = {2: 2.0, 3: 5.0}


# --- calibration ----------------------------------------------------------------------------


def calibration_constant(loss: Any, size: Any = None, *, method: str = "theorem") -> float:
    """The C in ``excess risk <= C * excess surrogate risk`` of the max-min surrogate.

    For any scores g, with d(g) the predictions of the largest score::

        E loss(d(g(x)), y) - min_f E loss(f(x), y)  <=  C ( E S(g(x), y) - min_h E S(h(x), y) )

    The expectations are over any distribution of (x, y), the minima over all functions, and S is
    the max-min surrogate of the same loss. A surrogate without such a constant may come close to
    its optimum with predictions that are far from the best; max-margin with three classes is an
    example. A factor of the loss makes no difference to C.

    Parameters
    ----------
    loss : {"0-1", "absolute", "hamming", "permutation"} or array of shape (n_classes, n_classes)
        A loss by name, or any matrix: ``loss[j, z]`` is the cost of predicting j when z is true.
    size : int or sequence of int, optional
        Of a loss by name. "0-1", "absolute": the number of classes. "hamming": the number of labels
        of each part (a sequence), or of every part (2 for multilabel problems), where every part
        has its own scores. "permutation": the number of items, for the share of items out of
        place.
    method : {"theorem", "exact"}, default="theorem"
        For a matrix. "theorem": for a symmetric loss, 1/C is the smallest probability that an
        optimal prediction can have,
        ``min { alpha_y : y in argmin_j sum_z loss[j, z] alpha_z }`` over distributions alpha: one
        linear program for each class. Infinity if an optimal prediction may have no probability
        at all, as with the absolute loss: then the theorem says nothing. "exact": the smallest
        C there is, for any matrix of at most 8 classes, symmetric or not.

    Returns
    -------
    float
        C; infinity where there is none.

    Notes
    -----
    By name: k for the 0-1 loss of k classes; 2 for the absolute loss; for a sum of losses of
    parts, the largest constant of a part (Proposition C.11); for permutations 2 and 5 for 2 and 3
    items, and infinity beyond.

    The theorem is Theorem 3.3 (C.8) of the paper. It needs that an optimal prediction y has a
    probability, or a largest weight among all mixtures of outputs with the same marginals, of at
    least 1/C. Where an output without any probability can be better than all others, there is no
    constant: scores that only it uses can be lowered at no cost to the surrogate. This happens for
    permutations of 5 items (one item changes places with a random other: to move nothing is best,
    and never happens) and for sequences of 3 labels with scores of transitions, whatever
    the paper says (M items, constant M; Proposition C.12). The surrogate is still consistent for
    distributions that give every output some probability.

    For the absolute loss the theorem says nothing either, but the constant is 2: if F is the
    distribution function and j is above the median m, move mass to j until F is at most 1/2
    below j; the smallest expected loss rises by ``sum (F_i - 1/2)`` over m <= i < j, half of the
    excess risk of j.

    The exact constant: among scores that predict j, the surrogate risk under the distribution p
    is smallest at ``max_q min_i (loss q)_i``, over those q that p becomes when mass is moved to j.
    For an optimal y the excess risk is linear in p and the excess surrogate concave, so their
    ratio is largest at a vertex of the polytope of those p for which y is optimal.

    Examples
    --------
    >>> from maxmargin.certificates import calibration_constant
    >>> calibration_constant("0-1", 10)
    10.0
    >>> calibration_constant("hamming", [2, 2, 3])
    3.0
    >>> calibration_constant([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    3.0
    """
    check_choice("method", method, METHODS)
    if is_text(loss):
        return _named_constant(check_choice("loss", loss, LOSSES), size)
    if size is not None:
        raise ValueError(f"size belongs to a loss by name; received {size!r} with a matrix.")
    matrix = check_loss_matrix(loss, len(loss) if has_length(loss) else 0)
    return _theorem_constant(matrix) if method == "theorem" else _exact_constant(matrix)


def _named_constant(loss: str, size: Any) -> float:
    if loss == "absolute":
        check_integer("size", size, 2)
        return 2.0
    if loss == "permutation":
        return _PERMUTATIONS.get(check_integer("size", size, 2), math.inf)
    if loss == "hamming" and isinstance(size, Iterable) and not is_text(size):
        sizes = [check_integer(f"size[{m}]", part, 2) for m, part in enumerate(size)]
        if not sizes:
            raise ValueError("size must name at least one part; received none.")
        return float(max(sizes))
    return float(check_integer("size", size, 2))


def _theorem_constant(matrix: np.ndarray) -> float:
    """``1 / min alpha_y`` over all y and all alpha for which y is an optimal prediction."""
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=0.0):
        j, z = np.argwhere(~np.isclose(matrix, matrix.T, rtol=1e-12, atol=0.0))[0]
        raise ValueError(
            f"the theorem is about symmetric losses, but loss[{j}, {z}] is {matrix[j, z]:g} and "
            f"loss[{z}, {j}] is {matrix[z, j]:g}; use method='exact'."
        )
    k = len(matrix)
    least = 1.0
    for y in range(k):
        found = linprog(
            np.eye(k)[y],
            A_ub=(matrix[y] - matrix) / matrix.max(),
            b_ub=np.zeros(k),
            A_eq=np.ones((1, k)),
            b_eq=[1.0],
            options=_PRECISE,
        )
        if found.status == 0:  # else y is never optimal
            least = min(least, found.fun)
    return _rounded(1.0 / least) if least > _ZERO else math.inf


def _exact_constant(matrix: np.ndarray) -> float:
    k = len(matrix)
    if k > MOST_CLASSES:
        raise ValueError(
            f"method='exact' enumerates distributions and takes at most {MOST_CLASSES} classes; "
            f"received {k}. Use method='theorem'."
        )
    matrix = matrix / matrix.max()
    largest = 1.0
    for y in range(k):
        for p in _optimal_vertices(matrix, y):
            risks = matrix @ p
            for j in np.flatnonzero(risks > risks[y] + _ZERO):
                surrogate = _least_surrogate(matrix, p, int(j)) - risks[y]
                if surrogate <= _ZERO:
                    return math.inf
                largest = max(largest, (risks[j] - risks[y]) / surrogate)
    return _rounded(largest)


def _rounded(value: float) -> float:
    """Without the rounding of the linear programs: 3 rather than 3.0000000000000004."""
    return float(f"{value:.8g}")


def _optimal_vertices(matrix: np.ndarray, y: int) -> list[np.ndarray]:
    """Vertices of the polytope of distributions for which predicting y is optimal."""
    k = len(matrix)
    others = np.delete(np.arange(k), y)
    # Rows of `limits` @ p >= 0: probabilities, and how much better y is.
    limits = np.vstack([np.eye(k), matrix[others] - matrix[y]])
    chosen = np.array(list(combinations(range(len(limits)), k - 1)))
    systems = np.concatenate([limits[chosen], np.ones((len(chosen), 1, k))], axis=1)
    regular = np.abs(np.linalg.det(systems)) > 1e-12
    right = np.zeros((int(regular.sum()), k, 1))
    right[:, -1] = 1.0
    points = np.linalg.solve(systems[regular], right)[..., 0]
    feasible = (points @ limits.T >= -_ZERO).all(axis=1)
    points = np.maximum(points[feasible], 0.0)
    _, first = np.unique(np.round(points, 9), axis=0, return_index=True)
    return [p / p.sum() for p in points[first]]


def _least_surrogate(matrix: np.ndarray, p: np.ndarray, j: int) -> float:
    """Least surrogate risk under p of scores that predict j."""
    k = len(matrix)
    upper = p.copy()
    upper[j] = 1.0
    found = linprog(
        -np.append(np.zeros(k), 1.0),
        A_ub=np.hstack([-matrix, np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(k), 0.0)[None],
        b_eq=[1.0],
        bounds=[*((0.0, limit) for limit in upper), (None, None)],
        options=_PRECISE,
    )
    return -found.fun


# --- the certificate of a fit ---------------------------------------------------------------


@dataclass(frozen=True)
class Certificate:
    """What a fit has proven; ``str(certificate)`` says it in words.

    Attributes
    ----------
    primal, dual, gap : float
        Objective at the weights, a lower bound on the objective of any weights, the difference.
    relative_gap : float
        The gap as a share of the objective.
    oracle_error : float
        The part of the gap that is due to inexact oracles: more passes do not close it.
    weight_distance : float
        ``sqrt(2 gap / alpha)``: the weights are that close to the optimal ones, since the
        objective is strongly convex.
    status : str
    passes : int
    local : bool
        After training with hidden labels or latent variables the objective is not convex: all
        numbers are then about the last convex problem, with what is hidden at its completion.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    oracle_error: float
    weight_distance: float
    status: str
    passes: int
    local: bool = False

    def __str__(self) -> str:
        text = (
            "Some labels or variables were hidden, so that the objective is not convex; what "
            "follows is about the last convex problem, with these completed, and no bound for "
            "others. "
            if self.local
            else ""
        )
        text += (
            f"The objective is {self.primal:.6g}; no weights have one below {self.dual:.6g}. So it "
            f"is within {self.gap:.2g} ({self.relative_gap:.2%}) of the optimum, and the weights "
            f"are within {self.weight_distance:.2g} of the optimal ones in the penalty's norm. "
            f"The fit ended after {self.passes} passes: {self.status}."
        )
        if self.oracle_error > 1e-9 * abs(self.primal):
            text += (
                f" Inexact oracles account for {self.oracle_error:.2g} of the gap; more passes do "
                "not close that part, more accurate oracles do."
            )
        return text


def summary(model: Any) -> Certificate:
    """The certificate of a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, or a pipeline or search around one.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        If nothing is certified: :class:`~maxmargin.LatentPredictor` over random structures.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MulticlassClassifier
    >>> from maxmargin.certificates import summary
    >>> model = MulticlassClassifier("max-min", random_state=0).fit(*load_iris(return_X_y=True))
    >>> summary(model).relative_gap <= model.tol
    True
    """
    model = unwrap(model)[0]
    if not estimator_names(model):
        raise TypeError(
            f"summary needs an estimator of maxmargin; received {type(model).__name__}, which is "
            "none, nor a pipeline or search around one."
        )
    check_is_fitted(model, "gap_")
    fitted = vars(model)
    if math.isnan(model.gap_):
        raise ValueError(f"no certificate: {model.certificate_}.")
    gap = max(float(model.gap_), 0.0)
    return Certificate(
        primal=float(model.primal_),
        dual=float(model.dual_),
        gap=gap,
        relative_gap=gap / abs(model.primal_) if model.primal_ else 0.0,
        oracle_error=float(model.oracle_error_),
        weight_distance=math.sqrt(2.0 * gap / model.alpha_),
        status=str(model.status_),
        passes=int(model.n_iter_),
        local="certificate_" in fitted or "rounds_" in fitted,
    )

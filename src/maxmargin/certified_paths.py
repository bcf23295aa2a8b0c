"""Regularisation paths that are accurate everywhere, for max-margin.

A fit at alpha leaves weights w with mean surrogate L, and a dual point with concave part H and
weights v. Both are feasible at every other strength a, too: weights may be scaled by s, where the
mean surrogate of ``s w`` is at most ``s L + (1 - s) L0`` by convexity (L0 is that of zero weights),
and the dual point may be mixed with the true outputs, which leaves a share t of H and of v. So::

    P(a) <= a/2 s^2 |w|^2 + s L + (1 - s) L0        0 <= s <= 1
    D(a) >= t H - t^2 alpha^2 |v|^2 / (2 a)         0 <= t <= 1

with the best s for ``a > alpha`` (t = 1), and the best t for ``a < alpha`` (s = 1), in closed form.
``D - (1 - epsilon) P`` is concave in a below alpha, and also above it until s falls below 1; from
there on it is monotone, up to zero weights at infinite strength. So the relative gap is at most
epsilon in a whole interval if it is at its ends, at alpha, and where s falls below 1. Intervals of
several fits cover the path.

References
----------
Osokin, Alayrac, Lukasewitz, Dokania, Lacoste-Julien. Minding the gaps for block Frank-Wolfe
optimization of structured SVMs. ICML 2016, section 4.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ._validation import SMALLEST, check_number
from .solvers.problem import Problem, best_share
from .strengths import TimesAuto

__all__ = ["Interval", "certified_path"]

# Share of epsilon that a fit may use at its own alpha; the rest is for the width of its interval.
_OWN_SHARE = 0.25
# Fits at the same alpha, each to a quarter of the tolerance, if the dual point that a solver leaves
# is worse than the best one that it has seen.
_ATTEMPTS = 4
# Where the path begins and ends by default, as multiples of what alpha="auto" means.
_FIRST, _WEAKEST = 100.0, 0.01
# Factor by which alpha grows until a fit is accurate for all stronger ones, too.
_STRONGER = 8.0
# An end of an interval is found up to this factor.
_RESOLUTION = 1.0 + 1e-3


class _Certificate(NamedTuple):
    """Numbers of a fit from which its gap at every strength follows."""

    alpha: float
    square: float  # |w|^2
    loss: float  # L
    loss_at_zero: float
    dual_square: float  # |v|^2
    concave: float  # H

    def scale(self, alpha: float) -> float:
        """s: the factor of the weights at a strength."""
        if alpha <= self.alpha or self.square == 0.0:
            return 1.0
        return best_share(self.loss_at_zero - self.loss, alpha * self.square)

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Upper bound on the primal value of the scaled weights, lower bound on the optimum."""
        s, t = self.scale(alpha), 1.0
        pull = self.alpha**2 * self.dual_square / alpha
        if alpha < self.alpha:
            t = best_share(self.concave, pull)
        primal = 0.5 * alpha * s**2 * self.square + s * self.loss + (1.0 - s) * self.loss_at_zero
        return primal, t * self.concave - 0.5 * t**2 * pull

    def relative_gap(self, alpha: float) -> float:
        """Certified relative gap of the scaled weights."""
        primal, dual = self.loss_at_zero, self.concave  # the limits
        if alpha < math.inf:
            primal, dual = self.bounds(alpha)
        return (primal - dual) / primal if primal > 0.0 else 0.0

    def strongest(self, epsilon: float, limit: float) -> float:
        """The strongest alpha, up to a limit, such that no gap up to it is above epsilon."""
        turn = (self.loss_at_zero - self.loss) / self.square if self.square > 0.0 else 0.0
        if self.alpha < turn < limit and self.relative_gap(turn) > epsilon:
            limit = turn
        return self._farthest(epsilon, limit)

    def weakest(self, epsilon: float, limit: float) -> float:
        """The weakest alpha, down to a limit, such that no gap down to it is above epsilon."""
        return self._farthest(epsilon, limit)

    def _farthest(self, epsilon: float, limit: float) -> float:
        """Bisection between alpha and a limit: the end at which the gap is small enough."""
        if self.relative_gap(limit) <= epsilon:
            return limit
        good, bad = self.alpha, min(limit, self.alpha / SMALLEST)
        while max(good / bad, bad / good) > _RESOLUTION:
            middle = math.sqrt(good * bad)
            if self.relative_gap(middle) <= epsilon:
                good = middle
            else:
                bad = middle
        return good


class Interval(NamedTuple):
    """A fitted model that is certified for all strengths between two.

    Attributes
    ----------
    strongest, weakest : float
        Ends of the interval of alpha.
    alpha : float
        Where the model was fitted.
    model : fitted estimator
        Its predictions are those of the whole interval.
    certificate : object
        See :meth:`relative_gap` and :meth:`scale`.
    """

    strongest: float
    weakest: float
    alpha: float
    model: Any
    certificate: _Certificate

    def relative_gap(self, alpha: float) -> float:
        """Certified relative gap at a strength of the weights times :meth:`scale`."""
        return self.certificate.relative_gap(self._inside(alpha))

    def scale(self, alpha: float) -> float:
        """Factor of the weights of the model at a strength: 1 up to ``alpha``, at most 1 above."""
        return self.certificate.scale(self._inside(alpha))

    def _inside(self, alpha: float) -> float:
        value = check_number("alpha", alpha, above=0)
        if not self.weakest <= value <= self.strongest:
            raise ValueError(
                f"alpha must be between {self.weakest:g} and {self.strongest:g}, the ends of this "
                f"interval; received {alpha!r}."
            )
        return value


def certified_path(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float = 0.1,
    strongest: float | None = None,
    weakest: float | None = None,
    **fit_params: Any,
) -> list[Interval]:
    """Compute models such that for every alpha of a range one is within a relative gap of optimal.

    For ``surrogate="max-margin"`` of classes, label sets without edges, sequences and rankings.
    Fits go from strong to weak regularisation, each from the dual solution before.

    Parameters
    ----------
    estimator : estimator of this library
        Not changed; its ``alpha`` and ``tol`` do not matter.
    X, y : examples and outputs
    epsilon : float, default=0.1
        Largest relative gap, above 0 and below 1.
    strongest, weakest : float, optional
        Range of alpha; by default up to infinity, and down to 0.01 times what ``alpha="auto"``
        means.
    **fit_params
        Further arguments of ``fit``.

    Returns
    -------
    list of Interval
        From strong to weak, without holes: each begins where the one before ends.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MulticlassClassifier, certified_path
    >>> X, y = load_iris(return_X_y=True)
    >>> intervals = certified_path(MulticlassClassifier(random_state=0), X, y, epsilon=0.2)
    >>> max(each.relative_gap(each.weakest) for each in intervals) <= 0.2
    True
    """
    if not 0.0 < check_number("epsilon", epsilon, above=0) < 1.0:
        raise ValueError(f"epsilon must be above 0 and below 1; received {epsilon!r}.")
    fits = _Fits(estimator, X, y, float(epsilon), fit_params)
    first = math.inf if strongest is None else check_number("strongest", strongest, above=0)
    last = _WEAKEST * fits.auto if weakest is None else check_number("weakest", weakest, above=0)
    if not last <= first:
        raise ValueError(
            f"weakest must be at most strongest; received {last:g}, and strongest is {first:g}."
        )
    return fits.walk(first, last)


class _Fits:
    """Fits of one estimator at several strengths."""

    def __init__(self, estimator: Any, X: Any, y: Any, epsilon: float, fit_params: dict[str, Any]):
        self._epsilon = epsilon
        model = clone(estimator)
        model.set_params(
            alpha=TimesAuto(_FIRST), warm_start=True, tol=_OWN_SHARE * epsilon,
            early_stopping=False, callbacks=None,
        )  # fmt: skip
        model._keeps_packed = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, **fit_params)
        packed = model._packed
        known = packed is not None and isinstance(packed.problem, Problem)
        if not known or not packed.problem.cost.linear or model._dual is None:
            raise ValueError(
                "certified_path needs surrogate='max-margin' and an estimator whose dual is known "
                "example by example (classes, label sets with edges='none', sequences, rankings), "
                f"trained by a solver that keeps it; received {estimator!r}."
            )
        self._model, self._packed = model, packed
        zero = np.zeros(packed.problem.n_weights)
        self._loss_at_zero = packed.problem.evaluate(zero).primal

    @property
    def auto(self) -> float:
        """What alpha="auto" means for the data."""
        return self._packed.auto

    def walk(self, strongest: float, weakest: float) -> list[Interval]:
        """Intervals that cover a range, from strong to weak."""
        alpha = min(strongest, max(weakest, _FIRST * self.auto))
        found = [self._fit(alpha, strongest, weakest)]
        while found[0].strongest < strongest:
            alpha = min(_STRONGER * alpha, strongest)
            found[0] = self._fit(alpha, strongest, weakest)
        while found[-1].weakest > weakest:
            end = found[-1].weakest
            # The next interval is likely to be as wide above its alpha as this one below.
            alpha = max(weakest, end**2 / found[-1].alpha)
            interval = self._fit(alpha, end, weakest)
            if interval.strongest < end:  # a hole
                found.append(self._fit(end, end, interval.strongest))
                if found[-1].weakest > interval.strongest:
                    continue
            found.append(interval)
        return found

    def _fit(self, alpha: float, strongest: float, weakest: float) -> Interval:
        """Fit at a strength; the interval is cut to a range."""
        model, packed = self._model, self._packed
        problem = packed.problem.with_strength(alpha * packed.problem.total_weight)
        certificate, tol = None, _OWN_SHARE * self._epsilon
        for _ in range(_ATTEMPTS):
            result = model._solve(problem, packed.settings._replace(tol=tol))
            certificate = self._certificate(problem, result)
            if certificate.relative_gap(alpha) <= 0.5 * self._epsilon:
                break
            tol *= 0.25
        if certificate is None or certificate.relative_gap(alpha) > self._epsilon:
            raise RuntimeError(
                f"no fit at alpha={alpha:g} has a relative gap of at most epsilon={self._epsilon:g}"
                "; increase max_iter of the estimator, epsilon or weakest."
            )
        packed.keep(result.weights)
        kept = copy.copy(model)
        kept._dual = kept._packed = None  # the next fit works on them
        return Interval(
            certificate.strongest(self._epsilon, strongest),
            certificate.weakest(self._epsilon, weakest),
            alpha, kept, certificate,
        )  # fmt: skip

    def _certificate(self, problem: Any, result: Any) -> _Certificate:
        square = problem.squared_norm(result.weights)
        dual = result.dual_state
        numbers = (
            problem.alpha, square, result.primal - 0.5 * problem.alpha * square,
            self._loss_at_zero, problem.squared_norm(problem.weights_of(dual)),
            problem.concave(dual),
        )  # fmt: skip
        return _Certificate(*map(float, numbers))

"""Values for the parameter ``alpha``: a number, a multiple of "auto", or cross-validation.

What "auto" means for n examples with weights v_i and total weight W, where example i has rows of
features x_it (one, or one per position; the constant of an intercept counts as a feature)::

    alpha = c / W * mean_i [ p_i mean_t min(|x_it|^2, 20) ]

with p_i = 1 and c = 1/20 for a likelihood. For margins c = 1/5, for label sequences c = 2/5, and
p_i is the number of positions over which the loss of an example is a mean, so that the strength is
the same whether it is a mean or a sum. The mean over i is weighted by v_i. Multiplying features by
s multiplies the best alpha by s^2, hence the squared norm; far beyond 20, a few features that
nobody has scaled usually make up the whole norm. The constants were chosen by the scores that
``python -m benchmarks alpha`` and ``python -m benchmarks text`` show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._validation import check_integer, check_number, is_integer, is_name, is_text
from ._values import Value

if TYPE_CHECKING:
    from .paths import Path

__all__ = ["CrossValidated", "Fixed", "Strength", "TimesAuto", "strengths_of"]

# Strengths that an integer grid spans, as multiples of what alpha="auto" means.
_STRONGEST, _WEAKEST = 1e2, 1e-2
# alpha W as a share of the mean squared norm of the features, and the largest norm that counts.
SHARE, SHARE_OF_SEQUENCES, _SHARE_OF_LIKELIHOOD = 1 / 5, 2 / 5, 1 / 20
_SMALLEST_SQUARE, _LARGEST_SQUARE = 1e-100, 20.0


class Strength(Value):
    """A strength of regularisation; short forms are numbers, "auto" and "cv"."""

    needs_path = False  # whether it is chosen by the scores along a path
    depends_on_data = True

    @classmethod
    def from_short(cls, given: Any) -> Any:
        names = {"auto": TimesAuto, "cv": CrossValidated}
        for name, strength in names.items():
            if is_name(given, name):
                return strength()
        return Fixed(given)

    def alpha_for(self, auto: float) -> float:
        """The strength, where "auto" means ``auto``."""
        raise NotImplementedError

    def walk(self, model: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> Path:
        """The path from which the strength is chosen."""
        raise NotImplementedError


class Fixed(Strength):
    """A number."""

    depends_on_data = False

    def __init__(self, alpha: Any):
        self.alpha = alpha

    def validate(self) -> None:
        if is_text(self.alpha):
            raise ValueError(
                f"alpha must be a finite number > 0, 'auto' or 'cv'; received {self.alpha!r}."
            )
        check_number("alpha", self.alpha, above=0)

    def alpha_for(self, auto: float) -> float:
        return float(self.alpha)


class TimesAuto(Strength):
    """A value for ``alpha``: a multiple of what ``alpha="auto"`` means for the training data.

    Parameters
    ----------
    factor : float, default=1.0
        2 is twice as strong a regularisation, C = 1/2.
    """

    def __init__(self, factor: float = 1.0):
        self.factor = factor

    def validate(self) -> None:
        check_number("alpha.factor", self.factor, above=0)

    def alpha_for(self, auto: float) -> float:
        return float(self.factor) * auto


class CrossValidated(Strength):
    """A value for ``alpha``: choose it by cross-validation along a path; ``alpha="cv"`` by default.

    In each fold the fits go from strong to weak regularisation, every one from a dual solution
    before. Few strengths are computed, those around the best mean score: see :func:`path`.
    The best mean score is chosen, of equal ones the strongest regularisation, and the model is
    trained on all data. Folds run in ``n_jobs`` threads of the estimator; the result is the same.

    Parameters
    ----------
    grid : int or array of floats, default=20
        Number of strengths, from 100 to 0.01 times what ``alpha="auto"`` means, or the values of
        alpha themselves.
    cv : int or splitter of scikit-learn, default=5
        A number of folds is shuffled by ``random_state`` of the estimator, and stratified for
        labels of single examples.
    scoring : str or callable, optional
        A name such as "span_f1" (see :func:`maxmargin.metrics.get_scorer`), or a callable
        ``scorer(estimator, X, y)``. By default the estimator's ``score``.
    tol : float, default=0.1
        Relative gap at which fits of the folds end; never below ``tol`` of the estimator.
    patience : int, default=3
        Number of strengths after which the search for weaker ones ends: see :func:`path`.
    """

    needs_path = True

    def __init__(
        self, grid: Any = 20, cv: Any = 5, scoring: Any = None, tol: float = 0.1, patience: int = 3
    ):
        self.grid = grid
        self.cv = cv
        self.scoring = scoring
        self.tol = tol
        self.patience = patience

    def validate(self) -> None:
        strengths_of(self.grid, "alpha.grid")
        check_number("alpha.tol", self.tol, at_least=0)
        check_integer("alpha.patience", self.patience, 1)
        if is_integer(self.cv):
            check_integer("alpha.cv", self.cv, 2)
        if self.scoring is not None:
            from .metrics import get_scorer  # scikit-learn's measures take time to import

            get_scorer(self.scoring)

    def walk(self, model: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> Path:
        from .paths import path  # scikit-learn's splitters take time to import

        return path(
            model, X, y, grid=self.grid, cv=self.cv, scoring=self.scoring, tol=self.tol,
            patience=self.patience, n_jobs=model.get_params(deep=False).get("n_jobs"), **fit_params,
        )  # fmt: skip


def usual_strength(
    squares: np.ndarray,
    indptr: np.ndarray | None,
    positions: Any,
    weights: np.ndarray,
    likelihood: bool,
    share: float = SHARE,
) -> float:
    """``alpha W`` where nothing else is known: the formula above.

    Parameters
    ----------
    squares : array
        Squared norms of the rows of features.
    indptr : array or None
        Example i has the rows ``indptr[i]`` to ``indptr[i+1]``; None if each has one row.
    positions : float or array
        p of each example; it does not matter to a likelihood.
    weights : array
        Weights of the examples.
    likelihood : bool
        Whether the surrogate is one.
    share : float
        c, unless the surrogate is a likelihood.
    """
    sizes = np.minimum(squares, _LARGEST_SQUARE)
    if indptr is not None:
        sizes = np.add.reduceat(sizes, indptr[:-1]) / np.diff(indptr)
    usual = float(np.average(sizes if likelihood else sizes * positions, weights=weights))
    share = _SHARE_OF_LIKELIHOOD if likelihood else share
    return share * usual if usual > _SMALLEST_SQUARE else 1.0  # there are hardly any features


def strengths_of(grid: Any, name: str) -> list:
    """Values for ``alpha``, the strongest first."""
    if is_integer(grid):
        n = check_integer(name, grid, 1)
        factors = np.geomspace(_STRONGEST, _WEAKEST, n) if n > 1 else np.ones(1)
        return [TimesAuto(float(factor)) for factor in factors]
    values = np.atleast_1d(np.asarray(grid))
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must be the number of strengths, or a list of values of alpha; received "
            f"{grid!r}."
        )
    return sorted({check_number(name, float(value), above=0) for value in values}, reverse=True)

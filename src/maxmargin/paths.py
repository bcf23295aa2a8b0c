"""Paths of alpha: fits from strong to weak regularisation, each from the dual solution before.

A fit with weights w and dual point mu at alpha is also certified at every other strength: neither
moves, and the gap between them at ``a`` is::

    gap(a) = gap(alpha) + |w|^2 (a - alpha)^2 / (2 a)        for w(mu) = w

because only the penalty and ``|w(mu)|^2`` depend on alpha. So a fit covers a whole interval of
strengths up to a chosen gap, and a chain of such intervals is a path that is accurate everywhere
(after Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien, 2016).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ._validation import check_integer, is_integer
from .strengths import strengths_of

__all__ = ["Path", "path"]

# A mean score is better if it rises by this share of its standard error over the folds.
_NOTICEABLE = 0.25


class Path(NamedTuple):
    """Cross-validated scores from strong to weak regularisation.

    Attributes
    ----------
    strengths : list
        Values for the parameter ``alpha``: floats, or :class:`TimesAuto`.
    alphas : array of shape (n_strengths,)
        Mean of ``alpha_`` over the folds.
    scores, relative_gaps, n_iter, seconds : arrays of shape (n_strengths, n_folds)
        Score on the held-out fold; certificate, passes and time of the fit.
    """

    strengths: list
    alphas: np.ndarray
    scores: np.ndarray
    relative_gaps: np.ndarray
    n_iter: np.ndarray
    seconds: np.ndarray

    @property
    def best_index(self) -> int:
        """Index of the best mean score; of equal ones the strongest regularisation."""
        return int(np.argmax(self.scores.mean(axis=1).round(12)))  # equal but for rounding

    @property
    def best_strength(self) -> Any:
        """The best value for the parameter ``alpha``."""
        return self.strengths[self.best_index]

    def as_results(self) -> dict[str, np.ndarray]:
        """A dict like ``cv_results_`` of scikit-learn, with the largest relative gap."""
        mean = self.scores.mean(axis=1)
        results = {f"split{k}_test_score": column for k, column in enumerate(self.scores.T)}
        return results | {
            "param_alpha": self.alphas,
            "mean_test_score": mean,
            "std_test_score": self.scores.std(axis=1),
            "rank_test_score": 1 + np.array([np.sum(mean > score) for score in mean]),
            "mean_fit_time": self.seconds.mean(axis=1),
            "max_relative_gap": self.relative_gaps.max(axis=1),
        }


class _Fit(NamedTuple):
    alpha: float
    score: float
    relative_gap: float
    n_iter: int
    seconds: float


class _Fold:
    """A model that walks down the path on the training part of a fold."""

    def __init__(self, model: Any, X: Any, y: Any, split: tuple, params: dict, score: Callable):
        train, test = split
        self._model = model
        self._train = _safe_split(model, X, y, train)
        self._test = _safe_split(model, X, y, test, train)
        self._params = _check_method_params(X, params, train)
        self._score = score

    def fit(self, strength: Any) -> _Fit:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # certificates and rare labels are in the results
            self._model.set_params(alpha=strength).fit(*self._train, **self._params)
            score = float(self._score(self._model, *self._test))
        model = self._model
        gap = model.gap_ / abs(model.primal_) if model.primal_ else 0.0
        return _Fit(model.alpha_, score, gap, model.n_iter_, time.perf_counter() - began)


def path(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    grid: Any = 20,
    cv: Any = 5,
    scoring: Any = None,
    tol: float = 0.1,
    patience: int | None = None,
    n_jobs: int | None = None,
    **fit_params: Any,
) -> Path:
    """Cross-validate an estimator along a path of strengths of regularisation.

    Parameters
    ----------
    estimator : estimator of this library
        Not changed; its ``alpha`` does not matter.
    X, y : examples and outputs
    grid, cv, scoring, tol
        See :class:`CrossValidated`.
    patience : int, optional
        Number of strengths after which the path ends if the mean score did not rise by a quarter of
        its standard error. By default it is walked to its end.
    n_jobs : int, optional
        Number of threads; folds run in parallel. The result does not depend on it.
    **fit_params
        Further arguments of ``fit``; those with an entry per example are split with the folds.

    Returns
    -------
    Path

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MulticlassClassifier, path
    >>> found = path(MulticlassClassifier(random_state=0), *load_iris(return_X_y=True), grid=5)
    >>> found.scores.shape
    (5, 5)
    """
    from .metrics import get_scorer

    strengths = strengths_of(grid, "grid")
    model = clone(estimator)
    own = model.get_params(deep=False)
    changes = {"warm_start": True, "tol": max(tol, own["tol"]), "verbose": 0, "callbacks": None,
               "early_stopping": False, "n_jobs": None}  # fmt: skip
    model.set_params(**{name: value for name, value in changes.items() if name in own})
    score = _own_score if scoring is None else get_scorer(scoring)
    splits = _splits(cv, X, y, own.get("random_state"))
    folds = [_Fold(clone(model), X, y, split, fit_params, score) for split in splits]
    run = Parallel(n_jobs=n_jobs, prefer="threads")
    fits: list[list[_Fit]] = []
    progress = _Progress(patience)
    for strength in strengths:
        fits.append(run(delayed(fold.fit)(strength) for fold in folds))
        if progress.is_over([fit.score for fit in fits[-1]]):
            break
    alphas, *columns = np.moveaxis(np.array(fits, float), 2, 0)
    return Path(strengths[: len(fits)], alphas.mean(axis=1), *columns)


class _Progress:
    """Whether the score of the folds has stopped to rise for ``patience`` strengths."""

    def __init__(self, patience: int | None):
        self._patience = patience
        self._first: float | None = None
        self._best = -math.inf
        self._since = 0
        self._changed = False

    def is_over(self, scores: list[float]) -> bool:
        mean = float(np.mean(scores))
        least = _NOTICEABLE * float(np.std(scores)) / math.sqrt(len(scores))
        rises = mean > self._best + least
        self._since = 0 if rises else self._since + 1
        self._best = max(self._best, mean) if rises else self._best
        # Strong regularisation may give the same constant prediction for a while.
        self._first = mean if self._first is None else self._first
        self._changed |= abs(mean - self._first) > least
        return self._patience is not None and self._changed and self._since >= self._patience


def _own_score(model: Any, X: Any, y: Any) -> float:
    return model.score(X, y)


def _splits(cv: Any, X: Any, y: Any, random_state: Any) -> list:
    n = _num_samples(X)
    if n != _num_samples(y):
        raise ValueError(
            f"X has {n} examples but y has {_num_samples(y)}; expected the same number."
        )
    if not is_integer(cv):
        return list(cv.split(X, y) if hasattr(cv, "split") else cv)
    if check_integer("cv", cv, 2) > n:
        raise ValueError(f"cv={cv} folds need as many examples; X has {n}. Use fewer folds.")
    seed = check_random_state(random_state).randint(2**31)
    labels = _single_labels(y)
    if labels is not None and np.unique(labels, return_counts=True)[1].min() >= cv:
        return list(StratifiedKFold(cv, shuffle=True, random_state=seed).split(labels, labels))
    return list(KFold(cv, shuffle=True, random_state=seed).split(np.zeros(n)))


def _single_labels(y: Any) -> np.ndarray | None:
    """Codes of labels, one per example; None for other outputs."""
    codes: dict[Any, int] = {}
    try:
        return np.array([codes.setdefault(label, len(codes)) for label in y])
    except TypeError:  # lists and arrays have no hash
        return None

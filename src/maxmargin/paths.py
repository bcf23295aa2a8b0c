"""Paths of alpha: fits from strong to weak regularisation, each from a dual solution before.

The data of a fold are packed once. A search computes few points of the grid; the scores choose
them, and every point that is computed has the true gap of its fit.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ._progress import WorkReporter
from ._validation import check_integer, is_integer
from .estimators._base import Limits
from .solvers.result import INTERRUPTED
from .strengths import strengths_of

__all__ = ["Path", "path"]

# A mean score is better if it rises by this share of its standard error over the folds.
_NOTICEABLE = 0.25
# The most passes of a fit of a search that climbs a dual. Without a limit, most of the time goes
# into strengths that are too weak. A limit of 4 changed what was chosen for noisy labels, for the
# worse.
_MOST_PASSES = 10
# A fit with a larger relative gap at its last pass says little about its strength: the passes are
# doubled once, and up to this number while its score is the best one of its fold.
_FAR = 0.5
_LONGEST = 80
# Passes before the first check of a fit, at least.
_FEW_PASSES = 2


class Path(NamedTuple):
    """Cross-validated scores from strong to weak regularisation.

    Attributes
    ----------
    strengths : list
        Values for the parameter ``alpha``: floats, or :class:`TimesAuto`.
    alphas : array of shape (n_strengths,)
        Mean of ``alpha_`` over the folds.
    scores, relative_gaps, n_iter, seconds : arrays of shape (n_strengths, n_folds)
        Score on the held-out fold; certificate, passes and time of the fit. NaN where a search did
        not compute a fold.
    skipped : list
        Values of the grid that were not computed.
    n_folds : array of shape (n_strengths,)
        Number of folds computed, always the first ones. Only strengths with all folds are chosen.
    """

    strengths: list
    alphas: np.ndarray
    scores: np.ndarray
    relative_gaps: np.ndarray
    n_iter: np.ndarray
    seconds: np.ndarray
    skipped: list
    n_folds: np.ndarray

    @property
    def mean_scores(self) -> np.ndarray:
        """Mean score of each strength over the folds computed."""
        return np.array([row[:n].mean() for row, n in self._computed])

    @property
    def best_index(self) -> int:
        """Index of the best mean score over all folds; of equal ones the strongest
        regularisation."""
        complete = self.n_folds == self.n_folds.max()
        mean = self.mean_scores.round(12)  # equal but for rounding
        return int(np.argmax(np.where(complete, mean, -np.inf)))

    @property
    def best_strength(self) -> Any:
        """The best value for the parameter ``alpha``."""
        return self.strengths[self.best_index]

    def as_results(self) -> dict[str, np.ndarray]:
        """A dict like ``cv_results_`` of scikit-learn, with the number of folds computed and the
        largest relative gap.

        Scores of folds that were not computed are NaN; means, deviations and gaps are those of
        the other folds. Strengths with all folds have the first ranks.
        """
        results = {f"split{k}_test_score": column for k, column in enumerate(self.scores.T)}
        keys = list(zip(self.n_folds == self.n_folds.max(), self.mean_scores, strict=True))
        return results | {
            "param_alpha": self.alphas,
            "mean_test_score": self.mean_scores,
            "std_test_score": np.array([row[:n].std() for row, n in self._computed]),
            "rank_test_score": np.array([1 + sum(other > key for other in keys) for key in keys]),
            "mean_fit_time": np.nanmean(self.seconds, axis=1),
            "max_relative_gap": np.nanmax(self.relative_gaps, axis=1),
            "n_folds": self.n_folds,
        }

    @property
    def _computed(self) -> Iterator[tuple[np.ndarray, int]]:
        return zip(self.scores, self.n_folds, strict=True)


class _Fit(NamedTuple):
    alpha: float
    score: float
    relative_gap: float
    n_iter: int
    seconds: float


class _Fold:
    """A model that is fitted on the training part of a fold, again and again."""

    def __init__(self, model: Any, X: Any, y: Any, split: tuple, params: dict, score: Callable):
        train, test = split
        self._model = model
        self._train = _safe_split(model, X, y, train)
        self._test = _safe_split(model, X, y, test, train)
        self._params = _check_method_params(X, params, train)
        self._score = score
        self._best_dual: Any = None
        self._n_iter = 0
        self._longest = min(_LONGEST, model.max_iter or _LONGEST)
        model._keeps_packed = True

    def limit_passes(self, near: bool) -> None:
        """The next fit of margins ends after a number of passes, and has few checks: the first one
        after as many passes as the last fit took, or from a near dual solution half of these."""
        first = self._n_iter // 2 if near else self._n_iter
        first = min(max(first, _FEW_PASSES), _MOST_PASSES)
        self._model._limits = Limits(_MOST_PASSES, float(first))

    def keep_dual(self) -> None:
        """Remember the dual solution of the last fit, and its passes."""
        self._best_dual = copy.deepcopy(self._model._dual), self._n_iter

    def restore_dual(self) -> None:
        """Start the next fit from the dual solution that is remembered."""
        dual, self._n_iter = self._best_dual
        self._model._dual = copy.deepcopy(dual)

    def fit(self, strength: Any, best: float = -math.inf) -> _Fit:
        """Fit from the last dual solution, with data that the first fit has packed.

        ``best`` is the score of the best strength so far: a fit that is far from its optimum takes
        twice the passes, and goes on while its score, before or after the last passes, is above.
        """
        model, began = self._model, time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # certificates and rare labels are in the results
            n_iter, gap = self._climb(strength)
            score, leads = float(self._score(model, *self._test)), True
            while model._limits and gap > _FAR and n_iter < self._longest and leads:
                model._limits = Limits(n_iter, float(n_iter))
                more, gap = self._climb(strength)
                n_iter += max(more, 1)
                before, score = score, float(self._score(model, *self._test))
                leads = max(before, score) > best
        self._n_iter = n_iter
        return _Fit(model.alpha_, score, gap, n_iter, time.perf_counter() - began)

    def _climb(self, strength: Any) -> tuple[int, float]:
        """Passes and relative gap of a fit from the last dual solution."""
        model = self._model
        if not model._fit_again(strength):
            model.set_params(alpha=strength).fit(*self._train, **self._params)
        if model.status_ == INTERRUPTED:  # otherwise the next fit would begin
            raise KeyboardInterrupt
        return model.n_iter_, model.gap_ / abs(model.primal_) if model.primal_ else 0.0


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
        Search the strength with the best mean score, by few fits: some strengths that are far apart
        first, from strong to weak, until the score is a standard error below the best one, or
        ``patience`` strengths (at least two fits) did not raise it by a quarter of that; then those
        around the best, in half the distance each time (at last only on the side with the higher
        scores), unless all scores there are within a standard error. At each strength half of the
        folds, at least two, are computed first; if it is worse than the best one so far on all of
        these, and by more than a standard error of the differences on average, the other folds are
        left out. Fits of margins end after ten passes, and their gaps say how far they are; where
        the relative gap is above one half, they go on for ten more, and for up to 80 while the
        score of the fold is the best one so far. By default all strengths are computed with all
        folds, each to ``tol``.
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
    name = f"{type(model).__name__}, path of alphas"
    with WorkReporter(int(own.get("verbose", 0)), name, len(strengths)) as progress:
        run = Parallel(n_jobs=n_jobs, prefer="threads")
        walk = _Walk(strengths, folds, run, progress)
        if patience is None:
            for index in range(len(strengths)):
                walk.compute(index)
                walk.report(index)
        else:
            walk.search(patience)
    return walk.result()


class _Walk:
    """The points of a path that are computed, one strength at a time."""

    def __init__(self, strengths: list, folds: list[_Fold], run: Parallel, progress: WorkReporter):
        self._progress = progress
        self._strengths = strengths
        self._folds = folds
        self._run = run
        self._fits: dict[int, list[_Fit]] = {}  # of the first folds
        self._scores: dict[int, np.ndarray] = {}

    def compute(self, index: int, until: int | None = None, best: Any = None) -> None:
        """Fit the folds that are missing at a strength, from their last dual solutions; ``best``
        are the scores of the best strength so far."""
        strength, known = self._strengths[index], self._fits.setdefault(index, [])
        best = [-math.inf] * len(self._folds) if best is None else best
        missing = list(zip(self._folds, best, strict=True))[len(known) : until]
        known += self._run(delayed(fold.fit)(strength, score) for fold, score in missing)
        self._scores[index] = np.array([fit.score for fit in known])

    def report(self, index: int) -> None:
        """Show a strength that is computed."""
        fits = self._fits[index]
        score = np.mean([fit.score for fit in fits])
        self._progress.done(f"alpha {fits[0].alpha:.3g}: score {score:.4g} ({len(fits)} folds)")
        self._progress.tick()

    def search(self, patience: int) -> None:
        """Compute points that are far apart, then those around the best one."""
        n = len(self._strengths)
        stride = 1
        while (2 * stride) ** 2 <= n:
            stride *= 2
        progress = _Progress(max(2, math.ceil(patience / stride)))
        for index in range(stride // 2, n, stride):
            for fold in self._folds:
                fold.limit_passes(near=False)
            self._race(index)
            self.report(index)
            if progress.is_over(self._scores[index]):
                break
        while stride > 1 and not self._is_flat(stride):
            stride //= 2
            for index in self._around(self._best(), stride):
                if 0 <= index < n and index not in self._fits:
                    for fold in self._folds:
                        fold.restore_dual()
                        fold.limit_passes(near=True)
                    self._race(index)
                    self.report(index)

    def _around(self, centre: int, stride: int) -> list[int]:
        """Neighbours of a point; at last only the one on the side where scores are higher."""
        sides = [centre - stride, centre + stride]
        beyond = [centre - 2 * stride, centre + 2 * stride]
        if stride > 1 or not all(index in self._scores for index in beyond):
            return sides
        return [sides[int(np.argmax([self._scores[index].mean() for index in beyond]))]]

    def _race(self, index: int) -> None:
        """Compute some of the folds at a strength, and the others unless it is worse than the best
        one on all of them; then its scores on the others are taken to be worse by the mean."""
        if not self._fits:
            self.compute(index)
        else:
            best = self._scores[self._best()]
            few = max(2, math.ceil(len(self._folds) / 2))
            self.compute(index, few, best)
            lost = best[:few] - self._scores[index]
            if lost.min() > 0.0 and lost.mean() > _standard_error(lost, 1):
                supposed = best[few:] - lost.mean()
                self._scores[index] = np.concatenate([self._scores[index], supposed])
                return
            self.compute(index, best=best)
        if self._best() == index:
            for fold in self._folds:
                fold.keep_dual()

    def result(self) -> Path:
        """What was computed, from strong to weak."""
        indices = sorted(self._fits)
        n_folds = np.array([len(self._fits[index]) for index in indices])
        fits = np.full((len(indices), len(self._folds), len(_Fit._fields)), np.nan)
        for row, index in zip(fits, indices, strict=True):
            row[: len(self._fits[index])] = self._fits[index]
        alphas, scores, gaps, n_iter, seconds = np.moveaxis(fits, 2, 0)
        skipped = [each for k, each in enumerate(self._strengths) if k not in self._fits]
        strengths = [self._strengths[index] for index in indices]
        alphas = np.nanmean(alphas, axis=1)
        return Path(strengths, alphas, scores, gaps, n_iter, seconds, skipped, n_folds)

    def _best(self) -> int:
        means = {index: round(float(self._scores[index].mean()), 12) for index in self._scores}
        return max(sorted(means), key=means.__getitem__)  # of those equal but for rounding

    def _is_flat(self, stride: int) -> bool:
        """Whether the neighbours of the best point are within a standard error of its score."""
        best = self._best()
        scores = self._scores[best]
        least = scores.mean() - _standard_error(scores)
        around = [k for k in (best - stride, best + stride) if 0 <= k < len(self._strengths)]
        return all(k in self._fits and self._scores[k].mean() >= least for k in around)


class _Progress:
    """Whether the score of the folds has stopped to rise for ``patience`` points."""

    def __init__(self, patience: int):
        self._patience = patience
        self._first: float | None = None
        self._best = -math.inf
        self._since = 0
        self._changed = False

    def is_over(self, scores: np.ndarray) -> bool:
        mean = float(np.mean(scores))
        error = _standard_error(scores)
        least = _NOTICEABLE * error
        rises = mean > self._best + least
        falls = mean < self._best - error  # which counts twice
        self._since = 0 if rises else self._since + (2 if falls else 1)
        self._best = max(self._best, mean) if rises else self._best
        # Strong regularisation may give the same constant prediction for a while.
        self._first = mean if self._first is None else self._first
        self._changed |= abs(mean - self._first) > least
        return self._changed and self._since >= self._patience


def _standard_error(scores: np.ndarray, ddof: int = 0) -> float:
    return float(np.std(scores, ddof=ddof)) / math.sqrt(len(scores))


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

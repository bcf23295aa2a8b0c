"""``--alpha cv``: cross-validation along a path of regularisation strengths.

Around the estimator's own heuristic alpha0, seven values ``alpha0 * 10 ** (1, 1/2, ..., -2)``. In
each fold the path is walked from strong to weak, every fit starting from the dual solution of the
one before, and ending at a relative gap of 10 %. The best mean score wins, and of equal ones the
stronger regularisation.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from ..checkpoint import Recorder
from ..datasets import take
from ._fit import Fits

# Relative gap at which fits of the folds end, as that of alpha="cv" of the estimators.
TOL = 0.1
EXPONENTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0)


class Point(NamedTuple):
    """A value on the path."""

    alpha: float
    mean: float
    deviation: float


class _Found(Exception):
    """Ends a fit before it starts: all that is wanted is the problem."""


class _Probe(Recorder):
    def __init__(self) -> None:
        super().__init__(lambda state: None, np.inf)
        self.alpha = 0.0

    def attach(self, stepper: Any) -> None:
        self.alpha = float(stepper.problem.alpha)
        raise _Found


def heuristic_alpha(model: Any, X: Any, y: Any) -> float:
    """What ``alpha="auto"`` means to an estimator on these data."""
    probe = _Probe()
    model.set_params(alpha="auto")
    model._recorder = probe
    try:
        model.fit(X, y)
    except _Found:
        return probe.alpha
    finally:
        vars(model).pop("_recorder", None)
    return float(model.alpha_)  # with hidden labels nothing is recorded


def folds_of(task: str, y: Any, n: int, folds: int, seed: int) -> list:
    """Training and test indices; classes in equal shares where there are enough of each."""
    if folds > n:
        raise ValueError(f"--folds {folds} needs as many examples; the data has {n}")
    if task in ("multiclass", "ordinal"):
        _, codes = np.unique(np.asarray(y).astype(str), return_inverse=True)
        if np.bincount(codes).min() >= folds:
            split = StratifiedKFold(folds, shuffle=True, random_state=seed)
            return list(split.split(np.zeros(n), codes))
    return list(KFold(folds, shuffle=True, random_state=seed).split(np.zeros(n)))


def walk_path(fits: Fits, task: str, X: Any, y: Any, folds: int, seed: int) -> list[Point]:
    """Scores of all values of alpha, from the largest; of interrupted paths those that are whole.

    Parameters
    ----------
    fits : Fits
        Makes and trains the models, and remembers across interruptions.
    """
    n = len(y)
    base = heuristic_alpha(fits.new_model(), X, y)
    alphas = [base * 10.0**exponent for exponent in EXPONENTS]
    scores = np.full((folds, len(alphas)), np.nan)
    for k, (train, test) in enumerate(folds_of(task, y, n, folds, seed)):
        model = None
        for j, alpha in enumerate(alphas):
            name = f"fold {k + 1}/{folds}, alpha {alpha:.3g}"
            known = fits.known_score(k * len(alphas) + j)
            if known is not None:
                scores[k, j] = known
                continue
            model = model or _loose(fits.new_model())
            model.set_params(alpha=alpha)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a loose gap or a rare label matters little here
                fits.fit(model, take(X, train), take(y, train), name)
                if fits.interrupted:
                    raise KeyboardInterrupt
                scores[k, j] = fits.score(model, take(X, test), take(y, test))
            fits.keep_score(float(scores[k, j]))
    return [
        Point(alpha, float(scores[:, j].mean()), float(scores[:, j].std()))
        for j, alpha in enumerate(alphas)
    ]


def _loose(model: Any) -> Any:
    """A model for the folds."""
    return model.set_params(warm_start=True, tol=max(TOL, model.tol))


def best_alpha(path: list[Point]) -> float:
    """The best mean score; of those that are equal but for rounding the largest alpha."""
    return max(path, key=lambda point: (round(point.mean, 12), point.alpha)).alpha

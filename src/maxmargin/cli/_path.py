"""``--alpha cv``: the search along a path of strengths, as by ``alpha="cv"`` of the estimators."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..paths import path
from ..strengths import CrossValidated, TimesAuto
from ._fit import Fits


class Point(NamedTuple):
    """A strength on the path as a multiple of "auto", with the mean and deviation of the scores of
    the folds that were computed, and the number of these."""

    factor: float
    mean: float
    deviation: float
    n_folds: float


def walk_path(fits: Fits, X: Any, y: Any, folds: int) -> list[Point]:
    """The strengths that were computed, from the strongest; a path that was finished before an
    interruption is not computed again."""
    if fits.path:
        return [Point(*numbers) for numbers in fits.path]
    if folds > len(y):
        raise ValueError(f"--folds {folds} needs as many examples; the data has {len(y)}")
    model, usual = fits.new_model(), CrossValidated()
    found = path(
        model, X, y, grid=usual.grid, cv=folds, scoring=fits.score, tol=usual.tol,
        patience=usual.patience, n_jobs=model.n_jobs,
    )  # fmt: skip
    results = found.as_results()
    columns = (found.mean_scores, results["std_test_score"], found.n_folds)
    factors = [strength.factor for strength in found.strengths]
    fits.path = [[float(number) for number in row] for row in zip(factors, *columns, strict=True)]
    return [Point(*numbers) for numbers in fits.path]


def best_point(path: list[Point]) -> Point:
    """The best mean score of all folds; of those equal but for rounding the strongest."""
    most = max(point.n_folds for point in path)
    complete = [point for point in path if point.n_folds == most]
    return max(complete, key=lambda point: (round(point.mean, 12), point.factor))


def best_alpha(path: list[Point]) -> TimesAuto:
    """The value for the parameter ``alpha``."""
    return TimesAuto(best_point(path).factor)


def as_rows(path: list[Point], alpha: float) -> list[dict[str, Any]]:
    """The path as a JSON document, with strengths for all data, of which ``alpha`` is the best."""
    best = best_point(path)
    return [
        {
            "alpha": alpha * point.factor / best.factor,
            "mean": point.mean,
            "deviation": point.deviation,
            "n_folds": int(point.n_folds),
            "chosen": point is best,
        }
        for point in path
    ]

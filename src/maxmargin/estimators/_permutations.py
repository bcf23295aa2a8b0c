"""What the estimators of permutations share: surrogates, and permutations as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kernels.saddle import MirrorProx, Proximal
from .._validation import check_choice, check_integer
from ..oracles.saddle import saddle_max_min
from ..solvers.base import Solver
from ..solvers.interior import Interior
from ..surrogates.max_margin import MaxMargin
from ._base import Settings, StructuredEstimator, incompatible

ORACLES = ("proximal", "mirror-prox")
PROJECTIONS = ("sinkhorn", "quadratic")

# Tolerance from which on max-min takes Newton steps.
_NEWTON_TOL = 1e-3
# Share of the tolerance that evaluation may leave to the bracket of the max-min oracle.
_ORACLE_SHARE = 0.02

PERMUTATION_PARAMETERS = """\
    oracle : {"proximal", "mirror-prox"}, default="proximal"
        How max-min finds its saddle points: by proximal steps, and by an interior-point method
        where they are not exact; or by saddle-point mirror-prox, the method of the paper. Either
        starts where the example was left last, and the certificate includes what the oracle's
        answer lacks.
    oracle_iterations : int, default=10
        Iterations of that oracle: of mirror-prox in every step and every evaluation, of the
        proximal one in evaluations (a step takes one).
    projection : {"sinkhorn", "quadratic"}, default="sinkhorn"
        Geometry of mirror-prox: entropy of the marginals, or Euclidean distance, whose answers
        are sparse."""


class PermutationEstimator(StructuredEstimator):
    """Common part of :class:`LabelRanker` and :class:`Matcher`."""

    def _check_settings(self) -> Settings:
        settings = super()._check_settings()
        check_choice("oracle", self.oracle, ORACLES)
        check_choice("projection", self.projection, PROJECTIONS)
        check_integer("oracle_iterations", self.oracle_iterations, 1)
        if self.surrogate == "crf":
            raise incompatible(
                "crf",
                "permutations",
                "Its partition function is the permanent of a matrix, which no algorithm is known "
                "to compute fast. Use surrogate='max-min' or 'max-margin'.",
            )
        return settings

    def _solver_name(self, problem: Any) -> str | Solver:
        if self.solver != "auto":
            return self.solver
        if self.oracle == "mirror-prox":
            return "bcfw"
        return Interior() if self._wants_newton_steps(problem) else "accelerated"

    def _wants_newton_steps(self, problem: Any) -> bool:
        """Whether few Newton steps are faster than many passes, as measured: see the benchmark
        ``max_min_fits``. They cannot start from an earlier fit."""
        starts_anew = not self.warm_start and not self.early_stopping
        return starts_anew and self.tol < _NEWTON_TOL and not Interior().missing(problem)

    def _make_surrogate(self, sides: np.ndarray, tol: float) -> Any:
        """The surrogate for examples of so many rows each."""
        if self.surrogate == "max-margin":
            return MaxMargin()
        method: Proximal | MirrorProx
        if self.oracle == "proximal":
            method = Proximal(int(self.oracle_iterations), _ORACLE_SHARE * tol)
        else:
            method = MirrorProx(int(self.oracle_iterations), self.projection == "sinkhorn")
        return saddle_max_min(sides**2, 1.0 / sides, method)


def first_difference(row: np.ndarray, base: int) -> str:
    """What keeps a row of integers from being a permutation that counts from ``base``."""
    n = len(row)
    outside = (row < base) | (row >= base + n)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        return (
            f"holds {row[place]} at place {place}; expected each of {base}, ..., {base + n - 1} "
            "once"
        )
    values, counts = np.unique(row, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return ""
    places = np.flatnonzero(row == repeated[0])
    missing = np.setdiff1d(np.arange(base, base + n), row)[0]
    return (
        f"holds {repeated[0]} at places {', '.join(map(str, places))} and {missing} nowhere; "
        f"expected each of {base}, ..., {base + n - 1} once"
    )


def as_integers(row: Any, where: str) -> np.ndarray:
    """A row of integers; numbers such as 2.0 count as 2."""
    try:
        values = np.asarray(row)
        if values.dtype == object:
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        values = np.empty(0, "U")
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise ValueError(f"{where} must be a row of integers; received {row!r}.")
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            place = int(np.flatnonzero(np.isnan(values))[0])
            raise ValueError(
                f"{where} is not known (NaN) at place {place}; incomplete permutations are not "
                "supported: complete the row or leave the example out."
            )
        if (values != np.floor(values)).any() or not np.isfinite(values).all():
            bad = np.flatnonzero((values != np.floor(values)) | ~np.isfinite(values))
            place = int(bad[0])
            raise ValueError(f"{where} must hold integers; received {values[place]} at {place}.")
    return values.astype(np.int64)

"""What the estimators of permutations share: surrogates, and permutations as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._kernels.saddle import MirrorProx, Proximal
from .._validation import check_choice, check_integer
from ..oracles.saddle import saddle_max_min
from ..surrogates.max_margin import MaxMargin
from ._base import Settings, StructuredEstimator, incompatible

ORACLES = ("proximal", "mirror-prox")
PROJECTIONS = ("sinkhorn", "quadratic")

# Share of the tolerance that evaluation may leave to the bracket of the max-min oracle.
_ORACLE_SHARE = 0.02

PERMUTATION_PARAMETERS = """\
    oracle : {"proximal", "mirror-prox"}, default="proximal"
        How max-min finds its saddle points: by proximal steps, which are exact in most blocks; or
        by saddle-point mirror-prox, the method of the paper. Either starts where the example was
        left last, and the certificate includes what the oracle's answer lacks.
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

    def _solver_name(self, problem: Any) -> str:
        if self.solver == "auto":
            return "bcfw" if self.oracle == "mirror-prox" else "accelerated"
        return self.solver

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

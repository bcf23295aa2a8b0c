"""How sequences are trained: which solver, with which surrogate, and what does not go together."""

from __future__ import annotations

from typing import Any

from .._validation import check_integer
from ..oracles.mirror_prox import PER_POSITION, mirror_prox
from ..structures.entropy_chain import EntropyChain
from ..surrogates.crf import BoundedCrf
from ._base import SURROGATES, StructuredEstimator

ORACLE_PARAMETERS = f"""\
    oracle : {{None, "mirror-prox"}}, default=None
        None trains max-min without an oracle (solver "flow"). "mirror-prox" is the method of its
        paper, for comparison: solver "bcfw" with saddle-point mirror-prox, which starts where the
        example was left last; the certificate includes what its answer lacks.
    oracle_iterations : int or "auto", default="auto"
        Iterations of that oracle, in every step and every evaluation. "auto" is that of the paper:
        {PER_POSITION} times the length of the sequence.
    line_search : bool, default=True
        Exact steps towards the answer of that oracle; False takes the steps ``2n / (t + 2n)`` of
        the paper."""


class ChainSolvers(StructuredEstimator):
    """The part of :class:`SequenceLabeler` between its parameters and a solver."""

    _switches = (
        *StructuredEstimator._switches,
        "normalize_loss",
        "boundary_weights",
        "line_search",
    )
    _solvers = ("auto", "accelerated", "bcfw", "pairwise", "flow", "subgradient", "lbfgs")

    def _check_solver_fits(self) -> None:
        super()._check_solver_fits()
        if isinstance(self.oracle_iterations, str):
            if self.oracle_iterations != "auto":
                raise ValueError(
                    "oracle_iterations must be 'auto' or an integer >= 1; received "
                    f"{self.oracle_iterations!r}."
                )
        else:
            check_integer("oracle_iterations", self.oracle_iterations, 1)
        if self.oracle is not None:
            self._check_oracle_fits()
        elif not self.line_search:
            raise ValueError(
                "line_search=False takes the steps of the max-min paper, which go with its oracle: "
                "use oracle='mirror-prox' with surrogate='max-min', or line_search=True."
            )
        elif self.surrogate == "max-min" and self.solver in ("bcfw", "subgradient"):
            raise ValueError(
                f"solver={self.solver!r} needs an exact max-min oracle, which sequences do not "
                "have: use solver='auto' or 'flow', or solver='bcfw' with oracle='mirror-prox', or "
                "surrogate='max-margin'."
            )
        if self.surrogate == "crf" and self.solver == "flow":
            raise ValueError(
                "solver='flow' is made for losses, which surrogate='crf' does not have: use "
                "solver='auto', 'lbfgs' or 'bcfw'."
            )

    def _check_oracle_fits(self) -> None:
        if self.oracle != "mirror-prox":
            raise ValueError(f"oracle must be None or 'mirror-prox'; received {self.oracle!r}.")
        if self.surrogate != "max-min":
            raise ValueError(
                f"oracle={self.oracle!r} is one of max-min alone: use surrogate='max-min' or "
                f"oracle=None; received surrogate={self.surrogate!r}."
            )
        if self.solver not in ("auto", "bcfw"):
            raise ValueError(
                f"oracle={self.oracle!r} goes with solver='bcfw' (or 'auto'), and the other "
                f"solvers with oracle=None; received solver={self.solver!r}."
            )

    def _solver_name(self, problem: Any) -> str:
        if self.solver != "auto":
            return self.solver
        if self.surrogate == "crf":
            return "bcfw" if isinstance(problem.structure, EntropyChain) else "lbfgs"
        if self.oracle is not None:
            return "bcfw"
        return "flow" if self.surrogate == "max-min" else "accelerated"

    def _make_surrogate(self, structure: Any) -> Any:
        if isinstance(structure, EntropyChain):
            return BoundedCrf()
        if self.oracle is None:
            return SURROGATES[self.surrogate]()
        given = self.oracle_iterations
        return mirror_prox(structure, 0 if isinstance(given, str) else given, self.line_search)

"""Oracles: how the maximum of ``H_i(mu) + scores @ mu`` over a block is found.

An oracle is a value that holds parameters. What it stores per example is one NamedTuple, made by
:meth:`Oracle.init`, which is part of the state of a solver; kernels dispatch on its class
(``answer``, ``respond`` and ``learn_step`` in :mod:`maxmargin._kernels.protocol`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._kernels.saddle import MirrorProx as MirrorProxSteps
from .._kernels.saddle import Proximal as ProximalSteps
from .._validation import check_choice, check_integer, check_number, is_auto, is_name
from .closed_form import Formula
from .double_oracle import TreeGame
from .mirror_prox import chain_pairs
from .saddle import saddle_pairs

PROJECTIONS = ("sinkhorn", "quadratic")
SCHEDULES = ("constant", "growing")
# Share of the tolerance of a fit that the bracket of an inexact oracle may take in evaluations. It
# is relative to an objective that may be a thousandth of the largest loss of a tree.
_SHARE, _TREE_SHARE = 0.02, 1e-5
# Default number of iterations of mirror-prox on permutations.
_ON_PAIRS = 10


class Oracle(BaseEstimator):
    """Base of all oracles; subclasses list their parameters in the constructor."""

    def missing(self, problem: Any) -> list[str]:
        """Requirements of this oracle that the problem does not meet; empty if it can be used."""
        return []

    def validate(self) -> None:
        """Refuse parameters that no problem could use."""

    def init(self, problem: Any) -> Any:
        """What the oracle stores before its first call."""
        raise NotImplementedError(f"{type(self).__name__}.init")


class ClosedForm(Oracle):
    """The formula, or the argmax, that a structure has for a surrogate.

    Parameters
    ----------
    blocks : bool, default=True
        Take the exact maximum of a whole block where the structure has one.
    """

    def __init__(self, blocks: bool = True):
        self.blocks = blocks

    def missing(self, problem):
        return [problem.no_oracle] if problem.no_oracle else []

    def init(self, problem):
        return Formula(bool(self.blocks))


class _Iterative(Oracle):
    """Base of the oracles for max-min only."""

    iterations: Any
    accuracy: Any = "auto"
    spaces: tuple[str, ...]  # where saddle points may lie
    made_for: str

    def validate(self):
        check_integer("iterations", self.iterations, 1)
        if not is_auto("accuracy", self.accuracy):
            check_number("accuracy", self.accuracy, at_least=0)

    def accuracy_or(self, default: float) -> float:
        """The width of the bracket at which an evaluation ends."""
        return default if is_auto("accuracy", self.accuracy) else float(self.accuracy)

    def missing(self, problem):
        found = []
        if problem.cost.name != "max-min":
            found.append("surrogate='max-min', the only one with saddle points (or oracle='auto')")
        if problem.traits.saddle not in self.spaces:
            found.append(f"{self.made_for} (or oracle='auto')")
        return found


class MirrorProx(_Iterative):
    """Saddle-point mirror-prox, the method of the max-min paper, on sequences and permutations.

    It is warm-started at the last point of the example; the certificate includes its error.

    Parameters
    ----------
    iterations : int or "auto", default="auto"
        Iterations in every step and every evaluation. "auto" is the number of the paper on
        sequences, 10 times the length, and 10 on permutations.
    projection : {"sinkhorn", "quadratic"}, default="sinkhorn"
        Geometry on permutations: entropy of the marginals, or Euclidean distance, whose projections
        are sparse.
    schedule : {"constant", "growing"}, default="constant"
        "growing" multiplies the iterations by ``(t + n) / n`` after t steps on n examples, so that
        the error decreases like ``n / (t + n)``, which the paper's proof of convergence asks for:
        the first pass takes ``iterations``, the second twice as many, and so on.

    References
    ----------
    Nowak-Vila, Bach, Rudi. Consistent structured prediction with max-min margin Markov networks.
    ICML 2020.
    """

    spaces = ("positions", "pairs")
    made_for = "label sequences, rankings or matchings"

    def __init__(
        self,
        iterations: int | str = "auto",
        projection: str = "sinkhorn",
        schedule: str = "constant",
    ):
        self.iterations = iterations
        self.projection = projection
        self.schedule = schedule

    def validate(self):
        if not is_auto("iterations", self.iterations):
            super().validate()
        check_choice("projection", self.projection, PROJECTIONS)
        check_choice("schedule", self.schedule, SCHEDULES)

    def init(self, problem):
        given = 0 if is_auto("iterations", self.iterations) else int(self.iterations)
        growing = self.schedule == "growing"
        if problem.traits.saddle == "positions":
            return chain_pairs(problem.structure, given, growing=growing)
        method = MirrorProxSteps(given or _ON_PAIRS, self.projection == "sinkhorn")
        return saddle_pairs(np.diff(problem.structure.indptr), method, growing)


class Proximal(_Iterative):
    """Proximal steps to the saddle points of permutations, exact in most blocks.

    They are warm-started at the last point of the example; the certificate includes their error.

    Parameters
    ----------
    iterations : int, default=10
        Largest number of proximal steps in an evaluation; a step of the solver takes one.
    accuracy : float or "auto", default="auto"
        Width of the bracket at which an evaluation ends. "auto" is a small share of the tolerance
        of the fit.
    """

    spaces = ("pairs",)
    made_for = "rankings or matchings"

    def __init__(self, iterations: int = 10, accuracy: float | str = "auto"):
        self.iterations = iterations
        self.accuracy = accuracy

    def init(self, problem):
        accuracy = self.accuracy_or(_SHARE * problem.tolerance)
        method = ProximalSteps(int(self.iterations), accuracy)
        return saddle_pairs(np.diff(problem.structure.indptr), method)


class DoubleOracle(_Iterative):
    """Exact saddle points of trees: a mixture of trees per player, extended by best responses.

    Parameters
    ----------
    iterations : int, default=100
        Largest number of trees in a mixture; the certificate includes the error that remains.
    accuracy : float or "auto", default="auto"
        Width of the bracket at which an evaluation ends. "auto" is a small share of the tolerance
        of the fit.
    """

    spaces = ("trees",)
    made_for = "trees"

    def __init__(self, iterations: int = 100, accuracy: float | str = "auto"):
        self.iterations = iterations
        self.accuracy = accuracy

    def init(self, problem):
        accuracy = self.accuracy_or(_TREE_SHARE * problem.tolerance)
        return TreeGame(int(self.iterations), accuracy)


_BY_SPACE = {"pairs": Proximal, "trees": DoubleOracle}


def make_oracle(oracle: Any, problem: Any, blocks: bool = True) -> Oracle:
    """An oracle for a problem; "auto" is the one that suits it."""
    if not is_name(oracle, "auto"):
        return oracle
    if problem.cost.name == "max-min" and problem.traits.saddle in _BY_SPACE:
        return _BY_SPACE[problem.traits.saddle]()
    return ClosedForm(blocks)


def check_oracle(oracle: Any) -> None:
    """Refuse what is neither "auto" nor an oracle with usable parameters."""
    if isinstance(oracle, Oracle):
        oracle.validate()
    elif not is_name(oracle, "auto"):
        raise ValueError(
            f"oracle must be 'auto' or an oracle such as MirrorProx(); received {oracle!r}."
        )

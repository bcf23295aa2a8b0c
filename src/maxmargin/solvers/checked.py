"""How often a solver is checked."""

from __future__ import annotations

from typing import Any

from .._validation import check_integer
from .base import Solver, check_inner


class Checked(Solver):
    """A solver with a fixed number of passes between two checks.

    A check is a true evaluation of primal, dual and gap; it costs about a pass. Without this,
    checks come increasingly rarely, and when the estimated gap is small enough.

    Parameters
    ----------
    solver : Solver or str, default="auto"
        Any solver. ``Checked`` must be the outermost wrapper.
    every : int, default=1
        Passes between two checks.

    Examples
    --------
    >>> from maxmargin import Checked, MulticlassClassifier
    >>> MulticlassClassifier(solver=Checked("auto", every=5))
    MulticlassClassifier(solver=Checked(every=5))
    """

    def __init__(self, solver: Any = "auto", every: int = 1):
        self.solver = solver
        self.every = every

    def validate(self):
        check_integer("every", self.every, 1)
        check_inner(self.solver)

    @property
    def check_every(self):  # type: ignore[override]
        return int(self.every)

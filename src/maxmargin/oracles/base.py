"""Oracles: how the maximum of ``H_i(mu) + scores @ mu`` over a block is found.

An oracle is a value that holds parameters. What it stores per example is one NamedTuple, made by
:meth:`Oracle.init`, which is part of the state of a solver; kernels dispatch on its class
(``answer``, ``respond`` and ``learn_step`` in :mod:`maxmargin._kernels.protocol`).
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator


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

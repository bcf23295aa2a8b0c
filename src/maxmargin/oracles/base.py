"""What an oracle is: how the maximum of ``H_i(mu) + scores @ mu`` over a block is found.

An oracle is a value that holds parameters. What it remembers of each example is one NamedTuple that
:meth:`Oracle.init` makes and that belongs to the state of a solver; kernels dispatch on its class
(``answer``, ``respond`` and ``learn_step`` in :mod:`maxmargin._kernels.protocol`).
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator


class Oracle(BaseEstimator):
    """Base of all oracles; subclasses list their parameters in the constructor."""

    def missing(self, problem: Any) -> list[str]:
        """What the problem does not have and this oracle needs; nothing if it can answer."""
        return []

    def validate(self) -> None:
        """Refuse parameters that no problem could use."""

    def init(self, problem: Any) -> Any:
        """What the oracle remembers before its first answer."""
        raise NotImplementedError(f"{type(self).__name__}.init")

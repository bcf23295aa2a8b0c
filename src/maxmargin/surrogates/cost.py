"""What a surrogate tells solvers about itself, beside its compiled functions."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """Answers of a class of surrogates: its property ``cost``.

    Attributes
    ----------
    name : str
        As users write it.
    linear : bool
        Whether H is linear, so that answers of oracles are single outputs.
    smooth : bool
        Whether the surrogate has gradients.
    likelihood : bool
        Whether it is the likelihood of the truth, in which the task loss plays no part.
    fills_blocks : bool
        Whether no part of a best response is zero, so that the dual is stored whole.
    """

    name: str
    linear: bool = False
    smooth: bool = False
    likelihood: bool = False
    fills_blocks: bool = False

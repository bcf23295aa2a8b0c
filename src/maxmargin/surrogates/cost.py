"""Properties of a surrogate that solvers need, beside its compiled functions."""

from __future__ import annotations

from typing import NamedTuple

SMOOTH = "smooth-max-min"
# Factor of its entropy, for a loss of 1 between neighbouring labels. Of 0.1, 0.3 and 1 it has the
# smallest test error on clean labels of mfeat, trained with 40 % correct labels (one split).
STRENGTH = 0.1
RESTRICTED = "restricted-max-margin"


class Cost(NamedTuple):
    """Properties of a class of surrogates, returned by its property ``cost``.

    Attributes
    ----------
    name : str
        The value of ``surrogate=`` in an estimator.
    linear : bool
        Whether H is linear, so that answers of oracles are single outputs.
    smooth : bool
        Whether the surrogate has gradients.
    probabilities : bool
        Whether best responses estimate the probabilities of outputs.
    likelihood : bool
        Whether it is the likelihood of the truth, which does not depend on the task loss.
    fills_blocks : bool
        Whether no part of a best response is zero, so that the dual is stored densely.
    of_truth : bool
        Whether which marginals are feasible depends on the truth of an example.
    no_blocks : str
        Why solvers that visit the blocks of examples cannot be used, if so.
    """

    name: str
    linear: bool = False
    smooth: bool = False
    probabilities: bool = False
    likelihood: bool = False
    fills_blocks: bool = False
    of_truth: bool = False
    no_blocks: str = ""

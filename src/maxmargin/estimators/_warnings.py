"""Warnings about fits that ended, and not where their user wants them."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from .._validation import outside


def warn_failure(name: str, primal: float, dual: float) -> None:
    """Warn of a fit whose numbers cannot be trusted beyond a point."""
    warnings.warn(
        f"{name} failed: numbers overflowed or contradicted each other. The weights are the best "
        f"ones before that (primal {primal:.6g}, dual {dual:.6g}). Scale the features, or increase "
        "alpha.",
        ConvergenceWarning,
        stacklevel=outside(),
    )


# What to do about weights of zero where only the surrogate is to blame.
OTHER_SURROGATE = 'Use surrogate="max-min" or "crf" where there is one.'


def warn_zero(name: str, remedy: str = OTHER_SURROGATE) -> None:
    """Warn of an optimum at weights of zero, which are the least hinge losses and no model.

    Max-margin is minimised there wherever the best output of most inputs has less than half of the
    probability, for any alpha: the other surrogates are not.
    """
    warnings.warn(
        f"{name} converged to weights that are all zero: every output has the same score, and "
        "predictions say nothing about the input. Either the features do not depend on the output, "
        "or no margin can be attained, as happens to max-margin where no output has more than half "
        f"of the probability; a smaller alpha or tol does not change that. {remedy}",
        ConvergenceWarning,
        stacklevel=outside(),
    )

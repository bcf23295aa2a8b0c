"""How far probabilities can be believed: of answers given with 80 %, 80 % should be right."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._validation import check_integer

__all__ = ["Reliability", "reliability"]


class Reliability(NamedTuple):
    """Answers in bins of their probability.

    Attributes
    ----------
    probability, frequency : arrays of shape (n_used_bins,)
        Mean probability of the answers of a bin, and the share of them that is right; bins without
        an answer are left out.
    n_answers : array of shape (n_used_bins,)
        Number of answers.
    """

    probability: np.ndarray
    frequency: np.ndarray
    n_answers: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: mean of ``|probability - frequency|`` over all answers."""
        gaps = np.abs(self.probability - self.frequency)
        return float(np.average(gaps, weights=self.n_answers))


def reliability(right: Any, probability: Any, n_bins: int = 10) -> Reliability:
    """Compare probabilities of answers with how often they are right.

    Parameters
    ----------
    right : array of n bools
        Whether each answer is right.
    probability : array of n numbers between 0 and 1
        What the model gave each answer.
    n_bins : int, default=10
        Number of bins of equal width.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> from maxmargin.metrics import reliability
    >>> found = reliability([True, True, False, True], [0.9, 0.95, 0.6, 0.65], n_bins=5)
    >>> found.frequency.tolist(), round(found.error, 3)
    ([0.5, 1.0], 0.1)
    """
    n_bins = check_integer("n_bins", n_bins, 1)
    hits, sure = np.asarray(right, float), np.asarray(probability, float)
    if hits.ndim != 1 or hits.shape != sure.shape or not len(hits):
        raise ValueError(
            f"right and probability must have the same length, at least 1; received shapes "
            f"{hits.shape} and {sure.shape}."
        )
    bad = np.flatnonzero(~((sure >= 0) & (sure <= 1 + 1e-9)))
    if len(bad):
        raise ValueError(f"probability[{bad[0]}] must be between 0 and 1; received {sure[bad[0]]}.")
    places = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    count = np.bincount(places, minlength=n_bins)
    used = count > 0
    mean, share = (
        np.bincount(places, weights=values, minlength=n_bins)[used] / count[used]
        for values in (sure, hits)
    )
    return Reliability(mean, share, count[used])

"""Scores with confidence intervals: of a model, and of its advantage over a baseline."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many deviations
_FEWEST = 8  # examples for an interval
_RESAMPLES = 1000
_DRAWS = 20_000_000  # examples drawn at most, over all resamples


class Measure(NamedTuple):
    """What counts, example by example: the score is ``sum(gained) / sum(possible)``.

    Attributes
    ----------
    name : str
    gained, possible : arrays of shape (n_examples,)
    percent : bool
        Whether it is a share.
    lower_is_better : bool
    """

    name: str
    gained: np.ndarray
    possible: np.ndarray
    percent: bool = True
    lower_is_better: bool = False

    @property
    def value(self) -> float:
        """The score of all examples together."""
        total = float(self.possible.sum())
        return float(self.gained.sum()) / total if total else math.nan

    def text(self, value: float | None = None) -> str:
        """The score, or another value of the measure, for people."""
        value = self.value if value is None else value
        return f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"


def interval(measure: Measure) -> tuple[float, float] | None:
    """95 % confidence interval over examples; None where they are too few.

    Of a share of examples it is Wilson's, otherwise the percentiles of a bootstrap over examples:
    parts of one example are not independent, so examples are drawn and not their parts.
    """
    n = len(measure.gained)
    if n < _FEWEST or not measure.possible.sum():
        return None
    yes_or_no = np.isin(measure.gained, (0.0, 1.0)).all() and (measure.possible == 1).all()
    if yes_or_no:
        return wilson(float(measure.gained.sum()), n)
    values = _resampled(measure.gained, measure.possible)
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def wilson(right: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: ``right`` of ``n``."""
    share = right / n
    scale = 1.0 + _Z**2 / n
    centre = (share + _Z**2 / (2 * n)) / scale
    half = _Z / scale * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def advantage(model: Measure, other: Measure) -> tuple[float, tuple[float, float] | None]:
    """How much better the model is than a baseline on the same examples, with its interval."""
    sign = -1.0 if model.lower_is_better else 1.0
    difference = sign * (model.value - other.value)
    if len(model.gained) < _FEWEST or not model.possible.sum():
        return difference, None
    values = _resampled(sign * (model.gained - other.gained), model.possible)
    return difference, (float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975)))


def _resampled(gained: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Scores of data sets drawn from the examples with replacement; always the same ones."""
    rng = np.random.RandomState(0)
    n = len(gained)
    times = max(100, min(_RESAMPLES, _DRAWS // n))
    values = np.empty(times)
    for k in range(times):
        chosen = rng.randint(n, size=n)
        total = possible[chosen].sum()
        values[k] = gained[chosen].sum() / total if total else 0.0
    return values

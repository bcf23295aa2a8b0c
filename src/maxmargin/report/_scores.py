"""Scores with confidence intervals: of a model, and of its advantage over a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..tasks import Measure

_Z = 1.959963984540054  # 95 % of a normal distribution lie within it, in deviations
_FEWEST = 8  # examples for an interval
_RESAMPLES = 1000
_DRAWS = 20_000_000  # entries of a measure that are added up at most, over all resamples


def interval(measure: Measure) -> tuple[float, float] | None:
    """95 % confidence interval over examples; None where they are too few.

    Of a share of examples it is Wilson's, otherwise the percentiles of a bootstrap over examples:
    parts of one example are not independent, so examples are drawn and not their parts.
    """
    n = measure.n_examples
    if n < _FEWEST or not measure.possible.sum():
        return None
    simple = measure.group is None and measure.percent and measure.example is None
    if simple and np.isin(measure.gained, (0.0, 1.0)).all() and (measure.possible == 1).all():
        return wilson(float(measure.gained.sum()), n)
    return _percentiles([measure.weighted(weights) for weights in _resampled(measure)])


def wilson(right: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: ``right`` of ``n``."""
    share = right / n
    scale = 1.0 + _Z**2 / n
    centre = (share + _Z**2 / (2 * n)) / scale
    half = _Z / scale * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def advantage(model: Measure, other: Measure) -> tuple[float, tuple[float, float] | None]:
    """How much better the model is than a baseline on the same examples, with its interval."""
    sign, n = -1.0 if model.lower_is_better else 1.0, model.n_examples
    difference = sign * (model.value - other.value)
    if n < _FEWEST or not model.possible.sum():
        return difference, None
    drawn = [sign * (model.weighted(w) - other.weighted(w)) for w in _resampled(model)]
    return difference, _percentiles(drawn)


def _percentiles(values: list[float]) -> tuple[float, float]:
    known = np.nan_to_num(values)  # a draw in which nothing counts
    return float(np.quantile(known, 0.025)), float(np.quantile(known, 0.975))


def _resampled(measure: Measure) -> Iterator[np.ndarray]:
    """How often each example is drawn, in draws with replacement; always the same ones."""
    rng, n = np.random.RandomState(0), measure.n_examples
    for _ in range(max(100, min(_RESAMPLES, _DRAWS // len(measure.gained)))):
        yield np.bincount(rng.randint(n, size=n), minlength=n).astype(float)

"""How much memory a fit will take, before it is started."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ._validation import check_integer

_PASSES = 10
_REPEATS = 2


class MemoryEstimate(NamedTuple):
    """What :func:`estimate_memory` found, in bytes, beside the data that you hold already."""

    total: float
    fixed: float
    per_example: float
    n_examples: int

    def __str__(self) -> str:
        return (
            f"about {_readable(self.total)} for {self.n_examples} examples: "
            f"{_readable(self.fixed)} and {_readable(self.per_example)} an example"
        )


def estimate_memory(
    model: Any, X: Any, y: Any, *, sample_size: int = 800, random_state: int = 0
) -> MemoryEstimate:
    """Estimate the peak memory of ``model.fit(X, y)``, beside X and y themselves.

    A clone is trained on two small samples, for a few passes, and what that takes is extrapolated:
    weights, classes and features are what they are, all else is linear in the examples. ``model``
    itself is not changed.

    Parameters
    ----------
    model : estimator
    X, y
        As for ``fit``.
    sample_size : int
        Examples in the larger sample; the smaller one has a quarter of them. If there are no more
        examples than that, all are used and nothing is extrapolated.
    random_state : int
        Which examples are drawn.

    Returns
    -------
    MemoryEstimate
        Bytes: ``total``, of which ``fixed`` do not depend on the number of examples.

    Notes
    -----
    Classes that are rare, or names of features that few examples have, may be missing in the
    samples; where the estimator has a parameter ``classes`` that is not set, the classes of all
    of y are declared. The dual is larger where more examples are hard to get right, and a sample is
    easier than the whole: labels that are mostly noise can take several times the estimate. Leave
    some spare capacity, and see ``dual_nbytes_`` after a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import MulticlassClassifier, estimate_memory
    >>> X = np.random.RandomState(0).randn(10_000, 50)
    >>> y = np.arange(10_000) % 7
    >>> estimate = estimate_memory(MulticlassClassifier(), X, y)
    >>> 1e6 < estimate.total < 10e6
    True
    """
    check_integer("sample_size", sample_size, 2)
    X, y = (values if hasattr(values, "shape") else list(values) for values in (X, y))
    n = _num_samples(X)
    if n == 0 or _num_samples(y) != n:
        raise ValueError(
            f"X and y must have the same number of examples, and at least one; received {n} and "
            f"{_num_samples(y)}."
        )
    order = np.random.RandomState(random_state).permutation(n)
    model = _short(model, y)
    large = min(n, sample_size)
    _peak(model, X, y, order[:large])  # what has to be compiled is compiled here
    at_large = _least_peak(model, X, y, order[:large])
    if large == n:
        return MemoryEstimate(at_large, 0.0, at_large / n, n)
    small = max(1, large // 4)
    at_small = _least_peak(model, X, y, order[:small])
    per_example = max(0.0, (at_large - at_small) / (large - small))
    fixed = max(0.0, at_large - large * per_example)
    return MemoryEstimate(fixed + n * per_example, fixed, per_example, n)


def _short(model: Any, y: Any) -> Any:
    """A clone that makes a few passes, and knows all the classes."""
    copy = clone(model)
    known = copy.get_params(deep=False)
    changes: dict[str, Any] = {"verbose": False, "early_stopping": False, "warm_start": False}
    changes["max_iter"] = min(_PASSES, known.get("max_iter") or _PASSES)
    if "classes" in known and known["classes"] is None:
        found = _labels(y)
        if found:
            changes["classes"] = found
    return copy.set_params(**{name: value for name, value in changes.items() if name in known})


def _labels(y: Any) -> list | None:
    """The labels that y holds; None where they cannot be told, or some may be hidden."""
    if not isinstance(y, list) and y.ndim != 1:  # indicators, ranks
        return None
    found: set = set()
    try:
        for item in y:
            match item:
                case np.ndarray() | np.generic():
                    found.update(np.ravel(item).tolist())
                case str() | bytes():
                    found.add(item)
                case Iterable():
                    found.update(item)
                case _:
                    found.add(item)
        found.discard(None)
        return None if min(found) in (-1, -1.0) else sorted(found)
    except (TypeError, ValueError):  # no labels, or labels without an order
        return None


def _least_peak(model: Any, X: Any, y: Any, chosen: np.ndarray) -> float:
    """The least of some peaks: what Python allocates once, for itself, is in the others."""
    return min(_peak(model, X, y, chosen) for _ in range(_REPEATS))


def _peak(model: Any, X: Any, y: Any, chosen: np.ndarray) -> float:
    """Bytes at the peak of a fit of some examples."""
    some_x, some_y = _safe_indexing(X, chosen), _safe_indexing(y, chosen)
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        gc.collect()  # what an earlier fit has left would be freed during this one
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).fit(some_x, some_y)
        traced = tracemalloc.get_traced_memory()[1] - before
        return float(traced + vars(fitted).get("dual_nbytes_", 0))  # compiled code is not traced
    finally:
        if not was_tracing:
            tracemalloc.stop()


def _readable(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"

"""Features of the pairs of two point sets, as users have them, packed: all pairs below each other.

An example is an (n, n, d) array of the features of its pairs, or two arrays of n points each, from
which the features are made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._matrix_checks import refuse_times_and_texts
from .._validation import first_unusable, is_plain_list, is_text, take_examples, unusable

PAIR_FEATURES = ("squared-difference", "absolute-difference")
_REMEDY = (
    "pass a list with one (n, n, d) array of pair features, or one pair (A, B) of arrays of n "
    "points, an example"
)


class PackedPairs(NamedTuple):
    """Features of all pairs, row by row of each example, and the sizes of the examples."""

    X: np.ndarray
    sides: np.ndarray

    @property
    def indptr(self) -> np.ndarray:
        """Where the points of each example start."""
        return np.concatenate([[0], np.cumsum(self.sides)]).astype(np.int64)

    @property
    def pairs_indptr(self) -> np.ndarray:
        """Where the pairs of each example start."""
        return np.concatenate([[0], np.cumsum(self.sides**2)]).astype(np.int64)

    def take(self, chosen: np.ndarray) -> PackedPairs:
        """Some of the examples."""
        if len(chosen) == len(self.sides):
            return self
        starts = self.pairs_indptr
        parts = [self.X[starts[i] : starts[i + 1]] for i in chosen]
        return PackedPairs(np.concatenate(parts), self.sides[chosen])


def check_pair_features(value: Any) -> None:
    """Refuse what neither names nor computes features of pairs."""
    if not callable(value) and not (is_text(value) and value in PAIR_FEATURES):
        listed = ", ".join(repr(name) for name in PAIR_FEATURES)
        raise ValueError(
            f"pair_features must be one of {listed} or a function of two arrays of points; "
            f"received {value!r}."
        )


def pack_pairs(X: Any, pair_features: str | Callable[..., Any]) -> PackedPairs:
    """Stack the features of all pairs of all examples, checked."""
    listed = take_examples(X, "example", _REMEDY, ndim=3)
    arrays = [_take_example(example, i, pair_features) for i, example in enumerate(listed)]
    widths = [array.shape[2] for array in arrays]
    for i, width in enumerate(widths):
        if width != widths[0]:
            raise ValueError(
                f"X[{i}] has {width} features per pair but X[0] has {widths[0]}; expected as many "
                "in all examples."
            )
    if not widths[0]:
        raise ValueError("X[0] has 0 features per pair; expected at least one.")
    flat = np.concatenate([array.reshape(-1, widths[0]) for array in arrays])
    return PackedPairs(flat, np.array([len(array) for array in arrays], np.int64))


def _take_example(example: Any, i: int, pair_features: str | Callable[..., Any]) -> np.ndarray:
    """Features of the pairs of one example."""
    if is_plain_list(example) and len(example) == 2 and _are_points(example):
        left, right = (
            _numbers(points, f"X[{i}][{side}]", 2) for side, points in enumerate(example)
        )
        if len(left) != len(right):
            raise ValueError(
                f"X[{i}] has {len(left)} points on one side and {len(right)} on the other; a "
                "matching needs as many. Add points that stand for none."
            )
        features = _make_features(left, right, i, pair_features)
    else:
        features = _numbers(example, f"X[{i}]", 3)
    if features.shape[0] != features.shape[1]:
        raise ValueError(
            f"X[{i}] must have shape (n, n, n_features), one row for each point of one side and "
            f"one column for each of the other; received shape {features.shape}. A matching needs "
            "as many points on both sides: add points that stand for none."
        )
    if not len(features):
        raise ValueError(f"X[{i}] has no points; leave it out of X and y.")
    first = first_unusable(features)
    if first >= 0:
        a, b, feature = (int(k) for k in np.unravel_index(first, features.shape))
        found = unusable(features[a, b, feature])
        raise ValueError(
            f"X[{i}] contains {found} at pair ({a}, {b}), feature {feature}; expected finite "
            "numbers. Impute, drop or scale it first."
        )
    return features


def _are_points(example: Any) -> bool:
    """Whether the two parts are matrices: point sets rather than rows of a nested list."""
    return all(np.ndim(part) == 2 for part in example if not sp.issparse(part))


def _numbers(values: Any, where: str, ndim: int) -> np.ndarray:
    if sp.issparse(values):
        values = values.toarray()
    refuse_times_and_texts(values, where)
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.empty(0, "U")
    if array.dtype.kind not in "fiub" or array.ndim != ndim:
        found = f"shape {array.shape}" if array.dtype.kind in "fiub" else f"{type(values).__name__}"
        shape = "(n_points, n_coordinates)" if ndim == 2 else "(n, n, n_features)"
        raise ValueError(f"{where} must be an array of numbers of shape {shape}; received {found}.")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _make_features(
    left: np.ndarray, right: np.ndarray, i: int, pair_features: str | Callable[..., Any]
) -> np.ndarray:
    if callable(pair_features):
        return _numbers(pair_features(left, right), f"pair_features of X[{i}]", 3)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"X[{i}] has points of {left.shape[1]} and of {right.shape[1]} coordinates, whose "
            "difference is not defined; pass pair_features=, a function of both sets."
        )
    difference = left[:, None, :] - right[None, :, :]
    return np.abs(difference) if pair_features == "absolute-difference" else difference**2

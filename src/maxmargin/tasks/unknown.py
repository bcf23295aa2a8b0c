"""How users say that a label is not known: None, -1, NaN, a mask, or a void label of their own."""

from __future__ import annotations

import warnings
from numbers import Number
from typing import Any

import numpy as np

from .._labels import as_label_array, plain
from .._validation import is_array, is_integer, is_iterable, is_nan, outside


def find_hidden(labels: Any, declared: Any, hidden: bool | str = True) -> np.ndarray:
    """Which labels say that they are not known: None, and -1 beside non-negative integers.

    What the user declares as a class is an ordinary label. ``hidden`` is the parameter of the
    estimators: with "auto", -1 counts only beside two other classes, and with a warning.
    """
    if not hidden:
        return np.zeros(len(labels), bool)
    found = _find_marks(labels, declared)
    if hidden == "auto" and found.any():
        array = as_label_array(labels)
        minus = np.array([value is not None for value in array.tolist()], bool) & found
        if len(set(array[~found].tolist())) < 2:  # -1 and 1 are two classes
            found &= ~minus
        elif minus.any():
            warnings.warn(
                f"y holds -1 in {minus.sum()} places beside other integers that are not negative: "
                "these labels are taken as not known, and trained as hidden. Say hidden=True if "
                "that is meant, hidden=False if -1 is a class.",
                UserWarning,
                stacklevel=outside(),
            )
    return found


def _find_marks(labels: Any, declared: Any) -> np.ndarray:
    ordinary = [] if declared is None or not is_iterable(declared) else list(declared)
    array = as_label_array(labels)
    if array.dtype.kind in "iu":
        minus = array == -1
        marks = bool((array[~minus] >= 0).all()) and -1 not in ordinary
        return minus if marks else np.zeros(len(array), bool)
    if array.dtype != object:
        return np.zeros(len(array), bool)
    values = array.tolist()
    nothing = np.array([value is None for value in values], bool)
    if any(value is None for value in ordinary):
        nothing[:] = False
    whole = np.array([is_integer(value) for value in values], bool)
    minus = np.array([w and v == -1 for w, v in zip(whole, values, strict=True)], bool)
    others = ~(nothing | minus)
    marks = all(w and v >= 0 for w, v, o in zip(whole, values, others, strict=True) if o)
    return nothing | minus if marks and -1 not in ordinary else nothing


def warn_without_labels(indices: np.ndarray, unit: str) -> None:
    """Tell that examples without any label are left out."""
    if len(indices):
        listed = ", ".join(str(i) for i in indices[:5]) + (", ..." if len(indices) > 5 else "")
        warnings.warn(
            f"{len(indices)} {unit}s have hidden labels only (indices {listed}): whatever the "
            "weights are, they cost nothing, so they are left out as if their weight was 0.",
            UserWarning,
            stacklevel=outside(),
        )


def is_void(labels: Any, void: Any) -> np.ndarray:
    """Which labels say that nothing is known."""
    if void is None:
        return np.zeros(len(labels), bool)
    if is_array(labels) and labels.dtype.kind in "iuf" and isinstance(void, Number):
        return labels == void
    values = labels.tolist() if is_array(labels) else labels
    void = plain(void)
    # Not by their hashes: what is no label is refused with its place later.
    return np.array([label is void or label == void for label in values], dtype=bool)


def hidden_entries(array: Any) -> np.ndarray:
    """Which entries of an indicator matrix are None, NaN, -1 or masked."""
    plain = np.asarray(array)
    unknown = np.ma.getmaskarray(array) | np.zeros(plain.shape, bool)
    if plain.dtype.kind in "fi":
        return unknown | np.isnan(plain) | (plain == -1)
    if plain.dtype == object:
        flat = [value is None or is_nan(value) or value == -1 for value in plain.ravel()]
        unknown |= np.array(flat, bool).reshape(plain.shape)
    return unknown

"""What the estimators of permutations share: permutations as users write them."""

from __future__ import annotations

from typing import Any

import numpy as np


def first_difference(row: np.ndarray, base: int) -> str:
    """What keeps a row of integers from being a permutation that counts from ``base``."""
    n = len(row)
    outside = (row < base) | (row >= base + n)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        return (
            f"holds {row[place]} at place {place}; expected each of {base}, ..., {base + n - 1} "
            "once"
        )
    values, counts = np.unique(row, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return ""
    places = np.flatnonzero(row == repeated[0])
    missing = np.setdiff1d(np.arange(base, base + n), row)[0]
    return (
        f"holds {repeated[0]} at places {', '.join(map(str, places))} and {missing} nowhere; "
        f"expected each of {base}, ..., {base + n - 1} once"
    )


def as_integers(row: Any, where: str) -> np.ndarray:
    """A row of integers; numbers such as 2.0 count as 2."""
    try:
        values = np.asarray(row)
        if values.dtype == object:
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        values = np.empty(0, "U")
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise ValueError(f"{where} must be a row of integers; received {row!r}.")
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            place = int(np.flatnonzero(np.isnan(values))[0])
            raise ValueError(
                f"{where} is not known (NaN) at place {place}; incomplete permutations are not "
                "supported: complete the row or leave the example out."
            )
        if (values != np.floor(values)).any() or not np.isfinite(values).all():
            bad = np.flatnonzero((values != np.floor(values)) | ~np.isfinite(values))
            place = int(bad[0])
            raise ValueError(f"{where} must hold integers; received {values[place]} at {place}.")
    return values.astype(np.int64)

"""What models are compared with: predictions without features, and without structure."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

_MOST_ROWS = 50_000  # that a baseline is trained on


class Baseline(NamedTuple):
    """Predictions of a simpler model, one array of codes an example."""

    name: str
    found: list[np.ndarray]


def classify(rows: Any, codes: np.ndarray, others: Any) -> tuple[np.ndarray, str]:
    """Codes of other rows by a linear SVM of scikit-learn, and a note if it saw only some rows.

    Rows with negative codes, whose label is not known, are left out.
    """
    from sklearn.svm import LinearSVC

    used = np.flatnonzero(codes >= 0)
    used, note = _some(used)
    n = others.shape[0] if hasattr(others, "shape") else len(others)
    present = np.unique(codes[used])
    if len(present) < 2:
        return np.full(n, present[0] if len(present) else 0), note
    with _quiet():
        model = LinearSVC(random_state=0, dual=_dual(rows, used)).fit(
            _take(rows, used), codes[used]
        )
        return np.asarray(model.predict(others), np.int64), note


def regress(rows: Any, values: np.ndarray, others: Any) -> tuple[np.ndarray, str]:
    """Ridge regression of columns of numbers."""
    from sklearn.linear_model import Ridge

    used, note = _some(np.arange(len(values)))
    with _quiet():
        return Ridge().fit(_take(rows, used), values[used]).predict(others), note


def _quiet() -> Any:
    return warnings.catch_warnings(action="ignore")


def _dual(rows: Any, used: np.ndarray) -> bool:
    """Which form of the problem is the faster one: the primal for more rows than features."""
    width = rows.shape[1] if hasattr(rows, "shape") else len(rows[0])
    return len(used) <= width or hasattr(rows, "tocsr")


def _some(used: np.ndarray) -> tuple[np.ndarray, str]:
    if len(used) <= _MOST_ROWS:
        return used, ""
    chosen = np.random.RandomState(0).choice(used, _MOST_ROWS, replace=False)
    return np.sort(chosen), f" (trained on {_MOST_ROWS:,} rows of {len(used):,})"


def _take(rows: Any, used: np.ndarray) -> Any:
    if hasattr(rows, "iloc"):
        return rows.iloc[used]
    return rows[used] if hasattr(rows, "shape") else [rows[i] for i in used]

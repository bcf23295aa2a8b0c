"""What models are compared with: linear models of scikit-learn that look at every part alone.

The strength of their regularisation is chosen by cross-validation.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from .._validation import is_array
from .measures import Outputs

_MOST_ROWS = 50_000  # that a baseline is trained on
_MOST_TRIED = 2_000  # rows on which C is chosen
_STRENGTHS = (1.0, 0.1, 0.01, 10.0)  # values of C; the first of several best ones wins


class Baseline(NamedTuple):
    """Predictions of a simpler model."""

    name: str
    found: Outputs


def classify(
    rows: Any, codes: np.ndarray, others: Any, scoring: str = "accuracy"
) -> tuple[np.ndarray, str]:
    """Codes of other rows by a linear SVM, and a note if it saw only some rows.

    Rows with negative codes, whose label is not known, are left out.
    """
    model, note = _linear_svm(rows, codes, scoring)
    others = _matrix(others)
    return np.asarray(model.predict(others), np.int64), note


def decision_values(rows: Any, codes: np.ndarray, others: Any) -> tuple[np.ndarray, str]:
    """How much a linear SVM prefers code 1 to code 0, for other rows."""
    model, note = _linear_svm(rows, codes, "roc_auc")
    others = _matrix(others)
    return model.decision_function(others), note


class _Always(NamedTuple):
    """A model of one code."""

    code: int

    def predict(self, rows: Any) -> np.ndarray:
        return np.full(rows.shape[0], self.code)

    def decision_function(self, rows: Any) -> np.ndarray:
        return np.zeros(rows.shape[0])


def _linear_svm(rows: Any, codes: np.ndarray, scoring: str) -> tuple[Any, str]:
    """A trained model; one that knows a single code, if there is no other."""
    from sklearn.svm import LinearSVC

    rows = _matrix(rows)
    used, note = _some(np.flatnonzero(codes >= 0))
    present = np.unique(codes[used])
    if len(present) < 2:
        return _Always(int(present[0]) if len(present) else 0), note
    # The primal form is the faster one for dense rows, if there are more of them than features.
    dual = len(used) <= rows.shape[1] or not is_array(rows)
    return fit_tuned(LinearSVC(random_state=0, dual=dual), rows[used], codes[used], scoring), note


def fit_tuned(model: Any, rows: Any, codes: np.ndarray, scoring: str) -> Any:
    """A linear classifier with C by three-fold cross-validation, on some of the rows."""
    from sklearn.model_selection import GridSearchCV, KFold

    tried = np.random.RandomState(0).permutation(len(codes))[:_MOST_TRIED]
    folds = KFold(3, shuffle=True, random_state=0)
    with _quiet():  # a fold may lack a class
        if len(tried) >= folds.get_n_splits():
            search = GridSearchCV(
                model, {"C": _STRENGTHS}, scoring=scoring, cv=folds, refit=False
            ).fit(rows[tried], codes[tried])
            model = model.set_params(**search.best_params_)
        return model.fit(rows, codes)


def regress(rows: Any, values: np.ndarray, others: Any) -> tuple[np.ndarray, str]:
    """Ridge regression of columns of numbers."""
    from sklearn.linear_model import RidgeCV

    used, note = _some(np.arange(len(values)))
    with _quiet():
        model = RidgeCV(np.logspace(-2, 3, 6)).fit(_matrix(rows)[used], values[used])
    return model.predict(_matrix(others)), note


def _matrix(rows: Any) -> Any:
    found = check_array(rows, accept_sparse="csr")
    if sp.issparse(found):  # liblinear takes no wider indices
        parts = found.data, found.indices.astype(np.int32), found.indptr.astype(np.int32)
        return sp.csr_matrix(parts, found.shape)
    return found


def _quiet() -> Any:
    return warnings.catch_warnings(action="ignore")


def _some(used: np.ndarray) -> tuple[np.ndarray, str]:
    if len(used) <= _MOST_ROWS:
        return used, ""
    chosen = np.random.RandomState(0).choice(used, _MOST_ROWS, replace=False)
    return np.sort(chosen), f" (trained on {_MOST_ROWS:,} rows of {len(used):,})"

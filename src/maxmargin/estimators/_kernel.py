"""Kernels of the estimators: parameters, training rows, what is kept of them, and scores.

An estimator whose scores are linear in the features of a row (an example, or a position of a
sequence) gets kernels by four calls: ``_check_kernel`` before any work, ``_training_rows`` instead
of ``pack_rows``, ``_keep_columns`` with the trained weight matrix, and ``_scores``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from .._matrix_checks import check_finite, check_rows_of_numbers, refuse_times_and_texts
from .._validation import is_frame, is_iterable
from ..features.kernel_kinds import KernelValue
from ..features.kernel_values import (
    AT_ONCE,
    Kernel,
    check_gram,
    kernel_matrix,
    pack_kernel_rows,
)
from ..features.kernels import KernelRows
from ..features.rows import FeatureRows, pack_rows
from ._base import with_parameters

# Coefficients below this share of the largest one are rounding errors of a zero.
_NEGLIGIBLE = 1e-13


@with_parameters
class KernelModel:
    """Mixin of estimators with the parameter ``kernel``.

    A fitted model has ``coef_`` (linear), or ``dual_coef_``, ``support_``, ``support_vectors_`` and
    ``kernel_``; and ``intercept_`` in both cases.
    """

    kernel: Any = "linear"
    fit_intercept: bool = True
    kernel_: Kernel | None = field(default=None, init=False)

    def __getattr__(self, name: str) -> Any:
        if name == "coef_" and "dual_coef_" in vars(self):
            raise AttributeError(
                "coef_ is only available with kernel='linear'; this model has dual_coef_ and "
                f"support_vectors_ of kernel={vars(self)['kernel_'].name!r}."
            )
        return super().__getattribute__(name)  # raises again, with its own reason

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = self._precomputed
        return tags

    def _check_kernel(self) -> None:
        """Refuse parameters that no fit could use."""
        KernelValue.of(self.kernel).validate()

    def _check_kernel_width(self, width: int) -> None:
        """Rows of a precomputed kernel must have a column for each training row."""
        fitted = self.kernel_ is not None and self.kernel_.name == "precomputed"
        n_train = vars(self).get("n_features_in_")
        if fitted and width != n_train:
            raise ValueError(
                f"X must have {n_train} columns with kernel='precomputed', the kernel between its "
                f"rows and the {n_train} training rows; received {width}."
            )

    def _validate_X(self, X: Any, *, reset: bool) -> Any:
        """A matrix with a row for each example, checked."""
        if not reset and len(getattr(X, "shape", ())) == 2:
            self._check_kernel_width(X.shape[1])
        refuse_times_and_texts(X, "X")
        try:
            X = validate_data(
                self,
                X,
                accept_sparse=False if self._precomputed else "csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                reset=reset,
            )
        except ValueError:
            if is_iterable(X) and not sp.issparse(X):
                rows = X.to_numpy() if is_frame(X) else X
                check_rows_of_numbers(rows, "X")  # names the place, if it can
            raise
        check_finite(X, "X")
        return X

    @property
    def _precomputed(self) -> bool:
        return KernelValue.of(self.kernel).name == "precomputed"

    @property
    def _in_kernel_space(self) -> bool:
        return KernelValue.of(self.kernel).name != "linear"

    def _training_rows(self, X: Any, train: np.ndarray) -> FeatureRows | KernelRows:
        """Pack the rows ``train`` of ``X`` for training, and forget the model of an earlier fit."""
        for name in ("coef_", "dual_coef_", "support_", "support_vectors_"):
            vars(self).pop(name, None)
        everything = len(train) == X.shape[0]
        part = X if everything else X[train]
        if not self._in_kernel_space:
            self.kernel_ = None
            return pack_rows(part, fit_intercept=self.fit_intercept)
        if self._precomputed:
            check_square(X)
            check_gram(X, "X")
        if self._precomputed and not everything:
            part = part[:, train]
        kernel = KernelValue.of(self.kernel)
        self.kernel_ = kernel.fixed(part)
        return pack_kernel_rows(
            self.kernel_,
            part,
            fit_intercept=self.fit_intercept,
            cache_size=kernel.cache_size,
            function=kernel.function,
        )

    def _keep_columns(self, matrix: np.ndarray, X: Any, train: np.ndarray) -> int:
        """Keep the weights of the columns; returns how many rows of ``matrix`` they take."""
        n_rows = X.shape[1] if self.kernel_ is None else len(train)
        end = n_rows + int(bool(self.fit_intercept))
        columns = matrix[:n_rows]
        self.intercept_ = matrix[n_rows].copy() if end > n_rows else np.zeros(matrix.shape[1])
        if self.kernel_ is None:
            self.coef_ = columns.T
            return end
        sizes = np.abs(columns).max(axis=1)
        kept = np.flatnonzero(sizes > _NEGLIGIBLE * sizes.max())
        self.support_ = train[kept]
        self.dual_coef_ = columns[kept]
        self.support_vectors_ = np.empty((0, 0)) if self._precomputed else X[self.support_]
        return end

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of the columns for all rows of ``X``, never more than a part of the kernel."""
        if self.kernel_ is None:
            return np.asarray(X @ self.coef_.T) + self.intercept_
        n_rows = X.shape[0]
        scores = np.empty((n_rows, self.dual_coef_.shape[1]))
        step = max(1, AT_ONCE // (4 * max(1, len(self.support_))))
        for first in range(0, n_rows, step):
            values = self._kernel_with_support(X[first : first + step])
            scores[first : first + step] = values @ self.dual_coef_
        return scores + self.intercept_

    def _kernel_with_support(self, X: Any) -> np.ndarray:
        assert self.kernel_ is not None
        if self.kernel_.name == "precomputed":
            return X[:, self.support_]
        if not len(self.support_):
            return np.empty((X.shape[0], 0))
        function = KernelValue.of(self.kernel).function
        return kernel_matrix(self.kernel_, X, self.support_vectors_, function)


def check_square(X: Any) -> None:
    """The matrix of a precomputed kernel has a row and a column for each training row."""
    if sp.issparse(X):
        raise ValueError("X must be a dense matrix with kernel='precomputed'; received a CSR one.")
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            "X must be a square matrix with kernel='precomputed', the kernel of all pairs of "
            f"training rows; received shape {X.shape}."
        )

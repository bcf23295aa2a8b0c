"""Kernel functions ``k(x, z)`` between rows of features: their values, checked and packed.

A kernel is an inner product in a space that is never written down. It must be symmetric and
positive semidefinite; otherwise there is no such space, and no optimum to be certified.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._validation import LARGEST
from .kernels import POLY, RBF, KernelRows
from .rows import FeatureRows, dense_rows, pack_rows, widened

# Numbers of a kernel matrix that are computed at a time: 64 MB.
AT_ONCE = 1 << 23
# Matrices up to this size are factorised to see whether they are positive semidefinite.
_FACTORISE_UP_TO = 2000
# What counts as rounding, in parts of the largest diagonal entry and of the trace.
_ASYMMETRY = 1e-6
_NEGATIVE = 1e-8


class Kernel(NamedTuple):
    """A kernel with all its numbers known.

    ``name`` is "rbf" (``exp(-gamma |x - z|^2)``), "poly" (``(gamma x @ z + coef0) ** degree``),
    "precomputed" or "callable"; the function of the last is kept elsewhere.
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0


def kernel_matrix(
    kernel: Kernel, X: Any, others: Any, function: Callable[..., Any] | None = None
) -> np.ndarray:
    """``k(x, z)`` for all rows x of ``X`` and z of ``others``."""
    if kernel.name == "callable":
        return _call(function, X, others)
    from sklearn.metrics.pairwise import pairwise_kernels  # takes a while, and most need none

    options = {"gamma": kernel.gamma}
    if kernel.name == "poly":
        options |= {"degree": kernel.degree, "coef0": kernel.coef0}
    return pairwise_kernels(X, others, metric=kernel.name, **options)


def _call(function: Callable[..., Any] | None, X: Any, others: Any) -> np.ndarray:
    """Values of a user's function, checked."""
    if not callable(function):
        raise ValueError(
            "the model was fitted with a kernel function, which is not part of a model file; set "
            "it again before predicting: model.set_params(kernel=function)."
        )
    expected = (X.shape[0], others.shape[0])
    values = function(X, others)
    if sp.issparse(values):
        values = values.toarray()
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"kernel must return an array of numbers; received {type(values).__name__}."
        ) from None
    if values.shape != expected:
        raise ValueError(
            f"kernel(X, Z) must have shape {expected}, one row for each row of X and one column "
            f"for each row of Z; received shape {values.shape}."
        )
    usable = np.abs(values) <= LARGEST**2
    if not usable.all():
        i, j = np.argwhere(~usable)[0]
        raise ValueError(
            f"kernel(X, Z) must be finite and at most {LARGEST**2:g}; received {values[i, j]} for "
            f"row {i} of X and row {j} of Z."
        )
    return np.ascontiguousarray(values)


def check_polynomial(kernel: Kernel, squares: np.ndarray) -> None:
    """Refuse powers that overflow: the kernel of a row with itself is the largest."""
    base = np.float64(kernel.gamma * squares.max(initial=0.0) + kernel.coef0)
    with np.errstate(over="ignore"):
        largest = base**kernel.degree
    if not largest <= LARGEST**2:
        raise ValueError(
            f"kernel='poly' with degree={kernel.degree}, gamma={kernel.gamma:g} gives {largest:g} "
            f"for row {int(np.argmax(squares))} of X; values up to {LARGEST**2:g} are accepted. "
            "Scale the features, or use a smaller degree or gamma."
        )


def gram_matrix(kernel: Kernel, X: Any, function: Callable[..., Any] | None = None) -> np.ndarray:
    """``k(x, z)`` for all pairs of rows of ``X``, some rows at a time."""
    n = X.shape[0]
    if kernel.name == "callable":
        gram = _call(function, X, X)
        check_gram(gram, "kernel(X, X)")
        return gram
    gram = np.empty((n, n))
    step = max(1, AT_ONCE // (4 * n))
    for first in range(0, n, step):
        gram[first : first + step] = kernel_matrix(kernel, X[first : first + step], X)
    if kernel.name == "rbf":
        np.fill_diagonal(gram, 1.0)
    return gram


def check_gram(gram: np.ndarray, name: str) -> None:
    """Refuse a matrix that is not symmetric and positive semidefinite beyond rounding.

    Looks at every pair of entries (symmetry, and ``K_ij^2 <= K_ii K_jj``), and factorises
    matrices that are not too large.
    """
    n = len(gram)
    diagonal = np.diagonal(gram).astype(np.float64)
    if (diagonal < 0).any():
        i = int(np.flatnonzero(diagonal < 0)[0])
        raise _indefinite(name, f"its diagonal has {gram[i, i]:g} at row {i}")
    roots = np.sqrt(diagonal)
    slack = _ASYMMETRY * max(float(diagonal.max()), 1e-300)
    step = max(1, AT_ONCE // (4 * n))
    for first in range(0, n, step):
        part = gram[first : first + step]
        crooked = np.abs(part - gram[:, first : first + step].T) > slack
        if crooked.any():
            i, j = np.argwhere(crooked)[0] + [first, 0]
            raise ValueError(
                f"{name} must be symmetric; received {gram[i, j]:g} at row {i}, column {j} but "
                f"{gram[j, i]:g} at row {j}, column {i}."
            )
        large = np.abs(part) > np.outer(roots[first : first + step], roots) + slack
        if large.any():
            i, j = np.argwhere(large)[0] + [first, 0]
            raise _indefinite(
                name,
                f"{gram[i, j]:g} at row {i}, column {j} is more than its diagonal allows "
                f"({diagonal[i]:g} and {diagonal[j]:g})",
            )
    if n <= _FACTORISE_UP_TO:
        _check_eigenvalues(gram, name, _NEGATIVE * float(diagonal.sum()))


def _check_eigenvalues(gram: np.ndarray, name: str, slack: float) -> None:
    from scipy.linalg import eigvalsh, lapack

    shifted = np.array(gram, dtype=np.float64)
    shifted.flat[:: len(gram) + 1] += slack
    if slack == 0.0 or lapack.dpotrf(shifted, lower=True, overwrite_a=True)[1] == 0:
        return  # has a Cholesky factor, or is zero
    smallest = float(eigvalsh(np.asarray(gram, dtype=np.float64), subset_by_index=[0, 0])[0])
    if smallest < -slack:
        raise _indefinite(name, f"it has the eigenvalue {smallest:.3g}")


def _indefinite(name: str, finding: str) -> ValueError:
    return ValueError(
        f"{name} must be positive semidefinite: {finding}. It is no matrix of inner products; "
        "check how it was computed, or clip its negative eigenvalues."
    )


def pack_kernel_rows(
    kernel: Kernel,
    X: Any,
    *,
    fit_intercept: bool,
    cache_size: float,
    function: Callable[..., Any] | None = None,
) -> FeatureRows | KernelRows:
    """Pack training rows for a kernel.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR matrix
        Features of the rows; the matrix of their inner products for a precomputed kernel.
    fit_intercept : bool
        Whether the kernel has a constant 1 added.
    cache_size : float
        Megabytes for kernel values: all of them if they fit, otherwise the recent ones.
    function : callable, optional
        The kernel, if it is a user's function.
    """
    bias = 1.0 if fit_intercept else 0.0
    n_rows = X.shape[0]
    n_inputs = n_rows + int(fit_intercept)
    budget = int(cache_size * 2**20) // 8
    if kernel.name == "precomputed":
        gram = np.ascontiguousarray(widened(X))
        return dense_rows(gram, np.diagonal(gram) + bias, bias, n_inputs, in_kernel_space=True)
    if kernel.name == "poly":
        check_polynomial(kernel, pack_rows(X, fit_intercept=False, compress=False).squares)
    if n_rows**2 <= budget:
        gram = gram_matrix(kernel, X, function)
        return dense_rows(gram, np.diagonal(gram) + bias, bias, n_inputs, in_kernel_space=True)
    if kernel.name == "callable":
        needed = int(np.ceil(8 * n_rows**2 / 2**20))
        raise ValueError(
            f"a kernel function needs all values of its {n_rows} training rows, {needed} MB, but "
            f"cache_size={cache_size:g} allows less; use KernelFunction(function, cache_size="
            f"{needed}), another kernel, or sklearn.kernel_approximation.Nystroem."
        )
    features = pack_rows(X.astype(np.float64, copy=False), fit_intercept=False, compress=False)
    n_lines = min(n_rows, budget // n_rows)
    squares = features.squares
    norms = np.ones(n_rows)
    if kernel.name != "rbf":
        norms = (kernel.gamma * squares + kernel.coef0) ** kernel.degree
    return KernelRows(
        features,
        RBF if kernel.name == "rbf" else POLY,
        kernel.gamma,
        kernel.degree,
        kernel.coef0,
        np.empty((n_lines, n_rows)),
        np.full(n_lines, -1, np.int64),
        True,
        norms + bias,
        bias,
        n_inputs,
    )

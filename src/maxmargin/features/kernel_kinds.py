"""Kernels as users write them: a name, a value with its parameters, or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validation import SMALLEST, check_choice, check_integer, check_number, is_text
from .._values import Value
from .kernel_values import Kernel


class KernelValue(Value):
    """Base of kernels."""

    name: str
    cache_size: Any = 200
    function: Callable[..., Any] | None = None

    @classmethod
    def from_short(cls, given: Any) -> Any:
        """The kernel of a name or a function; ``validate`` refuses what is neither."""
        return NAMED[given]() if is_text(given) and given in NAMED else KernelFunction(given)

    def validate(self) -> None:
        """Refuse parameters that no data could use."""
        check_number("cache_size", self.cache_size, above=0)

    def fixed(self, X: Any) -> Kernel:
        """The kernel with the numbers that its parameters mean for the training data ``X``."""
        return Kernel(self.name)


class Linear(KernelValue):
    """The inner product of the features themselves."""

    name = "linear"


class Precomputed(KernelValue):
    """A matrix of kernel values in the place of features."""

    name = "precomputed"


class RBF(KernelValue):
    """The Gaussian kernel ``exp(-gamma |x - z|^2)``.

    Parameters
    ----------
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is ``1 / (n_features * X.var())``, "auto" ``1 / n_features``.
    cache_size : float, default=200
        Megabytes for kernel values in training. If those of all pairs fit (5000 rows in 200), they
        are computed once; otherwise when they are needed, and the recent ones are kept.

    Examples
    --------
    >>> from maxmargin import RBF, MulticlassClassifier
    >>> MulticlassClassifier(kernel=RBF(gamma=0.5))
    MulticlassClassifier(kernel=RBF(gamma=0.5))
    """

    name = "rbf"

    def __init__(self, gamma: float | str = "scale", cache_size: float = 200):
        self.gamma = gamma
        self.cache_size = cache_size

    def validate(self):
        super().validate()
        _check_gamma(self.gamma)

    def fixed(self, X):
        return Kernel(self.name, _gamma_for(self.gamma, X))


class Polynomial(KernelValue):
    """The kernel ``(gamma x @ z + coef0) ** degree``.

    Parameters
    ----------
    degree : int, default=3
    coef0 : float, default=0.0
        At least 0: otherwise it is no inner product.
    gamma : {"scale", "auto"} or float, default="scale"
        As in :class:`RBF`.
    cache_size : float, default=200
        As in :class:`RBF`.
    """

    name = "poly"

    def __init__(
        self,
        degree: int = 3,
        coef0: float = 0.0,
        gamma: float | str = "scale",
        cache_size: float = 200,
    ):
        self.degree = degree
        self.coef0 = coef0
        self.gamma = gamma
        self.cache_size = cache_size

    def validate(self):
        super().validate()
        _check_gamma(self.gamma)
        check_integer("degree", self.degree, 1)
        check_number("coef0", self.coef0, at_least=0)

    def fixed(self, X):
        gamma = _gamma_for(self.gamma, X)
        return Kernel(self.name, gamma, int(self.degree), float(self.coef0))


class KernelFunction(KernelValue):
    """A kernel by a function of two matrices, with more memory than ``kernel=function`` has.

    Parameters
    ----------
    function : callable
        From two matrices of rows to the matrix of the kernel of all pairs. It is not part of a
        model file.
    cache_size : float, default=200
        Megabytes for kernel values in training; those of all pairs must fit.
    """

    name = "callable"

    def __init__(self, function: Any, cache_size: float = 200):
        self.function = function
        self.cache_size = cache_size

    def validate(self):
        super().validate()
        if not callable(self.function):
            listed = ", ".join(repr(name) for name in NAMED)
            raise ValueError(
                f"kernel must be one of {listed} or a function of two matrices, or a value such as "
                f"RBF(gamma=0.5); received {self.function!r}."
            )


NAMED: dict[str, type[KernelValue]] = {
    kind.name: kind for kind in (Linear, RBF, Polynomial, Precomputed)
}


def _check_gamma(gamma: Any) -> None:
    if is_text(gamma):
        check_choice("gamma", gamma, ("scale", "auto"))
    else:
        check_number("gamma", gamma, above=0)


def _gamma_for(gamma: Any, X: Any) -> float:
    """One over the number of features, and for "scale" also over the variance of all numbers."""
    if not is_text(gamma):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if sp.issparse(X):
        size = X.shape[0] * X.shape[1]
        square = float(np.square(X.data, dtype=np.float64).sum()) / size
        variance = square - (float(X.data.sum(dtype=np.float64)) / size) ** 2
    else:
        variance = X.var(dtype=np.float64)
    return 1.0 / (X.shape[1] * variance) if variance > SMALLEST**2 else 1.0

"""Ordinal regression: classes with an order, mistakes that cost their distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_loss_matrix
from ..structures.losses import AbsoluteLoss, LabelLoss, MatrixLoss
from ._docs import documented
from ._flat import FlatClassifier


@documented(
    classes_note=",\n        from the lowest to the highest; by default the labels found, sorted."
)
class OrdinalClassifier(FlatClassifier):
    """Classifier for ordered classes, linear or with a kernel, with a certificate.

    Minimises, with scores ``v = W x + b`` and the loss ``L(j, z) = |j - z|`` (with another loss
    matrix, the objective of :class:`MulticlassClassifier`)::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_j [ |j - y| + v_j ] - v_y
        max-min:     S(v, y) = 1/2 max_{i,j} [ v_i + v_j + |i - j| ] - v_y
        crf:         S(v, y) = log sum_j exp(v_j) - v_y

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-min"
    loss : "absolute" or array of shape (n_classes, n_classes), default="absolute"
        What a mistake costs: ``loss[j, z]`` for predicting class j when z is true, in the order of
        ``classes_``; finite, none negative, 0 on the diagonal, not necessarily symmetric. A CRF is
        trained for the likelihood: neither the loss nor the order of the classes makes a
        difference to it.
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels, from the lowest to the highest
    coef_ : array of shape (n_classes, n_features)
        With ``kernel="linear"`` only.
    intercept_ : array of shape (n_classes,)
    %(kernel_attributes)s
    %(attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import OrdinalClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.randn(200, 3)
    >>> y = np.digitize(X @ [1.0, 2.0, 0.0], [-1.0, 1.0])
    >>> y = np.array(["low", "medium", "high"])[y]
    >>> model = OrdinalClassifier(classes=["low", "medium", "high"], random_state=0).fit(X, y)
    >>> round(-model.score(X, y), 1)  # mean distance to the true class
    0.0
    """

    def __init__(
        self,
        surrogate: str = "max-min",
        *,
        loss: Any = "absolute",
        kernel: Any = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_size: float = 200,
        alpha: float | str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        solver: Any = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        classes: Any = None,
        warm_start: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.surrogate = surrogate
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_size = cache_size
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.classes = classes
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _make_loss(self, n_classes: int) -> LabelLoss:
        if isinstance(self.loss, str):
            if self.loss != "absolute":
                raise ValueError(f"loss must be 'absolute' or a matrix; received {self.loss!r}.")
            return AbsoluteLoss(np.ones(n_classes), True)
        return MatrixLoss(check_loss_matrix(self.loss, n_classes))

    def _score_codes(self, X: Any, codes: np.ndarray, weights: Any) -> float:
        distance = np.abs(self._best(X) - codes)
        distance[codes < 0] = len(self.classes_) - 1
        return -float(np.average(distance, weights=weights))

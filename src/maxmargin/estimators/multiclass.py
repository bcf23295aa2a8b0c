"""Multiclass classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_loss_matrix
from ..structures.losses import LabelLoss, MatrixLoss, ZeroOneLoss
from ._docs import documented
from ._flat import FlatClassifier


@documented(order="active")
class MulticlassClassifier(FlatClassifier):
    """Multiclass classifier, linear or with a kernel, with a certificate.

    Minimises, with scores ``v = W x + b`` and ``w`` all weights together::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_j [ L(j, y) + v_j ] - v_y
        max-min:     S(v, y) = max_mu [ min_j sum_z mu_z L(j, z) + mu @ v ] - v_y
        crf:         S(v, y) = log sum_j exp(v_j) - v_y

    over distributions mu on the classes. With the 0-1 loss, max-margin is the SVM of Crammer and
    Singer, ``alpha = 1/(n C)``. Max-min is its consistent correction: with enough data it finds
    the best prediction also where no class has a majority. The CRF of a single label is
    multinomial logistic regression, and gives probabilities.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-margin"
    loss : "0-1" or array of shape (n_classes, n_classes), default="0-1"
        What a mistake costs: ``loss[j, z]`` for predicting class j when z is true, in the order of
        ``classes_``; finite, none negative, 0 on the diagonal, not necessarily symmetric. A CRF
        is trained for the likelihood: the loss makes no difference to it.
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array of shape (n_classes, n_features)
        With ``kernel="linear"`` only.
    intercept_ : array of shape (n_classes,)
    %(kernel_attributes)s
    %(attributes)s

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MulticlassClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassClassifier(surrogate="max-min", random_state=0).fit(X, y)
    >>> model.status_, bool(model.gap_ <= 0.01 * model.primal_)
    ('converged', True)
    """

    def __init__(
        self,
        surrogate: str = "max-margin",
        *,
        loss: Any = "0-1",
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
            if self.loss != "0-1":
                raise ValueError(f"loss must be '0-1' or a matrix; received {self.loss!r}.")
            return ZeroOneLoss(np.ones(n_classes), True)
        return MatrixLoss(check_loss_matrix(self.loss, n_classes))

"""Any output space, described by a plain Python class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._validation import check_methods, check_sample_weight, check_usable
from ..solvers.interpreted import PythonProblem
from ..structures.traits import PYTHON
from ..tasks import task_of
from ._base import StructuredEstimator, with_parameters
from ._docs import documented

_METHODS = ("argmax", "joint_feature", "loss")


@documented()
@with_parameters
class StructuredPredictor(StructuredEstimator):
    """Structural SVM over an output space of your own, in about 30 lines of Python.

    Minimises, with ``Phi = structure.joint_feature`` and ``L = structure.loss``::

        alpha/2 |w|^2 + 1/n sum_i max_y [ L(y_i, y) + w @ Phi(x_i, y) - w @ Phi(x_i, y_i) ]

    The same solvers and the same certificate as the compiled estimators, in interpreted code: the
    time goes where your ``argmax`` spends it. Memory is n_examples x n_weights.

    Parameters
    ----------
    structure : object with three methods
        - ``argmax(x, weights, truth=None)``: the y that maximises ``weights @ Phi(x, y)``, plus
          ``L(truth, y)`` if a truth is given. The certificate is as true as this is exact.
        - ``joint_feature(x, y)``: the vector ``Phi(x, y)``.
        - ``loss(truth, y)``: at least 0, and 0 if y is the truth.
    surrogate : {"max-margin"}, default="max-margin"
    alpha : float, "auto", "cv", TimesAuto or CrossValidated, default="auto"
        Strength of the regularisation in ``alpha/2 |w|^2 + mean surrogate``; "auto" is
        ``1 / total weight``, that is C = 1, and "cv" chooses it by cross-validation.
    tol : float, default=0.01
        Stop when the duality gap is at most ``tol * primal``.
    max_iter : int, default=1000
        Passes over the data at most; a fit that ends there warns with the gap that it reached.
    solver : {"auto", "accelerated", "bcfw", "subgradient"} or a solver, default="auto"
        How the dual is maximised, as in :class:`MulticlassClassifier`.
    warm_start : bool, default=False
        Start from the dual solution of the previous fit.
    early_stopping : bool or EarlyStopping, default=False
        Hold out some of the examples, keep the weights with the smallest mean loss on them, and
        stop when they do not improve any more.
    n_jobs : int, optional
        Ignored: Python code runs in one thread.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows progress: a bar on a terminal, log messages elsewhere.
    callbacks : callable or list of callables, optional
        Called at every check with passes, seconds, primal, dual, gap; ``return False`` stops.

    Attributes
    ----------
    coef_ : array of shape (n_weights,)
    %(attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import StructuredPredictor
    >>> class Sign:
    ...     def joint_feature(self, x, y):
    ...         return y * np.asarray(x, float)
    ...     def loss(self, truth, y):
    ...         return float(truth != y)
    ...     def argmax(self, x, weights, truth=None):
    ...         def value(y):
    ...             extra = 0.0 if truth is None else self.loss(truth, y)
    ...             return weights @ self.joint_feature(x, y) + extra
    ...         return max((-1, 1), key=value)
    >>> model = StructuredPredictor(Sign(), random_state=0).fit([[1, 2], [-2, 1]], [1, -1])
    >>> model.predict([[3, 0]])
    [1]
    """

    structure: Any = field(default=None, kw_only=False)
    surrogate: str = field(default="max-margin", kw_only=True)

    _switches = ("warm_start",)
    _traits = PYTHON

    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None
    ) -> StructuredPredictor:
        """Train on inputs and true outputs.

        Parameters
        ----------
        X : sequence of n inputs, whatever ``structure`` takes
        y : sequence of n outputs
        sample_weight : array of shape (n,), optional
        """
        settings = self._check_settings()
        check_methods("structure", self.structure, _METHODS)
        if len(X) == 0:
            raise ValueError("X is empty; expected at least one example.")
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} examples but y has {len(y)}; expected as many.")
        weights = check_sample_weight(sample_weight, len(X))
        self._check_examples(X, y)
        train, held_out = self._split(np.arange(len(X)), settings.rng)
        problem = PythonProblem(
            self.structure,
            [X[i] for i in train],
            [y[i] for i in train],
            self._alpha_for(weights[train], None),
            weights[train],
        )
        validate = None
        if len(held_out):

            def validate(weights_now: np.ndarray) -> float:
                return -np.mean(
                    [
                        self.structure.loss(y[i], self.structure.argmax(X[i], weights_now))
                        for i in held_out
                    ]
                )

        self.coef_ = self._solve(problem, settings, validate).weights
        return self

    def _check_examples(self, X: Sequence[Any], y: Sequence[Any]) -> None:
        """Joint features must be finite vectors of one length, and truths cost nothing."""
        length = None
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            vector = np.asarray(self.structure.joint_feature(x, truth), dtype=np.float64)
            if length is None:
                length = vector.shape
            if vector.ndim != 1 or vector.shape != length:
                raise ValueError(
                    f"structure.joint_feature(X[{i}], y[{i}]) must be a vector of length "
                    f"{length}; received shape {vector.shape}."
                )
            check_usable(vector, f"structure.joint_feature(X[{i}], y[{i}])")
            loss = self.structure.loss(truth, truth)
            if loss != 0:
                raise ValueError(
                    f"structure.loss(y[{i}], y[{i}]) must be 0, the truth costs nothing; "
                    f"received {loss!r}."
                )

    def predict(self, X: Sequence[Any]) -> list:
        """The best output of each input."""
        check_is_fitted(self, "coef_")
        return [self.structure.argmax(x, self.coef_) for x in X]

    def decision_function(self, X: Sequence[Any]) -> np.ndarray:
        """Score of the predicted output of each input."""
        check_is_fitted(self, "coef_")
        return np.array(
            [
                self.coef_ @ self.structure.joint_feature(x, y)
                for x, y in zip(X, self.predict(X), strict=True)
            ]
        )

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Minus the mean loss of the predictions."""
        return task_of(self).score(X, y, sample_weight)

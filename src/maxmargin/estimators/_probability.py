"""Probabilities and runners-up of estimators whose output is one label."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils.validation import check_is_fitted

from .._validation import check_integer
from ..surrogates.max_margin import MaxMargin
from ._base import SURROGATES, surrogate_name

_OR_SMOOTH = ", or 'smooth-max-min', which estimates them too"


def has_probabilities(estimator: Any) -> bool:
    """Whether the surrogate is a likelihood; the error is what ``hasattr`` and users see."""
    surrogate: Any = SURROGATES.get(surrogate_name(estimator.surrogate), MaxMargin)()
    if not surrogate.cost.probabilities:
        raise AttributeError(
            f"probabilities need surrogate='crf', which maximises their likelihood"
            f"{_OR_SMOOTH if 'smooth-max-min' in estimator._surrogates else ''}; with "
            f"surrogate={estimator.surrogate!r} scores are not calibrated. predict_marginals gives "
            "the same formula as a score."
        )
    return True


class of_likelihood:
    """Decorator of methods that only a likelihood gives.

    Like scikit-learn's ``available_if``, but the error itself says what to write, not its cause.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._method
        has_probabilities(instance)
        return MethodType(self._method, instance)


class LabelProbabilities:
    """Methods that follow from the scores of the classes."""

    classes_: np.ndarray

    def _checked_scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "classes_")
        return self._scores(self._validate_X(X, reset=False))  # type: ignore[attr-defined]

    @of_likelihood
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of ``classes_``.

        For ``surrogate="crf"`` and ``"smooth-max-min"`` only.

        Returns
        -------
        ndarray of shape (n_examples, n_classes)
        """
        return softmax(self._logits(self._checked_scores(X)), axis=1)

    def _logits(self, scores: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities, up to a constant of each row."""
        return scores

    @of_likelihood
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`, also where the probabilities are too small."""
        return log_softmax(self._logits(self._checked_scores(X)), axis=1)

    def predict_marginals(self, X: Any) -> np.ndarray:
        """``exp(score)`` of each class, as a share of their sum.

        With ``surrogate="crf"``, and with "smooth-max-min", whose formula is its own, these are the
        probabilities of :meth:`predict_proba`. The other surrogates do not estimate probabilities:
        there they are scores between 0 and 1, in the order of the classes' scores, and not
        calibrated.

        Returns
        -------
        ndarray of shape (n_examples, n_classes)
        """
        return softmax(self._logits(self._checked_scores(X)), axis=1)

    def _preferences(self, scores: np.ndarray) -> np.ndarray:
        """What ranks the classes."""
        return scores

    def predict_topk(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each example, best first.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
        k : int
            From 1 to the number of classes.

        Returns
        -------
        labels : ndarray of shape (n_examples, k)
        scores : ndarray of shape (n_examples, k)
            Among equal scores the class that comes first in ``classes_`` comes first.
        """
        check_is_fitted(self, "classes_")
        k = check_integer("k", k, 1)
        if k > len(self.classes_):
            raise ValueError(
                f"k must be at most the number of classes, {len(self.classes_)}; received {k}."
            )
        scores = self._preferences(self._checked_scores(X))
        codes = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.classes_[codes], np.take_along_axis(scores, codes, axis=1)

"""Ordinal regression: classes with an order, mistakes that cost their distance."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from .._labels import ordered_categories, refuse_unordered
from ..structures.losses import AbsoluteLoss, LabelLoss
from ..surrogates.smooth_max_min import Response, absolute_response
from ._base import with_parameters
from ._docs import documented
from ._flat import FlatClassifier


@documented(
    classes_note=""",
        from the lowest to the highest; by default the categories of an ordered Categorical, or the
        labels found, sorted. Three or more strings have no order of their own: declare them."""
)
@with_parameters
class OrdinalClassifier(FlatClassifier):
    """Classifier for ordered classes, linear or with a kernel, with a certificate.

    Minimises, with scores ``v = W x + b`` and the loss ``L(j, z) = |j - z|`` (with another loss
    matrix, the objective of :class:`MulticlassClassifier`)::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_j [ |j - y| + v_j ] - v_y
        max-min:     S(v, y) = 1/2 max_{i,j} [ v_i + v_j + |i - j| ] - v_y
        crf:         S(v, y) = log sum_j exp(v_j) - v_y

    "smooth-max-min" is max-min with entropy (see :class:`MulticlassClassifier`): consistent, with
    probabilities, and it predicts the class of the smallest expected loss; so does "quadratic",
    least squares of the indicators of the classes.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf", "smooth-max-min", "quadratic", \
"restricted-max-margin"}, default="max-min"
        Or :class:`SmoothMaxMin`.
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

    surrogate: str = field(default="max-min", kw_only=False)
    loss: Any = "absolute"
    class_weight: Any = None
    classes: Any = None

    _loss_name = "absolute"

    def _declared(self, y: Any, labels: np.ndarray) -> Any:
        if self.classes is not None:
            return self.classes
        ordered = ordered_categories(y)
        if ordered is None:
            refuse_unordered(labels, type(self).__name__)
        return ordered

    def _named_loss(self, n_classes: int) -> LabelLoss:
        return AbsoluteLoss(np.ones(n_classes), True)

    def _smooth_response(self, scores: np.ndarray) -> Response:
        return absolute_response(scores, self._surrogate.strength)

    def _score_codes(self, X: Any, codes: np.ndarray, weights: Any) -> float:
        distance = np.abs(self._best(X) - codes)
        distance[codes < 0] = len(self.classes_) - 1
        return -float(np.average(distance, weights=weights))

"""Multiclass classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..structures.losses import LabelLoss, ZeroOneLoss
from ..surrogates.smooth_max_min import Response, zero_one_response
from ._base import with_parameters
from ._docs import documented
from ._flat import FlatClassifier


@documented()
@with_parameters
class MulticlassClassifier(FlatClassifier):
    """Multiclass classifier, linear or with a kernel, with a certificate.

    Minimises, with scores ``v = W x + b`` and ``w`` all weights together::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_j [ L(j, y) + v_j ] - v_y
        max-min:     S(v, y) = max_mu [ min_j sum_z mu_z L(j, z) + mu @ v ] - v_y
        crf:         S(v, y) = log sum_j exp(v_j) - v_y
        smooth-max-min: S(v, y) = max_mu [ min_j sum_z mu_z L(j, z) + s H(mu) + mu @ v ] - v_y
        quadratic:   S(v, y) = 1/2 |v - e_y|^2
        restricted-max-margin: S(v, y) = max_{mu in P(y)} [ sum_z mu_z L(y, z) + mu @ v ] - v_y

    over distributions mu on the classes, H their entropy. With the 0-1 loss, max-margin is the SVM
    of Crammer and Singer, ``alpha = 1/(n C)``. Max-min is its consistent correction: with enough
    data it finds the best prediction also where no class has a majority. The CRF of one label is
    multinomial logistic regression, and gives probabilities. Smooth max-min is consistent for the
    loss and gives probabilities; it is for the 0-1 loss, with s = 0.1, or
    ``SmoothMaxMin(strength=s)``. "quadratic" is least squares of the indicators e_y of the classes,
    which predicts ``argmin_j sum_z L(j, z) v_z``: consistent too, and not for kernels. Restricted
    max-margin is max-margin over P(y), the distributions under which y is a best prediction, for
    the 0-1 loss.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf", "smooth-max-min", "quadratic", \
"restricted-max-margin"}, default="max-margin"
        Or :class:`SmoothMaxMin`.
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

    loss: Any = "0-1"
    class_weight: Any = None
    classes: Any = None

    _loss_name = "0-1"

    def _named_loss(self, n_classes: int) -> LabelLoss:
        return ZeroOneLoss(np.ones(n_classes), True)

    def _smooth_response(self, scores: np.ndarray) -> Response:
        return zero_one_response(scores, self._surrogate.strength)

"""Estimators whose output is one label: arrays in, one label per row out."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._labels import LabelCodes, class_costs
from .._validation import (
    check_loss_matrix,
    check_sample_weight,
    is_text,
)
from ..solvers.problem import Problem
from ..structures.losses import LabelLoss, MatrixLoss
from ..structures.multiclass import Multiclass
from ..structures.traits import Traits
from ..surrogates.cost import RESTRICTED, SMOOTH
from ..surrogates.smooth_max_min import Response
from ..tasks import task_of
from ..tasks.flat import take_labels
from ._base import StructuredEstimator
from ._kernel import KernelModel
from ._probability import LabelProbabilities

# Numbers held at a time while predicting: 64 MB.
_SCORES_AT_ONCE = 1 << 23


class FlatClassifier(ClassifierMixin, KernelModel, LabelProbabilities, StructuredEstimator):
    """Common part of :class:`MulticlassClassifier` and :class:`OrdinalClassifier`."""

    loss: Any
    class_weight: Any
    classes: Any
    _loss_name: str
    _traits: ClassVar[Traits | None] = Multiclass.traits()
    _surrogates = (
        "max-margin", "max-min", "crf", "smooth-max-min", "quadratic", "restricted-max-margin",
    )  # fmt: skip

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        return tags

    def _named_loss(self, n_classes: int) -> LabelLoss:
        """The loss that the estimator has by name."""
        raise TypeError(f"{type(self).__name__} does not say what a mistake costs")

    def _smooth_response(self, scores: np.ndarray) -> Response:
        """What smooth max-min makes of scores, with the loss by name."""
        raise TypeError(f"{type(self).__name__} has no smooth max-min")

    def _declared(self, y: Any, labels: np.ndarray) -> Any:
        """All labels in their order, if they are declared."""
        return self.classes

    def _make_loss(self, n_classes: int) -> LabelLoss:
        """The loss of the estimator for a number of classes."""
        if not is_text(self.loss):
            name = self._surrogate.cost.name
            if name in (SMOOTH, RESTRICTED):
                raise ValueError(
                    f"surrogate={name!r} has a formula for loss={self._loss_name!r} only; "
                    "use surrogate='max-min' with a matrix of losses."
                )
            return MatrixLoss(check_loss_matrix(self.loss, n_classes))
        if self.loss != self._loss_name:
            raise ValueError(
                f"loss must be {self._loss_name!r} or a matrix; received {self.loss!r}."
            )
        return self._named_loss(n_classes)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FlatClassifier:
        """Train on examples and labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
            With ``kernel="precomputed"`` the (n_examples, n_examples) kernel matrix.
        y : sequence of n_examples hashable labels
        sample_weight : array of shape (n_examples,), optional
            Weights of the examples; 2 is the same as having an example twice.
        """
        settings = self._check_settings()
        X = self._validate_X(X, reset=True)
        labels = take_labels(y, X.shape[0])
        weights = check_sample_weight(sample_weight, X.shape[0])
        counted = labels if weights.all() else labels[weights > 0]
        codes = LabelCodes.from_labels(counted, self._declared(y, counted))
        known = codes.codes_or_minus_one(labels)
        used = np.flatnonzero(weights > 0)
        if (known[used] < 0).any():
            codes.encode(labels, "y")  # names the label and its place
        K = len(codes.classes)
        counts = np.bincount(known[used], weights=weights[used], minlength=K)
        weights = weights * class_costs(self.class_weight, codes.classes, counts)[known]
        used = np.flatnonzero(weights > 0)
        train, held_out = self._split(used, settings.rng)
        rows = self._training_rows(X, train)
        problem = Problem(
            Multiclass(known[train], K, self._make_loss(K)),
            self._surrogate,
            rows,
            self._alpha_for(weights[train], rows.squares),
            weights[train],
            settings.n_threads,
        )
        self.classes_ = codes.classes

        def keep(weights_now: np.ndarray) -> None:
            self._keep_columns(weights_now.reshape(-1, K), X, train)

        def score() -> float:
            return self._score_codes(X[held_out], known[held_out], weights[held_out])

        self._solve_and_keep(problem, settings, keep, score if len(held_out) else None)
        return self

    def _best(self, X: Any) -> np.ndarray:
        """Codes of the best classes, some rows at a time: scores of all would need n x K."""
        step = max(1, _SCORES_AT_ONCE // len(self.classes_))
        starts = range(0, X.shape[0], step)
        return np.concatenate(
            [self._preferences(self._scores(X[i : i + step])).argmax(axis=1) for i in starts]
        )

    def _preferences(self, scores: np.ndarray) -> np.ndarray:
        """What ranks the classes: the scores, or minus the expected losses that go with them."""
        cost = self._surrogate.cost
        if not cost.smooth or cost.likelihood:
            return scores
        losses = self._make_loss(scores.shape[1]).dense(scores.shape[1])
        if not self._is_smooth_max_min:  # scores of least squares are the expected embedding
            return -scores @ losses.T
        found = self._smooth_response(scores)
        # Predictions in the mixture have the same, smallest loss: the largest share decides.
        return found.predictions - softmax(found.logits, axis=1) @ losses.T

    def _logits(self, scores: np.ndarray) -> np.ndarray:
        if not self._is_smooth_max_min:
            return scores
        return self._smooth_response(scores).logits

    def _score_codes(self, X: Any, codes: np.ndarray, weights: Any) -> float:
        return float(np.average(self._best(X) == codes, weights=weights))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Returns
        -------
        ndarray of shape (n_examples, n_classes), or, for two classes, of shape (n_examples,)
            with the score of the second class minus that of the first.
        """
        check_is_fitted(self, "intercept_")
        scores = self._scores(self._validate_X(X, reset=False))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The best label of each example."""
        check_is_fitted(self, "intercept_")
        return self.classes_[self._best(self._validate_X(X, reset=False))]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for ordered classes minus the mean distance to the true class, in classes.

        Labels that the model does not know count as errors of the worst kind, with a warning.
        """
        return task_of(self).score(X, y, sample_weight)

"""Multilabel classification: any subset of the labels, without interactions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._labels import class_costs
from .._validation import check_sample_weight
from ..solvers.problem import Problem
from ..structures.multilabel import Multilabel, label_weights
from ._base import SURROGATES
from ._docs import documented
from ._flat import _SCORES_AT_ONCE, FlatClassifier
from ._label_sets import (
    encode_label_sets,
    in_format,
    indicator_for_score,
    read_label_sets,
)
from ._probability import has_probabilities


@documented(
    order="active",
    alpha_note="C = 1 for the sum of the losses of the labels.",
    class_weight_note="Factor of the loss of each label;",
    balanced_note=(
        "a factor of its two states, present and absent, inversely proportional to their\n"
        "        frequencies."
    ),
    classes_note=(
        "; for\n        an indicator matrix the names of its columns, by default 0, 1, ... or those"
        " of a data\n        frame."
    ),
)
class MultiLabelClassifier(FlatClassifier):
    """Gives each example any subset of the labels, linear or with a kernel, with a certificate.

    Minimises, with scores ``v_l = coef_l @ x + b_l`` of L labels and signs ``s_l`` (1 where the
    label is present, -1 where it is absent)::

        alpha/2 |w|^2 + 1/n sum_i sum_l S(v_il, s_il)

        max-margin:  S(v, s) = max(0, 1/L - s v)
        max-min:     S(v, s) = max(0, -s v, (1/L - s v) / 2)
        crf:         S(v, s) = log(1 + exp(-s v))

    where ``w`` holds one weight vector for the presence and one for the absence of each label;
    ``coef`` is their difference, ``|w|^2 = |coef|^2 / 2``. This is the mean Hamming loss on a
    marginal polytope that is a cube: the labels share nothing but alpha, the solver and its
    certificate. The CRF is a logistic regression for each label, and gives probabilities.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-margin"
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array of shape (n_labels, n_features)
        Weights of presence minus those of absence; with ``kernel="linear"`` only.
    intercept_ : array of shape (n_labels,)
    %(kernel_attributes)s
    %(attributes)s

    Examples
    --------
    >>> from maxmargin import MultiLabelClassifier
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [{"round"}, {"red"}, {"red", "round"}, set()]
    >>> MultiLabelClassifier(alpha=0.01, random_state=0).fit(X, y).predict(X)
    [('round',), ('red',), ('red', 'round'), ()]
    """

    def __init__(
        self,
        surrogate: str = "max-margin",
        *,
        kernel: Any = "linear",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        cache_size: float = 200,
        alpha: float | str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        solver: str = "auto",
        order: str = "active",
        average: bool | float = True,
        check_every: int | None = None,
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
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.cache_size = cache_size
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.order = order
        self.average = average
        self.check_every = check_every
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiLabelClassifier:
        """Train on examples and their sets of labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
        y : array or sparse matrix of shape (n_examples, n_labels), or list of collections
            Zeros and ones (or bools), a column a label; or, for each example, a set, list or
            tuple of hashable labels. Labels that all or no examples have are allowed.
        sample_weight : array of shape (n_examples,), optional
            Weights of the examples; 2 is the same as having an example twice.

        Returns
        -------
        self
        """
        settings = self._check_settings()
        X = self._validate_X(X, reset=True)
        sets = read_label_sets(y, X.shape[0])
        weights = check_sample_weight(sample_weight, X.shape[0])
        classes, indicator = encode_label_sets(sets, self.classes, weights > 0)
        costs = self._costs(classes, indicator, weights)
        used = np.flatnonzero(weights > 0)
        train, held_out = self._split(len(used), settings.rng)
        train, held_out = used[train], used[held_out]
        problem = Problem(
            Multilabel(indicator[train].ravel(), len(classes), costs / len(classes)),
            SURROGATES[self.surrogate](),
            self._training_rows(X, train),
            # The margins of a mean over labels are L times smaller, those of a likelihood are not.
            self._alpha_for(weights[train].sum(), 1.0 if self.surrogate == "crf" else len(classes)),
            weights[train],
            settings.n_threads,
        )
        self.classes_ = classes
        self.y_format_ = sets.format
        validate = None
        if len(held_out):

            def validate(weights_now: np.ndarray) -> float:
                self._keep_columns(label_weights(weights_now, len(classes)), X, train)
                return self._score_sets(X[held_out], indicator[held_out], weights[held_out])

        result = self._solve(problem, settings, validate)
        self._keep_columns(label_weights(result.weights, len(classes)), X, train)
        return self

    def _costs(self, classes: np.ndarray, indicator: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Cost of a mistake on each label where it is absent, and where it is present."""
        balanced = isinstance(self.class_weight, str) and self.class_weight == "balanced"
        if not balanced:
            factors = class_costs(self.class_weight, classes, np.ones(len(classes)))
            return np.stack([factors, factors])
        present = weights @ indicator
        counts = np.stack([weights.sum() - present, present])
        seen = (indicator[weights > 0] == 0).any(axis=0), indicator[weights > 0].any(axis=0)
        n_states = np.sum(seen, axis=0)
        return np.where(seen, weights.sum() / (n_states * np.where(seen, counts, 1.0)), 1.0)

    def _best(self, X: Any) -> np.ndarray:
        """Indicator of the labels that score above zero, some rows at a time."""
        step = max(1, _SCORES_AT_ONCE // len(self.classes_))
        starts = range(0, X.shape[0], step)
        return np.concatenate(
            [(self._scores(X[i : i + step]) > 0.0).astype(np.int8) for i in starts]
        )

    def _score_sets(self, X: Any, indicator: np.ndarray, weights: Any) -> float:
        right = (self._best(X) == indicator).all(axis=1)
        return float(np.average(right, weights=weights))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the labels: presence minus absence, so that positive ones are predicted.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        check_is_fitted(self, "intercept_")
        return self._scores(self._validate_X(X, reset=False))

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability that each label is present; for ``surrogate="crf"`` only.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        return expit(self.decision_function(X))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`, also where the probabilities are too small."""
        return log_expit(self.decision_function(X))

    def predict_marginals(self, X: Any) -> np.ndarray:
        """``1 / (1 + exp(-score))`` of each label.

        With ``surrogate="crf"`` these are the probabilities of :meth:`predict_proba`. Margin
        surrogates do not estimate probabilities: there they are scores between 0 and 1 in the
        order of the labels' scores, and not calibrated.

        Returns
        -------
        ndarray of shape (n_examples, n_labels)
        """
        return expit(self.decision_function(X))

    def predict(self, X: Any) -> Any:
        """Labels of each example, in the format of the y that the model was trained on.

        Returns
        -------
        ndarray or sparse array of shape (n_examples, n_labels), or list of tuples of labels
        """
        check_is_fitted(self, "intercept_")
        found = self._best(self._validate_X(X, reset=False))
        return in_format(found, self.y_format_, self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the examples whose whole set of labels is right (subset accuracy).

        Labels that the model does not know count as errors, with a warning.
        """
        check_is_fitted(self, "intercept_")
        X = self._validate_X(X, reset=False)
        weights = check_sample_weight(sample_weight, X.shape[0])
        indicator, unseen = indicator_for_score(read_label_sets(y, X.shape[0]), self.classes_)
        right = (self._best(X) == indicator).all(axis=1) & ~unseen
        return float(np.average(right, weights=weights))

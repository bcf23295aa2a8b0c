"""The weights of a :class:`SequenceLabeler`, in parts and in one array, and smaller ones."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._validation import check_number, check_switch
from ..features.dicts import count_unknown, new_vectorizer
from ..features.states import States, states_of
from ..solvers.result import PRUNED


class ChainWeights:
    """The part of :class:`SequenceLabeler` that holds the weights."""

    # Given by the class that this is a part of.
    boundary_weights: bool
    fit_intercept: bool
    classes_: np.ndarray
    coef_: Any
    intercept_: np.ndarray
    kernel_: Any
    vectorizer_: Any
    _states: States | None = None  # after fit, and when a model that was read predicts

    def _set_weights(self, weights: np.ndarray, X: Any, positions: np.ndarray) -> None:
        K, states = len(self.classes_), self._states
        matrix = weights.reshape(-1, K)
        if states is None:
            end = self._keep_columns(matrix, X, positions)  # type: ignore[attr-defined]
        else:
            end = states.n_rows + int(bool(self.fit_intercept))
            self.coef_ = states.coef(weights)
            self.intercept_ = matrix[end - 1].copy() if self.fit_intercept else np.zeros(K)
        self.transitions_ = matrix[end : end + K].copy()
        self.first_, self.last_ = np.zeros(K), np.zeros(K)
        if self.boundary_weights:
            self.first_, self.last_ = matrix[end + K].copy(), matrix[end + K + 1].copy()
        # With a kernel, scores of positions come from elsewhere: see _prediction_rows.
        self.weights_ = weights if self.kernel_ is None else matrix[end:].ravel()

    @property
    def weights_(self) -> np.ndarray:
        """All weights in one array, as solvers have them; model files hold the parts only."""
        found = vars(self).get("_weights")
        if found is None:
            if "transitions_" not in vars(self):
                raise AttributeError(f"this {type(self).__name__} has no weights_ before fit")
            found = self._weights = self._joined()
            dense = self.kernel_ is None and not sp.issparse(self.coef_)
            if dense and self.coef_.dtype == found.dtype:  # the same memory once
                self.coef_ = found.reshape(-1, len(self.classes_))[: self.coef_.shape[1]].T
        return found

    @weights_.setter
    def weights_(self, weights: np.ndarray) -> None:
        self._weights = weights

    def _joined(self) -> np.ndarray:
        """The array that the parts make up, by rows of one weight per label."""
        rows = []
        if self.kernel_ is None:
            states = self._known_states()
            columns = self.coef_.T if states is None else states.weights(self.coef_)
            rows += [columns, *([self.intercept_[None]] if self.fit_intercept else [])]
        rows.append(self.transitions_)
        if self.boundary_weights:
            rows += [self.first_[None], self.last_[None]]
        return np.concatenate(rows, dtype=np.float64).ravel()

    def _known_states(self) -> States | None:
        """Places of the weights of features, if they belong to some labels only."""
        if self._states is None and self.kernel_ is None and sp.issparse(self.coef_):
            self._states = states_of(self.coef_)
        return self._states

    def count_unknown_features(self, X: Any) -> tuple[int, int]:
        """Count the features of sequences that were not seen in training: ``predict`` ignores them.

        Parameters
        ----------
        X : list of sequences
            Feature dicts or lists of feature names. Arrays have no unknown features.

        Returns
        -------
        n_unknown, n_features : int
            Features of all positions, those with the value 0 not counted.
        """
        check_is_fitted(self, "transitions_")
        if self.vectorizer_ is None:
            return 0, 0
        return count_unknown(X, self.vectorizer_.vocabulary_)

    def prune(self, threshold: float = 0.0, *, single: bool = False) -> Any:
        """A copy with fewer weights, for a smaller file; score it before it replaces the model.

        Its weights are no longer those of the certificate: ``primal_`` and ``gap_`` are infinite,
        ``status_`` is "pruned".

        Parameters
        ----------
        threshold : float, default=0.0
            Weights of features below this share of the largest become 0. Features of dicts and
            lists without any other weight are left out.
        single : bool, default=False
            Round ``coef_`` to single precision, as the file then holds it.

        Returns
        -------
        SequenceLabeler
        """
        check_is_fitted(self, "transitions_")
        check_number("threshold", threshold, at_least=0)
        check_switch("single", single)
        if self.kernel_ is not None:
            raise ValueError("prune needs kernel='linear', whose weights belong to features.")
        small: Any = copy.copy(self)
        coef = self.coef_.copy()
        stored = coef.data if sp.issparse(coef) else coef
        sizes = np.abs(stored)
        stored[sizes < threshold * sizes.max()] = 0.0
        if sp.issparse(coef):
            coef.eliminate_zeros()
        if self.vectorizer_ is not None:
            kept = np.flatnonzero((coef != 0.0).sum(axis=0))
            kept = kept if len(kept) else np.arange(1)
            names = [self.vectorizer_.feature_names_[column] for column in kept]
            small.vectorizer_ = new_vectorizer({name: j for j, name in enumerate(names)})
            coef, small.n_features_in_ = coef[:, kept], len(kept)
        small.coef_ = coef.astype(np.float32) if single else coef
        vars(small).pop("_weights", None)
        small._states = None
        small._dual = None
        small.primal_ = small.gap_ = np.inf
        small.status_ = PRUNED
        return small

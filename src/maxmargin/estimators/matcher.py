"""Matching of two point sets: a partner for every point."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._kernels.assignment import assign_each
from .._kernels.permanent import marginals_of_permutations, refuse_large
from .._validation import check_sample_weight
from ..features.pairs import PackedPairs, check_pair_features, pack_pairs
from ..features.rows import pack_rows
from ..solvers.problem import Problem
from ..structures.permutation import Matching
from ..structures.take import ragged
from ..tasks import task_of
from ..tasks.matchings import take_matchings
from ._base import StructuredEstimator, with_parameters
from ._best_outputs import best_outputs
from ._docs import documented

_POWER_STEPS = 8


@documented(
    without=("class_weight", "classes", "fit_intercept"),
    auto='"accelerated"',
    alpha_note="""``s / (5 * total weight)``, where s is the mean over examples of the number of
        points of a side times the mean squared norm of the pairs. Squared norms above 20 count
        as 20.""",
)
@with_parameters
class Matcher(StructuredEstimator):
    """Matches the points of two sets of the same size, one to one.

    The pair of point a and point b has features ``psi_ab`` and scores ``v_ab = w @ psi_ab``; a
    matching y scores ``sum_a v_(a, y_a)``, and the best one is found by assignment. Training
    minimises, with ``L(y, z)`` the share of points with a wrong partner::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_z [ L(z, y) + v(z) ] - v(y)
        max-min:     S(v, y) = max_mu [ min_z E_mu L(z, .) + mu @ v ] - v(y)
        crf:         S(v, y) = log sum_z exp v(z) - v(y)

    over distributions of matchings, of which only the doubly stochastic matrix mu of marginals
    matters. Max-min is the consistent one. The CRF sums over all matchings, of at most 12 points a
    side. Examples may have different numbers of points. There is
    no intercept: it would raise all matchings alike.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-margin"
    pair_features : {"squared-difference", "absolute-difference"} or callable, \
default="squared-difference"
        Features of a pair where an example is a pair of point sets: coordinate by coordinate, or a
        function of two arrays (n, p) and (n, q) that returns an array (n, n, n_features).
    %(parameters)s

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the features of a pair.
    %(attributes)s

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import Matcher
    >>> random = np.random.RandomState(0)
    >>> X, y = [], []
    >>> for n in (4, 5, 6):
    ...     points, order = random.randn(n, 2), random.permutation(n)
    ...     X.append((points, points[order] + 0.01 * random.randn(n, 2)))
    ...     y.append(np.argsort(order))  # y[a] is the place of a's partner
    >>> model = Matcher(random_state=0).fit(X, y)
    >>> bool((model.predict(X)[0] == y[0]).all())
    True
    """

    pair_features: Any = "squared-difference"

    _switches = ("warm_start",)
    _traits = Matching.traits()

    # --- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Matcher:
        """Train on pairs of point sets and their matchings.

        Parameters
        ----------
        X : list of n examples
            Each an array of shape (m, m, n_features) with the features of all pairs, or a pair
            (A, B) of arrays with m points each.
        y : list of n permutations
            ``y[i][a]`` is the index of the partner of point a, counted from 0.
        sample_weight : array of shape (n,), optional
            Weights of the examples; 2 is the same as having an example twice.
        """
        settings = self._check_settings()
        check_pair_features(self.pair_features)
        pairs = pack_pairs(X, self.pair_features)
        truth = take_matchings(y, pairs.sides)
        if self._surrogate.cost.likelihood:
            refuse_large(int(pairs.sides.max()), type(self).__name__)
        weights = check_sample_weight(sample_weight, len(pairs.sides))
        self.n_features_in_ = pairs.X.shape[1]
        train, held_out = self._split(np.flatnonzero(weights > 0), settings.rng)
        part, shares = pairs.take(train), weights[train]
        rows = pack_rows(part.X, fit_intercept=False)
        problem = Problem(
            _pack(part, truth[ragged(pairs.indptr, train)[0]]),
            self._surrogate,
            rows,
            self._alpha_for(shares, rows.squares, part.sides, part.pairs_indptr),
            shares,
            settings.n_threads,
        )
        validate = None
        if len(held_out):
            kept, answers = pairs.take(held_out), truth[ragged(pairs.indptr, held_out)[0]]

            def validate(weights_now: np.ndarray) -> float:
                return _right(kept, weights_now, answers, weights[held_out])

        self.coef_ = self._solve(problem, settings, validate).weights
        return self

    # --- prediction -------------------------------------------------------------------------

    def _pairs(self, X: Any) -> PackedPairs:
        check_is_fitted(self, "coef_")
        pairs = pack_pairs(X, self.pair_features)
        self._check_width(pairs.X.shape[1], "features per pair")
        return pairs

    def predict(self, X: Any) -> list[np.ndarray]:
        """The best matching of each example: the index of the partner of each point.

        Returns
        -------
        list of arrays of shape (m,)
        """
        pairs = self._pairs(X)
        return np.split(_match(pairs, self.coef_).astype(np.int64), pairs.indptr[1:-1])

    def decision_function(self, X: Any) -> list[np.ndarray]:
        """Scores of all pairs.

        Returns
        -------
        list of arrays of shape (m, m)
        """
        pairs = self._pairs(X)
        scores = np.split(pairs.X @ self.coef_, pairs.pairs_indptr[1:-1])
        return [part.reshape(n, n) for part, n in zip(scores, pairs.sides, strict=True)]

    def predict_topk(self, X: Any, k: int) -> list[list[tuple[np.ndarray, float]]]:
        """The k best matchings of each example, best first, exactly.

        Parameters
        ----------
        X : as in :meth:`predict`
        k : int
            At least 1. Time grows with k times the number of points.

        Returns
        -------
        list of lists of (matching, score)
            Fewer than k where there are fewer matchings.
        """
        pairs = self._pairs(X)
        truth, curvature = np.zeros(int(pairs.indptr[-1]), np.int32), np.ones(len(pairs.sides))
        most = int(max(pairs.sides))
        packed = Matching(truth, pairs.indptr, pairs.pairs_indptr, most, curvature)
        return best_outputs(packed, pairs.X @ self.coef_, k)

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of every pair, where matchings count by ``exp(score)``.

        With ``surrogate="crf"`` these are the probabilities of the model. Margin surrogates do not
        estimate probabilities: there they are scores between 0 and 1, and not calibrated. For at
        most 12 points a side.

        Returns
        -------
        list of arrays of shape (m, m)
            Rows and columns sum to 1.
        """
        pairs = self._pairs(X)
        refuse_large(int(pairs.sides.max()), type(self).__name__)
        out = np.empty(int(pairs.pairs_indptr[-1]))
        marginals_of_permutations(
            np.ascontiguousarray(pairs.X @ self.coef_, float), pairs.indptr, out
        )
        found = np.split(out, pairs.pairs_indptr[1:-1])
        return [part.reshape(n, n) for part, n in zip(found, pairs.sides, strict=True)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean share of points with their right partner: one minus the mean loss of training."""
        return task_of(self).score(X, y, sample_weight)


def _match(pairs: PackedPairs, weights: np.ndarray) -> np.ndarray:
    """Partners of all points."""
    labels = np.empty(int(pairs.indptr[-1]), np.int32)
    assign_each(np.ascontiguousarray(pairs.X @ weights, float), pairs.indptr, labels)
    return labels


def _right(pairs: PackedPairs, weights: np.ndarray, truth: np.ndarray, shares: Any) -> float:
    found = np.add.reduceat((_match(pairs, weights) == truth).astype(float), pairs.indptr[:-1])
    return float(np.average(found / pairs.sides, weights=shares))


def _pack(pairs: PackedPairs, truth: np.ndarray) -> Matching:
    curvature = np.array(
        [
            _largest_eigenvalue(pairs.X[first:last], n)
            for first, last, n in zip(
                pairs.pairs_indptr[:-1], pairs.pairs_indptr[1:], pairs.sides, strict=True
            )
        ]
    )
    largest = int(pairs.sides.max())
    return Matching(truth, pairs.indptr, pairs.pairs_indptr, largest, curvature)


def _largest_eigenvalue(features: np.ndarray, n: int) -> float:
    """About the largest eigenvalue of the Gram matrix of the pairs, along directions whose rows and
    columns sum to zero: those in which matchings differ."""
    table = features.reshape(n, n, -1).astype(np.float64)
    table = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean(axis=(0, 1))
    flat = table.reshape(n * n, -1)
    vector = flat[np.argmax(np.einsum("ij,ij->i", flat, flat))]
    size = 0.0
    for _ in range(_POWER_STEPS):
        norm = np.linalg.norm(vector)
        if norm == 0.0:
            return 0.0
        vector = flat.T @ (flat @ (vector / norm))
        size = float(np.linalg.norm(vector))
    return size

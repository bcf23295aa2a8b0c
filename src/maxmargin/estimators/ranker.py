"""Label ranking: an order of all items for every example."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._kernels.assignment import assign_all
from .._kernels.permanent import marginals_of_permutations, refuse_large
from .._validation import check_choice, check_sample_weight
from ..solvers.problem import Problem
from ..structures.permutation import Matching, Ranking
from ..tasks import task_of
from ..tasks.rankings import (
    FORMATS,
    RankingFormat,
    item_names,
    read_rankings,
    warn_if_orderings,
)
from ._base import StructuredEstimator, with_parameters
from ._best_outputs import best_outputs
from ._docs import documented
from ._kernel import KernelModel

# Numbers held at a time while predicting: 64 MB.
_SCORES_AT_ONCE = 1 << 23


@documented(
    without=("class_weight", "classes"),
    auto='"accelerated"',
    alpha_note="""``n_items * s / (5 * total weight)``, where s is the mean squared norm of the
        examples. The constant of an intercept is part of the norm, and squared norms above 20 count
        as 20.""",
)
@with_parameters
class LabelRanker(KernelModel, StructuredEstimator):
    """Ranks a fixed set of M items for every example, linear or with a kernel.

    Item a at position b scores ``v_ab = W_ab @ x + c_ab``; a ranking y scores the sum over its
    items, and the best one is found by assignment. Training minimises, with w all weights together
    and ``L(y, z)`` the share of items at a wrong position::

        alpha/2 |w|^2 + 1/n sum_i S(v_i, y_i)

        max-margin:  S(v, y) = max_z [ L(z, y) + v(z) ] - v(y)
        max-min:     S(v, y) = max_mu [ min_z E_mu L(z, .) + mu @ v ] - v(y)
        crf:         S(v, y) = log sum_z exp v(z) - v(y)

    over distributions of rankings, of which only the doubly stochastic matrix mu of marginals
    matters. Max-min is the consistent one. The CRF sums over all rankings, of at most 12 items.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf", "quadratic"}, default="max-margin"
        "quadratic" is least squares of the matrix of items and positions.
    y_format : {"ranks", "orderings", "auto"}, default="auto"
        How rankings are written, in ``fit``, ``predict`` and ``score`` alike. "auto" means ranks,
        with a warning if the rows of ``y`` could as well be orderings. "ranks":
        ``y[i, item]`` is the rank of the item, the smallest is the best; ranks count from 0 if a 0
        occurs anywhere in the ``y`` of ``fit``, from 1 otherwise. "orderings": ``y[i, position]``
        is the item at that position, the best first, by any name. The ranking "item 2, then item
        0, then item 1" is the row ``[2, 3, 1]`` of ranks (or ``[1, 2, 0]``) and the row
        ``[2, 0, 1]`` of orderings.
    items : sequence, optional
        Names of the items, in the order of the columns for "ranks"; what orderings may hold for
        "orderings". By default columns have the names that they have in a data frame ``y`` and are
        numbered otherwise, and orderings hold what they hold.
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    items_ : array of the items
    y_format_ : str
        "ranks" or "orderings".
    coef_ : array of shape (n_items * n_items, n_features)
        Weights of item a at position b in row ``a * n_items + b``; with ``kernel="linear"`` only.
    intercept_ : array of shape (n_items * n_items,)
    %(kernel_attributes)s
    %(attributes)s

    Examples
    --------
    >>> from maxmargin import LabelRanker
    >>> X = [[0.0, 1.0], [1.0, 0.0], [0.2, 0.9], [0.8, 0.1]]
    >>> ranks = [[1, 2, 3], [3, 2, 1], [1, 2, 3], [3, 2, 1]]
    >>> model = LabelRanker(y_format="ranks", random_state=0).fit(X, ranks)
    >>> model.predict([[0.1, 1.0]]).tolist()
    [[1, 2, 3]]
    >>> orderings = [["tea", "juice", "ale"], ["ale", "juice", "tea"]] * 2
    >>> model = LabelRanker(y_format="orderings", random_state=0).fit(X, orderings)
    >>> model.predict([[0.1, 1.0]]).tolist()
    [['tea', 'juice', 'ale']]
    """

    y_format: str = "auto"
    items: Any = None

    _traits = Ranking.traits()
    _surrogates = ("max-margin", "max-min", "crf", "quadratic")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._precomputed
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    # --- training ---------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LabelRanker:
        """Train on examples and their rankings.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
            With ``kernel="precomputed"`` the (n_examples, n_examples) kernel matrix.
        y : array of shape (n_examples, n_items)
            A ranking a row, written as ``y_format`` says; no ties, no items missing.
        sample_weight : array of shape (n_examples,), optional
            Weights of the examples; 2 is the same as having an example twice.
        """
        settings = self._check_settings()
        check_choice("y_format", self.y_format, (*FORMATS, "auto"))
        X = self._validate_X(X, reset=True)
        kind = "ranks" if self.y_format == "auto" else self.y_format
        items = item_names(y, kind) if self.items is None else self.items
        positions, written = read_rankings(y, X.shape[0], kind, items)
        if self.y_format == "auto":
            warn_if_orderings(positions, written, items)
        weights = check_sample_weight(sample_weight, X.shape[0])
        self.y_format_, self.items_, self.best_rank_ = written
        M = len(self.items_)
        if self._surrogate.cost.likelihood:
            refuse_large(M, type(self).__name__)
        train, held_out = self._split(np.flatnonzero(weights > 0), settings.rng)
        rows = self._training_rows(X, train)
        problem = Problem(
            _pack(positions[train]),
            self._surrogate,
            rows,
            self._alpha_for(weights[train], rows.squares, M),
            weights[train],
            settings.n_threads,
        )

        def keep(weights_now: np.ndarray) -> None:
            self._keep_columns(weights_now.reshape(-1, M * M), X, train)

        def score() -> float:
            return self._right(X[held_out], positions[held_out], weights[held_out])

        self._solve_and_keep(problem, settings, keep, score if len(held_out) else None)
        return self

    # --- prediction -------------------------------------------------------------------------

    def _positions(self, X: Any) -> np.ndarray:
        """Positions (0 = best) of the items in the best rankings, some rows at a time."""
        M = len(self.items_)
        step = max(1, _SCORES_AT_ONCE // M**2)
        positions = np.empty((X.shape[0], M), np.int32)
        for first in range(0, X.shape[0], step):
            scores = self._scores(X[first : first + step])
            assign_all(scores.reshape(-1, M, M), positions[first : first + step])
        return positions

    def _written(self) -> RankingFormat:
        """How the rankings of ``fit`` were written."""
        # A model from a file of an older version has no y_format_, but a y_format that says it.
        kind = vars(self).get("y_format_", self.y_format)
        return RankingFormat(kind, self.items_, self.best_rank_)

    def _right(self, X: Any, positions: np.ndarray, weights: Any) -> float:
        return float(np.average((self._positions(X) == positions).mean(axis=1), weights=weights))

    def predict(self, X: Any) -> np.ndarray:
        """The best ranking of each example, written like those of ``fit``.

        Returns
        -------
        ndarray of shape (n_examples, n_items)
        """
        check_is_fitted(self, "intercept_")
        return self._written().write(self._positions(self._validate_X(X, reset=False)))

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of every item at every position.

        Returns
        -------
        ndarray of shape (n_examples, n_items, n_items)
            ``[i, item, position]``, items as in ``items_``, the best position first.
        """
        check_is_fitted(self, "intercept_")
        X = self._validate_X(X, reset=False)
        return self._scores(X).reshape(-1, len(self.items_), len(self.items_))

    def predict_topk(self, X: Any, k: int) -> list[list[tuple[np.ndarray, float]]]:
        """The k best rankings of each example, best first, exactly.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_examples, n_features)
        k : int
            At least 1. Time grows with k times the number of items.

        Returns
        -------
        list of lists of (ranking, score)
            Fewer than k where there are fewer rankings.
        """
        scores = self.decision_function(X)
        n, m = scores.shape[:2]
        ends = np.arange(n + 1, dtype=np.int64) * m
        packed = Matching(np.zeros(n * m, np.int32), ends, ends * m, m, np.ones(n))
        return [
            [(self._written().write(found[None])[0], value) for found, value in best]
            for best in best_outputs(packed, scores, k)
        ]

    def predict_marginals(self, X: Any) -> np.ndarray:
        """Probability of every position of every item, where rankings count by ``exp(score)``.

        With ``surrogate="crf"`` these are the probabilities of the model. Margin surrogates do not
        estimate probabilities: there they are scores between 0 and 1, and not calibrated. For at
        most 12 items.

        Returns
        -------
        ndarray of shape (n_examples, n_items, n_items)
            ``[i, item, position]``; rows and columns sum to 1.
        """
        scores = self.decision_function(X)
        n, M = scores.shape[:2]
        refuse_large(M, type(self).__name__)
        out = np.empty(scores.size)
        flat = np.ascontiguousarray(scores, float).ravel()
        marginals_of_permutations(flat, np.arange(0, (n + 1) * M, M), out)
        return out.reshape(scores.shape)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of items at their right position: one minus the mean loss of training.

        For Kendall's tau and others see :mod:`maxmargin.metrics`.
        """
        return task_of(self).score(X, y, sample_weight)


def _pack(positions: np.ndarray) -> Ranking:
    """The structure of rankings with these positions of the items."""
    n, M = positions.shape
    truth = np.ascontiguousarray(positions, np.int32).ravel()
    return Ranking(truth, np.arange(n + 1, dtype=np.int64) * M, M)

"""Choosing a number of elements out of a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._kernels.subsets import best_subsets, marginals_of_subsets
from .._validation import check_sample_weight
from ..features.column_names import keep_names, names_known, warn_names
from ..features.rows import pack_rows
from ..features.sequences import learn_sequences, open_sequences, take_list
from ..solvers.problem import Problem
from ..structures.subset import Subset
from ..tasks import task_of
from ..tasks.subsets import take_choices
from ._base import StructuredEstimator
from ._best_outputs import best_outputs
from ._docs import documented
from ._sequence_data import cut


@documented(
    without=("fit_intercept", "class_weight", "classes"),
    auto='"accelerated", and "lbfgs" for a CRF',
    alpha_note="""``s / (5 * total weight)``, where s is the mean over examples of the size of the
        subset times the mean squared norm of the elements; without the size and ``s / (20 * total
        weight)`` for a CRF. Squared norms above 20 count as 20.""",
)
class SubsetSelector(StructuredEstimator):
    """Chooses exactly s out of v elements: sentences of a summary, items for a basket.

    The score of a subset is the sum of the scores ``w @ x_e`` of its elements; both s and v may
    differ by example. Training minimises, with L the share of the true elements that are missed::

        alpha/2 |w|^2 + 1/n sum_i S(x_i, y_i)

        max-margin:  S(x, y) = max_z [ L(z, y) + score(x, z) ] - score(x, y)
        max-min:     S(x, y) = max_mu [ min_nu E L(nu, mu) + score(x, mu) ] - score(x, y)
        crf:         S(x, y) = log sum_z exp(score(x, z)) - score(x, y) = -log p(y | x)

    over all subsets z of the size of y, and distributions mu over them. All oracles are exact:
    a selection, a projection onto the hypersimplex, elementary symmetric polynomials. There is no
    intercept: it would add the same to all subsets.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf"}, default="max-margin"
        Max-min is the consistent correction of max-margin; a CRF gives probabilities.
    %(parameters)s

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    size_ : int or None
        The size of all training subsets, None if they differ.
    n_features_in_ : int
    feature_names_in_ : array of str
        Names of the columns, if examples are data frames.
    vectorizer_ : DictVectorizer or None
        Names of the features, if elements are feature dicts.
    %(attributes)s

    Examples
    --------
    >>> from maxmargin import SubsetSelector
    >>> X = [[[3.0], [1.0], [2.0]], [[0.5], [4.0], [2.5], [1.0]]]
    >>> model = SubsetSelector(random_state=0).fit(X, [[0, 2], [1, 2]])
    >>> [chosen.tolist() for chosen in model.predict([[[1.0], [5.0], [7.0]]])]
    [[1, 2]]
    """

    _switches = ("warm_start",)
    _traits = Subset.traits()

    def fit(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> SubsetSelector:
        """Train on sets of elements and the subsets chosen from them.

        Parameters
        ----------
        X : list of n sets of elements
            Each an array, data frame or CSR matrix of shape (v, n_features), or a list of v
            feature dicts.
        y : list of n subsets
            Indices of the chosen elements, or a bool for each element; at least one is chosen.
        sample_weight : array of shape (n,), optional
            Weights of the examples; 2 is the same as having an example twice.
        """
        settings = self._check_settings()
        opened, self.vectorizer_ = learn_sequences(take_list(X))
        stacked, elements = opened.stack(), opened.indptr
        chosen = take_choices(y, np.diff(elements))
        weights = check_sample_weight(sample_weight, len(chosen))
        self.n_features_in_ = stacked.shape[1]
        keep_names(self, opened.names)
        used = np.flatnonzero(weights > 0)
        train, held_out = self._split(used, settings.rng)
        sizes = np.array([len(entry) for entry in chosen])
        unique = np.unique(sizes[used])
        self.size_ = int(unique[0]) if len(unique) == 1 else None
        at = np.concatenate([np.arange(elements[i], elements[i + 1]) for i in train])
        rows = pack_rows(stacked[at] if len(train) < len(chosen) else stacked, fit_intercept=False)
        ends = np.concatenate([[0], np.cumsum(np.diff(elements)[train])])
        problem = Problem(
            _pack([chosen[i] for i in train], np.diff(elements)[train]),
            self._surrogate,
            rows,
            self._alpha_for(weights[train], rows.squares, sizes[train], ends),
            weights[train],
            settings.n_threads,
        )
        validate = None
        if len(held_out):
            parts = [stacked[elements[i] : elements[i + 1]] for i in held_out]
            truth = [chosen[i] for i in held_out]

            def validate(weights_now: np.ndarray) -> float:
                scores = [np.asarray(part @ weights_now).ravel() for part in parts]
                return _share_right(scores, truth, weights[held_out])

        result = self._solve(problem, settings, validate)
        self.coef_ = result.weights.copy()
        return self

    # --- prediction -------------------------------------------------------------------------

    def decision_function(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Scores of the elements: the larger ones are chosen.

        Returns
        -------
        list of arrays of shape (v,)
        """
        check_is_fitted(self, "coef_")
        opened = open_sequences(X, self.vectorizer_, names=names_known(self))
        warn_names(self, opened.names)
        self._check_width(opened.n_features)
        return cut(np.asarray(opened.stack() @ self.coef_).ravel(), opened.indptr)

    def _sizes(self, size: Any, scores: list[np.ndarray]) -> np.ndarray:
        """How many elements to choose from each example."""
        given = self.size_ if size is None else size
        if given is None:
            raise ValueError(
                "size is needed: the training subsets had different sizes. Pass an integer, or one "
                "for each example."
            )
        sizes = np.asarray(given)
        if sizes.dtype.kind not in "iu" or sizes.ndim > 1 or sizes.size not in (1, len(scores)):
            raise ValueError(
                f"size must be an integer, or {len(scores)} of them; received {given!r}."
            )
        sizes = np.broadcast_to(sizes, len(scores)).astype(np.int64)
        for i, (s, own) in enumerate(zip(sizes, scores, strict=True)):
            if not 1 <= s <= len(own):
                raise ValueError(
                    f"size of example {i} must be between 1 and the {len(own)} elements of "
                    f"X[{i}]; received {s}."
                )
        return sizes

    def predict(self, X: Sequence[Any], size: Any = None) -> list[np.ndarray]:
        """Indices of the chosen elements of each example, increasing.

        Parameters
        ----------
        X : list of sets of elements
        size : int or array of shape (n,), optional
            How many elements to choose; by default as many as in training, if that was always the
            same number.
        """
        scores = self.decision_function(X)
        return _choose(scores, self._sizes(size, scores))

    def predict_topk(
        self, X: Sequence[Any], k: int, size: Any = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """The k best subsets of each example, best first, exactly.

        Parameters
        ----------
        X : list of sets of elements
        k : int
            At least 1. Time grows with k times the number of elements to choose.
        size : int or array of shape (n,), optional
            As in :meth:`predict`.

        Returns
        -------
        list of lists of (indices, score)
            Fewer than k where there are fewer subsets.
        """
        scores = self.decision_function(X)
        chosen = [np.arange(size) for size in self._sizes(size, scores)]
        packed = _pack(chosen, np.array([len(own) for own in scores]))
        return best_outputs(packed, np.concatenate(scores), k)

    def predict_marginals(self, X: Sequence[Any], size: Any = None) -> list[np.ndarray]:
        """Probability of each element to be chosen, where subsets count by ``exp(score)``.

        With ``surrogate="crf"`` these are the probabilities of the model. Margin surrogates do not
        estimate probabilities: there they are scores between 0 and 1, and not calibrated.

        Returns
        -------
        list of arrays of shape (v,)
            Each sums to the size.
        """
        scores = self.decision_function(X)
        sizes = self._sizes(size, scores)
        elements = np.concatenate([[0], np.cumsum([len(own) for own in scores])])
        out = np.empty(int(elements[-1]))
        marginals_of_subsets(np.concatenate(scores), elements, sizes, out)
        return cut(out, elements)

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Mean share of the true elements that are chosen, when as many are chosen as are true."""
        return task_of(self).score(X, y, sample_weight)


def _pack(chosen: list[np.ndarray], n_elements: np.ndarray) -> Subset:
    sizes = np.array([len(entry) for entry in chosen])
    return Subset(
        np.concatenate(chosen).astype(np.int32),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([[0], np.cumsum(n_elements)]).astype(np.int64),
        int(n_elements.max()),
        int(sizes.max()),
    )


def _choose(scores: list[np.ndarray], sizes: np.ndarray) -> list[np.ndarray]:
    elements = np.concatenate([[0], np.cumsum([len(own) for own in scores])])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    labels = np.empty(int(indptr[-1]), np.int32)
    best_subsets(np.concatenate(scores), elements, indptr, labels)
    return [part.astype(np.int64) for part in cut(labels, indptr)]


def _share_right(scores: list[np.ndarray], truth: list[np.ndarray], weights: np.ndarray) -> float:
    found = _choose(scores, np.array([len(entry) for entry in truth]))
    right = [np.isin(a, b).mean() for a, b in zip(found, truth, strict=True)]
    return float(np.average(right, weights=weights))

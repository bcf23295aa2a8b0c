"""Sequence labelling with linear chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._kernels.passes import decode_blocks
from .._labels import LabelCodes, as_label_array, class_costs, warn_unseen
from .._validation import check_loss_matrix, check_n_jobs, check_sample_weight
from ..features.rows import pack_rows
from ..features.sequences import (
    PackedSequences,
    flat_positions,
    holds_dicts,
    new_vectorizer,
    pack,
    take_list,
)
from ..solvers.problem import Problem, for_groups
from ..structures.chain import Chain, max_marginals, pack_products
from ..structures.losses import LabelLoss, MatrixLoss, ZeroOneLoss
from ..structures.masks import (
    TransitionMasks,
    allowed_positions,
    first_infeasible,
    first_violation,
    transition_masks,
)
from ._base import SURROGATES, StructuredEstimator, incompatible
from ._docs import documented


@documented(
    auto="pairwise",
    alpha_note="""C = 1 for the loss summed over positions: the mean length of a sequence over the total
        weight, or 1 over it if ``normalize_loss=False``.""",
)
class SequenceLabeler(StructuredEstimator):
    """Labels sequences with a linear chain: a label for every position.

    The score of labels ``y`` for a sequence ``x`` of length T is::

        sum_t (W x_t + b)[y_t]  +  sum_t U[y_t, y_(t+1)]  +  first[y_1] + last[y_T]

    and training minimises, with w all weights together and L the mean of the label losses::

        alpha/2 |w|^2 + 1/n sum_i ( max_y [ L(y, y_i) + score(x_i, y) ] - score(x_i, y_i) )

    Parameters
    ----------
    surrogate : {"max-margin"}, default="max-margin"
    loss : "hamming" or array of shape (n_classes, n_classes), default="hamming"
        What a mistake at one position costs; ``loss[j, z]`` for label j when z is true, in the
        order of ``classes_``.
    normalize_loss : bool, default=True
        Divide the loss of a sequence by its length; False sums over the positions.
    boundary_weights : bool, default=True
        Whether the first and the last label of a sequence have weights of their own.
    constraints : None, "bio", "bioes", (n_classes, n_classes) bool array, or dict, default=None
        Which labels may follow which, in training and in prediction. A matrix is True where the
        label of the column may follow that of the row; a dict lists what is forbidden:
        ``{"transitions": [(from, to), ...], "first": [...], "last": [...]}``.
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)
    transitions_ : array of shape (n_classes, n_classes)
        Weight of the label of the column after that of the row.
    first_, last_ : arrays of shape (n_classes,)
        Weights of the first and the last label.
    vectorizer_ : DictVectorizer or None
        Names of the features, if sequences are lists of feature dicts.
    %(attributes)s

    Examples
    --------
    >>> from maxmargin import SequenceLabeler
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}, {"word": "ran"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN", "VERB"]]
    >>> model = SequenceLabeler(random_state=0).fit(X, y)
    >>> model.predict([[{"word": "the"}, {"word": "dog"}]])[0].tolist()
    ['DET', 'NOUN']
    """

    def __init__(
        self,
        surrogate: str = "max-margin",
        *,
        loss: Any = "hamming",
        normalize_loss: bool = True,
        boundary_weights: bool = True,
        constraints: Any = None,
        alpha: float | str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        solver: str = "auto",
        order: str = "permutation",
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
        self.loss = loss
        self.normalize_loss = normalize_loss
        self.boundary_weights = boundary_weights
        self.constraints = constraints
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

    # --- training ---------------------------------------------------------------------------

    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None, allowed: Any = None
    ) -> SequenceLabeler:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : list of n sequences
            Each a (T, d) array, a CSR matrix, or a list of T feature dicts.
        y : list of n sequences of T hashable labels
        sample_weight : array of shape (n,), optional
            Weights of the sequences; 2 is the same as having a sequence twice.
        allowed : list of n entries, optional
            Which labels are possible where: None, a (T, n_classes) bool array, or a list of T
            collections of labels.

        Returns
        -------
        self
        """
        settings = self._check_settings()
        if self.surrogate != "max-margin":
            raise incompatible(self.surrogate, "sequences", "Use surrogate='max-margin'.")
        sequences = take_list(X)
        labels, lengths = flatten_labels(y, sequences)
        weights = check_sample_weight(sample_weight, len(sequences), "sequence")
        self.vectorizer_ = None
        if holds_dicts(sequences):
            self.vectorizer_ = new_vectorizer().fit(flat_positions(sequences)[0])
        packed = pack(sequences, self.vectorizer_)
        check_lengths(lengths, packed.indptr)
        codes = LabelCodes.from_labels(labels, self.classes)
        truth = encode_positions(codes, labels, packed.indptr)
        masks = transition_masks(self.constraints, codes.classes)
        allowed = allowed_positions(allowed, lengths, codes.classes)
        self._refuse_violations(truth, packed.indptr, masks, allowed, codes.classes)
        self.n_features_in_ = packed.X.shape[1]
        self.classes_ = codes.classes
        counts = np.bincount(
            truth, weights=np.repeat(weights, lengths), minlength=len(codes.classes)
        )
        loss = self._make_loss(class_costs(self.class_weight, codes.classes, counts))
        used = np.flatnonzero(weights > 0)
        train, held_out = self._split(len(used), settings.rng)
        part, truth_part, allowed_part = take_part(packed, truth, allowed, used[train])
        rows = pack_rows(part.X, fit_intercept=self.fit_intercept)
        part_weights = weights[used[train]]
        mean_length = np.average(np.diff(part.indptr), weights=part_weights)
        problem = Problem(
            self._chain(part.indptr, masks, allowed_part, rows, loss, truth_part),
            SURROGATES[self.surrogate](),
            rows,
            self._alpha_for(part_weights.sum(), mean_length if self.normalize_loss else 1.0),
            part_weights,
            settings.n_threads,
        )
        validate = None
        if len(held_out):
            part, truth_part, allowed_part = take_part(packed, truth, allowed, used[held_out])
            held_rows = pack_rows(part.X, fit_intercept=self.fit_intercept)
            held_chain = self._chain(part.indptr, masks, allowed_part, held_rows)

            def validate(weights_now: np.ndarray) -> float:
                found = decode_all(held_chain, held_rows, weights_now, settings.n_threads)
                return float(np.mean(found == truth_part))

        result = self._solve(problem, settings, validate)
        self._set_weights(result.weights)
        self.allowed_transitions_, self.allowed_first_, self.allowed_last_ = masks
        return self

    def _solver_name(self) -> str:
        return "pairwise" if self.solver == "auto" else self.solver

    def _make_loss(self, costs: np.ndarray) -> LabelLoss:
        if isinstance(self.loss, str):
            if self.loss != "hamming":
                raise ValueError(f"loss must be 'hamming' or a matrix; received {self.loss!r}.")
            return ZeroOneLoss(costs, bool((costs == costs[0]).all()))
        matrix = check_loss_matrix(self.loss, len(costs))
        return MatrixLoss(np.ascontiguousarray(matrix * costs))

    def _refuse_violations(self, truth, indptr, masks, allowed, classes) -> None:
        """Labels that the constraints forbid, and sequences without any allowed labelling."""
        found = first_violation(truth, indptr, masks, allowed)
        if found is not None:
            i, t, what = found
            label = classes[truth[indptr[i] + t]]
            after = f" {classes[truth[indptr[i] + t - 1]]!r}" if what == "may not follow" else ""
            raise ValueError(
                f"y[{i}][{t}] is {label!r}, which {what}{after} by the constraints; correct the "
                "labels or allow it."
            )

    def _chain(self, indptr, masks, allowed, rows, loss=None, truth=None) -> Chain:
        """Pack a structure, for training with a loss and a truth, for prediction without."""
        K = len(self.classes_)
        lengths = np.diff(indptr)
        products, products_indptr = np.empty(0), np.zeros(len(indptr), np.int64)
        if truth is None:
            truth = np.empty(0, np.int32)
        else:
            products, products_indptr = pack_products(rows, indptr)
        no_loss = ZeroOneLoss(np.ones(K), True)
        penalties = [np.where(mask, 0.0, -np.inf) for mask in masks]
        return Chain(
            truth=truth,
            indptr=indptr,
            longest=int(lengths.max()),
            n_labels=K,
            loss=no_loss if loss is None else loss,
            loss_scale=1.0 / lengths if self.normalize_loss else np.ones(len(lengths)),
            ends=bool(self.boundary_weights),
            masked=bool(masks.forbids_anything or len(allowed)),
            transition_mask=penalties[0],
            first_mask=penalties[1],
            last_mask=penalties[2],
            allowed=allowed,
            products=products,
            products_indptr=products_indptr,
        )

    def _set_weights(self, weights: np.ndarray) -> None:
        K, d = len(self.classes_), self.n_features_in_
        matrix = weights.reshape(-1, K)
        self.coef_ = np.ascontiguousarray(matrix[:d].T)
        end = d + int(bool(self.fit_intercept))
        self.intercept_ = matrix[d].copy() if end > d else np.zeros(K)
        self.transitions_ = matrix[end : end + K].copy()
        self.first_, self.last_ = np.zeros(K), np.zeros(K)
        if self.boundary_weights:
            self.first_, self.last_ = matrix[end + K].copy(), matrix[end + K + 1].copy()
        self.weights_ = weights

    # --- prediction -------------------------------------------------------------------------

    def _prepare(self, X: Any, allowed: Any, partial_y: Any = None):
        """Pack sequences for prediction, and refuse those that no labelling fits."""
        check_is_fitted(self, "weights_")
        packed = pack(X, self.vectorizer_)
        if packed.X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {packed.X.shape[1]} features, but {type(self).__name__} was fitted with "
                f"{self.n_features_in_}."
            )
        lengths = np.diff(packed.indptr)
        mask = allowed_positions(allowed, lengths, self.classes_)
        if partial_y is not None:
            mask = self._clamp(partial_y, packed.indptr, mask)
        masks = TransitionMasks(self.allowed_transitions_, self.allowed_first_, self.allowed_last_)
        rows = pack_rows(packed.X, fit_intercept=self.fit_intercept, compress=False)
        chain = self._chain(packed.indptr, masks, mask, rows)
        if chain.masked:
            bad = first_infeasible(packed.indptr, *masks, mask)
            if bad >= 0:
                raise ValueError(
                    f"X[{bad}]: no labelling of its {lengths[bad]} positions satisfies the "
                    "constraints and what is allowed; relax them for this sequence."
                )
        return chain, rows

    def _clamp(self, partial_y: Any, indptr: np.ndarray, mask: np.ndarray) -> np.ndarray:
        known = allowed_positions(
            [
                None if labels is None else [None if k is None else [k] for k in labels]
                for labels in partial_y
            ],
            np.diff(indptr),
            self.classes_,
        )
        return known & mask if len(mask) else known

    def predict(
        self, X: Sequence[Any], *, allowed: Any = None, partial_y: Any = None
    ) -> list[np.ndarray]:
        """The best labels of each sequence.

        Parameters
        ----------
        X : list of sequences
        allowed : list, optional
            Which labels are possible where, as in :meth:`fit`.
        partial_y : list, optional
            Labels already known, None where they are not: ``[[None, "B-NP", None], None]``.
        """
        chain, rows = self._prepare(X, allowed, partial_y)
        codes = decode_all(chain, rows, self.weights_, check_n_jobs(self.n_jobs))
        labels = self.classes_[codes]
        return [labels[a:b] for a, b in zip(chain.indptr, chain.indptr[1:], strict=False)]

    def decision_function(self, X: Sequence[Any], *, allowed: Any = None) -> list[np.ndarray]:
        """Max-marginals: the score of the best labelling with label k at position t.

        Returns
        -------
        list of arrays of shape (T, n_classes)
            The largest entry of each row belongs to the predicted label (up to ties); forbidden
            labels score minus infinity.
        """
        chain, rows = self._prepare(X, allowed)
        out = np.empty((int(chain.indptr[-1]), len(self.classes_)))
        for_groups(
            lambda first, last: max_marginals(chain, rows, self.weights_, first, last, out),
            len(chain.indptr) - 1,
            check_n_jobs(self.n_jobs),
        )
        return [out[a:b] for a, b in zip(chain.indptr, chain.indptr[1:], strict=False)]

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Fraction of positions labelled right; sequences count by ``sample_weight``.

        Labels that the model does not know count as errors, with a warning.
        """
        chain, rows = self._prepare(X, None)
        labels, lengths = flatten_labels(y, take_list(X))
        check_lengths(lengths, chain.indptr)
        weights = check_sample_weight(sample_weight, len(lengths), "sequence")
        codes = LabelCodes(self.classes_).codes_or_minus_one(labels)
        if (codes < 0).any():
            warn_unseen([labels[t] for t in np.flatnonzero(codes < 0)])
        found = decode_all(chain, rows, self.weights_, check_n_jobs(self.n_jobs))
        return float(np.average(found == codes, weights=np.repeat(weights, lengths)))


def decode_all(chain: Chain, rows, weights: np.ndarray, n_threads: int) -> np.ndarray:
    """Codes of the best labels of all positions."""
    codes = np.empty(int(chain.indptr[-1]), np.int32)
    values = np.empty(len(chain.indptr) - 1)
    for_groups(
        lambda first, last: decode_blocks(chain, rows, weights, first, last, codes, values),
        len(values),
        n_threads,
    )
    return codes


def flatten_labels(y: Any, sequences: list) -> tuple[Any, np.ndarray]:
    """Labels of all positions, and the number of labels of each sequence."""
    if y is None:
        raise ValueError("y is None; expected a list with the labels of each sequence.")
    y = list(y)
    if len(y) != len(sequences):
        raise ValueError(
            f"X has {len(sequences)} sequences but y has {len(y)}; expected one sequence of "
            "labels for each."
        )
    for i, labels in enumerate(y):
        if not hasattr(labels, "__len__"):
            raise ValueError(
                f"y[{i}] must be a sequence of labels, one for each position of X[{i}]; "
                f"received {labels!r}."
            )
    lengths = np.array([len(labels) for labels in y], dtype=np.int64)
    if all(isinstance(labels, np.ndarray) and labels.ndim == 1 for labels in y):
        return np.concatenate(y), lengths
    return as_label_array([label for labels in y for label in labels]), lengths


def check_lengths(lengths: np.ndarray, indptr: np.ndarray) -> None:
    """Every sequence must have as many labels as positions."""
    wrong = np.flatnonzero(lengths != np.diff(indptr))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"X[{i}] has {indptr[i + 1] - indptr[i]} positions but y[{i}] has {lengths[i]} "
            "labels; expected one label for each position."
        )


def encode_positions(codes: LabelCodes, labels: Any, indptr: np.ndarray) -> np.ndarray:
    """Codes of all labels; an unknown one is named by sequence and position."""
    found = codes.codes_or_minus_one(labels)
    if (found < 0).any():
        place = int(np.flatnonzero(found < 0)[0])
        i = int(np.searchsorted(indptr, place, side="right") - 1)
        raise ValueError(
            f"y[{i}][{place - indptr[i]}] is {labels[place]!r}, which is not among the declared "
            "classes; add it to classes= or correct it."
        )
    return found


def take_part(packed: PackedSequences, truth, allowed, indices: np.ndarray):
    """Sequences ``indices`` of packed data, with their truth and masks."""
    n = len(packed.indptr) - 1
    if len(indices) == n:
        return packed, truth, allowed
    lengths = np.diff(packed.indptr)[indices]
    positions = np.concatenate([np.arange(packed.indptr[i], packed.indptr[i + 1]) for i in indices])
    part = PackedSequences(packed.X[positions], np.concatenate([[0], np.cumsum(lengths)]))
    return part, truth[positions], allowed[positions] if len(allowed) else allowed

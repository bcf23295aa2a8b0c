"""Sequence labelling with linear chains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .._labels import margin_costs
from .._validation import check_loss_matrix, check_n_jobs, is_text
from ..features.column_names import keep_names, names_known, warn_names
from ..features.rows import features_of, pack_rows, scores_of
from ..features.scores import ScoreRows
from ..features.sequences import Sequences, open_sequences
from ..features.states import seen_states
from ..solvers.groups import for_groups
from ..solvers.problem import Problem
from ..strengths import SHARE_OF_SEQUENCES
from ..structures.chain import Chain, best_paths, max_marginals, pack_products
from ..structures.chain_best import first_infeasible
from ..structures.losses import LabelLoss, MatrixLoss, ZeroOneLoss
from ..structures.masks import (
    TransitionMasks,
    allowed_positions,
    known_positions,
    transition_masks,
)
from ..surrogates.cost import SMOOTH
from ..tasks import task_of
from ._base import StructuredEstimator, with_parameters
from ._chain_probability import ChainProbabilities
from ._docs import BALANCED_MARGINS, documented
from ._hidden_sequences import HiddenSequences
from ._kernel import KernelModel
from ._sequence_data import (
    LabelledSequences,
    cut,
    decode_all,
    for_chunks,
    take_labelled,
)
from .values import HammingLoss, StateFeatures

# Factor of alpha "auto" if features have weights for the labels seen with them only: chosen on
# held-out data, see docs/results/text.md.
_SEEN_ALPHA = 0.5


@documented(
    auto='"flow" for max-min and "accelerated" otherwise',
    solvers='"auto", "accelerated", "bcfw", "pairwise", "flow", "subgradient", "lbfgs"',
    solver_note="""
        "flow" moves mass between the labels of single positions, and between whole sequences, with
        acceleration; it needs no max-min oracle, which sequences do not have in closed form.""",
    class_weight_note="Factor of the loss at a position by its true label (not for a CRF);",
    balanced_note=BALANCED_MARGINS,
    alpha_note="""``2 s / (5 * total weight)``, where s is the mean over sequences of the squared
        norms of their positions, averaged (summed if the loss is a mean); for a CRF averaged and
        ``s / (20 * total weight)``. The constant of an intercept is part of the norm, and squared
        norms above 20 count as 20. Half of it with ``state_features="seen"``.""",
    hidden_note="""; a CRF minimises the negative log likelihood of the known labels,
        ``log sum_z exp(score(x, z)) - log sum_h exp(score(x, y, h))``, by gradients, one start""",
    rows="positions",
    where="positions of all sequences, one below the other,",
    precomputed=""", and with
        "precomputed" X[i] holds them for its positions and those of all training sequences, one
        after another: shape (T, n_training)""",
)
@with_parameters
class SequenceLabeler(ChainProbabilities, KernelModel, HiddenSequences):
    """Labels sequences with a linear chain: a label for every position.

    The score of labels ``y`` for a sequence ``x`` of length T is::

        sum_t (W x_t + b)[y_t]  +  sum_t U[y_t, y_(t+1)]  +  first[y_1] + last[y_T]

    and training minimises, with w all weights together and L the sum of the label losses::

        alpha/2 |w|^2 + 1/n sum_i S(x_i, y_i)

        max-margin:  S(x, y) = max_z [ L(z, y) + score(x, z) ] - score(x, y)
        max-min:     S(x, y) = max_mu [ min_nu E L(nu, mu) + score(x, mu) ] - score(x, y)
        crf:         S(x, y) = log sum_z exp(score(x, z)) - score(x, y) = -log p(y | x)
        smooth-max-min: that of max-min with ``+ s H(mu)``, H the entropy, in the brackets

    over all labellings z that the constraints allow, and distributions mu over them. The CRF has
    probabilities (:meth:`predict_marginals`, :meth:`log_likelihood`) and no loss: ``loss`` makes no
    difference to it. Its dual, which solver "bcfw" keeps, takes ``8 sum_i (T_i K + K^2 + 1)`` bytes
    for K labels; "lbfgs" keeps none, and "auto" chooses it above a gigabyte.

    Parameters
    ----------
    surrogate : {"max-margin", "max-min", "crf", "smooth-max-min"}, default="max-margin"
        Max-min is the consistent correction of max-margin; its nu predicts any label that is
        allowed at a position (whether it may follow its neighbours is not asked: the loss is a sum
        over positions). Smooth max-min, for ``loss="hamming"``, has probabilities too; s = 0.1, or
        :class:`SmoothMaxMin`.
    loss : "hamming", array of shape (n_classes, n_classes), or HammingLoss, default="hamming"
        What a mistake at one position costs; ``loss[j, z]`` for label j when z is true, in the
        order of ``classes_``. The loss of a sequence is the sum over its positions; that of
        ``HammingLoss(normalize=True)`` is the mean.
    boundary_weights : bool, default=True
        Whether the first and the last label of a sequence have weights of their own.
    constraints : None, "bio", "bioes", (n_classes, n_classes) bool array, or dict, default=None
        Which labels may follow which, in training and in prediction. A matrix is True where the
        label of the column may follow that of the row; a dict lists what is forbidden:
        ``{"transitions": [(from, to), ...], "first": [...], "last": [...]}``.
    state_features : {"all", "seen"} or StateFeatures, default="all"
        Whether a feature has a weight for each label, or only for those that it was seen with in
        training, as by default in CRFsuite; :class:`StateFeatures` also leaves out rare features.
    %(hidden)s
    %(kernel)s
    %(parameters)s

    Attributes
    ----------
    classes_ : array of the labels
    coef_ : array or CSR array of shape (n_classes, n_features)
        With ``kernel="linear"`` only; sparse with ``state_features="seen"``.
    intercept_ : array of shape (n_classes,)
    %(kernel_attributes)s
    transitions_ : array of shape (n_classes, n_classes)
        Weight of the label of the column after that of the row.
    first_, last_ : arrays of shape (n_classes,)
        Weights of the first and the last label.
    vectorizer_ : DictVectorizer or None
        Names of the features, if sequences are lists of feature dicts.
    feature_names_in_ : array of str
        Names of the columns, if sequences are data frames with strings for names.
    temperature_ : float
        After :meth:`calibrate` only: probabilities are in proportion to
        ``exp(score / temperature_)``.
    %(attributes)s
    %(hidden_attributes)s

    Examples
    --------
    >>> from maxmargin import SequenceLabeler
    >>> X = [[{"word": "the"}, {"word": "cat"}], [{"word": "a"}, {"word": "dog"}, {"word": "ran"}]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN", "VERB"]]
    >>> model = SequenceLabeler(random_state=0).fit(X, y)
    >>> model.predict([[{"word": "the"}, {"word": "dog"}]])[0].tolist()
    ['DET', 'NOUN']
    """

    loss: Any = "hamming"
    boundary_weights: bool = True
    constraints: Any = None
    class_weight: Any = None
    classes: Any = None
    state_features: Any = "all"

    _switches = (*StructuredEstimator._switches, "boundary_weights")
    _traits = Chain.traits()
    _surrogates = ("max-margin", "max-min", "crf", SMOOTH)
    _share = SHARE_OF_SEQUENCES

    # --- training ---------------------------------------------------------------------------

    def _needs_all_data(self) -> list[str]:
        wanted, found = StateFeatures.of(self.state_features), []
        if wanted.min_count != 1:
            found.append(f"min_count={wanted.min_count!r} counts all positions: use 1")
        if wanted.labels == "seen":
            found.append("state_features='seen' looks at all positions: use 'all'")
        return found

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        sample_weight: Any = None,
        *,
        position_weight: Any = None,
        allowed: Any = None,
    ) -> SequenceLabeler:
        """Train on sequences and their labels.

        Parameters
        ----------
        X : list or iterator of n sequences
            Each a (T, d) array or data frame, a CSR matrix, or a list of T feature dicts. All data
            frames must have the same columns in the same order. Feature dicts of an iterator are
            packed as they come, so that never all of them are in memory.
        y : list of n sequences of T hashable labels
            None (or -1 beside non-negative integers) where not known: see ``hidden``. None in place
            of the labels of a sequence hides all of them.
        sample_weight : array of shape (n,), optional
            Weights of the sequences; 2 is the same as having a sequence twice.
        position_weight : list of n arrays of shape (T,), optional
            Factors of the loss at each position; 0 where a mistake does not matter.
        allowed : list of n entries, optional
            Which labels are possible where: None, a (T, n_classes) bool array, or a list of T
            collections of labels.
        """
        settings = self._check_settings()
        self.__dict__.pop("temperature_", None)
        hamming = HammingLoss.of(self.loss)
        hamming.validate()
        wanted = self._check_state_features()
        self._refuse_losses(hamming, position_weight)
        data, classes, self.vectorizer_ = take_labelled(
            X, y, self.classes, sample_weight, self.hidden, wanted.min_count
        )
        only_seen = wanted.labels == "seen"
        if only_seen and not sp.issparse(data.X):
            raise ValueError(
                "state_features='seen' is for feature dicts, lists of names and CSR matrices, but "
                "X[0] is an array, in which every feature is seen with every label; pass CSR "
                "matrices, or use 'all'."
            )
        masks = transition_masks(self.constraints, classes)
        data.restrict(allowed, masks, classes)
        data.weigh(position_weight, hamming.normalize)
        self.n_features_in_ = data.X.shape[1]
        keep_names(self, data.names)
        self.classes_ = classes
        costs = margin_costs(self.class_weight, classes, data.counts(len(classes)))
        loss = _label_loss(hamming.costs, costs)
        train, held_out = self._split(np.flatnonzero(data.weights > 0), settings.rng)
        part, positions = data.take(train), data.positions(train)
        rows = self._training_rows(data.X, positions)
        self._states = None
        if only_seen:
            self._states = seen_states(part.X, part.truth, ~part.hidden, len(classes))
            rows = self._states.restrict(rows)  # type: ignore[arg-type]
        lengths = np.diff(part.indptr) if hamming.normalize else 1.0
        # Steps in blocks need products of rows; those of a CRF are computed if blocks climb.
        in_steps = None if self._surrogate.cost.smooth else rows
        problem = Problem(
            self._chain(part.indptr, masks, part.allowed, in_steps, loss, part),
            self._surrogate,
            rows,
            self._alpha_for(
                part.weights, rows.squares, lengths, part.indptr, _SEEN_ALPHA if only_seen else 1.0
            ),
            part.weights,
            settings.n_threads,
        )

        def keep(weights: np.ndarray) -> None:
            self._set_weights(weights, data.X, positions)

        def hidden(validate: Any) -> Any:
            return self._solve_hidden(problem, part, settings, validate)

        score = None
        if len(held_out):
            score = self._validation(data.take(held_out), masks, settings.n_threads)
        self._solve_and_keep(problem, settings, keep, score, hidden if part.hidden.any() else None)
        self.allowed_transitions_, self.allowed_first_, self.allowed_last_ = masks
        return self

    def _check_state_features(self) -> StateFeatures:
        wanted = StateFeatures.of(self.state_features)
        wanted.validate()
        if wanted.labels == "seen" and self._in_kernel_space:
            raise ValueError(
                "state_features='seen' needs kernel='linear', whose weights belong to features; "
                "use 'all' with a kernel."
            )
        return wanted

    def _validation(self, data: LabelledSequences, masks: TransitionMasks, n_threads: int):
        """Fraction of right labels on held-out sequences, by the weights of the moment."""
        chain = self._chain(data.indptr, masks, data.allowed)
        linear = self.kernel_ is None
        rows = (
            pack_rows(data.X, fit_intercept=self.fit_intercept, squares=False) if linear else None
        )
        if self._states is not None:
            rows = self._states.restrict(rows)  # type: ignore[arg-type]

        def right() -> float:
            known = ScoreRows(self._scores(data.X)) if rows is None else rows
            found = decode_all(chain, known, self.weights_, n_threads)
            return float(np.mean((found == data.truth)[~data.hidden]))

        return right

    def _chain(self, indptr, masks, allowed, rows=None, loss=None, labelled=None) -> Chain:
        """Pack a structure, for training with a loss and labels, for prediction without; products
        of rows are for solvers that take steps in a block."""
        K = len(self.classes_)
        products, products_indptr = np.empty(0), np.zeros(len(indptr), np.int64)
        if rows is not None:
            in_groups = partial(for_groups, n_threads=check_n_jobs(self.n_jobs))
            products, products_indptr = pack_products(rows, indptr, in_groups)
        no_loss = ZeroOneLoss(np.ones(K), True)
        penalties = [np.where(mask, 0.0, -np.inf) for mask in masks]
        return Chain(
            truth=np.empty(0, np.int32) if labelled is None else labelled.truth,
            indptr=indptr,
            longest=int(np.diff(indptr).max()),
            n_labels=K,
            loss=no_loss if loss is None else loss,
            loss_scale=np.empty(0) if labelled is None else labelled.loss_scale,
            ends=bool(self.boundary_weights),
            masked=bool(masks.forbids_anything or len(allowed)),
            transition_mask=penalties[0],
            first_mask=penalties[1],
            last_mask=penalties[2],
            allowed=allowed,
            products=products,
            products_indptr=products_indptr,
        )

    # --- prediction -------------------------------------------------------------------------

    def _prepare(self, X: Any, allowed: Any, partial_y: Any = None) -> tuple[Chain, Sequences]:
        """Sequences for prediction and their structure; refuse those that no labelling fits."""
        check_is_fitted(self, "weights_")
        sparse = self._known_states() is not None
        opened = open_sequences(X, self.vectorizer_, sparse, names_known(self))
        warn_names(self, opened.names)
        self._check_kernel_width(opened.n_features)
        self._check_width(opened.n_features)
        lengths = np.diff(opened.indptr)
        mask = allowed_positions(allowed, lengths, self.classes_)
        if partial_y is not None:
            known = known_positions(partial_y, lengths, self.classes_)
            mask = known & mask if len(mask) else known
        masks = TransitionMasks(self.allowed_transitions_, self.allowed_first_, self.allowed_last_)
        chain = self._chain(opened.indptr, masks, mask)
        if chain.masked:
            bad = first_infeasible(opened.indptr, *masks, mask)
            if bad >= 0:
                raise ValueError(
                    f"X[{bad}]: no labelling of its {lengths[bad]} positions satisfies the "
                    "constraints and what is allowed; relax them for this sequence."
                )
        return chain, opened

    def _for_chunks(
        self, work: Any, chain: Chain, sequences: Sequences, sharpness: float = 1.0
    ) -> None:
        """Call ``work`` for a few sequences at a time, with the scores of their labels for rows, so
        that what works with them is compiled once for all kinds of features."""
        n_threads, bias, n_labels = check_n_jobs(self.n_jobs), 0.0, len(self.classes_)
        states = self._known_states()
        if self.kernel_ is None:
            bias = 1.0 if self.fit_intercept else 0.0
        elif self.kernel_.name == "callable":  # which may not be made for threads
            n_threads = 1

        def with_scores(chain, rows, first, last):
            if self.kernel_ is None:
                rows = rows if states is None else states.restrict(rows)
                scores = np.empty((last - first, n_labels))
                scores_of(rows, self.weights_, scores)
                given = ScoreRows(scores, n_inputs=rows.n_inputs)
            else:
                given = ScoreRows(self._scores(features_of(rows)))
            if sharpness != 1.0:
                given.values[:] *= sharpness
            work(chain, given, first, last)

        for_chunks(with_scores, chain, sequences, bias, n_threads)

    def _decode(self, chain: Chain, sequences: Sequences) -> np.ndarray:
        """Codes of the best labels of all positions."""
        codes = np.empty(int(chain.indptr[-1]), np.int32)

        def work(chain, rows, first, last):
            best_paths(chain, rows, self.weights_, 0, len(chain.indptr) - 1, codes[first:last])

        self._for_chunks(work, chain, sequences)
        return codes

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
        chain, sequences = self._prepare(X, allowed, partial_y)
        return cut(self.classes_[self._decode(chain, sequences)], chain.indptr)

    def decision_function(self, X: Sequence[Any], *, allowed: Any = None) -> list[np.ndarray]:
        """Max-marginals: the score of the best labelling with label k at position t.

        Returns
        -------
        list of arrays of shape (T, n_classes)
            The largest entry of each row belongs to the predicted label (up to ties); forbidden
            labels score minus infinity.
        """
        chain, sequences = self._prepare(X, allowed)
        out = np.empty((int(chain.indptr[-1]), len(self.classes_)))

        def work(chain, rows, first, last):
            n = len(chain.indptr) - 1
            max_marginals(chain, rows, self.weights_, 0, n, out[first:last])

        self._for_chunks(work, chain, sequences)
        return cut(out, chain.indptr)

    def score(self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None) -> float:
        """Fraction of positions labelled right; sequences count by ``sample_weight``.

        Labels that the model does not know count as errors, with a warning; unless
        ``hidden=False``, hidden ones are not counted.
        """
        return task_of(self).score(X, y, sample_weight)


def _label_loss(matrix: Any, costs: np.ndarray) -> LabelLoss:
    """The loss at a position: "hamming" or a matrix, times the costs of the true labels."""
    if is_text(matrix):
        return ZeroOneLoss(costs, bool((costs == costs[0]).all()))
    return MatrixLoss(np.ascontiguousarray(check_loss_matrix(matrix, len(costs)) * costs))

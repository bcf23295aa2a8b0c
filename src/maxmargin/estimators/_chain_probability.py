"""The probabilities of sequences: training with likelihoods, probabilities, best labellings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr
from sklearn.utils import check_random_state

from .._labels import LabelCodes
from .._validation import check_choice, check_integer, is_text
from ..features.scores import ScoreRows
from ..features.sequences import take_list
from ..structures.chain_best import best_labellings
from ..structures.chain_smooth import tilted_scores
from ..structures.chain_sums import label_marginals, score_labellings
from ..surrogates.cost import SMOOTH
from ..tasks.measures import SPAN_MARKS
from ..tasks.parts import check_lengths, flatten_labels
from ._chain_weights import ChainWeights
from ._sequence_data import cut, encode_positions, with_known_labels
from ._spans import ChainSums, SpanLabels, SpanProbability, span_probabilities
from .values import HammingLoss

# Where the logarithm of 1 / temperature is searched, and how closely.
_LOG_SHARPNESS, _TEMPERATURE_TOL = (-7.0, 7.0), 1e-4


class ChainProbabilities(ChainWeights):
    """What a CRF needs in training, and methods that follow from the scores of labellings."""

    classes_: np.ndarray
    class_weight: Any
    surrogate: str
    loss: Any
    temperature_: float
    _is_smooth_max_min: bool
    _surrogate: Any
    _for_chunks: Any

    def _refuse_losses(self, hamming: HammingLoss, position_weight: Any) -> None:
        """A likelihood is one number for the whole sequence: positions have no loss. Smooth max-min
        has a formula for a position if all wrong labels there cost the same."""
        if self._is_smooth_max_min and not (
            is_text(hamming.costs) and self.class_weight is None and not hamming.normalize
        ):
            raise ValueError(
                f"surrogate={SMOOTH!r} of sequences needs loss='hamming' and class_weight=None; "
                f"received loss={self.loss!r}, class_weight={self.class_weight!r}. Use "
                "surrogate='max-min' with other losses, or position_weight."
            )
        if not self._surrogate.cost.likelihood:
            return
        given = {"class_weight": self.class_weight, "position_weight": position_weight}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} is a factor of the loss at a position, which surrogate='crf' does not "
                    f"have; use sample_weight to weigh sequences, or surrogate='max-margin'. "
                    f"Received {name}={value!r}."
                )

    @property
    def _sharpness(self) -> float:
        """Factor of the scores in probabilities: 1, or what :meth:`calibrate` has found."""
        return 1.0 / vars(self).get("temperature_", 1.0)

    def _sharp_weights(self, sharpness: float) -> np.ndarray:
        """Weights in the exponents of probabilities; with smooth max-min those of transitions and
        ends only, as its scores of labels are given."""
        if self._is_smooth_max_min:
            K = len(self.classes_)
            tail = (K + 2 * bool(self.boundary_weights)) * K
            return sharpness / self._surrogate.strength * self.weights_[-tail:]
        return self.weights_ if sharpness == 1.0 else sharpness * self.weights_

    def _for_exponents(self, work: Any, chain: Any, sequences: Any, sharpness: float) -> None:
        """Call ``work`` for chunks of sequences, with the scores in the exponents of probabilities.

        Smooth max-min adds the expected losses of the best predictions to all scores.
        """
        if not self._is_smooth_max_min:
            self._for_chunks(work, chain, sequences, sharpness)
            return

        def with_losses(part, rows, first, last):
            playing = part._replace(loss_scale=np.ones(last - first))
            scores = np.empty((last - first, len(self.classes_)))
            strength, n = self._surrogate.strength, len(part.indptr) - 1
            tilted_scores(playing, rows, self.weights_[None], strength, 0, n, scores)
            work(part, ScoreRows(sharpness * scores), first, last)

        self._for_chunks(with_losses, chain, sequences)

    def _marginals(
        self, chain: Any, sequences: Any, sharpness: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of all positions, and the log partition function of each sequence."""
        weights = self._sharp_weights(sharpness)
        marginals = np.empty((int(chain.indptr[-1]), len(self.classes_)))
        log_sums = np.empty(len(chain.indptr) - 1)

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            label_marginals(
                part, rows, weights, 0, n, marginals[first:last], log_sums[begin : begin + n]
            )

        self._for_exponents(work, chain, sequences, sharpness)
        return marginals, log_sums

    def predict_marginals(
        self, X: Sequence[Any], *, allowed: Any = None, partial_y: Any = None
    ) -> list[np.ndarray]:
        """Marginal probabilities of the labels at all positions.

        A labelling counts in proportion to ``exp(score)``; forbidden ones do not count, and labels
        that no allowed labelling has get exactly 0. With ``surrogate="crf"`` these are the
        probabilities of the model, and so they are with "smooth-max-min", where the exponents are
        ``(score + expected loss of the best predictions) / strength``. Margin surrogates do not
        estimate probabilities: there they are scores between 0 and 1, and not calibrated before
        :meth:`calibrate`.

        Parameters
        ----------
        X : list of sequences
        allowed, partial_y : list, optional
            As in :meth:`predict`: the distribution is conditioned on them.

        Returns
        -------
        list of arrays of shape (T, n_classes)
            Rows sum to 1.
        """
        chain, sequences = self._prepare(X, allowed, partial_y)  # type: ignore[attr-defined]
        return cut(self._marginals(chain, sequences, self._sharpness)[0], chain.indptr)

    def log_likelihood(
        self, X: Sequence[Any], y: Sequence[Any], *, allowed: Any = None
    ) -> np.ndarray:
        """Log probability of given labellings: ``score(x, y) - log sum_z exp(score(x, z))``.

        Minus infinity for one that the constraints forbid. Like the marginals, these are
        log likelihoods with ``surrogate="crf"`` and uncalibrated scores otherwise.

        Parameters
        ----------
        X : list of n sequences
        y : list of n sequences of labels from ``classes_``
        allowed : list, optional
            As in :meth:`predict`.

        Returns
        -------
        array of shape (n,)
        """
        chain, sequences, codes = self._labelled(X, y, allowed)
        return self._log_likelihoods(chain, sequences, codes, self._sharpness)

    def _labelled(self, X: Any, y: Any, allowed: Any) -> tuple[Any, Any, np.ndarray]:
        """Sequences for prediction, and the codes of given labels."""
        listed = take_list(X)
        labels, lengths = flatten_labels(y, listed)
        chain, sequences = self._prepare(listed, allowed)  # type: ignore[attr-defined]
        check_lengths(lengths, chain.indptr)
        places = np.arange(len(labels))
        codes = encode_positions(LabelCodes(self.classes_), labels, places, chain.indptr)
        return chain, sequences, codes

    def _log_likelihoods(
        self, chain: Any, sequences: Any, codes: np.ndarray, sharpness: float
    ) -> np.ndarray:
        scores = np.empty(len(chain.indptr) - 1)
        weights = self._sharp_weights(sharpness)

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            score_labellings(
                part, rows, weights, 0, n, codes[first:last], scores[begin : begin + n]
            )

        self._for_exponents(work, chain, sequences, sharpness)
        return scores - self._marginals(chain, sequences, sharpness)[1]

    def calibrate(self, X: Sequence[Any], y: Sequence[Any]) -> Any:
        """Choose the temperature of all probabilities by held-out data.

        Probabilities are then in proportion to ``exp(score / temperature_)``, with the temperature
        that maximises the log likelihood of ``y``, a convex problem in ``1 / temperature_``.
        Predictions, weights and certificate stay as they are; the next :meth:`fit` forgets it.

        Parameters
        ----------
        X : list of n sequences
            Not those of the training, on which every model is too sure.
        y : list of n sequences of labels
            Sequences with a label that is not in ``classes_`` are left out, with a warning.

        Returns
        -------
        self
        """
        known = with_known_labels(take_list(X), y, LabelCodes(self.classes_))
        chain, sequences, codes = self._labelled(*known, None)

        def loss(log_sharpness: float) -> float:
            found = self._log_likelihoods(chain, sequences, codes, float(np.exp(log_sharpness)))
            return -float(np.mean(found))

        if not np.isfinite(loss(0.0)):
            raise ValueError("y has labels that the constraints forbid; correct or remove them.")
        options = {"xatol": _TEMPERATURE_TOL}
        found = minimize_scalar(loss, bounds=_LOG_SHARPNESS, method="bounded", options=options)
        self.temperature_ = float(np.exp(-found.x))
        return self

    def uncertainty(self, X: Sequence[Any], kind: str = "confidence") -> np.ndarray:
        """How unsure the model is of each sequence: which to label next in active learning.

        Parameters
        ----------
        X : list of n sequences
        kind : {"confidence", "margin", "entropy"}, default="confidence"
            1 minus the probability of the best labelling; 1 minus the difference of the
            probabilities of the best two labellings; or the mean over positions of the entropy of
            their marginals, in nats, which does not favour long sequences.

        Returns
        -------
        array of shape (n,)
            Like the marginals, by probabilities with ``surrogate="crf"`` and by uncalibrated scores
            otherwise, unless :meth:`calibrate` was called.

        References
        ----------
        Settles, Craven. An analysis of active learning strategies for sequence labeling tasks.
        EMNLP 2008.
        """
        check_choice("kind", kind, ("confidence", "margin", "entropy"))
        chain, sequences = self._prepare(X, None)  # type: ignore[attr-defined]
        marginals, log_sums = self._marginals(chain, sequences, self._sharpness)
        if kind == "entropy":
            sums = np.add.reduceat(entr(marginals).sum(axis=1), chain.indptr[:-1])
            return sums / np.diff(chain.indptr)
        k, sharpness = 2 if kind == "margin" else 1, self._sharpness
        best = self._best_labellings(chain, sequences, k, sharpness)[1]
        shares = np.exp(best - log_sums[:, None])
        return 1.0 - (shares[:, 0] - shares[:, 1] if kind == "margin" else shares[:, 0])

    def _sums(self, X: Any, allowed: Any, partial_y: Any) -> tuple[np.ndarray, list[ChainSums]]:
        """Codes of the best labels of all positions, and the log sums of each sequence."""
        chain, sequences = self._prepare(X, allowed, partial_y)  # type: ignore[attr-defined]
        sharpness = self._sharpness
        if self._is_smooth_max_min:
            unary = np.empty((int(chain.indptr[-1]), len(self.classes_)))

            def work(part, rows, first, last):
                unary[first:last] = rows.values

            self._for_exponents(work, chain, sequences, sharpness)
            sharpness /= self._surrogate.strength
        else:
            unary = sharpness * self._scores(sequences.stack())  # type: ignore[attr-defined]
        if len(chain.allowed):
            unary = np.where(chain.allowed, unary, -np.inf)
        unary[chain.indptr[:-1]] += (
            sharpness * self.first_ + chain.first_mask  # type: ignore[attr-defined]
        )
        unary[chain.indptr[1:] - 1] += (
            sharpness * self.last_ + chain.last_mask  # type: ignore[attr-defined]
        )
        transitions = (
            sharpness * self.transitions_ + chain.transition_mask  # type: ignore[attr-defined]
        )
        sums = [ChainSums(part, transitions) for part in cut(unary, chain.indptr)]
        return self._decode(chain, sequences), sums  # type: ignore[attr-defined]

    def predict_spans(
        self, X: Sequence[Any], *, allowed: Any = None, partial_y: Any = None
    ) -> list[list[SpanProbability]]:
        """The spans of the best labelling of each sequence, with their probabilities.

        Labels are "O" or a mark and a type, such as "B-NP"; spans follow the rules of conlleval.
        The probability of a span is that of all labellings that have it: same start, end and type.
        Like the marginals, these are probabilities with ``surrogate="crf"`` and uncalibrated
        scores otherwise.

        Parameters
        ----------
        X : list of sequences
        allowed, partial_y : list, optional
            As in :meth:`predict`.

        Returns
        -------
        list of lists of (start, end, type, probability)
            ``end`` is the position after the last one.
        """
        names = [str(label) for label in self.classes_]
        for name in names:
            if name != "O" and (name[:2] not in SPAN_MARKS or len(name) < 3):
                raise ValueError(
                    f"predict_spans needs labels O, B-TYPE, I-TYPE, E-TYPE or S-TYPE; received "
                    f"{name!r}. Use predict_marginals for probabilities of single labels."
                )
        codes, sums = self._sums(X, allowed, partial_y)
        labels, starts = SpanLabels(names), np.cumsum([0, *(len(each.unary) for each in sums)])
        return [
            span_probabilities(each, labels, [names[code] for code in part])
            for each, part in zip(sums, cut(codes, starts), strict=True)
        ]

    def sample(
        self, X: Sequence[Any], n_samples: int = 1, *, random_state: Any = None,
        allowed: Any = None,
    ) -> list[list[np.ndarray]]:  # fmt: skip
        """Draw labellings in proportion to ``exp(score)``.

        Parameters
        ----------
        X : list of sequences
        n_samples : int, default=1
            Number of labellings of each sequence.
        random_state : int, RandomState or None
        allowed : list, optional
            As in :meth:`predict`.

        Returns
        -------
        list of lists of arrays of labels
        """
        n_samples = check_integer("n_samples", n_samples, 1)
        rng = check_random_state(random_state)
        sums = self._sums(X, allowed, None)[1]
        return [[self.classes_[each.sample(rng)] for _ in range(n_samples)] for each in sums]

    def predict_topk(
        self, X: Sequence[Any], k: int, *, allowed: Any = None, partial_y: Any = None
    ) -> list[list[tuple[np.ndarray, float]]]:
        """The k best labellings of each sequence, best first, exactly.

        Parameters
        ----------
        X : list of sequences
        k : int
            At least 1. Memory and time grow with k.
        allowed, partial_y : list, optional
            As in :meth:`predict`.

        Returns
        -------
        list of lists of (labels, score)
            Fewer than k where fewer labellings are allowed. With ``surrogate="crf"`` scores of
            one sequence differ by the logarithm of how much more probable a labelling is;
            :meth:`log_likelihood` gives the probabilities themselves.
        """
        k = check_integer("k", k, 1)
        chain, sequences = self._prepare(X, allowed, partial_y)  # type: ignore[attr-defined]
        codes, scores, counts = self._best_labellings(chain, sequences, k)
        answers = []
        for i, (low, high) in enumerate(pairwise(chain.indptr)):
            best = range(counts[i])
            labels = [self.classes_[codes[place, low:high]] for place in best]
            answers.append([(labels[place], float(scores[i, place])) for place in best])
        return answers

    def _best_labellings(
        self, chain: Any, sequences: Any, k: int, sharpness: float | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes, scores and number of the k best; scores are minus infinity beyond the number. With
        a sharpness, scores are those in the exponents of probabilities."""
        n, positions = len(chain.indptr) - 1, int(chain.indptr[-1])
        codes = np.empty((k, positions), np.int32)
        scores, counts = np.full((n, k), -np.inf), np.empty(n, np.int64)
        weights = self.weights_ if sharpness is None else self._sharp_weights(sharpness)

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            some = slice(begin, begin + n)
            found = np.empty((k, last - first), np.int32)
            best_labellings(part, rows, weights, 0, n, found, scores[some], counts[some])
            codes[:, first:last] = found

        if sharpness is None:
            self._for_chunks(work, chain, sequences)
        else:
            self._for_exponents(work, chain, sequences, sharpness)
        scores[np.arange(k) >= counts[:, None]] = -np.inf
        return codes, scores, counts

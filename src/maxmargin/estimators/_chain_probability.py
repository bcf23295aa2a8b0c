"""The CRF side of sequences: training with likelihoods, probabilities, best labellings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._labels import LabelCodes
from .._validation import check_integer
from ..features.sequences import take_list
from ..structures.chain_best import best_labellings
from ..structures.chain_sums import label_marginals, score_labellings
from ..tasks.measures import SPAN_MARKS
from ..tasks.parts import check_lengths, flatten_labels
from ._sequence_data import cut, encode_positions
from ._spans import ChainSums, SpanLabels, SpanProbability, span_probabilities


class ChainProbabilities:
    """What a CRF needs in training, and methods that follow from the scores of labellings."""

    classes_: np.ndarray
    weights_: np.ndarray
    class_weight: Any
    surrogate: str

    def _refuse_losses(self, position_weight: Any) -> None:
        """A likelihood is one number for the whole sequence: positions have no loss."""
        given = {"class_weight": self.class_weight, "position_weight": position_weight}
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"{name} is a factor of the loss at a position, which surrogate='crf' does not "
                    f"have; use sample_weight to weigh sequences, or surrogate='max-margin'. "
                    f"Received {name}={value!r}."
                )

    def _marginals(self, chain: Any, sequences: Any) -> tuple[np.ndarray, np.ndarray]:
        """Marginals of all positions, and the log partition function of each sequence."""
        marginals = np.empty((int(chain.indptr[-1]), len(self.classes_)))
        log_sums = np.empty(len(chain.indptr) - 1)

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            label_marginals(
                part, rows, self.weights_, 0, n, marginals[first:last], log_sums[begin : begin + n]
            )

        self._for_chunks(work, chain, sequences)  # type: ignore[attr-defined]
        return marginals, log_sums

    def predict_marginals(
        self, X: Sequence[Any], *, allowed: Any = None, partial_y: Any = None
    ) -> list[np.ndarray]:
        """Marginal probabilities of the labels at all positions.

        A labelling counts in proportion to ``exp(score)``; forbidden ones do not count, and labels
        that no allowed labelling has get exactly 0. With ``surrogate="crf"`` these are the
        probabilities of the model. Margin surrogates do not estimate probabilities: there they
        are scores between 0 and 1, and not calibrated.

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
        return cut(self._marginals(chain, sequences)[0], chain.indptr)

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
        listed = take_list(X)
        labels, lengths = flatten_labels(y, listed)
        chain, sequences = self._prepare(listed, allowed)  # type: ignore[attr-defined]
        check_lengths(lengths, chain.indptr)
        places = np.arange(len(labels))
        codes = encode_positions(LabelCodes(self.classes_), labels, places, chain.indptr)
        scores = np.empty(len(lengths))

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            score_labellings(
                part, rows, self.weights_, 0, n, codes[first:last], scores[begin : begin + n]
            )

        self._for_chunks(work, chain, sequences)  # type: ignore[attr-defined]
        return scores - self._marginals(chain, sequences)[1]

    def _sums(self, X: Any, allowed: Any, partial_y: Any) -> tuple[np.ndarray, list[ChainSums]]:
        """Codes of the best labels of all positions, and the log sums of each sequence."""
        chain, sequences = self._prepare(X, allowed, partial_y)  # type: ignore[attr-defined]
        unary = self._scores(sequences.stack())  # type: ignore[attr-defined]
        if len(chain.allowed):
            unary = np.where(chain.allowed, unary, -np.inf)
        unary[chain.indptr[:-1]] += self.first_ + chain.first_mask  # type: ignore[attr-defined]
        unary[chain.indptr[1:] - 1] += self.last_ + chain.last_mask  # type: ignore[attr-defined]
        transitions = self.transitions_ + chain.transition_mask  # type: ignore[attr-defined]
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
        n, positions = len(chain.indptr) - 1, int(chain.indptr[-1])
        codes = np.empty((k, positions), np.int32)
        scores, counts = np.empty((n, k)), np.empty(n, np.int64)

        def work(part, rows, first, last):
            n = len(part.indptr) - 1
            begin = int(np.searchsorted(chain.indptr, first))
            some = slice(begin, begin + n)
            found = np.empty((k, last - first), np.int32)
            best_labellings(part, rows, self.weights_, 0, n, found, scores[some], counts[some])
            codes[:, first:last] = found

        self._for_chunks(work, chain, sequences)  # type: ignore[attr-defined]
        answers = []
        for i, (low, high) in enumerate(pairwise(chain.indptr)):
            best = range(counts[i])
            labels = [self.classes_[codes[place, low:high]] for place in best]
            answers.append([(labels[place], float(scores[i, place])) for place in best])
        return answers

"""Labelled sequences between the user and the solver: flat, encoded, checked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from .._labels import LabelCodes, place_in_sequences, plain, warn_unseen
from .._validation import check_sample_weight, has_length, is_iterator
from ..features.sequences import Sequences, learn_sequences, take_list
from ..solvers.groups import for_groups, in_threads
from ..structures.chain import Chain, best_paths
from ..structures.chain_best import first_infeasible
from ..structures.masks import TransitionMasks, allowed_positions, first_violation
from ..tasks.parts import check_lengths, flatten_labels, spell_out
from ..tasks.unknown import find_hidden, warn_without_labels

if TYPE_CHECKING:
    from sklearn.feature_extraction import DictVectorizer


@dataclass
class LabelledSequences:
    """Features, codes of the labels, masks and weights of all positions, below each other."""

    X: Any
    indptr: np.ndarray
    truth: np.ndarray
    allowed: np.ndarray
    weights: np.ndarray
    loss_scale: np.ndarray
    hidden: np.ndarray  # bool; the codes there mean nothing
    names: list[str] | None = None  # of the columns of data frames

    def known_labels(self, n_classes: int) -> np.ndarray:
        """Which labels are possible where, if the known ones are kept."""
        known = np.ones((len(self.truth), n_classes), bool)
        known[~self.hidden] = False
        at = np.flatnonzero(~self.hidden)
        known[at, self.truth[at]] = True
        return known & self.allowed if len(self.allowed) else known

    def known_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Runs of neighbouring known labels, each a sequence, and hidden ones each by itself.

        Returns their ``indptr`` and their weights, which are 0 for hidden labels.
        """
        first = self.hidden.copy()
        first[self.indptr[:-1]] = True
        first[1:] |= self.hidden[:-1]
        starts = np.flatnonzero(first)
        weights = np.repeat(self.weights, np.diff(self.indptr))[starts]
        indptr = np.append(starts, len(first)).astype(self.indptr.dtype)
        return indptr, np.where(self.hidden[starts], 0.0, weights)

    def leave_out_hidden(self) -> None:
        """Sequences without a known label cost nothing whatever the weights are."""
        known = np.concatenate([[0], np.cumsum(~self.hidden)])[self.indptr]
        without = np.flatnonzero((np.diff(known) == 0) & (self.weights > 0))
        warn_without_labels(without, "sequence")
        self.weights[without] = 0.0

    def restrict(self, allowed: Any, masks: TransitionMasks, classes: np.ndarray) -> None:
        """Take in what is allowed where, and refuse labels that are not."""
        self.allowed = allowed_positions(allowed, np.diff(self.indptr), classes)
        used = np.flatnonzero(self.weights > 0)
        counted = self.take(used)
        if counted.hidden.any():
            counted._check_completions(used, masks, len(classes))
            return
        found = first_violation(counted.truth, counted.indptr, masks, counted.allowed)
        if found is None:
            return
        i, t, what = found
        i = int(used[i])
        place = self.indptr[i] + t
        before = ""
        if what == "may not follow":
            before = f" {plain(classes[self.truth[place - 1]])!r}"
        raise ValueError(
            f"y[{i}][{t}] is {plain(classes[self.truth[place]])!r}, which {what}{before} by the "
            "constraints; correct the labels or allow it."
        )

    def _check_completions(self, used: np.ndarray, masks: TransitionMasks, n_classes: int) -> None:
        """Every sequence must have labels that keep the known ones and are allowed."""
        bad = first_infeasible(self.indptr, *masks, self.known_labels(n_classes))
        if bad >= 0:
            raise ValueError(
                f"y[{used[bad]}]: no labels of its hidden positions go together with the known "
                "ones, the constraints and what is allowed; correct the labels or relax them."
            )

    def weigh(self, position_weight: Any, normalize: bool) -> None:
        """Take in weights of positions."""
        lengths = np.diff(self.indptr)
        if position_weight is not None:
            self.loss_scale = flatten_position_weights(position_weight, lengths)
        if normalize:
            self.loss_scale /= np.repeat(lengths, lengths)
        self.loss_scale[self.hidden] = 0.0

    def counts(self, n_classes: int) -> np.ndarray:
        """Weighted frequency of each class."""
        weights = np.repeat(self.weights, np.diff(self.indptr)) * ~self.hidden
        return np.bincount(self.truth, weights=weights, minlength=n_classes)

    def positions(self, indices: np.ndarray) -> np.ndarray:
        """Where the positions of some of the sequences are."""
        return np.concatenate([np.arange(self.indptr[i], self.indptr[i + 1]) for i in indices])

    def take(self, indices: np.ndarray) -> LabelledSequences:
        """Some of the sequences."""
        if len(indices) == len(self.indptr) - 1:
            return self
        lengths = np.diff(self.indptr)[indices]
        at = self.positions(indices)
        return LabelledSequences(
            self.X[at],
            np.concatenate([[0], np.cumsum(lengths)]),
            self.truth[at],
            self.allowed[at] if len(self.allowed) else self.allowed,
            self.weights[indices],
            self.loss_scale[at],
            self.hidden[at],
        )


def take_labelled(
    X: Any,
    y: Any,
    declared: Any,
    sample_weight: Any = None,
    hidden: bool | str = False,
    min_count: int = 1,
) -> tuple[LabelledSequences, np.ndarray, DictVectorizer | None]:
    """Pack sequences with their labels; also the classes and, for dicts, the vectorizer.

    The labels of sequences of weight 0 are not looked at, and name no classes. With ``hidden``,
    None and -1 are labels that are not known. Features of dicts that fewer than ``min_count``
    positions have are left out.
    """
    if is_iterator(X):  # their lengths are known when all were read
        opened, vectorizer = learn_sequences(X, min_count)
        sequences = list(map(range, np.diff(opened.indptr)))
        labels, lengths = flatten_labels(spell_out(y, sequences) if hidden else y, sequences)
    else:
        sequences = take_list(X)
        labels, lengths = flatten_labels(spell_out(y, sequences) if hidden else y, sequences)
        opened, vectorizer = learn_sequences(sequences, min_count)
    stacked, indptr = opened.stack(), opened.indptr
    check_lengths(lengths, indptr)
    weights = check_sample_weight(sample_weight, len(lengths), "sequence")
    unknown = find_hidden(labels, declared, hidden)
    counted = np.flatnonzero(np.repeat(weights > 0, lengths) & ~unknown)
    if hidden and not len(counted):
        raise ValueError("all labels of y are hidden; at least one must be known.")
    place = place_in_sequences(indptr)
    codes = LabelCodes.from_labels(labels[counted], declared, lambda at: place(int(counted[at])))
    truth = np.zeros(len(labels), np.int32)
    truth[counted] = encode_positions(codes, labels[counted], counted, indptr)
    K = len(codes.classes)
    data = LabelledSequences(
        stacked, indptr, truth, np.ones((0, K), bool), weights, np.ones(len(truth)), unknown,
        opened.names,
    )  # fmt: skip
    data.leave_out_hidden()
    return data, codes.classes, vectorizer


def flatten_position_weights(
    position_weight: Any, lengths: np.ndarray, unit: str = "sequence", part: str = "position"
) -> np.ndarray:
    """Weights of all positions: finite, not negative, one for each."""
    name = f"{part}_weight"
    if not has_length(position_weight):
        raise ValueError(
            f"{name} must be a list with one array for each {unit}; received "
            f"{type(position_weight).__name__}."
        )
    if len(position_weight) != len(lengths):
        raise ValueError(
            f"{name} has {len(position_weight)} entries but X has {len(lengths)} "
            f"{unit}s; expected one array for each."
        )
    for i, (entry, length) in enumerate(zip(position_weight, lengths, strict=True)):
        try:
            values = np.asarray(entry, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name}[{i}] must hold numbers; received {entry!r}.") from None
        if values.shape != (length,):
            raise ValueError(
                f"{name}[{i}] must have shape ({length},), one number for each {part} "
                f"of X[{i}]; received shape {values.shape}."
            )
        if not np.isfinite(values).all() or (values < 0).any():
            t = int(np.flatnonzero(~np.isfinite(values) | (values < 0))[0])
            raise ValueError(f"{name}[{i}][{t}] must be finite and >= 0; received {values[t]}.")
    return np.concatenate([np.asarray(entry, dtype=np.float64) for entry in position_weight])


def decode_all(chain: Chain, rows, weights: np.ndarray, n_threads: int) -> np.ndarray:
    """Codes of the best labels of all positions."""
    codes = np.empty(int(chain.indptr[-1]), np.int32)
    for_groups(
        lambda first, last: best_paths(chain, rows, weights, first, last, codes),
        len(chain.indptr) - 1,
        n_threads,
    )
    return codes


def for_chunks(work, chain: Chain, sequences: Sequences, bias: float, n_threads: int) -> None:
    """Call ``work(chain, rows, first, last)`` for the positions first to last of a few sequences
    at a time, in threads.

    The chain and the rows are those of these sequences alone. They are packed just before, so
    that they are still in the cache, and no copy of all sequences is ever made.
    """
    indptr = sequences.indptr

    def one(low: int, high: int) -> None:
        first, last = int(indptr[low]), int(indptr[high])
        rows = sequences.rows(low, high, bias)
        allowed = chain.allowed[first:last] if len(chain.allowed) else chain.allowed
        work(
            chain._replace(indptr=indptr[low : high + 1] - first, allowed=allowed),
            rows,
            first,
            last,
        )

    in_threads(one, sequences.chunks(), n_threads)


def cut(values: np.ndarray, indptr: np.ndarray) -> list[np.ndarray]:
    """The part of each sequence."""
    bounds = indptr.tolist()
    return [values[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def encode_positions(
    codes: LabelCodes, labels: Any, at: np.ndarray, indptr: np.ndarray
) -> np.ndarray:
    """Codes of labels at some positions; an unknown one is named by sequence and position."""
    found = codes.codes_or_minus_one(labels)
    if (found < 0).any():
        bad = int(np.flatnonzero(found < 0)[0])
        i = int(np.searchsorted(indptr, at[bad], side="right") - 1)
        raise ValueError(
            f"y[{i}][{at[bad] - indptr[i]}] is {plain(labels[bad])!r}, which is not among the "
            "declared classes; add it to classes= or correct it."
        )
    return found


def with_known_labels(X: list, y: Any, codes: LabelCodes) -> tuple[list, list]:
    """The sequences all of whose labels are known; a warning says how many others there are."""
    labels, lengths = flatten_labels(y, X)
    unknown = codes.codes_or_minus_one(labels) < 0
    y = list(y)
    if not unknown.any():
        return X, y
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    bad = [bool(unknown[first:last].any()) for first, last in pairwise(indptr)]
    warn_unseen(
        [labels[at] for at in np.flatnonzero(unknown)],
        f"{sum(bad)} of {len(bad)} sequences with such labels are left out",
    )
    if all(bad):
        raise ValueError("y: every sequence has a label that the model has never seen.")
    kept = [i for i, one in enumerate(bad) if not one]
    return [X[i] for i in kept], [y[i] for i in kept]

"""Label sequences with hidden sub-states: packed examples and their oracles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._validation import check_usable
from ..structures.take import ragged
from .kernels.chain import best_paths, sample_paths, worst_paths
from .problem import INDICATOR, SCORE, SLACK, Found, LatentProblem, Rows
from .spaces.labels import LabelSequence

_LARGEST_TABLE = 50_000_000  # entries (4 bytes) of the table of slack re-scaling over all sequences


def pack_chains(structure: LabelSequence, n_states: int, X: list, y: list | None) -> ChainProblem:
    """Check rows of features and labels, and pack them."""
    arrays = [_rows(x, f"X[{i}]") for i, x in enumerate(X)]
    for i, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"X[{i}] has {array.shape[1]} features but X[0] has {arrays[0].shape[1]}; expected "
                "as many everywhere."
            )
    indptr = np.concatenate([[0], np.cumsum([len(array) for array in arrays])]).astype(np.int64)
    truth = np.zeros(indptr[-1], np.int32)
    if y is not None:
        for i, labels in enumerate(y):
            space = structure.for_input(arrays[i])
            truth[indptr[i] : indptr[i + 1]] = space.check(labels, f"y[{i}]")
    return ChainProblem(structure.n_labels, n_states, np.concatenate(arrays), indptr, truth)


def _rows(x: Any, where: str) -> np.ndarray:
    if sp.issparse(x):
        x = x.toarray()
    try:
        array = np.asarray(x, float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or not array.shape[0]:
        raise ValueError(
            f"{where} must be an array (length, n_features) of at least one position; received "
            f"shape {array.shape}."
        )
    check_usable(array, where)
    return array


def _power(base: int, exponent: int) -> float:
    """A number of sequences; infinite if it is no floating-point number."""
    return float(base) ** float(exponent) if exponent * math.log(base) < 700.0 else math.inf


class ChainProblem(LatentProblem):
    """Compiled oracles of :class:`maxmargin.HiddenStates`."""

    has_superset = False

    def __init__(
        self, n_labels: int, n_sub: int, X: np.ndarray, indptr: np.ndarray, truth: np.ndarray
    ):
        self.n_labels, self.n_sub, self.X, self.indptr, self.truth = (
            n_labels, n_sub, X, indptr, truth,
        )  # fmt: skip
        self.n_all = n_labels * n_sub
        self.n_examples = len(indptr) - 1
        self.n_weights = (X.shape[1] + self.n_all) * self.n_all
        lengths = np.diff(indptr)
        entries = np.add.reduceat((X != 0).sum(axis=1), indptr[:-1])
        self.width = int((entries + lengths).max())
        sums = np.add.reduceat(np.linalg.norm(X, axis=1), indptr[:-1])
        self.gamma = float(np.hypot(sums, lengths - 1).max())
        self.n_structures = _power(self.n_all, lengths.max())
        self.n_superset = _power(n_sub, lengths.max())

    def take(self, examples: np.ndarray) -> ChainProblem:
        positions, indptr = ragged(self.indptr, examples)
        X, truth = self.X[positions], self.truth[positions]
        part = ChainProblem(self.n_labels, self.n_sub, X, indptr, truth)
        part.width = self.width  # rows of features have one shape in all parts
        return part

    def _common(self, weights: np.ndarray) -> tuple:
        cut = self.X.shape[1] * self.n_all
        unary = np.ascontiguousarray(self.X @ weights[:cut].reshape(-1, self.n_all))
        moves = weights[cut:].reshape(self.n_all, self.n_all)
        return unary, moves, self.indptr, self.truth, self.n_sub

    def _empty(self) -> Found:
        states = np.zeros(len(self.X), np.int32)
        return Found(states, np.zeros_like(states), np.zeros(self.n_examples))

    def complete(self, weights: np.ndarray, relaxed: bool, examples: np.ndarray) -> Found:
        found = self._empty()
        self._viterbi(found, weights, True, False, examples)
        return found

    def guess(self, relaxed: bool, rng: np.random.RandomState) -> Found:
        latents = rng.randint(self.n_sub, size=len(self.truth)).astype(np.int32)
        outputs = (self.truth * self.n_sub + latents).astype(np.int32)
        return Found(outputs, latents, np.zeros(self.n_examples))

    def _viterbi(self, found: Found, weights, fixed: bool, bonus: bool, examples) -> None:
        best_paths(*self._common(weights), fixed, bonus, examples, found.outputs, found.losses)
        found.latents[:] = found.outputs % self.n_sub

    def _draw(self, found, weights, references, objective, examples, how):
        draws = (int(how.n_samples), how.greedy, int(how.seed))
        where = (examples, found.outputs, found.losses)
        sample_paths(self._common(weights), references, objective, draws, *where)
        found.latents[:] = found.outputs % self.n_sub

    def _maximise(self, found, weights, references, objective, examples, listed):
        if listed:
            raise ValueError(
                "label sequences are not searched by going through all of them; use "
                "search='exact', which finds the same."
            )
        if objective in (SLACK, INDICATOR):
            self._check_table(examples)
            where = (examples, found.outputs, found.losses)
            worst_paths(self._common(weights), references, objective, *where)
            found.latents[:] = found.outputs % self.n_sub
            return
        self._viterbi(found, weights, False, objective != SCORE, examples)

    def _check_table(self, examples: np.ndarray) -> None:
        """Refuse sequences for which the table of numbers of wrong labels is too large."""
        lengths = np.diff(self.indptr)[examples]
        longest = int(lengths.max(initial=0))
        if longest * (longest + 1) * self.n_all > _LARGEST_TABLE:
            most = int((_LARGEST_TABLE / self.n_all + 0.25) ** 0.5 - 0.5)
            raise ValueError(
                f"slack re-scaling over all label sequences needs sequences of at most {most} "
                f"positions with {self.n_all} states; X[{examples[lengths.argmax()]}] has "
                f"{longest}. Use trainer='lssvm' or 'random'."
            )

    def rows(self, found: Found, examples: np.ndarray) -> Rows:
        rows = Rows(
            np.zeros((self.n_examples, self.width), np.int32),
            np.zeros((self.n_examples, self.width)),
            np.zeros(self.n_examples, np.int32),
        )
        cut = self.X.shape[1] * self.n_all
        for i in examples:
            part = slice(self.indptr[i], self.indptr[i + 1])
            states, values = found.outputs[part].astype(np.int64), self.X[part]
            t, feature = np.nonzero(values)
            moves = cut + states[:-1] * self.n_all + states[1:]
            indices = np.concatenate([feature * self.n_all + states[t], moves])
            rows.counts[i] = len(indices)
            rows.indices[i, : len(indices)] = indices
            rows.values[i, : len(t)] = values[t, feature]
            rows.values[i, len(t) : len(indices)] = 1.0
        return rows

    def outputs(self, found: Found) -> list[Any]:
        labels = found.outputs.astype(np.int64) // self.n_sub
        return np.split(labels, self.indptr[1:-1])

    def latents(self, found: Found) -> list[Any]:
        return np.split(found.latents.astype(np.int64), self.indptr[1:-1])

    def uniform_beta(self) -> float:
        """All labels of a uniform sequence differ with probability ``(1 - 1/k)^length``."""
        longest = np.diff(self.indptr).max()
        return 1.0 - (1.0 - 1.0 / self.n_labels) ** float(longest)

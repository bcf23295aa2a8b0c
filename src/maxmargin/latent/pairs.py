"""Sets of elements with two flipped pairs as latent variable: packed examples and their oracles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._validation import is_array
from .kernels.pair_map import (
    complete_pairs,
    pair_ends,
    pair_index,
    pair_rows,
    sample_pairs,
    worst_pairs,
    worst_pairs_all,
)
from .problem import Found, LatentProblem, Rows
from .spaces.sets import Sets


def shared_pairs(n: int) -> np.ndarray:
    """All latent variables: rows of two pairs that share an element."""
    rows = []
    for centre in range(n):
        pairs = [pair_index(n, min(centre, e), max(centre, e)) for e in range(n) if e != centre]
        rows += [(p, q) for k, p in enumerate(pairs) for q in pairs[k + 1 :]]
    return np.array(rows, np.int32).reshape(-1, 2)


def pack_pairs(structure: Sets, has_superset: bool, X: list, y: list | None) -> PairProblem:
    """Check bits and sets, and pack them."""
    space = structure.packed()
    n = space.n_elements
    if n < 3:
        raise ValueError(
            f"the latent space is empty for X[0] and all others: of {n} elements no two pairs "
            "share one; expected a structure with at least 3 elements."
        )
    sets = np.zeros((len(X), space.width + 1), np.int32)
    bits = _all_bits(X, n)
    if y is not None:
        sets = structure.to_sets(y)
    return PairProblem(structure, has_superset, bits, sets)


def _all_bits(X: list, n: int) -> np.ndarray:
    """Bits of all inputs: arrays of integers at once, others one by one."""
    n_pairs = n * (n - 1) // 2
    if all(is_array(x) and x.shape == (n_pairs,) for x in X):
        table = np.array(X)
        if table.dtype.kind in "biu" and table.min() >= 0 and table.max() <= 1:
            return table.astype(np.uint8)
    return np.array([_bits(x, i, n) for i, x in enumerate(X)], np.uint8)


def _bits(x: Any, i: int, n: int) -> np.ndarray:
    n_pairs = n * (n - 1) // 2
    where = f"X[{i}]"
    try:
        values = np.asarray(x, float)
    except (TypeError, ValueError):
        raise ValueError(f"{where} must be an array of bits; received {x!r}.") from None
    if values.shape == (n, n):
        values = values[np.triu_indices(n, 1)]
    if values.shape != (n_pairs,):
        raise ValueError(
            f"{where} has shape {values.shape}; expected {n_pairs} bits, one for each pair of the "
            f"{n} elements, or an ({n}, {n}) matrix."
        )
    wrong = np.flatnonzero((values != 0) & (values != 1))
    if len(wrong):
        raise ValueError(f"{where} holds {values[wrong[0]]!r} at pair {wrong[0]}; expected 0 or 1.")
    return values.astype(np.uint8)


class PairProblem(LatentProblem):
    """Compiled oracles of :class:`maxmargin.SharedPairs`."""

    def __init__(self, structure: Sets, has_superset: bool, X: np.ndarray, Y: np.ndarray):
        self.structure = structure
        self.space = structure.packed()
        self.X, self.Y = X, Y
        self.has_superset = has_superset
        self.n_examples, self.n_weights = X.shape
        most = self.space.width
        self.width = max(1, most * (most - 1) // 2)
        self.gamma = math.sqrt(self.width)
        n = self.space.n_elements
        n_outputs = structure.known_count()
        n_latent = n * math.comb(n - 1, 2)
        self.n_structures = float(n_outputs) * n_latent
        self.n_superset = float(math.comb(math.comb(n, 2), 2) if has_superset else n_latent)
        # All outputs and all latent variables, once they are needed.
        self._table: np.ndarray | None = None
        self._latents: np.ndarray | None = None

    def take(self, examples: np.ndarray) -> PairProblem:
        return PairProblem(self.structure, self.has_superset, self.X[examples], self.Y[examples])

    def complete(self, weights: np.ndarray, relaxed: bool, examples: np.ndarray) -> Found:
        flips, scores = np.full((self.n_examples, 2), -1, np.int32), np.zeros(self.n_examples)
        n = self.space.n_elements
        complete_pairs(n, self.X, self.Y, weights, relaxed, examples, flips, scores)
        return Found(self.Y, flips, np.zeros(self.n_examples))

    def guess(self, relaxed: bool, rng: np.random.RandomState) -> Found:
        if relaxed:  # any two pairs
            n_pairs = self.X.shape[1]
            first = rng.randint(n_pairs, size=self.n_examples)
            second = (first + rng.randint(1, n_pairs, size=self.n_examples)) % n_pairs
            flips = np.stack([first, second], axis=1).astype(np.int32)
        else:
            flips = self._all_latents()[rng.randint(len(self._all_latents()), size=self.n_examples)]
        return Found(self.Y, flips, np.zeros(self.n_examples))

    def _all_latents(self) -> np.ndarray:
        if self._latents is None:
            self._latents = shared_pairs(self.space.n_elements)
        return self._latents

    def _empty(self) -> Found:
        flips = np.full((self.n_examples, 2), -1, np.int32)
        return Found(np.zeros_like(self.Y), flips, np.zeros(self.n_examples))

    def _draw(self, found, weights, references, objective, examples, how):
        draws = (int(how.n_samples), how.greedy, int(how.seed))
        data = (self.X, self.Y, weights, references, objective)
        sample_pairs(self.space, *data, draws, examples, tuple(found))

    def _maximise(self, found, weights, references, objective, examples, listed):
        if self._table is None:
            self._table = np.ascontiguousarray(self.structure.listed())
        space = self.space._replace(table=self._table)
        data = (self.X, self.Y, weights, references, objective, examples)
        if not listed:
            worst_pairs(space, *data, *found)
            return
        worst_pairs_all(space, self._all_latents(), *data, tuple(found))

    def rows(self, found: Found, examples: np.ndarray) -> Rows:
        indices = np.zeros((self.n_examples, self.width), np.int32)
        counts = np.zeros(self.n_examples, np.int32)
        n = self.space.n_elements
        pair_rows(n, self.X, found.outputs, found.latents, examples, indices, counts)
        values = (np.arange(self.width) < counts[:, None]).astype(float)
        return Rows(indices, values, counts)

    def outputs(self, found: Found) -> list[Any]:
        return [self.structure.from_set(row) for row in found.outputs]

    def latents(self, found: Found) -> list[Any]:
        """The pairs that are flipped; those outside of the output make no difference."""
        n = self.space.n_elements
        return [
            [tuple(int(e) for e in pair_ends(n, p)) for p in sorted(flips) if p >= 0]
            for flips in found.latents
        ]

    def uniform_beta(self) -> float:
        """``1 - P[d = 1]`` for uniform draws, exactly, over the worst truth."""
        return self.structure.uniform_beta()

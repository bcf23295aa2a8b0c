"""Output spaces for search by local moves: trees, acyclic graphs, subsets, permutations, labels.

Every space has the same interface:

- ``draw(random)``: an output, uniformly at random;
- ``moves(y)``: the neighbours of y, all in the space;
- ``enumerate()``: all outputs, where there are not too many; ``count()``: how many;
- ``distortion(y, z)``: how much two outputs differ, from 0 (equal) to 1;
- ``check(y, where)``: y in its canonical form, or an error that names the place;
- ``for_input(x)``: the space of one input, where its size depends on the input.

A class of your own with these methods takes part in everything that climbs by local moves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._validation import check_integer
from .base import Space, as_integers, check_count
from .graphs import DAG, Arborescence
from .sets import Subset

__all__ = ["DAG", "Arborescence", "LabelSequence", "Permutation", "Subset"]


class Permutation(Space):
    """Permutations of ``n`` items (None: as many as the input has rows).

    Distortion: the share of places that differ. A move exchanges two items. Uniform draws differ
    everywhere with probability at least 1/3, so that Assumption A holds with 2/3.
    """

    def __init__(self, n: int | None = None):
        self.n = n

    def for_input(self, x: Any) -> Permutation:
        return self if self.n is not None else Permutation(len(x[0]))

    def _n(self) -> int:
        if self.n is None:
            raise ValueError("n is None: the number of items depends on the input; see for_input.")
        return check_integer("n", self.n, 2)

    def draw(self, random: Any = None) -> np.ndarray:
        """A uniform permutation."""
        return check_random_state(random).permutation(self._n())

    def moves(self, y: Any) -> list[np.ndarray]:
        """All exchanges of two items."""
        out = []
        for a, b in itertools.combinations(range(self._n()), 2):
            z = np.array(y)
            z[a], z[b] = z[b], z[a]
            out.append(z)
        return out

    def count(self) -> int:
        """Number of outputs."""
        return math.factorial(self._n())

    def enumerate(self) -> Iterator[np.ndarray]:
        """All permutations."""
        check_count(self.count(), self)
        return (np.array(y) for y in itertools.permutations(range(self._n())))

    def distortion(self, y: Any, z: Any) -> float:
        """Share of places that differ."""
        return float(np.mean(np.asarray(y) != np.asarray(z)))

    def check(self, y: Any, where: str = "y") -> np.ndarray:
        """The permutation as an array."""
        n = self._n()
        items = as_integers(y, where, "a permutation")
        if len(items) != n:
            raise ValueError(f"{where} has {len(items)} entries; expected a permutation of {n}.")
        for place, item in enumerate(items):
            if not 0 <= item < n or items.count(item) > 1:
                raise ValueError(
                    f"{where} is not a permutation: it holds {item} at place {place}; expected "
                    f"each of 0, ..., {n - 1} once."
                )
        return np.array(items, np.int64)


class LabelSequence(Space):
    """Sequences of labels 0, ..., ``n_labels - 1``, as long as the input has rows.

    Distortion: the share of positions that differ. A move changes one label.
    """

    def __init__(self, n_labels: int, length: int | None = None):
        self.n_labels = n_labels
        self.length = length

    def for_input(self, x: Any) -> LabelSequence:
        return self if self.length is not None else LabelSequence(self.n_labels, len(x))

    def _sizes(self) -> tuple[int, int]:
        if self.length is None:
            raise ValueError("length is None: it depends on the input; see for_input.")
        labels = check_integer("n_labels", self.n_labels, 2)
        return labels, check_integer("length", self.length, 1)

    def draw(self, random: Any = None) -> np.ndarray:
        """Uniform labels."""
        labels, length = self._sizes()
        return check_random_state(random).randint(labels, size=length)

    def moves(self, y: Any) -> list[np.ndarray]:
        """All changes of one label."""
        labels, length = self._sizes()
        out = []
        for t in range(length):
            for label in range(labels):
                if label != y[t]:
                    z = np.array(y)
                    z[t] = label
                    out.append(z)
        return out

    def count(self) -> int:
        """Number of outputs."""
        labels, length = self._sizes()
        return labels**length

    def enumerate(self) -> Iterator[np.ndarray]:
        """All sequences."""
        labels, length = self._sizes()
        check_count(self.count(), self)
        return (np.array(y) for y in itertools.product(range(labels), repeat=length))

    def distortion(self, y: Any, z: Any) -> float:
        """Share of positions that differ."""
        return float(np.mean(np.asarray(y) != np.asarray(z)))

    def check(self, y: Any, where: str = "y") -> np.ndarray:
        """The sequence as an array."""
        labels, length = self._sizes()
        items = as_integers(y, where, "a label for each position")
        if len(items) != length:
            raise ValueError(f"{where} has {len(items)} labels; expected {length}, one a row of x.")
        for t, item in enumerate(items):
            if not 0 <= item < labels:
                raise ValueError(
                    f"{where} holds {item} at position {t}; expected labels 0, ..., {labels - 1}."
                )
        return np.array(items, np.int64)

"""Spaces of sets: what all of them share, and subsets; graphs are in :mod:`.graphs`.

All kinds share their compiled draws and moves (``latent/kernels/space_moves.py``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._validation import check_integer
from ..kernels.space_moves import (
    SUBSET,
    ElementSpace,
    are_members,
    draw_sets,
    neighbours,
)
from .base import Space, as_integers, check_count


def integer_table(values: list, shape: tuple[int, int]) -> np.ndarray | None:
    """An array of integers of this shape that is not empty, or None."""
    try:
        table = np.array(values)
    except (TypeError, ValueError, OverflowError):
        return None
    if table.dtype.kind != "i" or table.shape != shape or not table.size:
        return None
    return table.astype(np.int64)


class Sets(Space):
    """Spaces whose outputs are sets of elements, compiled as an :class:`ElementSpace`."""

    def packed(self) -> ElementSpace:
        """The compiled form; lists all outputs if they are few."""
        raise NotImplementedError

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        """``[count, elements ...]`` of an output as users write it, checked."""
        raise NotImplementedError

    def to_sets(self, outputs: list) -> np.ndarray:
        """The same for many outputs y, one a row.

        Arrays of integers are taken at once; what is not, or is no member, goes one by one, and
        errors name their place.
        """
        rows = self._at_once(outputs)
        if rows is not None and are_members(self.packed(), rows):
            return rows
        return np.array([self.to_set(y, f"y[{i}]") for i, y in enumerate(outputs)], np.int32)

    def _at_once(self, outputs: list) -> np.ndarray | None:
        """Rows of distinct elements in range, not yet known to be members; None if not plain."""
        raise NotImplementedError

    def from_set(self, row: np.ndarray) -> Any:
        """An output as users write it."""
        raise NotImplementedError

    def count(self) -> int:
        """Number of outputs."""
        raise NotImplementedError

    def known_count(self) -> float:
        """Number of outputs; infinity where only listing them would tell, and they are many."""
        return float(self.count())

    def uniform_beta(self) -> float:
        """``P[distortion < 1]`` for uniform draws, over the worst truth."""
        raise NotImplementedError

    def draw(self, random: Any = None) -> Any:
        """An output, uniformly at random."""
        seed = check_random_state(random).randint(2**31)
        out = np.empty((1, self.packed().width + 1), np.int32)
        draw_sets(self.packed(), seed, out)
        return self.from_set(out[0])

    def moves(self, y: Any) -> list[Any]:
        """All outputs that differ from y in one element (acyclic graphs: or have one more)."""
        return [self.from_set(row) for row in neighbours(self.packed(), self.to_set(y))]

    def enumerate(self) -> Iterator[Any]:
        """All outputs."""
        for row in self.listed():
            yield self.from_set(row)

    def listed(self) -> np.ndarray:
        """All outputs as sets, one a row."""
        raise NotImplementedError

    def distortion(self, y: Any, z: Any) -> float:
        """``1 - 2 |y & z| / (|y| + |z|)``: the share of elements that are not common."""
        first, second = self.to_set(y), self.to_set(z)
        one = set(first[1 : first[0] + 1].tolist())
        two = set(second[1 : second[0] + 1].tolist())
        return 1.0 - 2.0 * len(one & two) / (len(one) + len(two)) if one or two else 0.0

    def check(self, y: Any, where: str = "y") -> Any:
        """The output in its canonical form."""
        return self.from_set(self.to_set(y, where))

    def _row(self, elements: Any, width: int) -> np.ndarray:
        row = np.full(width + 1, -1, np.int32)
        row[0] = len(elements)
        row[1 : len(elements) + 1] = sorted(elements)
        return row


class Subset(Sets):
    """Subsets of exactly ``size`` of ``n_elements`` elements, written as their indices.

    Distortion: the share of elements missed. A move exchanges one element.

    Examples
    --------
    >>> from maxmargin import Subset
    >>> space = Subset(9, 3)
    >>> space.count(), len(space.moves([0, 1, 2]))
    (84, 18)
    """

    def __init__(self, n_elements: int, size: int):
        self.n_elements = n_elements
        self.size = size

    def packed(self) -> ElementSpace:
        n, size = self._sizes()
        empty = np.empty((0, size + 1), np.int32)
        return ElementSpace(SUBSET, 0, size, n, size, empty)

    def _sizes(self) -> tuple[int, int]:
        n = check_integer("n_elements", self.n_elements, 2)
        size = check_integer("size", self.size, 1)
        if size >= n:
            raise ValueError(f"size must be below n_elements={n}; received {size}.")
        return n, size

    def count(self) -> int:
        """Number of outputs."""
        return math.comb(*self._sizes())

    def uniform_beta(self) -> float:
        n, size = self._sizes()
        return 1.0 - math.comb(n - size, size) / math.comb(n, size)

    def listed(self) -> np.ndarray:
        n, size = self._sizes()
        check_count(self.count(), self)
        flat = itertools.chain.from_iterable(itertools.combinations(range(n), size))
        rows = np.fromiter(flat, np.int32, self.count() * size).reshape(-1, size)
        return np.hstack([np.full((len(rows), 1), size, np.int32), rows])

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        n, size = self._sizes()
        chosen = as_integers(y, where, "indices of the chosen elements")
        for element in chosen:
            if not 0 <= element < n:
                raise ValueError(f"{where} holds element {element}; expected 0, ..., {n - 1}.")
            if chosen.count(element) > 1:
                raise ValueError(f"{where} holds element {element} twice; expected a set.")
        if len(chosen) != size:
            raise ValueError(f"{where} has {len(chosen)} elements; expected exactly {size}.")
        return self._row(chosen, size)

    def _at_once(self, outputs: list) -> np.ndarray | None:
        n, size = self._sizes()
        chosen = integer_table(outputs, (len(outputs), size))
        if chosen is None or chosen.min() < 0 or chosen.max() >= n:
            return None
        chosen = np.sort(chosen, axis=1)
        if (chosen[:, 1:] == chosen[:, :-1]).any():
            return None
        rows = np.full((len(outputs), size + 1), size, np.int32)
        rows[:, 1:] = chosen
        return rows

    def from_set(self, row: np.ndarray) -> np.ndarray:
        return row[1 : row[0] + 1].astype(np.int64)

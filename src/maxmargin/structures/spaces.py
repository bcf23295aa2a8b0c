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
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .._kernels.space_moves import (
    ACYCLIC,
    SUBSET,
    TREE,
    ElementSpace,
    draw_sets,
    edge_between,
    edge_head,
    edge_tail,
    is_member,
    neighbours,
)
from .._validation import check_integer

__all__ = ["DAG", "Arborescence", "LabelSequence", "Permutation", "Subset"]

# Outputs that may be listed.
MOST_OUTPUTS = 5_000_000
_TABLES: dict[tuple[int, int], np.ndarray] = {}  # of acyclic graphs, by nodes and parents
_DAG_NODES = 5  # up to here acyclic graphs are listed, and drawn exactly uniformly


class _Space(BaseEstimator):
    """What all spaces share; parameters as in scikit-learn, so that a space can be cloned."""

    def for_input(self, x: Any) -> Any:
        """The space of one input."""
        return self


# --- sets of elements ----------------------------------------------------------------------------


class _Sets(_Space):
    """Spaces whose outputs are sets of elements, compiled as an :class:`ElementSpace`."""

    def packed(self) -> ElementSpace:
        """The compiled form; lists all outputs if they are few."""
        raise NotImplementedError

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        """``[count, elements ...]`` of an output as users write it, checked."""
        raise NotImplementedError

    def from_set(self, row: np.ndarray) -> Any:
        """An output as users write it."""
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


class Subset(_Sets):
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

    def listed(self) -> np.ndarray:
        n, size = self._sizes()
        _check_count(self.count(), self)
        flat = itertools.chain.from_iterable(itertools.combinations(range(n), size))
        rows = np.fromiter(flat, np.int32, self.count() * size).reshape(-1, size)
        return np.hstack([np.full((len(rows), 1), size, np.int32), rows])

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        n, size = self._sizes()
        chosen = _integers(y, where, "indices of the chosen elements")
        for element in chosen:
            if not 0 <= element < n:
                raise ValueError(f"{where} holds element {element}; expected 0, ..., {n - 1}.")
            if chosen.count(element) > 1:
                raise ValueError(f"{where} holds element {element} twice; expected a set.")
        if len(chosen) != size:
            raise ValueError(f"{where} has {len(chosen)} elements; expected exactly {size}.")
        return self._row(chosen, size)

    def from_set(self, row: np.ndarray) -> np.ndarray:
        return row[1 : row[0] + 1].astype(np.int64)


class _Graphs(_Sets):
    """Sets of directed edges ``(tail, head)`` between ``n_nodes`` nodes."""

    n_nodes: int

    def _edge(self, edge: Any, where: str) -> int:
        n = self.n_nodes
        try:
            tail, head = (int(node) for node in edge)
        except (TypeError, ValueError):
            raise ValueError(f"{where} holds {edge!r}; expected edges (tail, head).") from None
        if not (0 <= tail < n and 0 <= head < n) or tail == head:
            raise ValueError(
                f"{where} holds the edge ({tail}, {head}); expected two different nodes of "
                f"0, ..., {n - 1}."
            )
        return int(edge_between(n, tail, head))

    def _edges(self, y: Any, where: str) -> list[int]:
        edges = [self._edge(edge, where) for edge in y]
        for edge in edges:
            if edges.count(edge) > 1:
                raise ValueError(f"{where} holds the edge {self._pair(edge)} twice.")
        return edges

    def _pair(self, edge: int) -> tuple[int, int]:
        return int(edge_tail(self.n_nodes, edge)), int(edge_head(self.n_nodes, edge))

    def _on_cycle(self, edges: list[int]) -> tuple[int, int] | None:
        """An edge on a cycle, or None: leaves go until none is left."""
        left = [self._pair(edge) for edge in edges]
        while True:
            heads = {head for _, head in left}
            tails = {tail for tail, _ in left}
            kept = [pair for pair in left if pair[0] in heads and pair[1] in tails]
            if len(kept) == len(left):
                return kept[0] if kept else None
            left = kept

    def _check_nodes(self) -> int:
        n = check_integer("n_nodes", self.n_nodes, 1)
        if n == 1:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 nodes; a graph of one node has only one "
                "output, and nothing can be learnt about it."
            )
        return n


class Arborescence(_Graphs):
    """Directed spanning trees of ``n_nodes`` nodes with any root: n_nodes^(n_nodes - 1) of them.

    Written as the list of parents, -1 or None for the root, or as a list of edges
    ``(parent, child)``. Distortion: the share of edges missed. A move exchanges one edge: a node
    gets another parent, or the root moves. Draws: a random root, then Wilson's algorithm.

    Examples
    --------
    >>> from maxmargin import Arborescence
    >>> space = Arborescence(4)
    >>> space.count(), space.check([(1, 0), (1, 2), (2, 3)]).tolist()
    (64, [1, -1, 1, 2])
    """

    def __init__(self, n_nodes: int):
        self.n_nodes = n_nodes

    def packed(self) -> ElementSpace:
        n = self._check_nodes()
        return ElementSpace(TREE, n, n - 1, n * (n - 1), n - 1, np.empty((0, n), np.int32))

    def count(self) -> int:
        """Number of outputs."""
        return self._check_nodes() ** (self.n_nodes - 1)

    def listed(self) -> np.ndarray:
        n = self._check_nodes()
        _check_count(n**n, self)
        space, work, rows = self.packed(), np.empty(2 * n + 1, np.int32), []
        for root in range(n):
            others = [node for node in range(n) if node != root]
            for parents in itertools.product(range(n - 1), repeat=n - 1):
                edges = [
                    int(edge_between(n, p + (p >= node), node))
                    for p, node in zip(parents, others, strict=True)
                ]
                row = self._row(edges, n - 1)
                if is_member(space, row, work):
                    rows.append(row)
        return np.array(rows, np.int32)

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        n = self._check_nodes()
        items = _listed(y, where)
        if items and all(np.ndim(item) == 1 for item in items if item is not None):
            edges = self._edges(items, where)
        else:
            edges = self._from_parents(items, where)
        heads = [self._pair(edge)[1] for edge in edges]
        for edge, head in zip(edges, heads, strict=True):
            if heads.count(head) > 1:
                raise ValueError(
                    f"{where} is not a tree: node {head} of the edge {self._pair(edge)} has "
                    f"{heads.count(head)} parents; expected one, or none at the root."
                )
        cycle = self._on_cycle(edges)
        if cycle is not None:
            raise ValueError(f"{where} is not a tree: the edge {cycle} is on a cycle.")
        if len(edges) != n - 1:
            raise ValueError(
                f"{where} is not a spanning tree: it has {len(edges)} edges and "
                f"{n - len(edges)} nodes without a parent; expected {n - 1} edges and one root."
            )
        return self._row(edges, n - 1)

    def _from_parents(self, items: list, where: str) -> list[int]:
        if len(items) != self.n_nodes:
            raise ValueError(
                f"{where} has {len(items)} entries; expected the parent of each of "
                f"{self.n_nodes} nodes, -1 or None for the root, or a list of edges."
            )
        parents = _integers([-1 if p is None else p for p in items], where, "parents")
        edges = []
        for node, parent in enumerate(parents):
            if parent != -1:
                edges.append(self._edge((parent, node), where))
        return edges

    def from_set(self, row: np.ndarray) -> np.ndarray:
        parents = np.full(self.n_nodes, -1, np.int64)
        for edge in row[1 : row[0] + 1]:
            tail, head = self._pair(int(edge))
            parents[head] = tail
        return parents


class DAG(_Graphs):
    """Directed acyclic graphs in which every node has at most ``max_parents`` parents.

    Written as a list of edges ``(parent, child)``. Distortion: ``1 - 2 |y & z| / (|y| + |z|)``. A
    move adds, removes, flips or replaces one edge. Draws are exactly uniform up to 5 nodes, from
    the list of all graphs. Beyond, a walk turns random edges on and off, 40 times for each
    ordered pair of nodes; its limit is uniform, and what is left of its start is small.

    Examples
    --------
    >>> from maxmargin import DAG
    >>> DAG(4, max_parents=2).count()
    443
    """

    def __init__(self, n_nodes: int, max_parents: int = 2):
        self.n_nodes = n_nodes
        self.max_parents = max_parents

    def packed(self) -> ElementSpace:
        bare = self._bare()
        if bare.n_nodes > _DAG_NODES:
            return bare
        key = (bare.n_nodes, bare.limit)
        if key not in _TABLES:
            _TABLES[key] = self._list(bare)
        return bare._replace(table=_TABLES[key])

    def _bare(self) -> ElementSpace:
        n = self._check_nodes()
        most = min(check_integer("max_parents", self.max_parents, 1), n - 1)
        width = sum(min(most, k) for k in range(n))
        return ElementSpace(
            ACYCLIC, n, most, n * (n - 1), width, np.empty((0, width + 1), np.int32)
        )

    def _list(self, space: ElementSpace) -> np.ndarray:
        """All graphs, by adding edges in increasing order; subsets of a member are members."""
        work, rows = np.empty(2 * space.n_nodes + 1, np.int32), []
        pending: list[list[int]] = [[]]
        while pending:
            edges = pending.pop()
            rows.append(self._row(edges, space.width))
            _check_count(len(rows), self)
            for edge in range(edges[-1] + 1 if edges else 0, space.n_elements):
                if len(edges) < space.width:
                    longer = [*edges, edge]
                    if is_member(space, self._row(longer, space.width), work):
                        pending.append(longer)
        return np.array(sorted(rows, key=lambda row: row.tolist()), np.int32)

    def listed(self) -> np.ndarray:
        space = self.packed()
        return space.table if len(space.table) else self._list(space)

    def count(self) -> int:
        """Number of outputs, by listing them."""
        return len(self.listed())

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        space = self._bare()
        edges = self._edges(_listed(y, where), where)
        heads = [self._pair(edge)[1] for edge in edges]
        for edge, head in zip(edges, heads, strict=True):
            if heads.count(head) > space.limit:
                raise ValueError(
                    f"{where}: node {head} of the edge {self._pair(edge)} has {heads.count(head)} "
                    f"parents; expected at most {space.limit}."
                )
        cycle = self._on_cycle(edges)
        if cycle is not None:
            raise ValueError(f"{where} is not acyclic: the edge {cycle} is on a cycle.")
        return self._row(edges, space.width)

    def from_set(self, row: np.ndarray) -> list[tuple[int, int]]:
        return [self._pair(int(edge)) for edge in row[1 : row[0] + 1]]


# --- permutations and label sequences ------------------------------------------------------------


class Permutation(_Space):
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
        _check_count(self.count(), self)
        return (np.array(y) for y in itertools.permutations(range(self._n())))

    def distortion(self, y: Any, z: Any) -> float:
        """Share of places that differ."""
        return float(np.mean(np.asarray(y) != np.asarray(z)))

    def check(self, y: Any, where: str = "y") -> np.ndarray:
        """The permutation as an array."""
        n = self._n()
        items = _integers(y, where, "a permutation")
        if len(items) != n:
            raise ValueError(f"{where} has {len(items)} entries; expected a permutation of {n}.")
        for place, item in enumerate(items):
            if not 0 <= item < n or items.count(item) > 1:
                raise ValueError(
                    f"{where} is not a permutation: it holds {item} at place {place}; expected "
                    f"each of 0, ..., {n - 1} once."
                )
        return np.array(items, np.int64)


class LabelSequence(_Space):
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
        _check_count(self.count(), self)
        return (np.array(y) for y in itertools.product(range(labels), repeat=length))

    def distortion(self, y: Any, z: Any) -> float:
        """Share of positions that differ."""
        return float(np.mean(np.asarray(y) != np.asarray(z)))

    def check(self, y: Any, where: str = "y") -> np.ndarray:
        """The sequence as an array."""
        labels, length = self._sizes()
        items = _integers(y, where, "a label for each position")
        if len(items) != length:
            raise ValueError(f"{where} has {len(items)} labels; expected {length}, one a row of x.")
        for t, item in enumerate(items):
            if not 0 <= item < labels:
                raise ValueError(
                    f"{where} holds {item} at position {t}; expected labels 0, ..., {labels - 1}."
                )
        return np.array(items, np.int64)


# --- helpers -------------------------------------------------------------------------------------


def _check_count(count: int, space: Any) -> None:
    if count > MOST_OUTPUTS:
        raise ValueError(
            f"{space!r} has too many outputs to list them (more than {MOST_OUTPUTS:,}); use "
            "random structures."
        )


def _listed(y: Any, where: str) -> list:
    if isinstance(y, (str, bytes, dict)) or not hasattr(y, "__iter__"):
        raise ValueError(f"{where} must be a list; received {y!r}.")
    return list(y)


def _integers(y: Any, where: str, what: str) -> list[int]:
    items = _listed(y, where)
    out = []
    for item in items:
        try:
            number = int(item)
            right = number == item
        except (TypeError, ValueError, OverflowError):
            right = False
        if not right:
            raise ValueError(f"{where} holds {item!r}; expected {what} as integers.")
        out.append(number)
    return out

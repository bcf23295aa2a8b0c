"""Spaces of directed graphs, whose elements are edges: spanning trees, acyclic graphs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..._validation import check_integer, has_length, is_plain_list
from ..kernels.space_moves import ACYCLIC, TREE, ElementSpace, is_member
from .base import as_integers, as_list, check_count
from .sets import Sets, integer_table

_TABLES: dict[tuple[int, int], np.ndarray] = {}  # of acyclic graphs, by nodes and parents
_DAG_NODES = 5  # up to here acyclic graphs are listed, and drawn exactly uniformly


class _Graphs(Sets):
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
        return tail * (n - 1) + head - (head > tail)

    def _edges(self, y: Any, where: str) -> list[int]:
        edges = [self._edge(edge, where) for edge in y]
        for edge in edges:
            if edges.count(edge) > 1:
                raise ValueError(f"{where} holds the edge {self._pair(edge)} twice.")
        return edges

    def _numbers(self, tails: np.ndarray, heads: np.ndarray) -> np.ndarray:
        """Indices of many edges."""
        return tails * (self.n_nodes - 1) + heads - (heads > tails)

    def _pair(self, edge: int) -> tuple[int, int]:
        tail, head = divmod(edge, self.n_nodes - 1)
        return tail, head + (head >= tail)

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

    def uniform_beta(self) -> float:
        n = self._check_nodes()
        return 1.0 - (1.0 - 1.0 / n) ** (n - 1)

    def listed(self) -> np.ndarray:
        n = self._check_nodes()
        check_count(n**n, self)
        space, work, rows = self.packed(), np.empty(2 * n + 1, np.int32), []
        for root in range(n):
            others = [node for node in range(n) if node != root]
            for parents in itertools.product(range(n - 1), repeat=n - 1):
                edges = [
                    self._edge((p + (p >= node), node), "y")
                    for p, node in zip(parents, others, strict=True)
                ]
                row = self._row(edges, n - 1)
                if is_member(space, row, work):
                    rows.append(row)
        return np.array(rows, np.int32)

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        n = self._check_nodes()
        items = as_list(y, where)
        if items and all(has_length(item) for item in items):
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
        parents = as_integers([-1 if p is None else p for p in items], where, "parents")
        edges = []
        for node, parent in enumerate(parents):
            if parent != -1:
                edges.append(self._edge((parent, node), where))
        return edges

    def _at_once(self, outputs: list) -> np.ndarray | None:
        n = self._check_nodes()
        parents = integer_table(outputs, (len(outputs), n))
        if parents is None or parents.min() < -1 or parents.max() >= n:
            return None
        nodes, roots = np.arange(n), parents == -1
        if (parents == nodes).any() or (roots.sum(axis=1) != 1).any():
            return None
        edges = self._numbers(parents, nodes)
        edges[roots] = n * n  # sorted to the end, and left out
        rows = np.full((len(outputs), n), n - 1, np.int32)
        rows[:, 1:] = np.sort(edges, axis=1)[:, :-1]
        return rows

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
            check_count(len(rows), self)
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

    def known_count(self) -> float:
        return float(self.count()) if self.n_nodes <= _DAG_NODES else math.inf

    def uniform_beta(self) -> float:
        """That of the list; 1 where there is none."""
        space = self.packed()
        if not len(space.table):
            return 1.0
        n, table = space.n_elements, space.table
        held = np.zeros((len(table), n + 1))
        np.put_along_axis(held, table[:, 1:] % (n + 1), 1.0, axis=1)
        held = held[:, :n]  # -1, no element, went to the last column
        shared = held @ held.T > 0
        shared[held.sum(axis=1) == 0, held.sum(axis=1) == 0] = True
        return float(shared.mean(axis=1).max())

    def to_set(self, y: Any, where: str = "y") -> np.ndarray:
        space = self._bare()
        edges = self._edges(as_list(y, where), where)
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

    def _at_once(self, outputs: list) -> np.ndarray | None:
        n, width = self.n_nodes, self._bare().width
        if not all(is_plain_list(y) and len(y) <= width for y in outputs):
            return None
        counts = np.array([len(y) for y in outputs])
        pairs = integer_table(list(itertools.chain.from_iterable(outputs)), (counts.sum(), 2))
        if pairs is None or pairs.min() < 0 or pairs.max() >= n:
            return None
        tails, heads = pairs[:, 0], pairs[:, 1]
        if (tails == heads).any():
            return None
        held = np.arange(width) < counts[:, None]
        edges = np.full(held.shape, n * n)  # beyond all others, until they are sorted
        edges[held] = self._numbers(tails, heads)
        edges.sort(axis=1)
        if (held[:, 1:] & (edges[:, 1:] == edges[:, :-1])).any():
            return None
        return np.column_stack([counts, np.where(held, edges, -1)]).astype(np.int32)

    def from_set(self, row: np.ndarray) -> list[tuple[int, int]]:
        return [self._pair(int(edge)) for edge in row[1 : row[0] + 1]]

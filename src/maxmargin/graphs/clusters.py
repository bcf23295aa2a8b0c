"""Clusters of three: a tighter relaxation than the local polytope.

For every triangle of pairs there is a distribution over the joint states of its three variables,
and its marginals on the three pairs agree with those of the pairs. (Cycles of four or more
variables without a chord have no triangle, and stay as they are.) This is the relaxation of Sontag
et al. (2008) with all triangles.

In the packed graphs a pair in a triangle has one more variable, without scores or loss, whose
states are the joint states of the pair. The table of the pair and the tables of its triangles,
which have no weights, hold it: messages between pairs and triangles are messages like all others.

References
----------
Sontag, Meltzer, Globerson, Jaakkola, Weiss. Tightening LP relaxations for MAP using message
passing. UAI 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import TABLE, Graphs
from .packing import Shape, assemble, make_shape

_OF_VARIABLES = ("n_states", "row_step", "column", "scored_from")
_OF_FACTORS = (
    "kind", "n_entries", "factor_step", "factor_column", "n_tied", "tie_at", "low", "high",
)  # fmt: skip
_OF_SLOTS = ("scope", "parent", "edge_entry", "map_at")


def with_triangles(graphs: Graphs) -> Graphs:
    """The same graphs, with a cluster for every triangle of pairs."""
    shapes = [_clustered(_arrays_of(graphs, s)) for s in range(len(graphs.variables) - 1)]
    sizes = np.array([len(shape.arrays["n_states"]) for shape in shapes])
    return assemble(
        shapes, graphs.shape, sizes[graphs.shape], np.diff(graphs.first_row),
        np.diff(graphs.first_factor_row), graphs.n_columns, graphs.n_factor_columns,
    )  # fmt: skip


def joint_states(before: Graphs, after: Graphs, truth: np.ndarray) -> np.ndarray:
    """States of all variables of graphs with clusters, given those of the graphs without."""
    found = np.zeros(after.n_variables, np.int32)
    for s in np.unique(after.shape).tolist():
        examples = np.flatnonzero(after.shape == s)[:, None]
        base, end = after.variables[s], after.variables[s + 1]
        n = before.variables[s + 1] - before.variables[s]
        states = np.zeros((len(examples), end - base), np.int32)
        states[:, :n] = truth[before.first_variable[examples] + np.arange(n)]
        # The table of a pair in a triangle is the first that holds the joint state, in slot 3.
        z = after.held[after.held_at[np.arange(base + n, end)]]
        first, second = after.scope[z - 2], after.scope[z - 1]
        states[:, n:] = states[:, first] * after.n_states[base + second] + states[:, second]
        found[after.first_variable[examples] + np.arange(end - base)] = states
    return found


def _arrays_of(graphs: Graphs, s: int) -> dict[str, np.ndarray]:
    """Arrays of one shape, counted from its start."""
    packed: dict[str, Any] = graphs._asdict()
    factors = slice(graphs.factors[s], graphs.factors[s + 1])
    scope_at = graphs.scope_at[graphs.factors[s] : graphs.factors[s + 1] + 1]
    slots = slice(scope_at[0], scope_at[-1])
    variables = slice(graphs.variables[s], graphs.variables[s + 1])
    out = (
        {name: packed[name][variables] for name in _OF_VARIABLES}
        | {name: packed[name][factors] for name in _OF_FACTORS}
        | {name: packed[name][slots] for name in _OF_SLOTS}
        | {"scope_at": scope_at - scope_at[0]}
    )
    sizes = out["n_entries"]
    out["tie_at"], out["ties"] = _own(out["tie_at"], sizes, graphs.ties)
    sizes = np.repeat(sizes, np.diff(scope_at))
    out["map_at"], out["maps"] = _own(out["map_at"], sizes, graphs.maps)
    return out


def _own(at: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of a list that places (-1 for none) refer to, and these places in it."""
    used = at >= 0
    if not used.any():
        return at, values[:0]
    begin, end = at[used].min(), (at + sizes)[used].max()
    return np.where(used, at - begin, -1), values[begin:end]


def _find_triangles(first: np.ndarray, second: np.ndarray) -> tuple[list, dict]:
    """Triples of variables with three pairs, ascending, and the pair of two variables."""
    ends = np.sort(np.stack([first, second], axis=1), axis=1)
    pair_of: dict[tuple[int, int], int] = {}
    above: dict[int, set[int]] = {}
    for number, (u, v) in enumerate(ends.tolist()):
        pair_of.setdefault((u, v), number)
        above.setdefault(u, set()).add(v)
    triples = [
        (u, v, w) for u, v in pair_of for w in sorted(above.get(u, set()) & above.get(v, set()))
    ]
    return triples, pair_of


def _clustered(given: dict[str, np.ndarray]) -> Shape:
    """One shape with its triangles: joint states of their pairs, and a table per triangle."""
    scope_at, scope, states = given["scope_at"], given["scope"], given["n_states"]
    pairs = np.flatnonzero((given["kind"] == TABLE) & (np.diff(scope_at) == 2))
    first, second = scope[scope_at[pairs]], scope[scope_at[pairs] + 1]
    triples, pair_of = _find_triangles(first, second)
    if not triples:
        return make_shape(given)
    members = np.array([[pair_of[i, j], pair_of[j, k], pair_of[i, k]] for i, j, k in triples])
    used = np.unique(members)
    sizes = (states[first[used]] * states[second[used]]).astype(np.int32)
    joint = np.full(len(pairs), -1)
    joint[used] = len(states) + np.arange(len(used))
    maps = _Maps(given["maps"])
    own = [maps.add(size, np.arange(size)) for size in sizes.tolist()]
    of_triangles, n_entries = _triangle_maps(maps, triples, members, first, second, states)
    n = len(triples)
    out = {name: np.append(given[name], np.zeros(n, np.int64)) for name in _OF_FACTORS}
    out["n_entries"][-n:] = n_entries
    out["kind"][-n:] = TABLE
    out["tie_at"][-n:] = len(given["ties"])  # no entry has a weight
    out["ties"] = np.append(given["ties"], np.full(max(n_entries), -1))
    out["maps"] = maps.joined()
    out["n_states"] = np.append(states, sizes)
    out["scored_from"] = np.append(given["scored_from"], sizes)
    # They are visited with the last row of features, which they do not use.
    out["row_step"] = np.append(given["row_step"], np.repeat(given["row_step"][-1:], len(used)))
    out["column"] = np.append(given["column"], np.zeros(len(used), np.int64))
    arity = np.diff(scope_at)
    arity[pairs[used]] += 1
    out["scope_at"] = np.concatenate([[0], np.cumsum(np.append(arity, np.full(n, 3)))])
    places = scope_at[pairs[used] + 1]  # after the two variables of the pair
    for name, of_pairs, of_triples in (
        ("scope", joint[used], joint[members]), ("map_at", own, of_triangles),
        ("parent", -1, np.full((n, 3), -1)), ("edge_entry", -1, np.full((n, 3), -1)),
    ):  # fmt: skip
        out[name] = np.append(np.insert(given[name], places, of_pairs), np.ravel(of_triples))
    return make_shape(out)


def _triangle_maps(
    maps: _Maps, triples: list, members: np.ndarray, first: np.ndarray, second: np.ndarray,
    states: np.ndarray,
) -> tuple[list[list[int]], list[int]]:  # fmt: skip
    """Where the maps of the three slots of each triangle begin, and its number of entries."""
    places, n_entries = [], []
    for triple, three in zip(triples, members.tolist(), strict=True):
        shape = tuple(states[list(triple)].tolist())
        n_entries.append(int(np.prod(shape)))
        found = []
        for p in three:
            u, v = triple.index(first[p]), triple.index(second[p])
            if (shape, u, v) not in maps.known:
                index = np.indices(shape).reshape(3, -1)
                maps.add((shape, u, v), index[u] * shape[v] + index[v])
            found.append(maps.known[shape, u, v])
        places.append(found)
    return places, n_entries


class _Maps:
    """Maps of slots, each stored once."""

    def __init__(self, given: np.ndarray):
        self.parts = [given]
        self.size = len(given)
        self.known: dict[Any, int] = {}

    def add(self, key: Any, values: np.ndarray) -> int:
        """Where a map begins."""
        if key not in self.known:
            self.known[key] = self.size
            self.parts.append(values.astype(np.int32))
            self.size += len(values)
        return self.known[key]

    def joined(self) -> np.ndarray:
        """All maps."""
        return np.concatenate(self.parts)

"""Pack factor graphs into flat arrays: columns of the weights, and one description per shape."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ..structures.take import ragged
from .factor_graph import FactorBlock, FactorGraph
from .graph import COUNT, TABLE, TREE, BinaryGraphs, Graphs, PairGraphs


class Layout(NamedTuple):
    """Columns of the weights of each group, determined by the training data."""

    unary: dict  # group -> (first column, number of states)
    factor: dict  # group -> (first column, ties as bytes, number of columns)
    n_columns: int
    n_factor_columns: int
    n_factor_inputs: int  # features of a factor, the constant one included


def _factor_group_key(block: FactorBlock) -> Hashable:
    return (block.kind, block.group)


def plan_layout(graphs: Sequence[FactorGraph]) -> Layout:
    """Columns of the weights of all groups of the graphs."""
    unary: dict = {}
    factor: dict = {}
    n_columns = n_factor_columns = 0
    width: int | None = None
    for i, graph in enumerate(graphs):
        for group, states in zip(graph.groups, graph.n_states.tolist(), strict=True):
            if group not in unary:
                unary[group] = (n_columns, states)
                n_columns += states
            elif unary[group][1] != states:
                raise ValueError(
                    f"graph {i}: variables of group {group!r} have {states} states, elsewhere "
                    f"{unary[group][1]}; use another group."
                )
        for block in graph.blocks:
            if block.kind == COUNT:
                continue
            if block.kind == TABLE:
                p = 0 if block.features is None else block.features.shape[1]
                if width is not None and p != width:
                    raise ValueError(
                        f"graph {i}: factors of group {block.group!r} have {p} features, those "
                        f"before had {width}; expected the same number everywhere."
                    )
                width = p
            key = _factor_group_key(block)
            if key not in factor:
                n_tied = int(block.tie.max(initial=-1)) + 1
                factor[key] = (n_factor_columns, block.tie.tobytes(), n_tied)
                n_factor_columns += n_tied
            elif block.kind == TABLE and factor[key][1] != block.tie.tobytes():
                raise ValueError(
                    f"graph {i}: factors of group {block.group!r} have another table than before; "
                    "use another group."
                )
            elif block.kind == TREE and int(block.tie.max(initial=-1)) >= factor[key][2]:
                raise ValueError(
                    f"graph {i}: the tree of group {block.group!r} has more weights than the first "
                    "one of that group; use another group or shared=True."
                )
    return Layout(unary, factor, n_columns, n_factor_columns, 1 + (width or 0))


class Shape(NamedTuple):
    """Local arrays of one graph, by their names in :class:`Graphs`, and its sizes."""

    arrays: dict[str, np.ndarray]
    n_states: int
    n_entries: int
    n_messages: int


def _pack_shape(graph: FactorGraph, layout: Layout) -> Shape:
    """Local arrays of one graph."""
    states = graph.n_states.astype(np.int64)
    column = np.array([layout.unary[g][0] for g in graph.groups], np.int32)
    row_step = np.zeros(len(states), np.int32) if graph.shared_row else np.arange(len(states))
    parts: dict[str, list[np.ndarray]] = {
        name: []
        for name in ("kind", "arity", "n_entries", "factor_step", "factor_column", "n_tied", "low",
                     "high", "scope", "parent", "edge_entry", "tie_index")
    }  # fmt: skip
    ties: list[np.ndarray] = []
    n_ties = 0
    next_row = 1  # row 0 of each example is the constant one
    for block in graph.blocks:
        n, arity = block.variables.shape
        size = 0
        first, n_tied = 0, 0
        if block.kind != COUNT:
            first, _, n_tied = layout.factor[_factor_group_key(block)]
            size = len(block.tie)
        # A table with one weight per entry needs no ties; a tree may use a subset of the weights.
        tied = size > 0 and (n_tied != size or not np.array_equal(block.tie, np.arange(size)))
        tie_start = n_ties if tied else -1
        if tied:
            ties.append(block.tie)
            n_ties += size
        has_rows = block.features is not None
        parts["factor_step"].append(next_row + np.arange(n) if has_rows else np.zeros(n))
        next_row += n if has_rows else 0
        for name, value in (
            ("kind", block.kind), ("arity", arity), ("n_entries", size), ("factor_column", first),
            ("n_tied", n_tied), ("low", block.low), ("high", block.high),
            ("tie_index", tie_start),
        ):  # fmt: skip
            parts[name].append(np.full(n, value))
        parts["scope"].append(block.variables.ravel())
        if block.parents is not None:
            edges = np.where(block.parents >= 0, 1, 0)
            pair = size // max(1, int(edges.sum()))
            start = np.where(edges > 0, (np.cumsum(edges) - 1) * pair, -1)
            parts["parent"].append(block.parents)
            parts["edge_entry"].append(start)
        else:
            parts["parent"].append(np.full(n * arity, -1))
            parts["edge_entry"].append(np.full(n * arity, -1))
    joined = {
        name: np.concatenate(found).astype(np.int32) if found else np.empty(0, np.int32)
        for name, found in parts.items()
    }
    arity = joined.pop("arity")
    joined["scope_at"] = np.concatenate([[0], np.cumsum(arity)])
    joined["tie_at"] = joined.pop("tie_index")
    joined["map_at"], joined["maps"] = product_maps(graph.n_states, joined)
    variables = {
        "n_states": graph.n_states, "row_step": row_step, "column": column,
        "scored_from": np.zeros(len(states), np.int32),
        "ties": np.concatenate(ties) if ties else np.empty(0, np.int32),
    }  # fmt: skip
    return make_shape({**variables, **joined})


def product_maps(n_states: np.ndarray, factors: dict) -> tuple[np.ndarray, np.ndarray]:
    """Where the map of each slot begins, and all maps, of tables over all joint states.

    Tables of the same sizes share their maps; slots of other factors have none (-1).
    """
    scope_at, scope = factors["scope_at"], factors["scope"]
    tables, arities = factors["kind"] == TABLE, np.diff(scope_at)
    map_at = np.full(len(scope), -1, np.int64)
    maps = [np.empty(0, np.int32)]
    n = 0
    for arity in np.unique(arities[tables]).tolist():
        slots = scope_at[:-1][tables & (arities == arity), None] + np.arange(arity)
        found, which = np.unique(n_states[scope[slots]], axis=0, return_inverse=True)
        for number, sizes in enumerate(found.tolist()):
            entries = int(np.prod(sizes))
            map_at[slots[which.ravel() == number]] = n + entries * np.arange(arity)
            maps.append(np.indices(sizes).reshape(-1).astype(np.int32))
            n += arity * entries
    return map_at, np.concatenate(maps)


def make_shape(given: dict[str, np.ndarray]) -> Shape:
    """A shape of its variables, factors and scopes: numbers and offsets that follow from them."""
    states = given["n_states"].astype(np.int64)
    scope, arity = given["scope"], np.diff(given["scope_at"])
    message_sizes = states[scope]
    n_entries = given["n_entries"].astype(np.int64)
    arrays = {
        "state_at": np.cumsum(states) - states,
        "held": np.argsort(scope, kind="stable"),
        "held_at": np.concatenate([[0], np.cumsum(np.bincount(scope, minlength=len(states)))]),
        "entry_at": np.cumsum(n_entries) - n_entries,
        "message_at": np.cumsum(message_sizes) - message_sizes,
        "slot_factor": np.repeat(np.arange(len(arity)), arity),
        **given,
    }
    return Shape(arrays, int(states.sum()), int(n_entries.sum()), int(message_sizes.sum()))


def _shape_key(graph: FactorGraph) -> Hashable:
    return (
        graph.shared_row, graph.n_states.tobytes(), tuple(graph.groups),
        tuple(
            (b.kind, b.group, b.variables.shape, b.variables.tobytes(), b.features is None, b.low,
             b.high, b"" if b.tie is None else b.tie.tobytes(),
             b"" if b.parents is None else b.parents.tobytes())
            for b in graph.blocks
        ),
    )  # fmt: skip


def pack_graphs(graphs: Sequence[FactorGraph], layout: Layout) -> tuple[Graphs, np.ndarray]:
    """Pack graphs, and the features of their factors with a constant 1 in front.

    Row 0 of the factor features is the constant one that all factors without features share.
    Features of the variables are packed elsewhere: row ``first_row[m] + step`` of an array of the
    caller, with the rows of all graphs concatenated.
    """
    numbers: dict[Hashable, int] = {}
    shapes: list[Shape] = []
    shape = np.empty(len(graphs), np.int32)
    factor_rows: list[np.ndarray] = []
    for m, graph in enumerate(graphs):
        key = _shape_key(graph)
        if key not in numbers:
            numbers[key] = len(shapes)
            shapes.append(_pack_shape(graph, layout))
        shape[m] = numbers[key]
        found = [block.features for block in graph.blocks if block.features is not None]
        factor_rows.append(np.concatenate(found) if found else np.empty((0, 0)))
    n_factor_rows = np.array([len(found) for found in factor_rows], np.int64)
    n_rows = [1 if graph.shared_row else graph.n_variables for graph in graphs]
    values = np.zeros((1 + int(n_factor_rows.sum()), layout.n_factor_inputs))
    values[:, 0] = 1.0
    at = 1
    for rows in factor_rows:
        if len(rows):
            values[at : at + len(rows), 1:] = rows
            at += len(rows)
    packed = assemble(
        shapes, shape, np.array([g.n_variables for g in graphs]), np.array(n_rows), n_factor_rows,
        layout.n_columns, layout.n_factor_columns,
    )  # fmt: skip
    return packed, values


def pack_for_scores(graphs: Sequence[FactorGraph]) -> Graphs:
    """Pack graphs whose scores are given: entry e of a table is entry ``entry_at[f] + e`` of the
    scores of its example, the only weights. Groups, ties and features are not used."""
    numbers: dict[Hashable, int] = {}
    shapes: list[Shape] = []
    for graph in graphs:
        key = _shape_key(graph)
        if key not in numbers:
            numbers[key] = len(shapes)
            shapes.append(_pack_shape(graph, plan_layout([graph])))
    shape = np.array([numbers[_shape_key(graph)] for graph in graphs], np.int32)
    n = np.array([graph.n_variables for graph in graphs])
    packed = assemble(shapes, shape, n, n, np.zeros_like(n), 1, 1)
    no_flags = np.zeros(len(packed.kind), bool)
    return packed._replace(
        factor_step=np.zeros_like(packed.factor_step), potts=no_flags, n_tied=packed.n_entries,
        factor_column=packed.entry_at.astype(np.int32), tie_at=np.full_like(packed.tie_at, -1),
        binary_pairs=np.zeros_like(packed.binary_pairs),
    )  # fmt: skip


def take_graphs(graphs: Graphs, examples: np.ndarray) -> tuple[Graphs, dict[str, np.ndarray]]:
    """Some of the graphs; and, by the names of the offsets, where their parts were before."""
    packed = graphs._asdict()
    found = {name: ragged(packed[name], examples) for name in packed if name.startswith("first_")}
    after: dict = {name: indptr for name, (_, indptr) in found.items()}
    taken = graphs._replace(shape=graphs.shape[examples], **after)
    return taken, {name: places for name, (places, _) in found.items()}


def assemble(
    shapes: Sequence[Shape], shape: np.ndarray, n_variables: np.ndarray, n_rows: np.ndarray,
    n_factor_rows: np.ndarray, n_columns: int, n_factor_columns: int,
) -> Graphs:  # fmt: skip
    """Concatenate the arrays of shapes, and compute the offsets of every example."""

    def starts(counts) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))])

    def joined(name: str, shift: np.ndarray | None = None, kind=np.int32) -> np.ndarray:
        found = [
            shape.arrays[name].astype(np.int64) + (0 if shift is None else shift[s])
            for s, shape in enumerate(shapes)
        ]
        return np.concatenate(found).astype(kind) if found else np.empty(0, kind)

    def pointers(name: str, shift: np.ndarray) -> np.ndarray:
        found = [
            shape.arrays[name][:-1].astype(np.int64) + shift[s] for s, shape in enumerate(shapes)
        ]
        return np.concatenate([*found, [shift[-1]]]).astype(np.int64)

    variables = starts([len(found.arrays["n_states"]) for found in shapes])
    factors = starts([len(found.arrays["kind"]) for found in shapes])
    slots = starts([len(found.arrays["scope"]) for found in shapes])
    ties = starts([len(found.arrays["ties"]) for found in shapes])
    maps = starts([len(found.arrays["maps"]) for found in shapes])
    first_entry = starts([shapes[s].n_entries for s in shape])
    return Graphs(
        shape=shape,
        first_variable=starts(n_variables),
        first_state=starts([shapes[s].n_states for s in shape]),
        first_entry=first_entry,
        first_mass=first_entry,
        first_message=starts([shapes[s].n_messages for s in shape]),
        first_row=starts(n_rows),
        # A factor without features has step 0 and the shared row 0, others their own rows.
        first_factor_row=starts(n_factor_rows),
        variables=variables,
        n_states=joined("n_states"),
        state_at=joined("state_at"),
        row_step=joined("row_step"),
        column=joined("column"),
        scored_from=joined("scored_from"),
        held_at=pointers("held_at", slots),
        held=joined("held", slots),
        factors=factors,
        binary_pairs=np.array([_binary_pairs(found.arrays) for found in shapes], np.int8),
        kind=joined("kind", kind=np.int8),
        scope_at=pointers("scope_at", slots),
        entry_at=joined("entry_at", kind=np.int64),
        n_entries=joined("n_entries"),
        potts=np.concatenate([np.empty(0, bool), *(_are_potts(found.arrays) for found in shapes)]),
        mass_at=joined("entry_at", kind=np.int64),
        n_mass=joined("n_entries"),
        factor_step=joined("factor_step"),
        factor_column=joined("factor_column"),
        n_tied=joined("n_tied"),
        tie_at=_shifted([found.arrays["tie_at"] for found in shapes], ties),
        low=joined("low"),
        high=joined("high"),
        scope=joined("scope"),
        message_at=joined("message_at", kind=np.int64),
        slot_factor=joined("slot_factor", factors),
        parent=joined("parent"),
        edge_entry=joined("edge_entry"),
        ties=joined("ties"),
        map_at=_shifted([found.arrays["map_at"] for found in shapes], maps),
        maps=joined("maps"),
        n_columns=n_columns,
        n_factor_columns=n_factor_columns,
    )


def for_exact_steps(graphs: Graphs, constant: bool) -> Graphs:
    """The same graphs for exact steps: short Potts tables, and the most specific class.

    ``constant`` says whether the factors have no features but the constant one.
    """
    if constant and graphs.binary_pairs.all():
        return BinaryGraphs(*graphs)
    graphs = with_short_potts(graphs, keep_binary=constant)
    pairs = (graphs.kind == TABLE) & (np.diff(graphs.scope_at) == 2)
    if pairs.all() and not (constant and graphs.binary_pairs.any()):
        return PairGraphs(*graphs)
    return graphs


def with_short_potts(graphs: Graphs, keep_binary: bool = False) -> Graphs:
    """The same graphs, with one number instead of all entries of a Potts table.

    With ``keep_binary``, graphs of binary pairs keep the entries: they have a separate kernel.

    Weights and messages depend only on the marginals of a pair and the mass on equal states, and
    whenever that mass is within its bounds (see :mod:`.kernels.potts`) there is a table that has
    it.
    """
    n_factors = np.diff(graphs.factors)
    kept = np.repeat((graphs.binary_pairs > 0) & keep_binary, n_factors)
    short = graphs.potts & ~kept
    if not short.any():
        return graphs
    n_mass = np.where(short, 1, graphs.n_entries).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(n_mass, dtype=np.int64)])
    first = ends[graphs.factors]  # of each shape
    first_mass = np.concatenate([[0], np.cumsum(np.diff(first)[graphs.shape])])
    mass_at = ends[:-1] - np.repeat(first[:-1], n_factors)
    return graphs._replace(n_mass=n_mass, mass_at=mass_at, first_mass=first_mass)


def _are_potts(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Which factors are pairs with one weight for equal states and none for others."""
    arity = np.diff(arrays["scope_at"])
    found = (arrays["kind"] == TABLE) & (arity == 2) & (arrays["n_tied"] == 1)
    for at in np.unique(arrays["tie_at"][found]):
        here = np.flatnonzero(found & (arrays["tie_at"] == at))
        first = arrays["scope"][arrays["scope_at"][here]]
        second = arrays["scope"][arrays["scope_at"][here] + 1]
        k = arrays["n_states"][first]
        found[here] &= (k == arrays["n_states"][second]) & (k > 1) & (at >= 0)
        same = np.eye(int(k[0]), dtype=bool).ravel()
        found[here] &= np.array_equal(
            arrays["ties"][at : at + len(same)], np.where(same, 0, -1)
        ) & (k == k[0])
    return found


def _shifted(found: list[np.ndarray], shift: np.ndarray) -> np.ndarray:
    """Indices in concatenated lists; -1 is not changed."""
    moved = [np.where(at < 0, -1, at + shift[s]) for s, at in enumerate(found)]
    return np.concatenate(moved).astype(np.int64) if moved else np.empty(0, np.int64)


def _binary_pairs(arrays: dict[str, np.ndarray]) -> int:
    """Whether all variables are binary, and all factors tables of pairs with constant features.

    2 if, in addition, every factor has four weights of its own, in the order of the factors; 3 if
    they have weights of their own in that order, and the same tie.
    """
    found = (
        (arrays["n_states"] == 2).all()
        and (arrays["kind"] == TABLE).all()
        and (arrays["n_entries"] == 4).all()
        and (np.diff(arrays["scope_at"]) == 2).all()
        and (arrays["factor_step"] == 0).all()
    )
    columns, tied, n = arrays["factor_column"], arrays["tie_at"], len(arrays["factor_column"])
    if not found or n == 0:
        return int(found)
    if not np.array_equal(columns, columns[0] + arrays["n_tied"][0] * np.arange(n)):
        return 1
    if (tied < 0).all():
        return 2
    first = arrays["ties"][tied[0] : tied[0] + 4]
    places = np.unique(tied)
    alike = places[0] >= 0 and all(np.array_equal(arrays["ties"][p : p + 4], first) for p in places)
    return 3 if alike else 1

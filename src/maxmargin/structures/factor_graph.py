"""Factor graphs as a user writes them down, and how they are packed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .graph import COUNT, TABLE, TREE, Graphs

TIES = ("full", "potts", "symmetric")
# Bytes that the tables of one group may take, and the dual state of a fit.
MEMORY_LIMIT = 4 * 2**30


def check_memory(n_bytes: float, what: str) -> None:
    """Refuse what would not fit, with its size."""
    if n_bytes > MEMORY_LIMIT:
        raise ValueError(
            f"{what} need {n_bytes / 2**30:.3g} GiB, more than the limit of "
            f"{MEMORY_LIMIT / 2**30:.3g} GiB; use fewer or smaller factors or fewer examples, or "
            "raise maxmargin.structures.factor_graph.MEMORY_LIMIT."
        )


class FactorBlock(NamedTuple):
    """Factors of one kind that share their weights, ``variables`` a row each."""

    kind: int
    variables: np.ndarray  # (n_factors, arity)
    features: np.ndarray | None  # (n_factors, n_factor_features)
    group: Hashable
    tie: Any
    low: int = 0
    high: int = 0
    parents: np.ndarray | None = None  # of a TREE, by place in the row


class FactorGraph:
    """One example: variables, their features, and the factors over them.

    Parameters
    ----------
    features : array or sparse matrix of shape (n_variables, n_features), or (n_features,)
        Features of each variable; a single row is shared by all variables.
    n_states : int or sequence of int
        Number of states of each variable.
    groups : sequence of hashable, optional
        Variables of one group share the weights of their features. By default all do, unless they
        share a row; variables with different numbers of states need different groups.

    Examples
    --------
    A triangle of three binary variables with a table over all of them:

    >>> from maxmargin.structures.factor_graph import FactorGraph
    >>> graph = FactorGraph([[0.0], [1.0], [2.0]], n_states=2)
    >>> graph.add_tables([(0, 1), (1, 2)], tie="potts").add_tables([(0, 1, 2)], group="triple")
    FactorGraph(3 variables, 3 factors)
    """

    def __init__(
        self, features: Any, n_states: Any = 2, *, groups: Sequence[Hashable] | None = None
    ):
        self.features = features if hasattr(features, "tocsr") else np.asarray(features)
        self.shared_row = self.features.ndim == 1
        states = np.asarray(n_states)
        if states.ndim == 0:
            if self.shared_row and groups is None:
                raise ValueError(
                    "features is a single row, so the number of variables is unknown: give n_states"
                    " as a sequence, one number for each variable, or groups."
                )
            n = self.features.shape[0] if groups is None else len(groups)
            states = np.full(n, states)
        self.n_states = states.astype(np.int32)
        if not np.array_equal(self.n_states, states) or states.ndim != 1 or np.any(states < 1):
            raise ValueError(f"n_states must hold integers >= 1; received {n_states!r}.")
        n = len(self.n_states)
        if not self.shared_row and self.features.shape[0] != n:
            raise ValueError(
                f"features has {self.features.shape[0]} rows but n_states has {n} entries; "
                "expected one row for each variable, or a single row for all."
            )
        if groups is None:
            self.groups: list[Hashable] = list(range(n)) if self.shared_row else [None] * n
        else:
            self.groups = list(groups)
        if len(self.groups) != n:
            raise ValueError(f"groups has {len(self.groups)} entries; expected {n}.")
        if self.shared_row and len(set(self.groups)) < n:
            raise ValueError(
                "groups must be different for variables that share a row of features: with the "
                "same weights they could not be told apart."
            )
        self.blocks: list[FactorBlock] = []

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.n_states)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return sum(len(block.variables) for block in self.blocks)

    def __repr__(self) -> str:
        return f"FactorGraph({self.n_variables} variables, {self.n_factors} factors)"

    def _checked(self, variables: Any, what: str) -> np.ndarray:
        found = np.asarray(variables)
        if found.size == 0:
            return np.empty((0, 2), np.int32)
        if found.ndim != 2:
            raise ValueError(
                f"{what} must be a list of tuples of variables of the same length, shape "
                f"(n_factors, n_variables_of_a_factor); received shape {found.shape}."
            )
        if not np.issubdtype(found.dtype, np.integer):
            raise ValueError(f"{what} must hold integers; received {found.dtype}.")
        bad = (found < 0) | (found >= self.n_variables)
        if bad.any():
            factor, place = np.argwhere(bad)[0]
            raise ValueError(
                f"{what}[{factor}] names variable {found[factor, place]}, but the graph has "
                f"variables 0 to {self.n_variables - 1}."
            )
        ordered = np.sort(found, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if twice.any():
            factor = int(np.argmax(twice))
            raise ValueError(
                f"{what}[{factor}] = {tuple(found[factor].tolist())} names a variable twice; "
                "remove self-loops."
            )
        return found.astype(np.int32)

    def add_tables(
        self, variables: Any, features: Any = None, *, group: Hashable = "table", tie: Any = "full"
    ) -> FactorGraph:
        """Add factors with a table of weights over the joint states of their variables.

        Parameters
        ----------
        variables : array of shape (n_factors, arity)
            Two columns for pairs, three for triples, ...
        features : array of shape (n_factors, n_factor_features), optional
            Each feature has its own table; without, the table is constant. The same number for
            all factors of all graphs.
        group : hashable
            Factors of one group share their weights.
        tie : {"full", "potts", "symmetric"} or array of int
            "full" is a weight for each joint state; "potts" one for equal states;
            "symmetric" (pairs) the same for (a, b) and (b, a); an array of the table's size gives
            the number of the weight that each entry uses, -1 for none.
        """
        variables = self._checked(variables, "variables")
        if len(variables):
            sizes = self.n_states[variables]
            if (sizes != sizes[0]).any():
                factor = int(np.argmax((sizes != sizes[0]).any(axis=1)))
                raise ValueError(
                    f"variables[{factor}] have {sizes[factor].tolist()} states, variables[0] "
                    f"{sizes[0].tolist()}: factors of one group need tables of one size; use "
                    "another group."
                )
            size = float(np.prod(sizes[0].astype(float)))
            check_memory(
                8.0 * size * len(variables),
                f"{len(variables)} tables over {variables.shape[1]} variables with {size:.3g} "
                "entries each",
            )
            tie = _tie_pattern(tie, sizes[0])
        if features is not None:
            features = np.asarray(features, dtype=np.float64)
            if features.ndim != 2 or len(features) != len(variables):
                raise ValueError(
                    "features of factors must have shape (n_factors, n_factor_features) with "
                    f"{len(variables)} rows; received shape {features.shape}."
                )
            if not np.isfinite(features).all():
                factor = int(np.argmax(~np.isfinite(features).all(axis=1)))
                raise ValueError(f"features of factor {factor} contain NaN or infinity.")
        if len(variables):
            self.blocks.append(FactorBlock(TABLE, variables, features, group, tie))
        return self

    def add_count(self, variables: Any, *, at_least: int = 0, at_most: int | None = None):
        """Demand that between ``at_least`` and ``at_most`` of binary variables are in state 1.

        A row or column of a permutation matrix is ``at_least=1, at_most=1``.
        """
        variables = self._checked([list(variables)], "variables")
        if (self.n_states[variables] != 2).any():
            raise ValueError("a count needs binary variables.")
        high = variables.shape[1] if at_most is None else int(at_most)
        if not 0 <= at_least <= high <= variables.shape[1]:
            raise ValueError(
                f"expected 0 <= at_least <= at_most <= {variables.shape[1]}; received "
                f"at_least={at_least}, at_most={at_most}."
            )
        self.blocks.append(FactorBlock(COUNT, variables, None, None, None, int(at_least), high))
        return self

    def add_chain(self, variables: Any, *, group: Hashable = "chain", tie: Any = "full"):
        """Add a chain over variables as one factor, with one shared table of transitions."""
        found = list(variables)
        return self.add_tree(list(zip(found[:-1], found[1:], strict=True)), group=group, tie=tie)

    def add_tree(
        self, edges: Any, *, group: Hashable = "tree", tie: Any = "full", shared: bool = True
    ) -> FactorGraph:
        """Add a tree (or forest) of pairs as one factor, answered as a whole.

        Parameters
        ----------
        edges : array of shape (n_edges, 2)
            Ordered pairs without a cycle; the table is over the states of the first and second.
        shared : bool
            Whether all edges use one table, or each has its own.
        """
        edges = self._checked(edges, "edges")
        if not len(edges):
            return self
        if edges.shape[1] != 2:
            raise ValueError(f"edges must have two columns; received {edges.shape[1]}.")
        members, ends = np.unique(edges, return_inverse=True)
        ends = ends.reshape(edges.shape)
        n = len(members)
        matrix = coo_array((np.arange(1, len(edges) + 1), (ends[:, 0], ends[:, 1])), (n, n)).tocsr()
        n_parts, part = connected_components(matrix, directed=False)
        if matrix.nnz != len(edges) or len(edges) != n - n_parts:
            raise ValueError("edges contain a cycle or a pair twice; a tree has neither.")
        sizes = self.n_states[edges]
        if (sizes != sizes[0]).any():
            raise ValueError("variables of a tree must have the same number of states.")
        order: list[int] = []
        before: dict[int, int] = {}
        both = (matrix + matrix.T).tocsr()
        for p in range(n_parts):
            root = int(np.flatnonzero(part == p)[0])
            found, parents = breadth_first_order(both, root, directed=False)
            order += found.tolist()
            before.update({int(v): int(parents[v]) for v in found if v != root})
        place = {v: k for k, v in enumerate(order)}
        parent = np.array([place[before[v]] if v in before else -1 for v in order], np.int32)
        pattern = _tie_pattern(tie, sizes[0])
        numbers = {(int(a), int(b)): k for k, (a, b) in enumerate(ends)}
        ties, n_tied = [], int(pattern.max()) + 1
        shape = tuple(int(k) for k in sizes[0])
        for v in order:
            if v not in before:
                continue
            u = before[v]
            forward = (v, u) in numbers  # the table is stored over (child, parent)
            number = numbers[v, u] if forward else numbers[u, v]
            table = pattern if forward else pattern.reshape(shape).T.ravel()
            offset = 0 if shared else number * n_tied
            ties.append(np.where(table < 0, -1, table + offset))
        tied = np.concatenate(ties).astype(np.int32)
        variables = members[order][None, :].astype(np.int32)
        self.blocks.append(FactorBlock(TREE, variables, None, group, tied, parents=parent))
        return self


def _tie_pattern(tie: Any, sizes: np.ndarray) -> np.ndarray:
    """Number of the weight that each entry of a table uses."""
    shape = tuple(int(k) for k in sizes)
    size = int(np.prod(shape))
    if isinstance(tie, str):
        if tie == "full":
            return np.arange(size, dtype=np.int32)
        if len(set(shape)) > 1:
            raise ValueError(
                f"tie={tie!r} needs variables with the same number of states; received {shape}."
            )
        if tie == "potts":
            index = np.indices(shape).reshape(len(shape), -1)
            return np.where((index == index[0]).all(axis=0), 0, -1).astype(np.int32)
        if tie == "symmetric" and len(shape) == 2:
            a, b = np.indices(shape).reshape(2, -1)
            low, high = np.minimum(a, b), np.maximum(a, b)
            return (low * shape[0] - low * (low - 1) // 2 + high - low).astype(np.int32)
        raise ValueError(f"tie must be one of {TIES} or an array of integers; received {tie!r}.")
    pattern = np.asarray(tie)
    if pattern.size != size or not np.issubdtype(pattern.dtype, np.integer):
        raise ValueError(
            f"tie must have an integer for each of the {size} entries of a table of shape {shape}; "
            f"received an array of shape {pattern.shape} and type {pattern.dtype}."
        )
    return pattern.ravel().astype(np.int32)


class Layout(NamedTuple):
    """Where the weights of each group are: fixed by the training data."""

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
        # An entry that is its own weight needs no list.
        tied = size > 0 and not np.array_equal(block.tie, np.arange(size))
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
    scope = joined["scope"]
    arity = joined.pop("arity")
    scope_at = np.concatenate([[0], np.cumsum(arity)])
    message_sizes = states[scope]
    message_at = np.cumsum(message_sizes) - message_sizes
    entry_at = np.cumsum(joined["n_entries"].astype(np.int64)) - joined["n_entries"]
    held = np.argsort(scope, kind="stable")
    held_at = np.concatenate([[0], np.cumsum(np.bincount(scope, minlength=len(states)))])
    state_at = np.cumsum(states) - states
    arrays = {
        "n_states": graph.n_states, "state_at": state_at, "row_step": row_step, "column": column,
        "held": held, "held_at": held_at, "scope_at": scope_at, "entry_at": entry_at,
        "message_at": message_at, "slot_factor": np.repeat(np.arange(len(arity)), arity),
        "tie_at": joined.pop("tie_index"),
        "ties": np.concatenate(ties) if ties else np.empty(0, np.int32),
        **joined,
    }  # fmt: skip
    n_entries = int(joined["n_entries"].sum())
    return Shape(arrays, int(states.sum()), n_entries, int(message_sizes.sum()))


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
    Features of the variables are packed elsewhere: row ``first_row[m] + step`` is the caller's,
    the rows of all graphs one after another.
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


def assemble(
    shapes: Sequence[Shape], shape: np.ndarray, n_variables: np.ndarray, n_rows: np.ndarray,
    n_factor_rows: np.ndarray, n_columns: int, n_factor_columns: int,
) -> Graphs:  # fmt: skip
    """Put shapes one after another, and give every example its offsets."""

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
    return Graphs(
        shape=shape,
        first_variable=starts(n_variables),
        first_state=starts([shapes[s].n_states for s in shape]),
        first_entry=starts([shapes[s].n_entries for s in shape]),
        first_message=starts([shapes[s].n_messages for s in shape]),
        first_row=starts(n_rows),
        # A factor without features has step 0 and the shared row 0, others their own rows.
        first_factor_row=starts(n_factor_rows),
        variables=variables,
        n_states=joined("n_states"),
        state_at=joined("state_at"),
        row_step=joined("row_step"),
        column=joined("column"),
        held_at=pointers("held_at", slots),
        held=joined("held", slots),
        factors=factors,
        binary_pairs=np.array([_has_binary_pairs(found.arrays) for found in shapes], bool),
        kind=joined("kind", kind=np.int8),
        scope_at=pointers("scope_at", slots),
        entry_at=joined("entry_at", kind=np.int64),
        n_entries=joined("n_entries"),
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
        n_columns=n_columns,
        n_factor_columns=n_factor_columns,
    )


def _shifted(found: list[np.ndarray], shift: np.ndarray) -> np.ndarray:
    """Places in joined lists; -1 stays."""
    moved = [np.where(at < 0, -1, at + shift[s]) for s, at in enumerate(found)]
    return np.concatenate(moved).astype(np.int64) if moved else np.empty(0, np.int64)


def _has_binary_pairs(arrays: dict[str, np.ndarray]) -> bool:
    """Whether all variables are binary, and all factors tables of pairs with constant features."""
    return bool(
        (arrays["n_states"] == 2).all()
        and (arrays["kind"] == TABLE).all()
        and (arrays["n_entries"] == 4).all()
        and (arrays["tie_at"] < 0).all()
        and (arrays["factor_step"] == 0).all()
    )

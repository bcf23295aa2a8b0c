"""Factor graphs, as a user defines them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .._validation import check_integer, first_unusable, is_text, unusable
from .graph import COUNT, TABLE, TREE

TIES = ("full", "potts", "symmetric")
# Largest number of bytes of the tables of one group, and of the dual state of a fit.
MEMORY_LIMIT = 4 * 2**30


def check_memory(n_bytes: float, what: str) -> None:
    """Refuse what would not fit into memory; the error has its size."""
    if n_bytes > MEMORY_LIMIT:
        raise ValueError(
            f"{what} need {n_bytes / 2**30:.3g} GiB, more than the limit of "
            f"{MEMORY_LIMIT / 2**30:.3g} GiB; use fewer or smaller factors or fewer examples, or "
            "raise maxmargin.graphs.factor_graph.MEMORY_LIMIT."
        )


def check_group(group: Any, name: str) -> None:
    """Refuse a group that is not hashable."""
    try:
        hash(group)
    except TypeError:
        raise ValueError(
            f"{name} must be hashable, such as a string, a number or a tuple; received {group!r}."
        ) from None


class FactorBlock(NamedTuple):
    """Factors of one kind that share their weights, one row of ``variables`` per factor."""

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

    >>> from maxmargin.graphs.factor_graph import FactorGraph
    >>> graph = FactorGraph([[0.0], [1.0], [2.0]], n_states=2)
    >>> graph.add_tables([(0, 1), (1, 2)], tie="potts").add_tables([(0, 1, 2)], group="triple")
    FactorGraph(3 variables, 3 factors)
    """

    def __init__(
        self, features: Any, n_states: Any = 2, *, groups: Sequence[Hashable] | None = None
    ):
        self.features = features if sp.issparse(features) else np.asarray(features)
        if self.features.ndim not in (1, 2):
            raise ValueError(
                "features must have shape (n_variables, n_features), or (n_features,) for a row "
                f"that all variables share; received shape {self.features.shape}."
            )
        self.shared_row = self.features.ndim == 1
        self.has_own_groups = groups is not None
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
            for v, group in enumerate(self.groups):
                check_group(group, f"groups[{v}]")
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
            Each feature has its own table; without features, there is one constant table. The
            number of features must be the same for all factors of all graphs.
        group : hashable
            Factors of one group share their weights.
        tie : {"full", "potts", "symmetric"} or array of int
            "full" is a weight for each joint state; "potts" one for equal states;
            "symmetric" (pairs) the same for (a, b) and (b, a); an array of the size of the table
            gives the index of the weight that each entry uses, -1 for none.
        """
        check_group(group, "group")
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
            bad = first_unusable(features)
            if bad >= 0:
                factor, column = divmod(bad, features.shape[1])
                raise ValueError(
                    f"features of factor {factor} contain {unusable(features[factor, column])} at "
                    f"column {column}; expected finite numbers."
                )
        if len(variables):
            self.blocks.append(FactorBlock(TABLE, variables, features, group, tie))
        return self

    def add_count(self, variables: Any, *, at_least: int = 0, at_most: int | None = None):
        """Require that between ``at_least`` and ``at_most`` of binary variables are in state 1.

        A row or column of a permutation matrix is ``at_least=1, at_most=1``.
        """
        listed = list(variables)
        if not listed:
            raise ValueError("variables of a count is empty; expected at least one variable.")
        variables = self._checked([listed], "variables")
        if (self.n_states[variables] != 2).any():
            raise ValueError("a count needs binary variables.")
        check_integer("at_least", at_least, 0)
        if at_most is not None:
            check_integer("at_most", at_most, 0)
        high = variables.shape[1] if at_most is None else int(at_most)
        if not at_least <= high <= variables.shape[1]:
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
        """Add a tree (or forest) of pairs as one factor, decoded jointly.

        Parameters
        ----------
        edges : array of shape (n_edges, 2)
            Ordered pairs without a cycle; the table is over the states of the first and second.
        shared : bool
            Whether all edges use one table, or each has its own.
        """
        check_group(group, "group")
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
    """Index of the weight that each entry of a table uses."""
    shape = tuple(int(k) for k in sizes)
    size = int(np.prod(shape))
    if is_text(tie):
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
    pattern = pattern.ravel()
    outside = (pattern < -1) | (pattern >= size)
    if outside.any():
        entry = int(np.argmax(outside))
        raise ValueError(
            f"tie gives entry {entry} the weight {pattern[entry]}; expected -1 <= tie < {size} for "
            f"a table of shape {shape}: the number of a weight, or -1 for none."
        )
    return pattern.astype(np.int32)

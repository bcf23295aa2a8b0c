"""Connected parts of the undecided variables of binary pairwise graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .plan import BINARY, PAIRWISE, Examples, PairPlan, Plan, link


class Parts(NamedTuple):
    """Connected parts as separate graphs, with the decided variables included in their scores."""

    plan: Plan
    examples: Examples
    unary: np.ndarray
    tables: np.ndarray
    owner: np.ndarray  # example of each part
    variable: np.ndarray  # number, within all examples, of each variable of the parts


def _spread(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The ranges ``starts[k], ..., starts[k] + counts[k] - 1``, concatenated."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _gather(
    plan: Plan, examples: Examples, unary: np.ndarray, tables: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores of both states of all variables of some examples; their pairs and the tables."""
    scores = np.zeros((examples.variable[-1], 2))
    shape = examples.shape[owners]
    n = plan.variables[shape + 1] - plan.variables[shape]
    variable = _spread(examples.variable[owners], n)
    scores[variable] = unary[_spread(examples.state[owners], 2 * n)].reshape(-1, 2)
    n_single = plan.singles[shape + 1] - plan.singles[shape]
    q = _spread(plan.singles[shape], n_single)
    at = plan.single_entry[q] + np.repeat(examples.entry[owners], n_single)
    held = plan.single[q] + np.repeat(examples.variable[owners], n_single)
    np.add.at(scores, held, tables[at[:, None] + np.arange(2)])
    n_pairs = plan.pairs[shape + 1] - plan.pairs[shape]
    p = _spread(plan.pairs[shape], n_pairs)
    shift = np.repeat(examples.variable[owners], n_pairs)
    at = plan.entry[p] + np.repeat(examples.entry[owners], n_pairs)
    return scores, plan.first[p] + shift, plan.second[p] + shift, tables[at[:, None] + np.arange(4)]


def _plan_parts(size: np.ndarray, part: np.ndarray, first: np.ndarray, second: np.ndarray) -> Plan:
    """Plan of graphs that have only pairs; ``part`` is that of each pair, in order."""
    start = np.concatenate([[0], np.cumsum(size)])
    pairs = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=len(size)))])
    near_at, near = link(first, second, start[-1])
    base = start[part]
    none, nowhere = np.empty(0, np.int32), np.empty(0, np.int64)
    zeros = np.zeros(len(size) + 1, np.int64)
    local = np.arange(start[-1]) - np.repeat(start[:-1], size)
    return PairPlan(
        variables=start, n_states=np.full(start[-1], 2, np.int32),
        state_at=(2 * local).astype(np.int32), factors=zeros, kind=np.empty(0, np.int8),
        scope_at=np.zeros(1, np.int64), entry_at=nowhere, n_entries=none, low=none, high=none,
        scope=none, slot_factor=none,
        traits=np.full(len(size), BINARY | PAIRWISE, np.int8),
        pairs=pairs, first=(first - base).astype(np.int32), second=(second - base).astype(np.int32),
        entry=4 * (np.arange(len(part)) - pairs[part]),
        singles=zeros, single=none, single_entry=nowhere, wholes=zeros, whole=none,
        near_at=near_at, near=near, slot_at=np.zeros(start[-1] + 1, np.int64), slots=none,
        # Neither branch and bound nor the messages use the spanning forest.
        order=none, up=none,
    )  # fmt: skip


def open_parts(
    plan: Plan,
    examples: Examples,
    unary: np.ndarray,
    tables: np.ndarray,
    labels: np.ndarray,
    is_open: np.ndarray,
) -> Parts | None:
    """Connected parts of the undecided variables, with fixed labels of the others; or None."""
    opened = np.flatnonzero(is_open)
    if not len(opened):
        return None
    owners = np.unique(np.searchsorted(examples.variable, opened, side="right") - 1)
    scores, first, second, table = _gather(plan, examples, unary, tables, owners)
    for here, there, zero, one in (
        (first, second, table[:, 0::2], table[:, 1::2]),
        (second, first, table[:, :2], table[:, 2:]),
    ):
        half = is_open[here] & ~is_open[there]
        fixed = labels[there[half]]
        np.add.at(scores, here[half], np.where(fixed[:, None] == 0, zero[half], one[half]))
    inside = is_open[first] & is_open[second]
    place = np.cumsum(is_open) - 1
    first, second, table = place[first[inside]], place[second[inside]], table[inside]
    n = len(opened)
    graph = coo_array((np.ones(len(first), np.int8), (first, second)), (n, n))
    n_parts, part = connected_components(graph, directed=False)
    order = np.argsort(part, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    by_part = np.argsort(part[first], kind="stable")
    first, second, table = first[by_part], second[by_part], table[by_part]
    size = np.bincount(part, minlength=n_parts)
    inner = _plan_parts(size, part[first], place[first], place[second])
    variable = opened[order]
    where = Examples(
        np.arange(n_parts, dtype=np.int32), inner.variables, 2 * inner.variables, 4 * inner.pairs
    )
    owner = np.searchsorted(examples.variable, variable[inner.variables[:-1]], side="right") - 1
    return Parts(inner, where, scores[variable].ravel(), table.ravel(), owner, variable)

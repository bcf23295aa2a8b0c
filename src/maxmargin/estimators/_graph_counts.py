"""Counts of factor graphs against labels that are known: in training, and in prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graphs.factor_graph import FactorBlock, FactorGraph
from ..graphs.features import NodeGraph
from ..graphs.graph import COUNT
from ._node_kinds import NodeKinds


def _counts(graph: NodeGraph) -> list[FactorBlock]:
    given = graph.given
    return [] if given is None else [block for block in given.blocks if block.kind == COUNT]


def _check(
    block: FactorBlock, known: np.ndarray, name: str, i: int, graph: NodeGraph, kinds: NodeKinds
) -> None:
    """Refuse labels that break a count, whatever those of the other nodes are."""
    nodes = block.variables[0]
    low, high = int((~known[nodes, 0]).sum()), int(known[nodes, 1].sum())
    if low <= block.high and high >= block.low:
        return
    wanted = block.low if block.low == block.high else f"{block.low} to {block.high}"
    raise ValueError(
        f"{name} breaks a count of X[{i}]: expected {wanted} of the nodes "
        f"{np.array2string(nodes, threshold=10, separator=', ')} to have the label "
        f"{kinds.label(graph, int(nodes[0]), 1)!r}, received "
        f"{low if low == high else f'{low} to {high}'}. Correct the labels, or at_least and "
        "at_most of add_count."
    )


def check_truth(
    graphs: Sequence[NodeGraph], starts: np.ndarray, truth: np.ndarray, kinds: NodeKinds
) -> None:
    """Refuse states, negative where there is no label, that break a count of their graph."""
    for i, graph in enumerate(graphs):
        counts = _counts(graph)
        if counts:
            codes = truth[starts[i] : starts[i + 1]]
            known = np.stack([codes != 1, codes != 0], axis=1)
            for block in counts:
                _check(block, known, f"y[{i}]", i, graph, kinds)


def implied(
    graphs: Sequence[NodeGraph], starts: np.ndarray, known: np.ndarray, kinds: NodeKinds
) -> np.ndarray:
    """States that nodes may have, with what follows from the counts; refuse what breaks one."""
    known = known.copy()
    for i, graph in enumerate(graphs):
        inside = known[starts[i] : starts[i + 1]]
        if inside.all():
            continue
        counts = _counts(graph)
        for block in counts:
            _check(block, inside, f"partial_y[{i}]", i, graph, kinds)
        changed = True
        while changed:
            changed = False
            for block in counts:
                name = f"partial_y[{i}] with the other counts"
                _check(block, inside, name, i, graph, kinds)
                changed |= _imply(block, inside)
    return known


def _imply(block: FactorBlock, known: np.ndarray) -> bool:
    """Label all free nodes of a count that leaves them no choice; whether there were any."""
    nodes = block.variables[0]
    free = nodes[known[nodes].all(axis=1)]
    n_on = int((~known[nodes, 0]).sum())
    if len(free) and n_on == block.high:
        known[free, 1] = False
    elif len(free) and n_on + len(free) == block.low:
        known[free, 0] = False
    else:
        return False
    return True


def without_known(graph: FactorGraph, known: np.ndarray) -> FactorGraph:
    """The graph with counts over free nodes only, of what the known ones leave to them.

    A search that moves a few nodes at a time could not satisfy both a count and a known label.
    """
    if known.all() or not any(block.kind == COUNT for block in graph.blocks):
        return graph
    smaller = FactorGraph(np.empty((graph.n_variables, 0)), graph.n_states, groups=graph.groups)
    smaller.shared_row = graph.shared_row
    for block in graph.blocks:
        if block.kind == COUNT:
            nodes = block.variables[0]
            free = nodes[known[nodes].all(axis=1)]
            n_on = int((~known[nodes, 0]).sum())
            low, high = max(0, block.low - n_on), min(len(free), block.high - n_on)
            if len(free) == 0:
                continue
            block = block._replace(variables=free[None, :], low=low, high=high)
        smaller.blocks.append(block)
    return smaller

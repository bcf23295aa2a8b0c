"""Kinds of nodes: groups of the variables of factor graphs, each with its own labels and weights.

All labels together have codes, in the order of ``classes_``. A node is in a state: the number of
its label among those of its kind. Where there is one kind, as in graphs that are no factor graphs,
states are codes. Tables over nodes and states are as wide as the kind with most states; what is
beyond the states of a node is never read.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .._labels import LabelCodes, plain
from .._validation import has_items, is_mapping
from ..graphs.factor_graph import FactorGraph
from ..graphs.features import NodeGraph


class NodeKinds:
    """The labels of each kind of nodes.

    Parameters
    ----------
    classes : array
        All labels.
    group_classes : dict
        Labels of each group.
    """

    def __init__(self, classes: np.ndarray, group_classes: Mapping[Hashable, np.ndarray]):
        self.classes = classes
        self.group_classes = group_classes
        self.groups = list(group_classes)
        self._number = {group: k for k, group in enumerate(self.groups)}
        known = LabelCodes(classes)
        codes = [known.codes_or_minus_one(labels) for labels in group_classes.values()]
        self.n_states = np.array([len(found) for found in codes])
        self.width = int(self.n_states.max())
        self._codes = np.zeros((len(codes), self.width), np.int32)
        self._states = np.full((len(codes), len(classes)), -1, np.int32)
        for k, found in enumerate(codes):
            self._codes[k, : len(found)] = found
            self._states[k, found] = np.arange(len(found))

    def of(self, graphs: Sequence[NodeGraph]) -> np.ndarray:
        """The number of the kind of every node."""
        if len(self.groups) == 1:
            return np.zeros(sum(graph.n_nodes for graph in graphs), np.int64)
        return np.array([self._number[g] for graph in graphs for g in node_groups(graph)], np.int64)

    def of_variables(self, graphs: Sequence[FactorGraph]) -> np.ndarray:
        """The same for factor graphs."""
        if len(self.groups) == 1:
            return np.zeros(sum(graph.n_variables for graph in graphs), np.int64)
        return np.array([self._number[g] for graph in graphs for g in graph.groups], np.int64)

    def known(self, states: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Which states are possible: only the known one, and all where it is negative."""
        found = np.ones((len(states), self.width), bool)
        there = np.flatnonzero(states >= 0)
        found[there] = ~self._has(kinds[there])
        found[there, states[there]] = True
        return found

    def codes(self, states: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Codes of the labels of nodes in some states."""
        return self._codes[kinds, states]

    def states(self, codes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """States of nodes with some labels; -1 if a kind has no such label. Negative codes stay."""
        return np.where(codes < 0, codes, self._states[kinds, np.maximum(codes, 0)])

    def masks(self, allowed: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Which states are allowed, from which labels are; beyond the states all are."""
        return np.take_along_axis(allowed, self._codes[kinds], axis=1) | ~self._has(kinds)

    def scores(self, columns: np.ndarray, kinds: np.ndarray, unary: Mapping) -> np.ndarray:
        """Scores of the states, from those of all columns; ``unary`` tells where groups begin."""
        if len(self.groups) == 1:
            return columns
        first = np.array([unary[group][0] for group in self.groups])
        offsets = np.where(np.arange(self.width) < self.n_states[:, None], np.arange(self.width), 0)
        return np.take_along_axis(columns, (first[:, None] + offsets)[kinds], axis=1)

    def flat(self, table: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """The numbers of the states of all nodes, one after another."""
        if len(self.groups) == 1:
            return np.ascontiguousarray(table).ravel()
        return table[self._has(kinds)]

    def _has(self, kinds: np.ndarray) -> np.ndarray:
        return np.arange(self.width) < self.n_states[kinds, None]

    def label(self, graph: NodeGraph, node: int, state: int) -> Any:
        """The label of a node in some state."""
        return plain(self.group_classes[node_groups(graph)[node]][state])

    def check(self, graphs: Sequence[NodeGraph]) -> None:
        """Refuse nodes of other groups, and numbers of states other than those of the labels."""
        for i, graph in enumerate(graphs):
            if graph.given is None:
                continue
            for v, (group, n_states) in enumerate(
                zip(graph.given.groups, graph.given.n_states.tolist(), strict=True)
            ):
                if group not in self._number:
                    raise ValueError(
                        f"X[{i}]: variable {v} is of group {group!r}, which the model was not "
                        f"trained with; it knows {self.groups}."
                    )
                wanted = len(self.group_classes[group])
                if n_states != wanted:
                    of_group = f" of group {group!r}" if len(self.groups) > 1 else ""
                    raise ValueError(
                        f"X[{i}]: variable {v}{of_group} has {n_states} states, but there are "
                        f"{wanted} classes; expected n_states={wanted}. Labels that do not occur "
                        "in y can be declared with classes=."
                    )


def node_groups(graph: NodeGraph) -> list[Hashable]:
    """The group of each node."""
    return [None] * graph.n_nodes if graph.given is None else graph.given.groups


def all_labels(declared: Any) -> Any:
    """What ``classes=`` declares for all groups together."""
    if not is_mapping(declared):
        return declared
    if not declared:
        raise ValueError("classes is an empty dict; expected the labels of each group.")
    for group, labels in declared.items():
        if not has_items(labels):
            raise ValueError(
                f"classes[{group!r}] must be a list of labels; received {type(labels).__name__}."
            )
    return list(dict.fromkeys(label for labels in declared.values() for label in labels))


def find_kinds(
    graphs: Sequence[NodeGraph],
    truth: np.ndarray,
    classes: np.ndarray,
    declared: Any,
) -> NodeKinds:
    """The labels of each group: those declared, or those that its nodes have.

    A group whose variables have as many states as there are labels in all has all labels.
    ``truth`` holds codes, negative where there is no label.
    """
    groups = [group for graph in graphs for group in dict.fromkeys(node_groups(graph))]
    listed = list(dict.fromkeys(groups))
    by_group = is_mapping(declared)
    if len(listed) == 1 and not by_group:
        return NodeKinds(classes, {listed[0]: classes})
    sizes: dict[Hashable, int] = {}
    of_node: list[int] = []
    number = {group: k for k, group in enumerate(listed)}
    for graph in graphs:
        of_node += [number[group] for group in node_groups(graph)]
        if graph.given is not None:
            for group, size in zip(graph.given.groups, graph.given.n_states.tolist(), strict=True):
                sizes.setdefault(group, size)
    kinds = np.array(of_node)
    found: dict[Hashable, np.ndarray] = {}
    known = LabelCodes(classes)
    for group in listed:
        if by_group and group not in declared:
            raise ValueError(
                f"classes declares the labels of {list(declared)}, but there are variables of "
                f"group {group!r}; declare theirs too."
            )
        if by_group:
            chosen = np.unique(known.codes_or_minus_one(list(declared[group])))
        elif sizes[group] == len(classes):
            chosen = np.arange(len(classes))
        else:
            codes = truth[kinds == number[group]]
            chosen = np.unique(codes[codes >= 0])
        if not len(chosen):
            raise ValueError(
                f"no variable of group {group!r} has a label in y; declare the labels of each "
                f"group: classes={{{group!r}: [...], ...}}."
            )
        found[group] = classes[chosen]
    return NodeKinds(classes, found)

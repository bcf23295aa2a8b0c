"""Which labels of a multilabel problem interact: names of graphs, or pairs of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._labels import plain
from .._validation import has_items, is_list, is_name, is_text
from ..graphs.factor_graph import check_memory
from ..graphs.label_graph import all_pairs, chow_liu_tree

NAMED = ("auto", "none", "full", "tree")
# Largest number of labels, and of bytes of the dual state, for which "auto" is the full graph.
_MOST_LABELS = 30
_MOST_BYTES = 1 << 30


def check_edges(edges: Any) -> None:
    """Refuse what no fit could use, before looking at the data."""
    named = is_text(edges) and edges in NAMED
    if not named and (not has_items(edges)):
        listed = ", ".join(repr(name) for name in NAMED)
        raise ValueError(f"edges must be one of {listed}, or a list of pairs; received {edges!r}.")


def state_bytes(n_edges: int, n_labels: int, n_examples: int) -> int:
    """Bytes of the dual state of a graph over labels: beliefs, implied ones and multipliers."""
    return 8 * n_examples * (2 * n_labels + 12 * n_edges)


def find_edges(
    edges: Any, classes: np.ndarray, indicator: np.ndarray, weights: np.ndarray, may_interact: bool
) -> np.ndarray:
    """Pairs of numbers of labels that interact, shape (n_edges, 2)."""
    L, n = len(classes), int((weights > 0).sum())
    if is_name(edges, "auto"):
        n_pairs = L * (L - 1) // 2
        small = L <= _MOST_LABELS and state_bytes(n_pairs, L, n) <= _MOST_BYTES
        edges = "none" if not may_interact else "full" if small else "tree"
    if not is_text(edges):
        found = _named_pairs(list(edges), classes)
    elif edges == "none" or L == 1:
        found = np.empty((0, 2), np.int64)
    elif edges == "full":
        check_memory(state_bytes(L * (L - 1) // 2, L, n), f"edges='full' over {L} labels")
        found = all_pairs(L)
    else:
        found = chow_liu_tree(indicator, weights)
    check_memory(state_bytes(len(found), L, n), f"{len(found)} edges over {L} labels")
    return found


def _named_pairs(pairs: list, classes: np.ndarray) -> np.ndarray:
    """Numbers of the labels of pairs; refuse labels that are not known, loops and repetitions."""
    code = {label: k for k, label in enumerate(classes.tolist())}
    found = np.empty((len(pairs), 2), np.int64)
    seen: dict[tuple[int, int], int] = {}
    for e, pair in enumerate(pairs):
        if not is_list(pair) or len(pair) != 2:
            raise ValueError(f"edges[{e}] must be a pair of labels; received {pair!r}.")
        for end, label in enumerate(pair):
            label = plain(label)
            try:
                found[e, end] = code[label]
            except (KeyError, TypeError):
                raise ValueError(
                    f"edges[{e}] names {label!r}, which is not among the {len(classes)} labels; "
                    "name labels as in classes_ (the columns of an indicator matrix are 0, 1, ...)."
                ) from None
        first, second = sorted(found[e].tolist())
        if first == second:
            raise ValueError(f"edges[{e}] joins {plain(pair[0])!r} with itself; leave it out.")
        if (first, second) in seen:
            raise ValueError(
                f"edges[{e}] = {tuple(pair)!r} joins the labels of edges[{seen[first, second]}] "
                "again; name every pair once, in either order."
            )
        seen[first, second] = e
    return found

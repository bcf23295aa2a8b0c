"""How well predicted rankings agree with true ones.

Rankings are rank vectors, one a row: ``ranks[i, item]`` is the rank of the item, counted from
anywhere. :func:`ranks_of_orderings` turns orderings into these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["hamming_loss", "kendall_tau", "ranks_of_orderings", "spearman_footrule"]


def _take_pair(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    true, predicted = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 2 or true.shape != predicted.shape:
        raise ValueError(
            "y_true and y_pred must be arrays of the same shape (n_examples, n_items); received "
            f"shapes {true.shape} and {predicted.shape}."
        )
    if true.shape[1] < 2 or not len(true):
        raise ValueError(f"expected at least one ranking of two items; received {true.shape}.")
    return true, predicted


def hamming_loss(y_true: Any, y_pred: Any) -> float:
    """Mean share of items at a wrong position: the loss that :class:`LabelRanker` trains for."""
    true, predicted = _take_pair(y_true, y_pred)
    return float(np.mean(true != predicted))


def kendall_tau(y_true: Any, y_pred: Any) -> float:
    """Mean of Kendall's tau: pairs of items in the same order minus pairs in the other, as a share.

    1 for equal rankings, -1 for opposite ones. Rankings have no ties.

    Examples
    --------
    >>> from maxmargin.metrics import kendall_tau
    >>> kendall_tau([[1, 2, 3], [1, 2, 3]], [[1, 2, 3], [1, 3, 2]])
    0.6666666666666666
    """
    return float(kendall_taus(*_take_pair(y_true, y_pred)).mean())


def kendall_taus(true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Kendall's tau of each pair of rankings."""
    M = true.shape[1]
    agreement = np.zeros(len(true))
    for a in range(1, M):  # pairs of items that are a columns apart
        left = np.sign(np.subtract(true[:, a:], true[:, :-a], dtype=float))
        right = np.sign(np.subtract(predicted[:, a:], predicted[:, :-a], dtype=float))
        agreement += (left * right).sum(axis=1)
    return agreement / (M * (M - 1) / 2)


def spearman_footrule(y_true: Any, y_pred: Any) -> float:
    """Mean distance of the ranks, summed over items, as a share of the largest possible one."""
    true, predicted = _take_pair(y_true, y_pred)
    distance = np.abs(np.subtract(true, predicted, dtype=float)).sum(axis=1)
    return float(distance.mean() / (true.shape[1] ** 2 // 2))


def ranks_of_orderings(orderings: Any, items: Any = None) -> np.ndarray:
    """Rank vectors (from 1) of orderings of ``items``; by default of their labels, sorted.

    Examples
    --------
    >>> from maxmargin.metrics import ranks_of_orderings
    >>> ranks_of_orderings([["b", "c", "a"]])
    array([[3, 1, 2]])
    """
    from ..tasks.rankings import read_rankings

    positions, _ = read_rankings(orderings, len(orderings), "orderings", items)
    return positions.astype(np.int64) + 1

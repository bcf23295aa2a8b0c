"""Attachment scores of dependency trees."""

from __future__ import annotations

from typing import Any

from .._validation import is_plain_list
from ._pairs import take_pairs

__all__ = ["labeled_attachment_score", "unlabeled_attachment_score"]


def unlabeled_attachment_score(y_true: Any, y_pred: Any) -> float:
    """UAS: share of the words whose head is right; words without a known head do not count.

    Parameters
    ----------
    y_true, y_pred : lists of lists of heads, or of pairs (head, label)
        Words count from 1; 0 is the root; None is a head that is not known.

    Examples
    --------
    >>> from maxmargin.metrics import unlabeled_attachment_score
    >>> unlabeled_attachment_score([[2, 0, 2]], [[2, 0, 1]])
    0.6666666666666666
    """
    return _share_right(y_true, y_pred, _head)


def labeled_attachment_score(y_true: Any, y_pred: Any) -> float:
    """LAS: share of the words whose head and label are right.

    Parameters
    ----------
    y_true, y_pred : lists of lists of pairs (head, label)

    Examples
    --------
    >>> from maxmargin.metrics import labeled_attachment_score
    >>> labeled_attachment_score([[(2, "det"), (0, "root")]], [[(2, "obj"), (0, "root")]])
    0.5
    """
    return _share_right(y_true, y_pred, _arc)


def _head(arc: Any, where: str) -> Any:
    return arc[0] if is_plain_list(arc) else arc


def _arc(arc: Any, where: str) -> Any:
    if not is_plain_list(arc) or len(arc) != 2:
        raise ValueError(f"{where} is {arc!r}; expected a pair of a head and a label.")
    return None if arc[0] is None else (int(arc[0]), str(arc[1]))


def _share_right(y_true: Any, y_pred: Any, read: Any) -> float:
    right = total = 0
    for i, (true, predicted) in enumerate(take_pairs(y_true, y_pred, "heads")):
        for t, (a, b) in enumerate(zip(true, predicted)):
            wanted = read(a, f"y_true[{i}][{t}]")
            if wanted is None:
                continue
            total += 1
            right += wanted == read(b, f"y_pred[{i}][{t}]")
    if not total:
        raise ValueError("y_true: no head is known; expected at least one.")
    return right / total

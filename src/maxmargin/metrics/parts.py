"""Labels of the parts of examples: positions, words, cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._pairs import take_pairs

__all__ = ["exact_match_score", "mean_iou_score", "token_accuracy_score", "token_f1_score"]


def token_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """Share of all positions whose label is right, whatever sequence they belong to.

    Examples
    --------
    >>> from maxmargin.metrics import token_accuracy_score
    >>> token_accuracy_score([["a", "b"], ["a", "a"]], [["a", "b"], ["b", "a"]])
    0.75
    """
    right = total = 0
    for true, predicted in take_pairs(y_true, y_pred, "labels"):
        right += sum(a == b for a, b in zip(true, predicted))
        total += len(true)
    if not total:
        raise ValueError("y_true has no labels; expected at least one.")
    return right / total


def token_f1_score(y_true: Any, y_pred: Any, *, average: str = "macro") -> float:
    """F1 of the labels of all positions, averaged over labels as in scikit-learn.

    Examples
    --------
    >>> from maxmargin.metrics import token_f1_score
    >>> round(token_f1_score([["a", "b"], ["a", "a"]], [["a", "b"], ["b", "a"]]), 3)
    0.733
    """
    from sklearn.metrics import f1_score

    pairs = list(take_pairs(y_true, y_pred, "labels"))
    true = [label for output, _ in pairs for label in output]
    if not true:
        raise ValueError("y_true has no labels; expected at least one.")
    predicted = [label for _, output in pairs for label in output]
    return float(f1_score(true, predicted, average=average, zero_division=0.0))


def exact_match_score(y_true: Any, y_pred: Any) -> float:
    """Share of the examples all of whose parts are right.

    Outputs are lists of labels or of heads, or arrays such as label images and rankings.

    Examples
    --------
    >>> from maxmargin.metrics import exact_match_score
    >>> exact_match_score([["a", "b"], ["a"]], [["a", "a"], ["a"]])
    0.5
    """
    same = [
        all(np.all(a == b) for a, b in zip(true, predicted))
        for true, predicted in take_pairs(y_true, y_pred, "parts")
    ]
    if not same:
        raise ValueError("y_true is empty; expected at least one example.")
    return sum(same) / len(same)


def mean_iou_score(y_true: Any, y_pred: Any, *, void: Any = None) -> float:
    """Mean over labels of intersection over union, pooled over all examples.

    Parameters
    ----------
    y_true, y_pred : lists of label images, or of label sequences
    void : label, optional
        Parts with this true label do not count.

    Returns
    -------
    float
        Mean over the labels that occur in ``y_true`` or ``y_pred``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.metrics import mean_iou_score
    >>> mean_iou_score([np.array([[0, 0], [1, 1]])], [np.array([[0, 1], [1, 1]])])
    0.5833333333333333
    """
    truths: list[np.ndarray] = []
    others: list[np.ndarray] = []
    for i, (true, predicted) in enumerate(take_pairs(y_true, y_pred, "labels")):
        truths.append(np.asarray(true))
        others.append(np.asarray(predicted))
        if truths[-1].shape != others[-1].shape:
            raise ValueError(
                f"y_true[{i}] has the shape {truths[-1].shape} but y_pred[{i}] has "
                f"{others[-1].shape}; expected the same."
            )
    if not truths:
        raise ValueError("y_true is empty; expected at least one example.")
    true, predicted = (np.concatenate([each.ravel() for each in y]) for y in (truths, others))
    if void is not None:
        known = true != void
        true, predicted = true[known], predicted[known]
    if not len(true):
        raise ValueError("y_true has no label that counts; expected at least one.")
    labels, codes = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    a, b = codes[: len(true)], codes[len(true) :]
    both = np.bincount(a[a == b], minlength=len(labels))
    either = np.bincount(a, minlength=len(labels)) + np.bincount(b, minlength=len(labels)) - both
    return float(np.mean(both / either))

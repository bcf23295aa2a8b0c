"""Labels of any hashable kind, and their codes 0 ... K-1."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class UnseenLabelWarning(UserWarning):
    """A label at scoring that the model does not know; it counts as an error."""


def as_label_array(labels: Sequence[Any]) -> np.ndarray:
    """One-dimensional array of labels: numbers and strings natively, anything else as objects."""
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        return labels
    labels = list(labels)
    kinds = {type(label) for label in labels}
    if kinds <= {str} or kinds <= {bool} or (kinds and all(_is_number(kind) for kind in kinds)):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels  # tuples stay tuples
    return array


def _is_number(kind: type) -> bool:
    return issubclass(kind, (int, float, np.integer, np.floating)) and kind is not bool


def find_classes(labels: Iterable[Any]) -> np.ndarray:
    """Distinct labels, sorted; in the order of appearance if they cannot be compared."""
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return np.unique(labels)
    distinct = list(dict.fromkeys(labels))
    try:
        distinct.sort()
    except TypeError:
        pass
    return as_label_array(distinct)


class LabelCodes:
    """Translation between labels and codes.

    Parameters
    ----------
    classes : array
        Labels in the order of their codes.
    """

    def __init__(self, classes: np.ndarray):
        self.classes = classes
        self._code = {label: code for code, label in enumerate(classes.tolist())}

    @classmethod
    def from_labels(cls, labels: Any, declared: Any, name: str = "y") -> LabelCodes:
        """Codes of the labels found, or of the classes declared in advance."""
        if declared is None:
            found = find_classes(labels)
        else:
            found = as_label_array(declared)
            if len(set(found.tolist())) != len(found):
                raise ValueError("classes must not contain a label twice.")
        if len(found) < 2:
            only = f": {found[0]!r}" if len(found) else ""
            raise ValueError(
                f"{name} has {len(found)} class{only}; at least 2 classes are needed to learn "
                "anything. Add examples of another class, or declare all labels with classes=."
            )
        return cls(found)

    def encode(self, labels: Any, where: str) -> np.ndarray:
        """Codes of known labels; an unknown one is an error that names its place."""
        codes = self.codes_or_minus_one(labels)
        if (codes < 0).any():
            at = int(np.flatnonzero(codes < 0)[0])
            label = (
                np.asarray(labels, dtype=object)[at] if not isinstance(labels, list) else labels[at]
            )
            raise ValueError(
                f"{where} holds the label {label!r} at position {at}, which is not among the "
                f"{len(self.classes)} classes; declare it with classes= or correct it."
            )
        return codes

    def codes_or_minus_one(self, labels: Any) -> np.ndarray:
        """Codes, with -1 for labels that are not known."""
        if (
            isinstance(labels, np.ndarray)
            and labels.dtype.kind in "iufUS"
            and self.classes.dtype.kind in "iufUS"
            and (labels.dtype.kind in "US") == (self.classes.dtype.kind in "US")
            and (self.classes[:-1] < self.classes[1:]).all()
        ):
            at = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
            return np.where(self.classes[at] == labels, at, -1).astype(np.int32)
        values = labels.tolist() if isinstance(labels, np.ndarray) else labels
        code = self._code
        return np.array([code.get(label, -1) for label in values], dtype=np.int32)


def warn_unseen(labels: Iterable[Any], stacklevel: int = 3) -> None:
    """Tell that labels at scoring are unknown to the model."""
    listed = ", ".join(sorted({repr(label) for label in labels})[:5])
    warnings.warn(
        f"y holds labels that the model has never seen ({listed}); they count as errors.",
        UnseenLabelWarning,
        stacklevel=stacklevel,
    )


def class_costs(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Cost of a mistake on each true class.

    ``class_weight`` is None, a dict label -> weight (1 for those not named), or "balanced":
    ``n / (K * count)``. ``counts`` are the (weighted) frequencies of the classes.
    """
    costs = np.ones(len(classes))
    if class_weight is None:
        return costs
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight must be None, 'balanced' or a dict; received {class_weight!r}."
            )
        seen = counts > 0
        costs[seen] = counts.sum() / (seen.sum() * counts[seen])
        return costs
    known = {label: code for code, label in enumerate(classes.tolist())}
    try:
        items = list(class_weight.items())
    except AttributeError:
        raise ValueError(
            "class_weight must be None, 'balanced' or a dict label -> weight; received "
            f"{type(class_weight).__name__}."
        ) from None
    for label, weight in items:
        if label not in known:
            raise ValueError(f"class_weight names {label!r}, which is not among the classes.")
        if not np.isfinite(weight) or weight < 0:
            raise ValueError(f"class_weight[{label!r}] must be >= 0; received {weight!r}.")
        costs[known[label]] = weight
    return costs

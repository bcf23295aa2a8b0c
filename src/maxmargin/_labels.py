"""Labels of any hashable kind, and their codes 0 ... K-1."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ._validation import check_number, is_array, is_float, is_iterable, is_text, outside

# Of the weights of classes, where they multiply margins: with few of n_k examples the best margins
# are in proportion to n_k ** -0.25 (Cao, Wei, Gaidon, Arechiga, Ma, NeurIPS 2019).
MARGIN_POWER = 0.25


class UnseenLabelWarning(UserWarning):
    """A label at scoring that the model does not know; it counts as an error."""


def as_label_array(labels: Sequence[Any]) -> np.ndarray:
    """One-dimensional array of labels: numbers and strings natively, anything else as objects."""
    if is_array(labels) and labels.ndim == 1:
        return labels
    labels = list(labels)
    kinds = set(map(type, labels))
    texts = kinds <= {str, np.str_}
    if texts or kinds <= {bool, np.bool_} or all(_is_number(kind) for kind in kinds):
        native = _text_array(labels) if texts else np.array(labels)
        if native.tolist() == labels:  # large integers and final zero bytes may get lost
            return native
    array = np.empty(len(labels), dtype=object)
    array[:] = labels  # tuples stay tuples
    return array


def _text_array(texts: list[str]) -> np.ndarray:
    """The array of strings, of which most occur many times: each is converted once."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    codes = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    return np.array(list(places))[codes]


def plain(label: Any) -> Any:
    """The label as Python writes it: 'a' rather than np.str_('a')."""
    return label.item() if isinstance(label, np.generic) else label


def place_in_sequences(indptr: np.ndarray) -> Callable[[int], str]:
    """Names of the places of labels that stand one after another: ``y[3][0]``."""

    def place(at: int) -> str:
        i = int(np.searchsorted(indptr, at, side="right") - 1)
        return f"y[{i}][{at - indptr[i]}]"

    return place


def _is_native(labels: Any) -> bool:
    """Whether labels are numbers or strings of numpy, all of one type."""
    return is_array(labels) and labels.dtype != object


def _is_number(kind: type) -> bool:
    return issubclass(kind, (int, float, np.integer, np.floating)) and kind is not bool


def find_classes(labels: Any) -> np.ndarray:
    """Distinct labels, sorted; in the order of appearance if they cannot be compared."""
    if _is_native(labels):
        return np.unique(labels)
    distinct = list(dict.fromkeys(labels))
    try:
        distinct.sort()
    except TypeError:
        pass
    return as_label_array(distinct)


def _refuse_no_labels(labels: Any, place: Callable[[int], str]) -> None:
    """Refuse NaN, which is not even equal to itself, and what cannot be a key."""
    if _is_native(labels):
        missing = labels.dtype.kind in "fc" and np.isnan(labels)
        bad = np.flatnonzero(missing)
        if len(bad):
            raise ValueError(
                f"{place(int(bad[0]))} is NaN, which cannot be a label; drop the examples whose "
                "label is not known."
            )
        return
    for at, label in enumerate(labels):
        try:
            hash(label)
        except TypeError:
            raise ValueError(
                f"{place(at)} is a {type(label).__name__}, which cannot be a label; labels must be "
                f"hashable, such as numbers, strings or tuples; received {label!r}."
            ) from None
        if label is not None and label != label:
            raise ValueError(
                f"{place(at)} is {label!r}, which cannot be a label; drop the examples whose label "
                "is not known."
            )


def _refuse_quantities(labels: Any, place: Callable[[int], str]) -> None:
    """Refuse floats that are no whole numbers: they are quantities, and each would be a class."""
    if _is_native(labels):
        if labels.dtype.kind != "f":
            return
        bad = np.flatnonzero(labels != np.round(labels))
        at = int(bad[0]) if len(bad) else -1
    else:
        is_part = (is_float(v) and not float(v).is_integer() for v in labels)
        at = next((number for number, found in enumerate(is_part) if found), -1)
    if at < 0:
        return
    raise ValueError(
        f"Unknown label type: continuous. {place(at)} is {plain(labels[at])!r}, and y has "
        f"{len(find_classes(labels))} different values: this looks like a quantity, where every "
        "value would be a class of its own. Cut it into classes first, for example with "
        "numpy.digitize (OrdinalClassifier respects their order) or numpy.round; if these are the "
        "classes, declare all of them with classes=."
    )


def ordered_categories(y: Any) -> list | None:
    """Categories of an ordered Categorical (pandas), from the lowest to the highest."""
    kind: Any = getattr(y, "dtype", None)  # that of numpy has no order
    return list(kind.categories) if getattr(kind, "ordered", False) else None


def refuse_unordered(labels: np.ndarray, estimator: str) -> None:
    """Refuse strings as ordered labels: sorted, they would be in alphabetical order."""
    _refuse_no_labels(labels, "y[{}]".format)
    found = find_classes(labels).tolist()
    if len(found) < 3 or not any(is_text(label) for label in found):
        return  # the order of two classes makes no difference
    shown = ", ".join(map(repr, found[:5])) + (", ..." if len(found) > 5 else "")
    raise ValueError(
        f"y holds strings, which do not say their order: sorted they are {shown}. Declare it, from "
        f"the lowest to the highest: {estimator}(classes=[{shown}]) in the right order, or pass y "
        "as an ordered pandas Categorical."
    )


def _declared_classes(declared: Any, fewest: int) -> np.ndarray:
    if not is_iterable(declared):
        raise ValueError(f"classes must be a list of all labels; received {declared!r}.")
    found = as_label_array(declared)
    _refuse_no_labels(found, "classes[{}]".format)
    seen: set = set()
    for label in found.tolist():
        if label in seen:
            raise ValueError(f"classes names {label!r} twice; name every label once.")
        seen.add(label)
    if len(found) < fewest:
        raise ValueError(
            f"classes must name at least {fewest} label{'s' if fewest > 1 else ''}; received "
            f"{len(found)}: {found.tolist()}."
        )
    return found


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
    def from_labels(
        cls,
        labels: Any,
        declared: Any,
        place: Callable[[int], str] = "y[{}]".format,
        fewest: int = 2,
    ) -> LabelCodes:
        """Codes of the labels found, or of the classes declared in advance.

        ``place`` names the place of a label in an error; fewer labels than ``fewest`` are one.
        """
        _refuse_no_labels(labels, place)
        if declared is not None:
            return cls(_declared_classes(declared, fewest))
        _refuse_quantities(labels, place)
        found = find_classes(labels)
        if len(found) < fewest:
            only = f"1 class: {plain(found[0])!r}" if len(found) else "0 classes"
            needed = "2 classes are" if fewest > 1 else "1 class is"
            raise ValueError(
                f"y has {only}; at least {needed} needed to learn anything. Add examples of "
                "another class, or declare all labels with classes=."
            )
        return cls(found)

    def encode(self, labels: Any, where: str) -> np.ndarray:
        """Codes of known labels; an unknown one is an error that names its place."""
        codes = self.codes_or_minus_one(labels)
        if (codes < 0).any():
            at = int(np.flatnonzero(codes < 0)[0])
            raise ValueError(
                f"{where} holds the label {plain(labels[at])!r} at position {at}, which is not "
                f"among the {len(self.classes)} classes; declare it with classes= or correct it."
            )
        return codes

    def codes_or_minus_one(self, labels: Any) -> np.ndarray:
        """Codes, with -1 for labels that are not known."""
        if (
            _is_native(labels)
            and labels.dtype.kind in "iufUS"
            and labels.dtype.kind == self.classes.dtype.kind
            and (self.classes[:-1] < self.classes[1:]).all()
        ):
            at = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
            return np.where(self.classes[at] == labels, at, -1).astype(np.int32)
        values = labels.tolist() if is_array(labels) else labels
        code = self._code
        return np.array([code.get(label, -1) for label in values], dtype=np.int32)


def warn_unseen(labels: Iterable[Any], what: str = "they count as errors") -> None:
    """Tell that labels at scoring are unknown to the model."""
    listed = ", ".join(sorted({repr(plain(label)) for label in labels})[:5])
    warnings.warn(
        f"y holds labels that the model has never seen ({listed}); {what}.",
        UnseenLabelWarning,
        stacklevel=outside(),
    )


def class_costs(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Cost of a mistake on each true class.

    ``class_weight`` is None, a dict label -> weight (1 for those not named, with a warning), or
    "balanced": ``n / (K * count)``. ``counts`` are the (weighted) frequencies of the classes.
    """
    costs = np.ones(len(classes))
    if class_weight is None:
        return costs
    if is_text(class_weight):
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
            raise ValueError(
                f"class_weight names {label!r}, which is not among the classes; leave it out, or "
                "declare it with classes=."
            )
        check_number(f"class_weight[{label!r}]", weight, at_least=0)
        costs[known[label]] = weight
    _warn_left_out([label for label in known if label not in class_weight])
    if not (costs * counts).any():
        raise ValueError("class_weight is 0 for all labels of y; at least one must count.")
    return costs


def margin_costs(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same where costs are margins: "balanced" is the power ``MARGIN_POWER`` of the weights."""
    costs = class_costs(class_weight, classes, counts)
    return costs**MARGIN_POWER if is_text(class_weight) else costs


def _warn_left_out(labels: list) -> None:
    if not labels:
        return
    listed = ", ".join(map(repr, labels[:5]))
    more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
    warnings.warn(
        f"class_weight leaves out {listed}{more}, which get the weight 1; name every class to be "
        "sure of its weight.",
        UserWarning,
        stacklevel=outside(),
    )

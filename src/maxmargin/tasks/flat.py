"""One label per example, ordered or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite

from .._labels import as_label_array
from .._validation import is_plain_list
from .base import Task, Trivial, n_rows
from .measures import Measure, Outputs, accuracy, balanced_accuracy, macro_f1


def take_labels(y: Any, n_rows: int) -> np.ndarray:
    """Labels of the rows of X as an array, whatever hashables they are."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if sp.issparse(y):
        raise ValueError("y must be a dense sequence of labels; received a sparse matrix.")
    if is_plain_list(y):
        labels = as_label_array(y)
    else:
        labels = column_or_1d(y, warn=True)
    if len(labels) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {len(labels)} labels; expected one label for each row."
        )
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if labels.dtype.kind not in "fO":  # floats may be declared; see LabelCodes.from_labels
        check_classification_targets(labels)
    return labels


class MulticlassTask(Task):
    """One label per example."""

    key = "multiclass"
    title = "multiclass classification"
    part = label = "class"

    def encode(self, X: Any, y: Any) -> Outputs:
        return Outputs.of_table(self._codes(take_labels(y, n_rows(X)))[:, None])

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        return Outputs.of_table(self._codes(self.model.predict(X))[:, None])

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [balanced_accuracy(truth, found), macro_f1(truth, found)]


class OrdinalTask(MulticlassTask):
    """Ordered labels, where a mistake costs its distance."""

    key = "ordinal"
    title = "ordinal regression"
    alone_name = "LinearSVC, which ignores the order"
    alone_scoring = "neg_mean_absolute_error"

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        # A label that the model does not know is as far away as possible.
        worst = len(self.model.classes_) - 1
        distance = np.where(truth.codes < 0, worst, np.abs(truth.codes - found.codes))
        each = np.ones(len(truth))
        return Measure("mean absolute error", distance.astype(float), each, False, True)

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        return [accuracy(truth, found), balanced_accuracy(truth, found)]

    def trivial(self, truth: Outputs) -> Trivial:
        known = truth.codes[truth.codes >= 0]
        return self._always(int(np.quantile(known, 0.5, method="lower")), "the median class")

"""What every task knows: how outputs are read, what is measured, what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._labels import LabelCodes, plain, warn_unseen
from .._validation import check_sample_weight
from .baselines import Baseline, classify
from .measures import Measure, Outputs, accuracy

Trivial = dict[str, Any]


class Data(NamedTuple):
    """Examples as the estimator gets them, as the user passed them, and their true outputs."""

    X: Any
    given: Any
    truth: Outputs


class PairTable(NamedTuple):
    """Learnt weights of pairs of labels; NaN where a pair has none."""

    kind: str  # what a pair is: "transition", "interaction", "edge"
    between: str  # how to write one: "a -> b"
    values: np.ndarray


class Task:
    """A kind of output of a fitted model.

    Attributes
    ----------
    key : str
        Its name for users and the command line.
    title, noun, part, label : str
        What to call the task, an example, a part of its output, and what is predicted for the part.
    nothing_known : str
        The error if no part of any true output is known.
    """

    key = ""
    title = ""
    noun = "example"
    part = label = "label"
    alone_name = "LinearSVC"
    alone_scoring = "accuracy"  # by which the regularisation of LinearSVC is chosen
    nothing_known = "all labels of y are hidden; at least one must be known."

    def __init__(self, model: Any):
        self.model = model
        self.unseen: dict[Any, int] = {}  # labels that the model does not know, and their codes

    # --- outputs ----------------------------------------------------------------------------

    @property
    def classes(self) -> Any:
        """The labels, in the order of their codes; none for outputs without labels."""
        return self.model.classes_

    @property
    def labels(self) -> list[str]:
        """Names of the labels."""
        return [str(label) for label in self.classes]

    def pairs(self) -> list[PairTable]:
        """What was learnt about pairs of labels."""
        return []

    def encode(self, X: Any, y: Any) -> Outputs:
        """True outputs of examples."""
        raise NotImplementedError

    def predict(self, X: Any, truth: Outputs) -> Outputs:
        """Predicted outputs; what is true says at most how large they are."""
        raise NotImplementedError

    def compare(self, X: Any, y: Any) -> tuple[Outputs, Outputs]:
        """True and predicted outputs."""
        truth = self.encode(X, y)
        return truth, self.predict(X, truth)

    def _codes(self, labels: Any) -> np.ndarray:
        """Codes of labels; those that the model does not know get numbers below zero."""
        codes = LabelCodes(self.model.classes_).codes_or_minus_one(labels).astype(np.int64)
        for at in np.flatnonzero(codes < 0):
            codes[at] = self.unseen.setdefault(plain(labels[at]), -1 - len(self.unseen))
        return codes

    # --- measures ---------------------------------------------------------------------------

    def main(self, truth: Outputs, found: Outputs) -> Measure:
        """What ``score`` of the estimator says, with its sign changed if lower is better."""
        return accuracy(truth, found)

    def others(self, truth: Outputs, found: Outputs) -> list[Measure]:
        """All other measures."""
        return []

    def measures(self, truth: Outputs, found: Outputs) -> list[Measure]:
        """All measures."""
        if not truth.counted.any():
            raise ValueError(self.nothing_known)
        return [self.main(truth, found), *self.others(truth, found)]

    def by_type(self, truth: Outputs, found: Outputs) -> dict[str, dict[str, float]]:
        """Measures of each type of span, by name; empty where there are no spans."""
        return {}

    def malformed(self, truth: Outputs, found: Outputs) -> dict[str, Any]:
        """How many labels break the scheme of their spans; empty where there are none."""
        return {}

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The main measure of the predictions; larger is better."""
        check_is_fitted(self.model)
        # What can be looked at only once is needed twice.
        truth, found = self.compare(list(X) if isinstance(X, Iterator) else X, y)
        weights = check_sample_weight(sample_weight, len(truth), self.noun)
        if self.unseen:
            warn_unseen(self.unseen)
        main = self.main(truth, found)
        value = main.weighted(weights)
        if math.isnan(value):
            raise ValueError(self.nothing_known)
        return -value if main.lower_is_better else value

    # --- baselines --------------------------------------------------------------------------

    def trivial(self, truth: Outputs) -> Trivial | None:
        """The best answer that looks at no features, as a JSON document.

        ``says`` describes it; the rest is what :meth:`constant` needs.
        """
        known = truth.codes[truth.codes >= 0]
        best = int(np.bincount(known, minlength=len(self.model.classes_)).argmax())
        return self._always(best, f"the most frequent {self.label}")

    def _always(self, code: int, which: str) -> Trivial:
        label = plain(self.model.classes_[code])
        return {"says": f"always {label}, {which}", "label": label}

    def constant(self, trivial: Trivial, truth: Outputs) -> Outputs:
        """The outputs of :meth:`trivial`."""
        known = {plain(label): code for code, label in enumerate(self.model.classes_)}
        label = trivial.get("label")
        if label not in known:
            raise ValueError(f"the baseline {label!r} is no label of the model.")
        return truth.like(np.full(len(truth.codes), known[label]))

    def alone(self, train: Data, test: Data) -> Baseline | None:
        """Predictions of every part by itself."""
        rows, others = self.rows(train.X), self.rows(test.X)
        if rows is None or others is None:
            return None
        found, note = classify(rows, train.truth.codes, others, self.alone_scoring)
        return Baseline(self.alone_name + note, test.truth.like(found))

    def rows(self, X: Any) -> Any:
        """Features of all parts, one below the other; None where there are none to use."""
        return None if self.model.kernel == "precomputed" else X


def n_rows(X: Any) -> int:
    """Number of examples."""
    return _num_samples(X)

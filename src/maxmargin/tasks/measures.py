"""Measures of predictions, under the names that scikit-learn and the field use.

A measure keeps what counts for each example rather than one number, so that the same object gives
the score of all examples, that of weighted ones, and the bootstrap over examples of a report.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..metrics.spans import SCHEMES, count_spans, find_spans

# Code of a true part that is not known: it does not count. Not a plain int, which numpy would cast
# to the type of the codes beside it.
VOID = np.int64(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Outputs:
    """Outputs of examples as whole numbers, packed: ``codes[indptr[i]:indptr[i+1]]`` are example i.

    Codes are those of labels, zeros and ones for a set, positions of items, or heads of words.
    Labels that the model does not know have codes below zero, a different one for each label.
    ``given`` holds the outputs themselves where measures need them.
    """

    codes: np.ndarray
    indptr: np.ndarray
    given: Any = None

    @classmethod
    def of_table(cls, table: np.ndarray) -> Outputs:
        """Outputs of the same length, one row each."""
        n, width = table.shape
        return cls(table.astype(np.int64).ravel(), np.arange(n + 1) * width)

    @classmethod
    def of_list(cls, arrays: Iterable[Any], given: Any = None) -> Outputs:
        """Outputs one by one."""
        listed = [np.asarray(array, np.int64) for array in arrays]
        indptr = np.cumsum([0, *map(len, listed)])
        return cls(np.concatenate(listed), indptr, given)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.codes[self.indptr[i] : self.indptr[i + 1]]

    @property
    def sizes(self) -> np.ndarray:
        """Number of parts of each example."""
        return np.diff(self.indptr)

    @property
    def table(self) -> np.ndarray:
        """One row per example, for outputs of the same length."""
        return self.codes.reshape(len(self), -1)

    @property
    def example(self) -> np.ndarray:
        """The example of each part."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def counted(self) -> np.ndarray:
        """Which parts are known."""
        return self.codes != VOID

    def like(self, codes: np.ndarray) -> Outputs:
        """Other codes for the same parts."""
        if len(codes) != len(self.codes):
            raise ValueError(f"received {len(codes)} codes for {len(self.codes)} parts of outputs.")
        return replace(self, codes=np.asarray(codes, np.int64), given=None)

    def split(self) -> list[np.ndarray]:
        """The codes of each example."""
        return np.split(self.codes, self.indptr[1:-1])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values of the parts of each example."""
        total = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
        return np.diff(total[self.indptr])


class Measure(NamedTuple):
    """What was gained of what was possible; the score is ``sum(gained) / sum(possible)``.

    Attributes
    ----------
    name : str
    gained, possible : arrays of shape (n_entries,)
    percent : bool
        Whether it is a share.
    lower_is_better : bool
    group : int array of shape (n_entries,), optional
        The score is then the mean of the scores of the groups.
    example : int array of shape (n_entries,), optional
        The example of each entry; by default entry i belongs to example i.
    """

    name: str
    gained: np.ndarray
    possible: np.ndarray
    percent: bool = True
    lower_is_better: bool = False
    group: np.ndarray | None = None
    example: np.ndarray | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        if self.example is None:
            return len(self.gained)
        return int(self.example.max(initial=-1)) + 1

    @property
    def value(self) -> float:
        """The score of all examples together."""
        return self.weighted()

    def weighted(self, weights: np.ndarray | None = None) -> float:
        """The score of examples that count by their weights; NaN where nothing counts."""
        gained, possible = self.gained, self.possible
        if weights is not None:
            of_entry = weights if self.example is None else weights[self.example]
            gained, possible = gained * of_entry, possible * of_entry
        if self.group is None:
            total = float(possible.sum())
            return float(gained.sum()) / total if total else math.nan
        most = np.bincount(self.group, possible)
        shares = np.bincount(self.group, gained)[most > 0] / most[most > 0]
        return float(shares.mean()) if len(shares) else math.nan

    def text(self, value: float | None = None) -> str:
        """The score, or another value of the measure, for people."""
        value = self.value if value is None else value
        if math.isnan(value):
            return "not defined"  # the precision of no spans at all
        return f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"


# --- labels of parts ------------------------------------------------------------------------


def accuracy(truth: Outputs, found: Outputs, name: str = "accuracy") -> Measure:
    """Share of the known parts that are right, whatever example they belong to."""
    right = (truth.codes == found.codes) & truth.counted
    return Measure(name, truth.sums(right), truth.sums(truth.counted))


def mean_accuracy(truth: Outputs, found: Outputs, name: str = "accuracy") -> Measure:
    """Mean over examples of the share of parts that are right."""
    pooled = accuracy(truth, found, name)
    some = pooled.possible > 0
    return Measure(name, pooled.gained / np.maximum(pooled.possible, 1), some.astype(float))


def all_right(truth: Outputs, found: Outputs) -> np.ndarray:
    """Whether all known parts of each example are right."""
    return truth.sums((truth.codes != found.codes) & truth.counted) == 0


def exact_match(truth: Outputs, found: Outputs, name: str = "exact match") -> Measure:
    """Share of the examples without a mistake; examples of which nothing is known do not count."""
    some = (truth.sums(truth.counted) > 0).astype(float)
    return Measure(name, all_right(truth, found) * some, some)


def balanced_accuracy(truth: Outputs, found: Outputs) -> Measure:
    """Mean of the recalls of the labels that occur."""
    known = truth.counted
    _, group = np.unique(truth.codes[known], return_inverse=True)
    right = (truth.codes == found.codes)[known].astype(float)
    return Measure("balanced accuracy", right, np.ones(len(right)), group=group,
                   example=truth.example[known])  # fmt: skip


def macro_f1(truth: Outputs, found: Outputs) -> Measure:
    """Mean of the F1 of the labels that occur or are predicted."""
    known = truth.counted
    true, other = truth.codes[known], found.codes[known]
    _, group = np.unique(np.concatenate([true, other]), return_inverse=True)
    right = (true == other).astype(float)
    return Measure(
        "macro F1", np.concatenate([right, np.zeros(len(right))]), np.full(len(group), 0.5),
        group=group, example=np.tile(truth.example[known], 2),
    )  # fmt: skip


# --- spans ----------------------------------------------------------------------------------

SPAN_MARKS = ("B-", "I-", "E-", "S-")
_STRICT = ("IOB2", "IOB1", "IOE2", "IOE1", "BIOES")


def are_spans(labels: Iterable[str]) -> bool:
    """Whether labels mark spans: B-X, I-X, also E-X and S-X, and O or a type with two marks."""
    names = set(labels)
    marked = names - {"O"}
    if not all(name[:2] in SPAN_MARKS and len(name) > 2 for name in marked):
        return False
    return "O" in names or len({name[2:] for name in marked}) < len(marked)


def malformed_spans(
    truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """How many labels break the strict scheme that they follow best; empty if none.

    Of the schemes with all marks of the labels, it is the one with the fewest malformed labels, and
    of equal ones the first. Predictions count as well: they follow the scheme of the training.
    """
    marks = {label[0] for labels in (*truth, *found) for label in labels} - {"O"}
    counts = {
        scheme: count_spans(truth, found, scheme)
        for scheme in _STRICT if marks <= set(SCHEMES[scheme].marks)
    }  # fmt: skip
    malformed = {name: (each.malformed_true, each.malformed_predicted)
                 for name, each in counts.items()}  # fmt: skip
    scheme = min(malformed, key=lambda name: sum(malformed[name]))
    true, predicted = malformed[scheme]
    return {"scheme": scheme, "true": true, "predicted": predicted} if true or predicted else {}


def span_scores(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> list[Measure]:
    """Precision, recall and F1 of whole spans, pooled over all sequences, as conlleval does."""
    counts = []
    for a, b in zip(truth, found, strict=True):
        true, predicted = set(find_spans(a)), set(find_spans(b))
        counts.append((len(true & predicted), len(true), len(predicted)))
    right, n_true, n_predicted = np.array(counts, float).T
    return [
        Measure("span precision", right, n_predicted),
        Measure("span recall", right, n_true),
        Measure("span F1", right, (n_true + n_predicted) / 2),
    ]


def say_malformed(malformed: dict[str, Any]) -> str:
    """How many labels break a scheme, in words."""
    return (
        f"malformed in {malformed['scheme']}: {malformed['true']} labels of the data, "
        f"{malformed['predicted']} of the predictions; every run is read as a span, as conlleval "
        "does"
    )

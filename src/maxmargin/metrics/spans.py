"""Spans marked by labels: precision, recall and F1 of whole spans.

A label is ``O`` or a mark and a type, such as ``B-NP``. A scheme says which runs of labels are a
span; a span counts as found if its start, its end and its type are right.

- ``"conll"``: the rules of conlleval. Every run is read as a span, also one that starts with
  ``I-``: nothing is malformed.
- ``"IOB1"``, ``"IOB2"``, ``"IOE1"``, ``"IOE2"``, ``"BIOES"``, ``"BILOU"``: strict. A label that the
  scheme does not allow at its place is malformed: it counts as ``O`` and is reported.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .._validation import check_choice, is_text, outside
from ._pairs import take_pairs

__all__ = [
    "MalformedSpanWarning", "Span", "SpanCounts", "count_spans", "find_spans",
    "span_classification_report", "span_f1_score", "span_precision_score", "span_recall_score",
]  # fmt: skip

AVERAGES = ("micro", "macro", "weighted")


class MalformedSpanWarning(UserWarning):
    """Labels that a strict scheme does not allow at their place counted as O."""


class Span(NamedTuple):
    """The positions ``start``, ..., ``end - 1`` and the type of a span."""

    start: int
    end: int
    type: str


class _Label(NamedTuple):
    mark: str
    type: str


_OUTSIDE = _Label("O", "")
Found = tuple[list[Span], list[int]]


# --- schemes --------------------------------------------------------------------------------


def _conll(labels: Sequence[_Label]) -> Found:
    """Runs of one type, cut before B and S and after E and S."""
    spans, start, before = [], 0, _OUTSIDE
    for t, label in enumerate([*labels, _OUTSIDE]):
        cut = label.mark in ("O", "B", "S") or before.mark in ("E", "S")
        if cut or label.type != before.type:
            if before.mark != "O":
                spans.append(Span(start, t, before.type))
            start = t
        before = label
    return spans, []


def _iob2(labels: Sequence[_Label]) -> Found:
    """Spans start with B, always; I goes on."""
    spans: list[Span] = []
    wrong = []
    for t, label in enumerate(labels):
        if label.mark == "B":
            spans.append(Span(t, t + 1, label.type))
        elif label.mark == "I" and spans and spans[-1][1:] == (t, label.type):
            spans[-1] = spans[-1]._replace(end=t + 1)
        elif label.mark != "O":
            wrong.append(t)
    return spans, wrong


def _iob1(labels: Sequence[_Label]) -> Found:
    """Spans start with I; with B if another one of their type ends just before."""
    spans: list[Span] = []
    wrong = []
    for t, label in enumerate(labels):
        goes_on = bool(spans) and spans[-1][1:] == (t, label.type)
        if label.mark == "I" and goes_on:
            spans[-1] = spans[-1]._replace(end=t + 1)
        elif label.mark == "I" or (label.mark == "B" and goes_on):
            spans.append(Span(t, t + 1, label.type))
        elif label.mark != "O":
            wrong.append(t)
    return spans, wrong


def _bioes(labels: Sequence[_Label]) -> Found:
    """A span of one position is S; a longer one starts with B, goes on with I, ends with E."""
    spans: list[Span] = []
    wrong: list[int] = []
    t = 0
    while t < len(labels):
        mark, kind = labels[t]
        end = t + 1
        if mark == "B":
            while end < len(labels) and labels[end] == ("I", kind):
                end += 1
            if end < len(labels) and labels[end] == ("E", kind):
                end += 1
                spans.append(Span(t, end, kind))
            else:
                wrong.extend(range(t, end))
        elif mark == "S":
            spans.append(Span(t, end, kind))
        elif mark != "O":
            wrong.append(t)
        t = end
    return spans, wrong


def _reversed(scheme: Callable[[Sequence[_Label]], Found]) -> Callable[[Sequence[_Label]], Found]:
    """The scheme that marks ends, E, as another marks starts, B."""
    turned = {"E": "B", "B": "E"}  # B is malformed where E marks the end

    def find(labels: Sequence[_Label]) -> Found:
        n = len(labels)
        spans, wrong = scheme(
            [label._replace(mark=turned.get(label.mark, label.mark)) for label in reversed(labels)]
        )
        return (
            [Span(n - span.end, n - span.start, span.type) for span in reversed(spans)],
            [n - 1 - t for t in reversed(wrong)],
        )

    return find


def _bilou(labels: Sequence[_Label]) -> Found:
    other = {"L": "E", "U": "S"}
    return _bioes([label._replace(mark=other.get(label.mark, label.mark)) for label in labels])


class _Scheme(NamedTuple):
    marks: str
    find: Callable[[Sequence[_Label]], Found]


SCHEMES = {
    "conll": _Scheme("BIES", _conll),
    "IOB1": _Scheme("BI", _iob1),
    "IOB2": _Scheme("BI", _iob2),
    "IOE1": _Scheme("IE", _reversed(_iob1)),
    "IOE2": _Scheme("IE", _reversed(_iob2)),
    "BIOES": _Scheme("BIES", _bioes),
    "BILOU": _Scheme("BILU", _bilou),
}


def _read(labels: Sequence[Any], scheme: str, where: str, known: dict[Any, _Label]) -> list[_Label]:
    """Marks and types of labels; those that were read before are ``known``."""
    try:
        return [known[label] for label in labels]
    except (KeyError, TypeError):  # a new one, or one without a hash
        pass
    marks = SCHEMES[scheme].marks
    found = []
    for t, label in enumerate(labels):
        mark, dash, kind = str(label).partition("-")
        if label == "O":
            found.append(_OUTSIDE)
        elif dash and kind and len(mark) == 1 and mark in marks:
            found.append(_Label(mark, kind))
        else:
            allowed = ", ".join(f"{each}-TYPE" for each in marks)
            raise ValueError(
                f"{where}[{t}] is {label!r}; the scheme {scheme!r} expects O, {allowed}. Convert "
                f"the labels, or choose another scheme: {', '.join(SCHEMES)}."
            )
        if is_text(label):
            known[label] = found[-1]
    return found


def find_spans(labels: Sequence[Any], scheme: str = "conll") -> list[Span]:
    """List the spans that the labels of one sequence mark, from left to right.

    Parameters
    ----------
    labels : sequence of str
        Labels such as ``["B-NP", "I-NP", "O"]``.
    scheme : {"conll", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU"}
        How labels mark spans. All but "conll" are strict: labels that the scheme does not allow at
        their place count as O, with a :class:`MalformedSpanWarning`.

    Returns
    -------
    list of Span
        Named tuples ``(start, end, type)``; ``end`` is the position after the last one.

    Examples
    --------
    >>> from maxmargin.metrics import find_spans
    >>> find_spans(["B-NP", "I-NP", "O", "I-VP"])
    [Span(start=0, end=2, type='NP'), Span(start=3, end=4, type='VP')]
    """
    check_choice("scheme", scheme, SCHEMES)
    spans, wrong = SCHEMES[scheme].find(_read(labels, scheme, "labels", {}))
    _warn({"labels": len(wrong)}, scheme)
    return spans


# --- counts ---------------------------------------------------------------------------------


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


class SpanCounts(NamedTuple):
    """The number of true spans, of predicted spans, and of predicted spans that are right."""

    n_true: int = 0
    n_predicted: int = 0
    n_right: int = 0

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are right; 0 if there are none."""
        return _share(self.n_right, self.n_predicted)

    @property
    def recall(self) -> float:
        """Share of the true spans that are found; 0 if there are none."""
        return _share(self.n_right, self.n_true)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if there are no spans."""
        return _share(2 * self.n_right, self.n_true + self.n_predicted)


class AllCounts(NamedTuple):
    """Counts of each type, by name, and the number of malformed labels."""

    types: dict[str, SpanCounts]
    malformed_true: int
    malformed_predicted: int

    @property
    def total(self) -> SpanCounts:
        """Counts of all types together."""
        return SpanCounts(*(sum(column) for column in zip(*self.types.values())))

    def mean(self, name: str, average: str) -> float:
        """A score of all types: pooled, or the mean over types."""
        if average == "micro":
            return float(getattr(self.total, name))
        if not self.types:
            return 0.0
        scores = [getattr(counts, name) for counts in self.types.values()]
        weights = [1 if average == "macro" else counts.n_true for counts in self.types.values()]
        return _share(sum(a * b for a, b in zip(scores, weights)), sum(weights))


def count_spans(y_true: Any, y_pred: Any, scheme: str = "conll") -> AllCounts:
    """Count true, predicted and correctly predicted spans of each type.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences of the same lengths
    scheme : {"conll", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU"}
    """
    check_choice("scheme", scheme, SCHEMES)
    truth: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    right: Counter[str] = Counter()
    malformed = [0, 0]
    find = SCHEMES[scheme].find
    known: dict[Any, _Label] = {}
    for i, (true, other) in enumerate(take_pairs(y_true, y_pred, "labels")):
        read = _read(true, scheme, f"y_true[{i}]", known)
        guessed = _read(other, scheme, f"y_pred[{i}]", known)
        spans, wrong = find(read)
        guesses, mistakes = (spans, wrong) if read == guessed else find(guessed)
        truth.update([span.type for span in spans])
        predicted.update([span.type for span in guesses])
        right.update([span.type for span in set(spans) & set(guesses)])
        malformed[0] += len(wrong)
        malformed[1] += len(mistakes)
    types = {
        kind: SpanCounts(truth[kind], predicted[kind], right[kind])
        for kind in sorted({*truth, *predicted})
    }
    return AllCounts(types or {}, *malformed)


def _warn(malformed: dict[str, int], scheme: str) -> None:
    said = " and ".join(f"{count} of {name}" for name, count in malformed.items() if count)
    if said:
        warnings.warn(
            f"malformed labels counted as O, because the scheme {scheme!r} does not allow them at "
            f"their place: {said}. The scheme 'conll' reads every run of labels as a span.",
            MalformedSpanWarning,
            stacklevel=outside(),
        )


def _score(name: str, y_true: Any, y_pred: Any, scheme: str, average: str) -> float:
    check_choice("average", average, AVERAGES)
    counts = count_spans(y_true, y_pred, scheme)
    _warn({"y_true": counts.malformed_true, "y_pred": counts.malformed_predicted}, scheme)
    return counts.mean(name, average)


def span_precision_score(
    y_true: Any, y_pred: Any, *, scheme: str = "conll", average: str = "micro"
) -> float:
    """Share of the predicted spans that are right. See :func:`span_f1_score`."""
    return _score("precision", y_true, y_pred, scheme, average)


def span_recall_score(
    y_true: Any, y_pred: Any, *, scheme: str = "conll", average: str = "micro"
) -> float:
    """Share of the true spans that are predicted. See :func:`span_f1_score`."""
    return _score("recall", y_true, y_pred, scheme, average)


def span_f1_score(
    y_true: Any, y_pred: Any, *, scheme: str = "conll", average: str = "micro"
) -> float:
    """F1 of whole spans: start, end and type must be right.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences of the same lengths
        Labels are "O" or a mark and a type: "B-NP".
    scheme : {"conll", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU"}
        "conll" follows conlleval and reads every run of labels as a span. The others are strict:
        malformed labels count as O and are reported by a :class:`MalformedSpanWarning`.
    average : {"micro", "macro", "weighted"}
        Pool the spans of all types (conlleval's overall score), or take the mean over types, which
        "weighted" weights by the number of true spans.

    Returns
    -------
    float
        Between 0 and 1; 0 if there are no spans.

    Examples
    --------
    >>> from maxmargin.metrics import span_f1_score
    >>> span_f1_score([["B-NP", "I-NP", "O", "B-VP"]], [["B-NP", "O", "O", "B-VP"]])
    0.5
    """
    return _score("f1", y_true, y_pred, scheme, average)


def span_classification_report(
    y_true: Any,
    y_pred: Any,
    *,
    scheme: str = "conll",
    digits: int = 2,
    output_dict: bool = False,
) -> Any:
    """Report precision, recall and F1 of each type of span, and their averages.

    Parameters
    ----------
    y_true, y_pred : lists of label sequences of the same lengths
    scheme : {"conll", "IOB1", "IOB2", "IOE1", "IOE2", "BIOES", "BILOU"}
    digits : int, default=2
        Digits after the decimal point in the text.
    output_dict : bool, default=False
        Return a dict instead of a text.

    Returns
    -------
    str or dict
        The dict has an entry for each type and each average with the keys of scikit-learn's
        ``classification_report``, and the number of malformed labels under "malformed".

    Examples
    --------
    >>> from maxmargin.metrics import span_classification_report
    >>> print(span_classification_report([["B-NP", "O", "B-VP"]], [["B-NP", "O", "B-NP"]]))
                 precision    recall  f1-score   support
              NP      0.50      1.00      0.67         1
              VP      0.00      0.00      0.00         1
       micro avg      0.50      0.50      0.50         2
       macro avg      0.25      0.50      0.33         2
    weighted avg      0.25      0.50      0.33         2
    """
    counts = count_spans(y_true, y_pred, scheme)
    rows: dict[str, Any] = {
        kind: _row(each.precision, each.recall, each.f1, each.n_true)
        for kind, each in counts.types.items()
    }
    support = sum(each.n_true for each in counts.types.values())
    for average in AVERAGES:
        means = (counts.mean(name, average) for name in ("precision", "recall", "f1"))
        precision, recall, f1 = means
        rows[f"{average} avg"] = _row(precision, recall, f1, support)
    malformed = {"y_true": counts.malformed_true, "y_pred": counts.malformed_predicted}
    if output_dict:
        return {**rows, "malformed": malformed}
    width = max(map(len, rows))
    lines = [" " * width + "".join(f"{name:>10}" for name in next(iter(rows.values())))]
    for name, row in rows.items():
        *shares, number = row.values()
        cells = "".join(f"{share:>10.{digits}f}" for share in shares)
        lines.append(f"{name:>{width}}{cells}{number:>10}")
    if any(malformed.values()):
        lines.append(
            f"malformed labels, counted as O: {malformed['y_true']} of y_true, "
            f"{malformed['y_pred']} of y_pred"
        )
    return "\n".join(lines)


def _row(precision: float, recall: float, f1: float, support: int) -> dict[str, Any]:
    return {"precision": precision, "recall": recall, "f1-score": f1, "support": support}

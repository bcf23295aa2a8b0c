"""Measures by name, for ``scoring=`` of scikit-learn's tools and of this library's own."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.metrics import get_scorer as sklearn_scorer
from sklearn.metrics import get_scorer_names, make_scorer

from .._validation import is_text
from .parts import exact_match_score, mean_iou_score, token_accuracy_score, token_f1_score
from .rankings import kendall_tau
from .spans import span_f1_score, span_precision_score, span_recall_score
from .trees import labeled_attachment_score, unlabeled_attachment_score

__all__ = ["get_scorer", "scorer_names"]

_SCORES = {
    "exact_match": exact_match_score,
    "kendall_tau": kendall_tau,
    "las": labeled_attachment_score,
    "mean_iou": mean_iou_score,
    "span_f1": span_f1_score,
    "span_f1_macro": partial(span_f1_score, average="macro"),
    "span_precision": span_precision_score,
    "span_recall": span_recall_score,
    "token_accuracy": token_accuracy_score,
    "token_f1_macro": token_f1_score,
    "uas": unlabeled_attachment_score,
}


def scorer_names() -> list[str]:
    """Names that :func:`get_scorer` knows beyond those of scikit-learn."""
    return sorted(_SCORES)


def get_scorer(scoring: Any) -> Any:
    """Return the scorer of a name of this library or of scikit-learn; a callable is kept.

    Parameters
    ----------
    scoring : str or callable
        One of :func:`scorer_names` ("span_f1", "uas", "exact_match", ...), one of scikit-learn's
        names, or a callable ``scorer(estimator, X, y)``.

    Examples
    --------
    >>> from maxmargin.metrics import get_scorer
    >>> scorer = get_scorer("span_f1")  # GridSearchCV(model, grid, scoring=scorer)
    """
    if not is_text(scoring):
        if not callable(scoring):
            raise ValueError(
                f"scoring must be a name or a callable scorer(estimator, X, y); received "
                f"{scoring!r}."
            )
        return scoring
    if scoring in _SCORES:
        return make_scorer(_SCORES[scoring])
    if scoring in get_scorer_names():
        return partial(_score_of_labels, scoring)
    raise ValueError(
        f"scoring={scoring!r} is not known; expected one of {', '.join(scorer_names())}, or a name "
        "that scikit-learn knows."
    )


def _score_of_labels(name: str, estimator: Any, X: Any, y: Any, **parameters: Any) -> float:
    """A measure of scikit-learn, which says what to use for outputs that it does not know."""
    try:
        return sklearn_scorer(name)(estimator, X, y, **parameters)
    except ValueError as error:
        if "is not supported" not in str(error):
            raise
        raise ValueError(
            f"scoring={name!r} of scikit-learn compares one label or one set of labels per "
            f"example, not outputs with several parts; expected one of "
            f"{', '.join(scorer_names())} (token_f1_macro is the macro F1 of the labels of all "
            "positions)."
        ) from error

"""Measures of structured predictions, with scikit-learn's calling convention.

Spans of label sequences, attachment scores of trees, label images, rankings, and whole outputs.
"""

from .calibration import Reliability, reliability
from .parts import exact_match_score, mean_iou_score, token_accuracy_score, token_f1_score
from .rankings import hamming_loss, kendall_tau, ranks_of_orderings, spearman_footrule
from .scorers import get_scorer, scorer_names
from .spans import (
    MalformedSpanWarning,
    Span,
    SpanCounts,
    count_spans,
    find_spans,
    span_classification_report,
    span_f1_score,
    span_precision_score,
    span_recall_score,
)
from .trees import labeled_attachment_score, unlabeled_attachment_score

__all__ = [
    "MalformedSpanWarning", "Reliability", "Span", "SpanCounts", "count_spans", "exact_match_score",
    "find_spans", "get_scorer", "hamming_loss", "kendall_tau", "labeled_attachment_score",
    "mean_iou_score", "ranks_of_orderings", "reliability", "scorer_names",
    "span_classification_report", "span_f1_score", "span_precision_score", "span_recall_score",
    "spearman_footrule", "token_accuracy_score", "token_f1_score",
    "unlabeled_attachment_score",
]  # fmt: skip

"""The k best outputs of examples whose scores are given, for ``predict_topk``."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .._kernels.best_outputs import batch_best_outputs
from .._validation import check_integer
from ..features.scores import ScoreRows


def best_outputs(structure: Any, scores: np.ndarray, k: Any) -> list[list[tuple[Any, float]]]:
    """Labels and scores of the k best outputs of each example, best first.

    ``scores`` are those of all parts, flat. There are fewer than k where fewer outputs exist.
    """
    k = check_integer("k", k, 1)
    n = len(structure.indptr) - 1
    labels = np.empty((k, int(structure.indptr[-1])), np.int32)
    values = np.empty((n, k))
    rows = ScoreRows(np.ascontiguousarray(scores, np.float64).reshape(-1, 1), np.empty(0, np.int64))
    batch_best_outputs(structure, rows, np.empty((1, 0)), labels, values, 0, n)
    return [
        [
            (labels[place, low:high].astype(np.int64), float(values[i, place]))
            for place in range(int(np.isfinite(values[i]).sum()))
        ]
        for i, (low, high) in enumerate(pairwise(structure.indptr))
    ]

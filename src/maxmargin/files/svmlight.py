"""svmlight / libsvm: ``label index:value ...``, also with several labels, ``3,17 index:value``."""

from __future__ import annotations

import io
import os
import re
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from ._growing import Growing
from ._source import MAX_SIZE, FileError, Progress, TextFile
from ._types import Matrix

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_REST = rf"(?:\s+qid:\d+)?(?:\s+\d+:{_NUMBER})*\s*(?:#.*)?$"
_ONE_LABEL = re.compile(rf"(?:{_NUMBER})?{_REST}")
_LABELS = re.compile(rf"(?:{_NUMBER}(?:,{_NUMBER})*)?{_REST}")


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    multilabel: bool = False,
    encoding: str = "utf-8",
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
) -> Matrix:
    """Read a sparse matrix and its labels; columns are numbered as in the file.

    With ``multilabel`` the first field is a list of labels, separated by commas; it may be empty.
    """
    source = TextFile(path, encoding=encoding, max_size=max_size, progress=progress)
    data, indices = Growing(np.float64), Growing(np.int32, np.int64)
    counts, labels = Growing(np.int32), Growing(np.float64)
    label_counts = Growing(np.int32)
    width, lines = 1, 0
    for text in source.pieces():
        X, y = _parse(source.name, text, lines, multilabel)
        lines += text.count("\n")
        data.extend(X.data)
        indices.extend(X.indices)
        counts.extend(np.diff(X.indptr))
        width = max(width, X.shape[1])
        if multilabel:
            label_counts.extend(np.array([len(found) for found in y], np.int32))
            y = np.array([label for found in y for label in found])
        labels.extend(y)
    if not len(counts):
        raise FileError(f"{source.name}: holds no examples")
    indptr = np.concatenate([[0], np.cumsum(counts.finish(), dtype=np.int64)])
    X = sp.csr_matrix((data.finish(), indices.finish(), indptr), (len(indptr) - 1, width))
    names = [f"feature {column}" for column in range(width)]
    y = labels.finish()
    if not multilabel:
        whole = np.array_equal(y, np.round(y))
        y = y.astype(np.int64) if whole else y
        return Matrix(source.name, X, y, names, is_numbered=True)
    if not len(y):
        raise FileError(f"{source.name}: no example has a label")
    found, codes = np.unique(y, return_inverse=True)
    indicator = np.zeros((X.shape[0], len(found)), np.int8)
    indicator[np.repeat(np.arange(X.shape[0]), label_counts.finish()), codes] = 1
    if np.array_equal(found, np.round(found)):
        found = found.astype(np.int64)
    return Matrix(source.name, X, indicator, names, found.tolist(), is_numbered=True)


def _parse(path: str, text: str, lines: int, multilabel: bool) -> tuple[Any, Any]:
    """Rows and labels of some lines of a file, of which ``lines`` stand before."""
    try:
        return load_svmlight_file(
            io.BytesIO(text.encode()), multilabel=multilabel, zero_based=True, dtype=np.float64
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise _located(path, text, lines, _LABELS if multilabel else _ONE_LABEL, error) from None


def _located(path: str, text: str, lines: int, form: re.Pattern, error: Exception) -> FileError:
    """The error of the parser, with the line that is to blame."""
    for number, line in enumerate(text.split("\n"), start=lines + 1):
        if not form.match(line):
            shown = line.strip()[:60]
            return FileError(
                f"{path}: line {number}: {shown!r} is not of the form 'label index:value ...' "
                "with numbers; several labels (1,4) are for the task multilabel"
            )
    return FileError(f"{path}: {error}")

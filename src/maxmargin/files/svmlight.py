"""svmlight / libsvm: ``label index:value ...``, also with several labels, ``3,17 index:value``."""

from __future__ import annotations

import io
import os
import re

import numpy as np
from sklearn.datasets import load_svmlight_file

from ._source import MAX_SIZE, FileError, read_text
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
) -> Matrix:
    """Read a sparse matrix and its labels; columns are numbered as in the file.

    Parameters
    ----------
    path : path
    multilabel : bool
        Whether the first field is a list of labels, separated by commas, which may be empty.
    """
    text = read_text(path, encoding=encoding, max_size=max_size)
    name = os.fspath(path)
    try:
        X, y = load_svmlight_file(
            io.BytesIO(text.encode()), multilabel=multilabel, zero_based=True, dtype=np.float64
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise _located(name, text, _LABELS if multilabel else _ONE_LABEL, error) from None
    if not X.shape[0]:
        raise FileError(f"{name}: holds no examples")
    names = [f"feature {column}" for column in range(X.shape[1])]
    if not multilabel:
        whole = np.array_equal(y, np.round(y))
        return Matrix(name, X, y.astype(np.int64) if whole else y, names)
    labels = sorted({label for row in y for label in row})
    if not labels:
        raise FileError(f"{name}: no example has a label")
    place = {label: column for column, label in enumerate(labels)}
    indicator = np.zeros((len(y), len(labels)), np.int8)
    for row, found in enumerate(y):
        for label in found:
            indicator[row, place[label]] = 1
    whole = all(label == int(label) for label in labels)
    return Matrix(name, X, indicator, names, [int(v) if whole else v for v in labels])


def _located(path: str, text: str, form: re.Pattern, error: Exception) -> FileError:
    """The error of the parser, with the line that is to blame."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not form.match(line):
            shown = line.strip()[:60]
            return FileError(
                f"{path}: line {number}: {shown!r} is not of the form 'label index:value ...' "
                "with numbers; several labels (1,4) are for the task multilabel"
            )
    return FileError(f"{path}: {error}")

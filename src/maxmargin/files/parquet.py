"""Parquet, through narwhals: with whichever of pyarrow, polars and pandas is installed."""

from __future__ import annotations

import importlib.util
import os

import numpy as np

from .._optional import require
from ._source import MAX_SIZE, FileError, check_file
from ._types import Table

_BACKENDS = ("pyarrow", "polars", "pandas")


def read_parquet(path: str | os.PathLike[str], *, max_size: int = MAX_SIZE) -> Table:
    """Read the columns of a Parquet file."""
    name = os.fspath(path)
    check_file(path, max_size)
    narwhals = require("narwhals", "cli", "Reading Parquet")
    frame = _frame(narwhals, name)
    if not len(frame):
        raise FileError(f"{name}: has columns but no examples")
    columns = []
    for series in frame.iter_columns():
        if series.dtype.is_numeric() or series.dtype == narwhals.Boolean:
            if series.null_count():
                row = int(np.flatnonzero(series.is_null().to_numpy())[0])
                raise FileError(
                    f"{name}: row {row + 1}, column {series.name!r}: a value is missing; fill or "
                    "drop it first"
                )
            columns.append(series.to_numpy().astype(np.float64))
        else:
            column = np.empty(len(series), object)
            column[:] = ["" if value is None else str(value) for value in series.to_list()]
            columns.append(column)
    return Table(name, list(frame.columns), columns, np.arange(1, len(frame) + 1))


def _frame(narwhals, path: str):
    backend = next((b for b in _BACKENDS if importlib.util.find_spec(b)), None)
    if backend is None:
        raise ImportError(
            "Reading Parquet needs pyarrow, polars or pandas, of which none is installed. "
            'Install one with: pip install "maxmargin[parquet]"'
        )
    try:
        return narwhals.read_parquet(path, backend=backend)
    except ImportError as error:
        raise ImportError(
            f"{backend} cannot read Parquet here ({str(error).splitlines()[0]}). "
            'Install pyarrow with: pip install "maxmargin[parquet]"'
        ) from error
    except Exception as error:  # each backend has errors of its own for a damaged file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(f"{path}: this is no whole Parquet file ({reason})") from error

"""Data sets of OpenML, through scikit-learn, which checks their MD5 against the one listed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..persistence import replacing
from . import Dataset, DatasetError
from ._registry import Entry


def _file(entry: Entry, folder: Path) -> Path:
    name, number = entry.openml  # type: ignore[misc]
    return folder / f"openml-{name}-{number}.npz"


def is_cached(entry: Entry, folder: Path) -> bool:
    """Whether it was fetched before."""
    return _file(entry, folder).is_file()


def load_openml(entry: Entry, folder: Path) -> Dataset:
    """From the cache folder, or over the network into it."""
    path = _file(entry, folder)
    if not path.is_file():
        _download(entry, path)
    with np.load(path, allow_pickle=False) as arrays:
        about = json.loads(str(arrays["about"]))
        X, y = arrays["X"], arrays["y"]
    return Dataset(
        entry.name, entry.task, entry.description, X, y, {}, about["features"], about["labels"]
    )


def _download(entry: Entry, path: Path) -> None:
    from urllib.error import URLError

    from sklearn.datasets import fetch_openml

    name, number = entry.openml  # type: ignore[misc]
    # Private: compiled code is kept beside it, and refused where others can write.
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    folder = str(path.parent / "openml")
    options = {"as_frame": False, "parser": "liac-arff", "data_home": folder, "n_retries": 1}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about tries that are repeated
            found = fetch_openml(data_id=number, **options)
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise DatasetError(
            f"{entry.name} must be fetched from OpenML, which is not reachable from here "
            f"({reason}); go online once, or put its files into MAXMARGIN_DATA"
        ) from None
    theirs = found.details["name"]
    if theirs != name:
        raise DatasetError(f"data set {number} of OpenML is {theirs!r}; expected {name!r}")
    arrays = _arrays(entry, found)
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _arrays(entry: Entry, found: Any) -> dict[str, np.ndarray]:
    X = found.data.toarray() if sp.issparse(found.data) else found.data
    y, labels = np.asarray(found.target), None
    if entry.task == "multilabel":
        y = (np.char.upper(y.astype(str)) == "TRUE").astype(np.int8)
        labels = list(found.target_names)
    about = {"features": list(map(str, found.feature_names)), "labels": labels}
    y = y.astype(str) if y.dtype == object else y
    return {"X": X.astype(np.float64), "y": y, "about": np.array(json.dumps(about))}

"""Data sets of the local folder, as estimators take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..files.conll import read_conll
from ..files.npz import from_arrays
from ..files.tokens import last_column, token_features
from ..files.trees import read_tagged, read_trees
from . import Dataset
from ._registry import Entry


def load_local(entry: Entry, files: list[Path]) -> Dataset:
    """Read the files of a data set, whose checksums were seen to be right."""
    if entry.task == "tree":
        return _trees(entry, files)
    if entry.name in ("conll2000", "ud_english_ewt"):
        return _sentences(entry, files)
    with np.load(files[0], allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    if entry.name == "ocr":
        return _words(entry, arrays)
    if entry.name == "snakes":
        return _snakes(entry, arrays)
    return _plain(entry, arrays, str(files[0]))


def _splits(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if "is_train" in arrays:
        is_train = arrays["is_train"].astype(bool)
        return {"train": np.flatnonzero(is_train), "test": np.flatnonzero(~is_train)}
    if "split" in arrays:
        parts = ("train", "validation", "test")
        return {name: np.flatnonzero(arrays["split"] == k) for k, name in enumerate(parts)}
    if "fold" in arrays:
        return {f"fold {k}": np.flatnonzero(arrays["fold"] == k) for k in range(10)}
    return {}


def _plain(entry: Entry, arrays: dict[str, np.ndarray], path: str) -> Dataset:
    found = from_arrays(path, arrays, entry.task)
    names = arrays["feature_names"].tolist() if "feature_names" in arrays else None
    splits = _splits(arrays)
    return Dataset(entry.name, entry.task, entry.description, found.X, found.y, splits, names,
                   found.label_names)  # fmt: skip


def _words(entry: Entry, arrays: dict[str, np.ndarray]) -> Dataset:
    pixels = np.unpackbits(arrays["pixels_packed"], axis=1).astype(np.float64)
    cuts = arrays["offsets"][1:-1]
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))[arrays["labels"]]
    X, y = np.split(pixels, cuts), np.split(letters, cuts)
    splits = _splits(arrays)
    splits["test"] = splits["fold 0"]
    splits["train"] = np.flatnonzero(arrays["fold"] != 0)
    return Dataset(entry.name, entry.task, entry.description, X, y, splits)


def _snakes(entry: Entry, arrays: dict[str, np.ndarray]) -> Dataset:
    """Cells see the colours of their 3 x 3 neighbourhood; edges go to the right and down."""
    X, y = [], []
    starts = arrays["offsets"]
    for i, (height, width) in enumerate(arrays["grid_shape"].astype(int)):
        span = slice(starts[i], starts[i + 1])
        colours = arrays["rgb"][span].reshape(height, width, 3) / 255.0
        padded = np.pad(colours, ((1, 1), (1, 1), (0, 0)))
        around = [padded[a : a + height, b : b + width] for a in range(3) for b in range(3)]
        nodes = np.concatenate(around, axis=2).reshape(height * width, 27)
        numbers = np.arange(height * width).reshape(height, width)
        right = np.stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()], axis=1)
        down = np.stack([numbers[:-1].ravel(), numbers[1:].ravel()], axis=1)
        is_down = np.repeat([0.0, 1.0], [len(right), len(down)])[:, None]
        X.append((nodes, np.concatenate([right, down]), is_down))
        y.append(arrays["labels"][span].astype(np.int64))
    return Dataset(entry.name, entry.task, entry.description, X, y, _splits(arrays))


def _sentences(entry: Entry, files: list[Path]) -> Dataset:
    read = read_tagged if files[0].name.endswith(".conllu.gz") else read_conll
    parts = [read(path).rows for path in files]
    rows = [sentence for part in parts for sentence in part]
    X = [token_features([token[:-1] for token in sentence]) for sentence in rows]
    y = last_column(rows)
    splits = _by_file([len(part) for part in parts])
    found = Dataset(entry.name, entry.task, entry.description, X, y, splits)
    found._rows = rows
    return found


def _by_file(sizes: list[int]) -> dict[str, np.ndarray]:
    """Splits of data sets that have a file for each."""
    names = ("train", "test") if len(sizes) == 2 else ("train", "validation", "test")
    bounds = np.cumsum([0, *sizes])
    return {
        name: np.arange(first, last)
        for name, first, last in zip(names, bounds[:-1], bounds[1:], strict=True)
    }


def _trees(entry: Entry, files: list[Path]) -> Dataset:
    """Sentences with the attributes of their words, and the heads of these."""
    parts = [read_trees(path) for path in files]
    X = [tokens for part in parts for tokens in part.tokens]
    y = [heads for part in parts for heads in part.heads or []]
    splits = _by_file([len(part) for part in parts])
    found = Dataset(entry.name, entry.task, entry.description, X, y, splits)
    found._rows = [lines for part in parts for lines in part.lines]
    return found

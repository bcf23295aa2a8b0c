"""Real data sets for tests, read from a folder outside the repository.

The folder is ``MAXMARGIN_DATA``, or ``../shared/data`` beside the repository. A test whose file is
missing is skipped on a developer's machine and fails in continuous integration (``CI`` set).
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """Folder that holds the real data."""
    chosen = os.environ.get("MAXMARGIN_DATA")
    return Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"


def data_file(name: str) -> Path:
    """Path of a data file; skips the test, or fails it under CI, if there is none."""
    path = data_folder() / name
    if path.is_file():
        return path
    message = f"{path} is missing: set MAXMARGIN_DATA to a folder that holds {name}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def load_npz(name: str) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file, with or without the suffix in ``name``."""
    path = data_file(name if name.endswith(".npz") else f"{name}.npz")
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def load_ocr() -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Handwritten words: letters of 128 binary pixels, their labels 0..25, and ten folds.

    Returns
    -------
    X : list of ndarray of shape (word length, 128), float64
    y : list of ndarray of shape (word length,), int64
    fold : ndarray of shape (6877,)
    """
    data = load_npz("ocr_letters")
    pixels = np.unpackbits(data["pixels_packed"], axis=1).astype(np.float64)
    cuts = data["offsets"][1:-1]
    words = np.split(pixels, cuts)
    return words, np.split(data["labels"].astype(np.int64), cuts), data["fold"]


def load_conll2000(split: str) -> list[list[tuple[str, str, str]]]:
    """Chunking sentences of ``split`` "train" or "test": lists of (word, part of speech, tag)."""
    path = data_file(f"conll2000_{split}.txt.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        blocks = lines.read().strip().split("\n\n")
    sentences = []
    for block in blocks:
        tokens = [line.split() for line in block.splitlines() if line.strip()]
        sentences.append([(word, pos, tag) for word, pos, tag in tokens])
    return sentences

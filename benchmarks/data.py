"""Data of the benchmarks, from the folder ``MAXMARGIN_DATA`` or ``../shared/data``."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

REPOSITORY = Path(__file__).resolve().parent.parent


def data_file(name: str) -> Path:
    """Path of a data file."""
    chosen = os.environ.get("MAXMARGIN_DATA")
    folder = Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"
    path = folder / name
    if not path.is_file():
        raise SystemExit(f"{path} is missing: set MAXMARGIN_DATA to a folder that holds it")
    return path


def load_npz(name: str) -> dict[str, np.ndarray]:
    """All arrays of a data file."""
    with np.load(data_file(f"{name}.npz"), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def letter() -> tuple[np.ndarray, np.ndarray]:
    """The 16000 training examples of uci_letter, standardised, with a constant column."""
    data = load_npz("uci_letter")
    X = data["X"][data["is_train"]].astype(np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.hstack([X, np.ones((len(X), 1))]), data["y"][data["is_train"]].astype(np.int64)


class Words(NamedTuple):
    """Handwritten words: a (length, 128) array of pixels and the labels 0..25 of each."""

    X: list[np.ndarray]
    y: list[np.ndarray]

    @property
    def n_letters(self) -> int:
        return sum(map(len, self.y))

    def error(self, predicted: list) -> float:
        """Fraction of letters that are wrong."""
        found = np.concatenate([np.asarray(labels, dtype=np.int64) for labels in predicted])
        return float(np.mean(found != np.concatenate(self.y)))


def words(split: str = "all") -> Words:
    """OCR letters: "train" is folds 1 to 9 (6251 words), "test" fold 0, "all" both."""
    data = load_npz("ocr_letters")
    cuts = data["offsets"][1:-1]
    pixels = np.unpackbits(data["pixels_packed"], axis=1).astype(np.float64)
    X, y = np.split(pixels, cuts), np.split(data["labels"].astype(np.int64), cuts)
    wanted = {"train": data["fold"] != 0, "test": data["fold"] == 0}.get(split, data["fold"] >= 0)
    chosen = np.flatnonzero(wanted)
    return Words([X[i] for i in chosen], [y[i] for i in chosen])


# Attributes of a token: words and tags at these offsets, and runs of neighbouring ones.
_WORDS = ((-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1))
_TAGS = (
    *((-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)),
    *((-2, -1, 0), (-1, 0, 1), (0, 1, 2)),
)


def _attributes(columns: list[list[str]]) -> list[list[str]]:
    """Names of the attributes of each token of a sentence, as in CRFsuite's chunking example."""
    length = len(columns[0])
    found: list[list[str]] = [["bias"] for _ in range(length)]
    for name, column, templates in zip("wt", columns, (_WORDS, _TAGS), strict=True):
        for offsets in templates:
            for t in range(max(0, -offsets[0]), length - max(0, offsets[-1])):
                values = "|".join(column[t + offset] for offset in offsets)
                found[t].append(f"{name}{offsets}={values}")
    return found


def sentences(split: str = "train") -> Iterator[tuple[list[list[str]], list[str]]]:
    """CoNLL-2000, one sentence after the other: names of attributes and chunk tags per token."""
    with gzip.open(data_file(f"conll2000_{split}.txt.gz"), "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    for block in blocks:
        columns = [list(column) for column in zip(*(line.split() for line in block.splitlines()))]
        yield _attributes(columns[:2]), columns[2]


def chunking(split: str = "train") -> tuple[list[list[list[str]]], list[list[str]]]:
    """The same, all at once."""
    found = list(sentences(split))
    return [names for names, _ in found], [tags for _, tags in found]


def chunking_rows(n: int | None = None) -> tuple[list[sparse.csr_matrix], list[list[str]]]:
    """The same for training, one CSR matrix of zeros and ones per sentence."""
    tokens, tags = chunking()
    tokens, tags = tokens[:n], tags[:n]
    numbers: dict[str, int] = {}
    flat = [[numbers.setdefault(name, len(numbers)) for name in t] for s in tokens for t in s]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in flat])])
    indices = np.concatenate([np.array(row, np.int32) for row in flat])
    X = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(len(flat), len(numbers)))
    X.sort_indices()
    ends = np.cumsum([len(sentence) for sentence in tokens])
    return [X[end - len(s) : end] for s, end in zip(tokens, ends, strict=True)], tags

"""Data files that people have, as examples for the estimators.

``read(path, task)`` chooses the reader by the suffix; ``prepare.learn`` makes features and labels
of what it returns. Everything is text or plain arrays: no reader runs code from a file.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from ._source import MAX_SIZE, FileError, Progress, suffix_of
from ._types import Examples, Graphs, Matrix, Sentences, Sequences, Table, Trees

__all__ = [
    "FORMATS",
    "MAX_SIZE",
    "Examples",
    "FileError",
    "Graphs",
    "Matrix",
    "Sentences",
    "Sequences",
    "Table",
    "Trees",
    "format_of",
    "read",
]

FORMATS = ("csv", "tsv", "parquet", "svmlight", "conll", "conllu", "arff", "npz")
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".conll": "conll",
    ".iob": "conll", ".bio": "conll", ".conllu": "conllu", ".arff": "arff", ".npz": "npz",
}  # fmt: skip


def format_of(path: str | os.PathLike[str], task: str) -> str:
    """The format that a file's name tells; ``.txt`` is CoNLL for task sequence."""
    suffix = suffix_of(path)
    if suffix == ".txt" and task == "sequence":
        return "conll"
    if suffix not in _SUFFIXES:
        raise FileError(
            f"{os.fspath(path)}: the suffix {suffix!r} tells no format; name it with --format "
            f"({', '.join(FORMATS)})"
        )
    return _SUFFIXES[suffix]


def read(
    path: str | os.PathLike[str],
    task: str,
    *,
    format: str | None = None,
    header: str = "auto",
    encoding: str = "utf-8",
    part: str = "all",
    max_size: int = MAX_SIZE,
    texts: Collection[str] = (),
    progress: Progress | None = None,
) -> Examples:
    """Read the examples of a file; an error names the file, the line and the column.

    The name may end in ``.gz`` (not for Parquet and npz, which are packed already). ``part``
    ("all", "train" or "test") is for npz files with ``is_train``; ``texts`` are columns of a CSV
    file to be kept as texts even if they hold numbers. ``progress`` is called with the number of
    bytes read so far and the size of the file.
    """
    from ._source import check_file

    check_file(path, max_size)
    kind = format or format_of(path, task)
    if part != "all" and kind != "npz":
        raise FileError(f"{os.fspath(path)}: --part is for npz files with the key is_train")
    if kind in ("csv", "tsv"):
        from .delimited import read_delimited

        return read_delimited(
            path, suffix=f".{kind}", header=header, encoding=encoding, max_size=max_size,
            texts=texts, progress=progress,
        )  # fmt: skip
    if kind == "parquet":
        from .parquet import read_parquet

        return read_parquet(path, max_size=max_size)
    if kind == "npz":
        from .npz import read_npz

        return read_npz(path, task, part=part, max_size=max_size)
    return _read_text_format(path, task, kind, encoding, max_size, progress)


def _read_text_format(
    path, task: str, kind: str, encoding: str, max_size: int, progress: Progress | None
) -> Examples:
    if kind == "svmlight":
        from .svmlight import read_svmlight

        return read_svmlight(
            path, multilabel=task == "multilabel", encoding=encoding, max_size=max_size,
            progress=progress,
        )  # fmt: skip
    if kind == "arff":
        from .arff import read_arff

        return read_arff(path, encoding=encoding, max_size=max_size)
    if kind == "conll":
        from .conll import read_conll

        return read_conll(path, encoding=encoding, max_size=max_size, progress=progress)
    if kind == "conllu":
        from .trees import read_tagged, read_trees

        if task not in ("sequence", "tree"):
            raise FileError(
                f"{os.fspath(path)}: CoNLL-U is for tasks sequence and tree; received task {task}"
            )
        read_them = read_trees if task == "tree" else read_tagged
        return read_them(path, encoding=encoding, max_size=max_size)
    raise FileError(f"--format must be one of {', '.join(FORMATS)}; received {kind!r}")

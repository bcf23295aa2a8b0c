"""CoNLL columns: one token per line, empty lines between sentences, the label in the last one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import numpy as np

from ._growing import Growing
from ._source import MAX_SIZE, FileError, Progress, TextFile
from ._types import Sentences
from .tokens import TokenRows

# Sentences that are held as lists of texts at a time.
_AT_ONCE = 1 << 9


def read_conll(
    path: str | os.PathLike[str],
    *,
    encoding: str = "utf-8",
    max_size: int = MAX_SIZE,
    progress: Progress | None = None,
) -> Sentences:
    """Read sentences of tokens; fields are separated by tabs, or otherwise by white space.

    Raises
    ------
    FileError
        With the line of a token that has more or fewer columns than the first.
    """
    source = TextFile(path, encoding=encoding, max_size=max_size, progress=progress)
    rows: TokenRows | None = None
    starts = Growing(np.int64)
    sentences = _sentences(source)
    while some := list(islice(sentences, _AT_ONCE)):
        rows = rows or TokenRows(len(some[0][1][0]))
        starts.extend(np.array([start for start, _ in some]))
        rows.extend([tokens for _, tokens in some])
    assert rows is not None  # an empty file is refused
    return Sentences(source.name, rows.finish(), starts.finish())


def _sentences(source: TextFile) -> Iterator[tuple[int, list[list[str]]]]:
    """The tokens of each sentence, and the line of the first."""
    tokens: list[list[str]] = []
    start = width = 0
    tabs = False
    for number, line in enumerate(source.lines(), start=1):
        if not line.strip():
            if tokens:
                yield start, tokens
            tokens = []
            continue
        tabs = tabs or (not width and "\t" in line)
        fields = line.rstrip("\n").split("\t") if tabs else line.split()
        width = width or len(fields)
        if len(fields) != width:
            raise FileError(
                f"{source.name}: line {number}: {len(fields)} columns, but the first token has "
                f"{width}; every token needs the same columns"
            )
        if not tokens:
            start = number
        tokens.append(fields)
    if tokens:
        yield start, tokens

"""CoNLL columns: a token a line, an empty line between sentences, the label in the last column."""

from __future__ import annotations

import os

from ._source import MAX_SIZE, FileError, read_text
from ._types import Sentences


def read_conll(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Sentences:
    """Read sentences of tokens; fields are separated by tabs, or otherwise by white space.

    Raises
    ------
    FileError
        With the line of a token that has more or fewer columns than the first.
    """
    name = os.fspath(path)
    lines = read_text(path, encoding=encoding, max_size=max_size).split("\n")
    tabs = "\t" in next(line for line in lines if line.strip())
    sentences: list[list[list[str]]] = []
    starts: list[int] = []
    tokens: list[list[str]] = []
    width = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            tokens = []
            continue
        fields = line.split("\t") if tabs else line.split()
        width = width or len(fields)
        if len(fields) != width:
            raise FileError(
                f"{name}: line {number}: {len(fields)} columns, but the first token has {width}; "
                "every token needs the same columns"
            )
        if not tokens:
            tokens = []
            sentences.append(tokens)
            starts.append(number)
        tokens.append(fields)
    return Sentences(name, sentences, starts)

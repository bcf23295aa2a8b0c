"""CoNLL-U: words with parts of speech and dependency trees, ten columns a word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ._source import MAX_SIZE, FileError, read_text
from ._types import Sentences, Trees
from .tokens import TokenRows

_COLUMNS = 10
_FORM, _UPOS, _HEAD, _DEPREL = 1, 3, 6, 7


class _Block(NamedTuple):
    """The lines of one sentence, and which of them are words."""

    first: int  # number of the first line
    lines: list[str]
    words: list[int]

    def column(self, number: int) -> list[str]:
        return [self.lines[place].split("\t")[number] for place in self.words]


def _blocks(name: str, text: str) -> Iterator[_Block]:
    lines = text.split("\n")
    start = 0
    for number, line in enumerate([*lines, ""]):
        if line.strip():
            continue
        if start < number:
            block = lines[start:number]
            words = []
            for place, entry in enumerate(block):
                if entry.startswith("#"):
                    continue
                fields = entry.split("\t")
                if len(fields) != _COLUMNS:
                    raise FileError(
                        f"{name}: line {start + place + 1}: {len(fields)} columns; CoNLL-U has "
                        f"{_COLUMNS}, separated by tabs"
                    )
                if fields[0].isdigit():  # else a contraction (3-4) or an empty node (5.1)
                    words.append(place)
            if words:
                yield _Block(start + 1, block, words)
        start = number + 1


def _read_blocks(path, encoding: str, max_size: int) -> tuple[str, list[_Block]]:
    name = os.fspath(path)
    blocks = list(_blocks(name, read_text(path, encoding=encoding, max_size=max_size)))
    if not blocks:
        raise FileError(f"{name}: holds no sentences")
    return name, blocks


def read_tagged(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Sentences:
    """Words and their universal parts of speech, for task sequence."""
    name, blocks = _read_blocks(path, encoding, max_size)
    # A word with a space would be two columns when it is written again.
    rows = TokenRows(2)
    rows.extend([
        [
            [form.replace(" ", "\u00a0"), tag]
            for form, tag in zip(block.column(_FORM), block.column(_UPOS), strict=True)
        ]
        for block in blocks
    ])  # fmt: skip
    return Sentences(name, rows.finish(), [block.first for block in blocks])


def read_trees(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Trees:
    """Sentences as pairs (form, tag), and the heads of their words where the file has them.

    A head that is left empty (``_``) beside others that are not is hidden: -1.
    """
    name, blocks = _read_blocks(path, encoding, max_size)
    tokens = [list(zip(block.column(_FORM), block.column(_UPOS), strict=True)) for block in blocks]
    found = Trees(name, tokens, None, [(block.lines, block.words) for block in blocks])
    if all(set(block.column(_HEAD)) == {"_"} for block in blocks):
        return found
    found.heads = [_heads(name, block) for block in blocks]
    return found


def _heads(name: str, block: _Block) -> np.ndarray:
    heads = np.empty(len(block.words), np.int64)
    for word, text in enumerate(block.column(_HEAD)):
        line = block.first + block.words[word]
        if text == "_":
            heads[word] = -1
            continue
        if not text.isdigit() or int(text) > len(heads):
            raise FileError(
                f"{name}: line {line}: the head is {text!r}; expected a number from 0 (the root) "
                f"to {len(heads)}, or _ if it is not known"
            )
        heads[word] = int(text)
    return heads


def write_trees(examples: Trees, heads: list) -> str:
    """The file as it was, with other heads; names of relations are not predicted: ``_``."""
    sentences = []
    for (lines, words), found in zip(examples.lines, heads, strict=True):
        changed = list(lines)
        for place, head in zip(words, np.asarray(found).tolist(), strict=True):
            fields = lines[place].split("\t")
            fields[_HEAD], fields[_DEPREL] = str(head), "_"
            changed[place] = "\t".join(fields)
        sentences.append("\n".join(changed) + "\n\n")
    return "".join(sentences)

"""CoNLL-U as examples: words with parts of speech, or with the heads of dependency trees."""

from __future__ import annotations

import os

import numpy as np

from ..conllu import DEPREL, FORM, HEAD, UPOS, Block, read_blocks
from ._source import MAX_SIZE, FileError, TextFile
from ._types import Sentences, Trees
from .tokens import TokenRows


def _read(path, encoding: str, max_size: int) -> tuple[str, list[Block]]:
    source = TextFile(path, encoding=encoding, max_size=max_size)
    try:
        blocks = list(read_blocks(source.lines(), source.name))
    except FileError:
        raise
    except ValueError as error:
        raise FileError(str(error)) from None
    if not blocks:
        raise FileError(f"{source.name}: holds no sentences")
    return source.name, blocks


def read_tagged(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Sentences:
    """Words and their universal parts of speech, for task sequence."""
    name, blocks = _read(path, encoding, max_size)
    rows = TokenRows(2)
    # A word with a space would be two columns when it is written again.
    rows.extend([
        [[word[FORM].replace(" ", "\u00a0"), word[UPOS]] for word in block.columns]
        for block in blocks
    ])  # fmt: skip
    return Sentences(name, rows.finish(), [block.first for block in blocks])


def read_trees(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> Trees:
    """Sentences, and the heads of their words where the file has them.

    A head that is left empty (``_``) beside others that are not is hidden: -1. Labels are those of
    the arcs, if all heads and all names of relations are given.
    """
    name, blocks = _read(path, encoding, max_size)
    tokens = [block.sentence() for block in blocks]
    heads = labels = None
    if any(head >= 0 for block in blocks for head in block.heads):
        heads = [np.array(block.heads, np.int64) for block in blocks]
        if all(-1 not in s.heads and "_" not in s.deprel for s in tokens):
            labels = [sentence.deprel for sentence in tokens]
    lines = [(block.lines, block.words) for block in blocks]
    return Trees(name, tokens, heads, labels, lines)


def write_trees(examples: Trees, trees: list) -> str:
    """The file as it was, with other heads, or pairs of a head and the name of a relation.

    Names that are not predicted are left empty: ``_``.
    """
    sentences = []
    for (lines, words), found in zip(examples.lines, trees, strict=True):
        changed = list(lines)
        for place, arc in zip(words, found, strict=True):
            head, label = arc if isinstance(arc, tuple) else (arc, "_")
            fields = lines[place].split("\t")
            fields[HEAD], fields[DEPREL] = str(int(head)), label
            changed[place] = "\t".join(fields)
        sentences.append("\n".join(changed) + "\n\n")
    return "".join(sentences)

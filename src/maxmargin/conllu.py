"""Sentences from CoNLL-U files: ten columns per word, a blank line after each sentence."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Sentence", "read_conllu"]

_COLUMNS = 10
FORM, UPOS, HEAD, DEPREL = 1, 3, 6, 7


@dataclass(frozen=True)
class Sentence:
    """Words of one sentence with their annotation, one entry per word.

    Attributes
    ----------
    form, lemma, upos, xpos, feats : tuples of str
        Columns 2 to 6; ``"_"`` where a file leaves one empty.
    heads : tuple of int
        The head of each word: 0 for the root, otherwise the number of a word, counted from 1; -1
        where the file leaves it empty.
    deprel : tuple of str
    comments : tuple of str
        Comment lines, without their ``#``.
    """

    form: tuple[str, ...]
    lemma: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    feats: tuple[str, ...]
    heads: tuple[int, ...]
    deprel: tuple[str, ...]
    comments: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.form)

    def attributes(self) -> dict[str, tuple[str, ...]]:
        """What a parser may look at: everything but the tree."""
        names = ("form", "lemma", "upos", "xpos", "feats")
        return {name: vars(self)[name] for name in names}


def read_conllu(source: str | os.PathLike[str] | Iterable[str]) -> list[Sentence]:
    """Read sentences from a file, plain or gzipped, or from lines.

    Lines of multiword tokens (``1-2``) and of empty nodes (``1.1``) are skipped: the words of the
    basic tree remain. Heads may be left empty (``_``).

    Parameters
    ----------
    source : path or iterable of str
        The name of a file (gzip is recognised by its content), or lines.

    Returns
    -------
    list of Sentence

    Raises
    ------
    ValueError
        With the number of the line: a wrong number of columns, a number or head that is not an
        integer, a head outside the sentence, heads that are not a tree.

    Examples
    --------
    >>> from maxmargin import read_conllu
    >>> lines = [
    ...     "1\\tDogs\\tdog\\tNOUN\\tNNS\\t_\\t2\\tnsubj\\t_\\t_",
    ...     "2\\tbark\\tbark\\tVERB\\tVBP\\t_\\t0\\troot\\t_\\t_",
    ... ]
    >>> read_conllu(lines)[0].heads
    (2, 0)
    """
    if not isinstance(source, (str, os.PathLike)):
        return [block.sentence() for block in read_blocks(source)]
    if "\n" in os.fspath(source):
        raise ValueError(
            "source must be the name of a file or an iterable of lines; received a text of "
            "several lines: pass source.splitlines()."
        )
    with _open(Path(source)) as lines:
        return [block.sentence() for block in read_blocks(lines, os.fspath(source))]


def _open(path: Path) -> Any:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return (gzip.open if zipped else open)(path, "rt", encoding="utf-8", newline=None)


class Block(NamedTuple):
    """The lines of one sentence: their columns, and which of them are words."""

    first: int  # number of the first line
    lines: list[str]
    words: list[int]  # places among the lines
    columns: list[list[str]]  # of the words
    heads: list[int]

    def column(self, number: int) -> tuple[str, ...]:
        """A column of all words."""
        return tuple(word[number] for word in self.columns)

    def sentence(self) -> Sentence:
        """The sentence with all its columns."""
        comments = (line[1:].strip() for line in self.lines if line.startswith("#"))
        form, lemma, upos, xpos, feats = map(self.column, range(FORM, HEAD))
        heads, deprel = tuple(self.heads), self.column(DEPREL)
        return Sentence(form, lemma, upos, xpos, feats, heads, deprel, tuple(comments))


def read_blocks(lines: Iterable[str], name: str = "") -> Iterator[Block]:
    """Sentences with their lines; whatever is wrong is refused with the number of its line.

    ``name`` is that of the file, for messages.
    """
    path = f"{name}: " if name else ""
    block = Block(1, [], [], [], [])
    for number, text in enumerate(chain(lines, [""]), start=1):
        line = text.rstrip("\r\n").removeprefix("\ufeff" if number == 1 else "")
        if line.strip():
            try:
                _add_line(block, line)
            except ValueError as error:
                raise ValueError(f"{path}line {number}: {error}") from None
            continue
        if block.words:
            _check_heads(block, path)
            yield block
        block = Block(number + 1, [], [], [], [])


def _add_line(block: Block, line: str) -> None:
    block.lines.append(line)
    if line.startswith("#"):
        return
    columns = line.split("\t")
    if len(columns) != _COLUMNS:
        raise ValueError(
            f"expected {_COLUMNS} columns, separated by tabs; received {len(columns)}: {line!r}."
        )
    if "-" in columns[0] or "." in columns[0]:  # a contraction or an empty node
        return
    if columns[0] != str(len(block.words) + 1):
        raise ValueError(
            f"expected the number {len(block.words) + 1} of the next word, or a blank line before "
            f"a new sentence; received {columns[0]!r}."
        )
    block.words.append(len(block.lines) - 1)
    block.columns.append(columns)


def _check_heads(block: Block, path: str) -> None:
    """Read the heads of a whole sentence, which must be a tree as far as they are known."""
    m = len(block.words)

    def refuse(word: int, reason: str) -> None:
        raise ValueError(f"{path}line {block.first + block.words[word]}: {reason}")

    for word, text in enumerate(block.column(HEAD)):
        head = -1
        if text != "_":
            try:
                head = int(text)
            except ValueError:
                refuse(word, f"the head must be an integer or '_'; received {text!r}.")
            if not 0 <= head <= m or head == word + 1:
                refuse(word, f"the head of word {word + 1} must be 0 or another of the {m} words "
                       f"of the sentence; received {head}.")  # fmt: skip
        block.heads.append(head)
    cycle = find_cycle(block.heads)
    if cycle:
        arcs = ", ".join(f"{block.heads[word - 1]} -> {word}" for word in cycle)
        refuse(cycle[0] - 1, f"the heads of this sentence are not a tree: the arcs {arcs} form a "
               "cycle.")  # fmt: skip


def find_cycle(heads: Any) -> list[int]:
    """Words (from 1) of the first cycle of heads; empty if there is none. -1 is not known."""
    done = [False] * (len(heads) + 1)
    for word in range(1, len(heads) + 1):
        passed: list[int] = []
        node = word
        while node > 0 and not done[node]:
            done[node] = True
            passed.append(node)
            node = int(heads[node - 1])
        if node > 0 and node in passed:
            return passed[passed.index(node) :]
    return []

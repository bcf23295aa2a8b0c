"""Sentences from CoNLL-U files: ten columns a word, a blank line after each sentence."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Sentence", "read_conllu"]

_COLUMNS = 10


@dataclass(frozen=True)
class Sentence:
    """Words of one sentence with their annotation, one entry a word.

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
        return {name: getattr(self, name) for name in names}


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
    if isinstance(source, (str, os.PathLike)):
        if isinstance(source, str) and "\n" in source:
            raise ValueError(
                "source must be the name of a file or an iterable of lines; received a text of "
                "several lines: pass source.splitlines()."
            )
        with _open(Path(source)) as lines:
            return list(_sentences(lines, str(source)))
    return list(_sentences(source, "line"))


def _open(path: Path) -> Any:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8", newline=None)
    return open(path, encoding="utf-8", newline=None)


def _sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    words: list[list[str]] = []
    places: list[int] = []
    comments: list[str] = []
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\r\n")
        if number == 1:
            line = line.removeprefix("\ufeff")
        where = f"{name}:{number}" if name != "line" else f"line {number}"
        if not line.strip():
            if words:
                yield _sentence(words, places, comments, name)
            words, places, comments = [], [], []
        elif line.startswith("#"):
            comments.append(line[1:].strip())
        else:
            columns = line.split("\t")
            if len(columns) != _COLUMNS:
                raise ValueError(
                    f"{where}: expected {_COLUMNS} columns, separated by tabs; received "
                    f"{len(columns)}: {line!r}."
                )
            if "-" in columns[0] or "." in columns[0]:
                continue
            if columns[0] != str(len(words) + 1):
                raise ValueError(
                    f"{where}: expected the number {len(words) + 1} of the next word, or a blank "
                    f"line before a new sentence; received {columns[0]!r}."
                )
            words.append(columns)
            places.append(number)
    if words:
        yield _sentence(words, places, comments, name)


def _sentence(
    words: list[list[str]], places: list[int], comments: list[str], name: str
) -> Sentence:
    heads = []
    where = [f"{name}:{number}" if name != "line" else f"line {number}" for number in places]
    for place, columns in zip(where, words, strict=True):
        head = -1
        if columns[6] != "_":
            try:
                head = int(columns[6])
            except ValueError:
                raise ValueError(
                    f"{place}: the head must be an integer or '_'; received {columns[6]!r}."
                ) from None
            if not 0 <= head <= len(words) or head == int(columns[0]):
                raise ValueError(
                    f"{place}: the head of word {columns[0]} must be 0 or another of the "
                    f"{len(words)} words of the sentence; received {head}."
                )
        heads.append(head)
    _check_tree(heads, where)
    form, lemma, upos, xpos, feats = (tuple(w[c] for w in words) for c in range(1, 6))
    return Sentence(
        form, lemma, upos, xpos, feats, tuple(heads), tuple(w[7] for w in words), tuple(comments)
    )


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


def _check_tree(heads: list[int], where: list[str]) -> None:
    cycle = find_cycle(heads)
    if cycle:
        arcs = ", ".join(f"{heads[word - 1]} -> {word}" for word in cycle)
        raise ValueError(
            f"{where[cycle[0] - 1]}: the heads of this sentence are not a tree: the arcs {arcs} "
            "form a cycle."
        )

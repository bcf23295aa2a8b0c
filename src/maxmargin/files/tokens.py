"""Features of the tokens of a sentence, by fixed templates.

For token t, with the word in the first column (P is the begin, S the end of the sentence):

- the words at t-2, t-1, t, t+1, t+2, the lower-case word, and the pairs (t-1, t), (t, t+1);
- its prefixes and suffixes of one to four characters, its shape ("Xxx-9" for "Don-7": kinds of
  characters, runs shortened to two);
- of every further column (a part of speech, say) the values at t-2 ... t+2, and the pairs
  (t-1, t) and (t, t+1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ._growing import Growing

__all__ = ["TokenFeatures", "TokenRows", "shape_of", "token_features"]

_RUN = re.compile(r"(.)\1{2,}")
_AFFIXES = range(1, 5)


def shape_of(word: str) -> str:
    """Kinds of characters: ``"Xx-9"`` for ``"Ab-7"``; of runs two remain."""
    marks = (
        "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word
    )
    return _RUN.sub(r"\1\1", "".join(marks))


@lru_cache(maxsize=1 << 15)
def _of_word(word: str) -> dict[str, str]:
    """Features that depend on the word alone; not to be changed by callers."""
    found = {"lower": word.lower(), "shape": shape_of(word)}
    for size in _AFFIXES:
        if len(word) >= size:
            found[f"prefix{size}"] = word[:size]
            found[f"suffix{size}"] = word[-size:]
    return found


@lru_cache(maxsize=64)
def _names_of_column(number: int) -> tuple[str, ...]:
    """Names of the features of a column at t-2 ... t+2, and of its two pairs."""
    name = "word" if number == 0 else f"column{number + 1}"
    near = [f"{name}[{offset:+d}]" if offset else name for offset in range(-2, 3)]
    return (*near, f"{name}[-1]|{name}", f"{name}|{name}[+1]")


def token_features(rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Feature dicts of the tokens of one sentence; ``rows`` are their columns, without labels."""
    features = [_of_word(row[0]).copy() for row in rows]
    for number, values in enumerate(zip(*rows, strict=True)):
        b2, b1, own, a1, a2, pair, next_pair = _names_of_column(number)
        around = ("P2", "P1", *values, "S1", "S2")
        for t, found in enumerate(features):
            before, value, after = around[t + 1 : t + 4]
            found[b2] = around[t]
            found[b1] = before
            found[own] = value
            found[a1] = after
            found[a2] = around[t + 4]
            found[pair] = f"{before}|{value}"
            found[next_pair] = f"{value}|{after}"
    return features


# --- many sentences ----------------------------------------------------------------------------


class TokenRows(Sequence):
    """Sentences as lists of tokens, each a list of texts, which are made when they are asked for.

    Every different text of a column is kept once, and for each token its number.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._codes: list[dict[str, int]] = [{} for _ in range(width)]
        self._tokens, self._ends = Growing(np.int32, width=(width,)), Growing(np.int64)
        self._texts: list[list[str]] = []

    def extend(self, sentences: list[list[list[str]]]) -> None:
        """Add sentences."""
        tokens = [token for sentence in sentences for token in sentence]
        numbers = np.empty((len(tokens), self.width), np.int32)
        for place, codes in enumerate(self._codes):
            code = codes.setdefault
            numbers[:, place] = [code(token[place], len(codes)) for token in tokens]
        ends = len(self._tokens) + np.cumsum([len(sentence) for sentence in sentences])
        self._tokens.extend(numbers)
        self._ends.extend(ends)

    def finish(self) -> TokenRows:
        """No sentences are to come."""
        self._texts = [list(codes) for codes in self._codes]
        self._codes = []
        self.numbers = self._tokens.finish()
        self.indptr = np.concatenate([[0], self._ends.finish()])
        return self

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, which: Any) -> Any:
        first, last = self.indptr[range(len(self))[which]], self.indptr[range(len(self))[which] + 1]
        columns = [
            [texts[code] for code in codes]
            for texts, codes in zip(self._texts, self.numbers[first:last].T.tolist(), strict=True)
        ]
        return list(map(list, zip(*columns, strict=True)))


def last_column(rows: Sequence) -> list[np.ndarray]:
    """The texts of the last column, sentence by sentence."""
    if type(rows) is not TokenRows:
        return [np.array([token[-1] for token in sentence], object) for sentence in rows]
    texts = np.empty(len(rows._texts[-1]), object)
    texts[:] = rows._texts[-1]
    return np.split(texts[rows.numbers[:, -1]], rows.indptr[1:-1])


class TokenFeatures(Sequence):
    """Sentences as lists of feature dicts, which are made whenever they are looked at.

    Dicts take a hundred times the memory of the text that they are made of. The first ``width``
    columns of the tokens are features; ``which`` are some of the sentences.
    """

    def __init__(self, rows: Sequence, width: int, which: np.ndarray | None = None) -> None:
        self._rows, self._width = rows, width
        self._which = np.arange(len(rows)) if which is None else which

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, which: Any) -> Any:
        chosen = self._which[which]
        if np.ndim(chosen) == 0:
            return Sentence(self._rows, int(chosen), self._width)
        return TokenFeatures(self._rows, self._width, chosen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Sentence(Sequence):
    """The feature dicts of a sentence, made whenever they are looked at."""

    __slots__ = ("_number", "_rows", "_width")

    def __init__(self, rows: Sequence, number: int, width: int) -> None:
        self._rows, self._number, self._width = rows, number, width

    def _features(self) -> list[dict[str, str]]:
        return token_features([row[: self._width] for row in self._rows[self._number]])

    def __len__(self) -> int:
        if type(self._rows) is not TokenRows:
            return len(self._rows[self._number])
        return int(np.diff(self._rows.indptr[self._number : self._number + 2])[0])

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self._features())

    def __getitem__(self, which: Any) -> Any:
        return self._features()[which]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._features() == list(other)

    __hash__ = None  # type: ignore[assignment]

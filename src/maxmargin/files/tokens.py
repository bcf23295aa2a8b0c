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
from collections.abc import Sequence

__all__ = ["shape_of", "token_features"]

_RUN = re.compile(r"(.)\1{2,}")
_AFFIXES = range(1, 5)


def shape_of(word: str) -> str:
    """Kinds of characters: ``"Xx-9"`` for ``"Ab-7"``; of runs two remain."""
    marks = (
        "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word
    )
    return _RUN.sub(r"\1\1", "".join(marks))


def _around(values: Sequence[str], t: int, offset: int) -> str:
    place = t + offset
    if place < 0:
        return f"P{-place}"
    return values[place] if place < len(values) else f"S{place - len(values) + 1}"


def token_features(rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Feature dicts of the tokens of one sentence; ``rows`` are their columns, without labels."""
    columns = list(zip(*rows, strict=True))
    features: list[dict[str, str]] = []
    for t, row in enumerate(rows):
        word = row[0]
        found = {"lower": word.lower(), "shape": shape_of(word)}
        for size in _AFFIXES:
            if len(word) >= size:
                found[f"prefix{size}"] = word[:size]
                found[f"suffix{size}"] = word[-size:]
        for number, values in enumerate(columns):
            name = "word" if number == 0 else f"column{number + 1}"
            near = {offset: _around(values, t, offset) for offset in range(-2, 3)}
            for offset, value in near.items():
                found[f"{name}[{offset:+d}]" if offset else name] = value
            found[f"{name}[-1]|{name}"] = f"{near[-1]}|{near[0]}"
            found[f"{name}|{name}[+1]"] = f"{near[0]}|{near[1]}"
        features.append(found)
    return features

"""Words of all sentences as numbers: 64-bit keys of their attributes, alone and together.

A key is the same in every process: it depends on nothing but names and texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
MOST_TAGS = 64

Attribute = tuple[str, int]  # its name, and the place of the word relative to another one
Side = tuple[Attribute, ...]


def mix(values: np.ndarray) -> np.ndarray:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    z = np.asarray(values, np.uint64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def number_of(text: str) -> int:
    """A number that stands for a text, the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def constant(text: str) -> np.ndarray:
    return np.array([number_of(text)], np.uint64)


class Nodes:
    """Attributes of all words as numbers, roots included."""

    def __init__(self, sentences: Sequence[Mapping[str, Sequence[str]]], names: set[str]):
        lengths = np.array([len(next(iter(s.values()))) for s in sentences], np.int64)
        self.indptr = np.concatenate([[0], np.cumsum(lengths + 1)]).astype(np.int64)
        self.values = {name: self._read(sentences, name) for name in names}
        n = int(self.indptr[-1])
        self._first = np.repeat(self.indptr[:-1], lengths + 1)
        self._last = np.repeat(self.indptr[1:], lengths + 1)
        self._at = np.arange(n)

    @staticmethod
    def _read(sentences, name: str) -> np.ndarray:
        known: dict[str, int] = {}
        numbers: list[int] = []
        root = number_of(f"{name}\0root")
        for sentence in sentences:
            numbers.append(root)
            for text in sentence[name]:
                number = known.get(text)
                if number is None:
                    number = known[text] = number_of(f"{name}={text}")
                numbers.append(number)
        return np.array(numbers, np.uint64)

    def shifted(self, attribute: Attribute) -> np.ndarray:
        """Values of the attribute of a neighbour; a number of its own outside the sentence."""
        name, offset = attribute
        wanted = self._at + offset
        inside = (wanted >= self._first) & (wanted < self._last)
        found = self.values[name][np.where(inside, wanted, 0)]
        return np.where(inside, found, np.uint64(number_of(f"{name}\0outside")))

    def keys(self, side: Side, role: str) -> np.ndarray:
        """Key of a conjunction, for all nodes."""
        total = np.repeat(mix(constant(f"role {role} {side}")), len(self._at))
        for attribute in side:
            salt = constant(f"salt {attribute}")
            total = mix(total + mix(self.shifted(attribute) ^ salt))
        return total

    def tags(self, name: str) -> np.ndarray:
        """Number of each tag within its sentence."""
        found = np.zeros(len(self._at), np.uint8)
        values = self.values[name].tolist()
        for first, last in zip(self.indptr[:-1].tolist(), self.indptr[1:].tolist()):
            seen: dict[int, int] = {}
            for node in range(first + 1, last):
                found[node] = min(seen.setdefault(values[node], len(seen)), MOST_TAGS - 1)
        return found

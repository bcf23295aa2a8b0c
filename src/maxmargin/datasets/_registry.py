"""Which data sets there are, where they come from, and their checksums."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import NamedTuple


class Entry(NamedTuple):
    """A data set by name.

    ``files`` are those of the data folder with their SHA-256; ``openml`` is a name and version
    there, for sets that can be fetched.
    """

    name: str
    task: str
    source: str  # "scikit-learn", "folder", or "openml"
    description: str
    files: tuple[tuple[str, str], ...] = ()
    openml: tuple[str, int] | None = None


def _entry(row: dict[str, str]) -> Entry:
    name, _, version = row["openml"].partition(":")
    listed = tuple(tuple(item.split(":")) for item in row["files"].split())
    openml = (name, int(version)) if name else None
    return Entry(row["name"], row["task"], row["source"], row["description"], listed, openml)  # type: ignore[arg-type]


def _read() -> dict[str, Entry]:
    text = files(__package__).joinpath("registry.tsv").read_text(encoding="utf-8")
    return {row["name"]: _entry(row) for row in csv.DictReader(text.splitlines(), delimiter="\t")}


ENTRIES = _read()

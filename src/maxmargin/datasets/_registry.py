"""Which data sets there are, where they come from, and their checksums."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import NamedTuple


class Entry(NamedTuple):
    """A data set by name.

    ``files`` are those of the data folder with their SHA-256; ``openml`` is a name and the number
    of the data set there, for sets that can be fetched; ``origin`` is where the data are from.
    ``n_bytes`` is the size of the files, or of the numbers in memory for sets of OpenML.
    ``in_wheel`` says that wheels hold the files, if they are built where the data folder is.
    """

    name: str
    task: str
    source: str  # "scikit-learn", "folder", or "openml"
    description: str
    files: tuple[tuple[str, str], ...] = ()
    openml: tuple[str, int] | None = None
    licence: str = "not stated"
    origin: str = ""
    n_bytes: int = 0
    in_wheel: bool = False

    @property
    def how(self) -> str:
        """How to get it."""
        if self.source == "scikit-learn":
            return "comes with scikit-learn"
        ways = ["install a wheel of maxmargin that holds it"] if self.in_wheel else []
        if self.openml:
            name, number = self.openml
            ways.append(f"maxmargin datasets fetch {self.name} (OpenML: {name}, {number})")
        if self.files:
            names = ", ".join(name for name, _ in self.files)
            ways.append(f"put {names} into the folder MAXMARGIN_DATA")
        return ", or ".join(ways)


def _entry(row: dict[str, str]) -> Entry:
    name, _, number = row["openml"].partition(":")
    listed = tuple(tuple(item.split(":")) for item in row["files"].split())
    openml = (name, int(number)) if name else None
    return Entry(
        row["name"], row["task"], row["source"], row["description"], listed, openml,  # type: ignore[arg-type]
        row["licence"], row["origin"], int(row["bytes"]), row["wheel"] == "yes",
    )  # fmt: skip


def _read() -> dict[str, Entry]:
    text = files(__package__).joinpath("registry.tsv").read_text(encoding="utf-8")
    return {row["name"]: _entry(row) for row in csv.DictReader(text.splitlines(), delimiter="\t")}


ENTRIES = _read()

"""The style sheet of reports."""

from __future__ import annotations

from importlib.resources import files

N_COLOURS = 12  # of labels: c0 to c11 in the style sheet


def style_sheet() -> str:
    """All rules, for light and dark, narrow and wide."""
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")

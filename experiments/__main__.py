"""Command line: ``python -m experiments NAME [options]``."""

from __future__ import annotations

import argparse
import importlib
import sys

NAMES = (
    "table1",
    "table2",
    "line_search",
    "noise",
    "figure1",
    "figure2",
    "figure3",
    "interactions",
    "extensions",
    "ewt",
    "latent_table1",
    "latent_assumptions",
    "buffy",
    "warps",
    "hidden_letters",
    "sub_states",
)


# Packages beyond the dependencies, with the extra that brings them: (module, extra).
_PLOT = (("matplotlib", "plot"),)
_DRAWN = (
    "line_search",
    "noise",
    "figure1",
    "figure2",
    "figure3",
    "extensions",
    "ewt",
    "hidden_letters",
    "warps",
)
NEEDS = dict.fromkeys(_DRAWN, _PLOT)


def main(arguments: list[str] | None = None) -> None:
    """Run one experiment; its own options follow its name."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    name = parser.parse_args(words[:1]).name
    importlib.import_module(f".{name}", __package__).main(words[1:])


if __name__ == "__main__":
    main()

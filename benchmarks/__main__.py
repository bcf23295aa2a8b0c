"""Command line: ``python -m benchmarks [NAME ...] [--repeats N] [--page]``."""

from __future__ import annotations

import argparse
import importlib

from . import report

NAMES = (
    "engine",
    "auto",
    "letter",
    "satimage",
    "ocr_error",
    "bcfw_pass",
    "passes",
    "max_min_chain",
    "max_min_fits",
    "crf",
    "prediction",
    "best_path",
    "kernel_fit",
    "sinkhorn",
    "startup",
    "graphs",
    "arborescence",
    "ewt",
    "latent",
    "memory",
    "scale",
    "torch",
    "alpha",
    "text",
    "path",
    "tagging",
    "chunk_gaps",
    "inputs",
    "label_sets",
    "deprel",
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (default 5)")
    parser.add_argument(
        "--page", action="store_true", help="put the latest table into docs/results/benchmarks.md"
    )
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return chosen


def main() -> None:
    """Run what was asked for; only a complete run becomes ``latest``."""
    chosen = arguments()
    if chosen.page:
        report.update_page()
        return
    lines = []
    for name in chosen.names or NAMES:
        print(f"{name} ...", flush=True)
        found = importlib.import_module(f".{name}", __package__).run(chosen.repeats)
        for line in found:
            print("   ", "  |  ".join(cell for cell in report.cells(line) if cell), flush=True)
            lines.append(line)
    complete = not chosen.names
    path = "latest" if complete else "partial"
    print("\n" + report.write(lines, chosen.repeats, path))
    print(f"written to {report.FOLDER / path}.json and .md")


if __name__ == "__main__":
    main()

"""The table: on the terminal, as JSON, as Markdown, and in the documentation."""

from __future__ import annotations

import json
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .harness import Line, Sample

FOLDER = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
HEADER = ("what", "ours", "peer", "ratio", "target", "reached")
DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "numba")
PACKAGES = (
    "maxmargin",
    *DEPENDENCIES,
    "python-crfsuite",
    "torch",
    "pytorch-crf",
    "torch-struct",
)


def machine() -> dict[str, str]:
    """Processor and versions of everything that took part."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return {"processor": _processor(), "system": platform.system(), **versions}


def described(about: dict[str, str] | None = None) -> str:
    """The line of a page: processor, and the versions of Python and of what all results rest on."""
    about = about or machine()
    versions = (f"{name} {about[name]}" for name in ("maxmargin", *DEPENDENCIES))
    return f"{about['processor']}; Python {about['python']}, {', '.join(versions)}"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def number(value: float) -> str:
    """Three digits, with separators for large numbers."""
    if value >= 1000:
        digits = max(0, 3 - len(str(int(value))))
        return f"{round(value, -(len(str(int(value))) - 3)):,.{digits}f}"
    return f"{value:#.3g}".rstrip(".")


def spread(sample: Sample, unit: str) -> str:
    """Median and range."""
    text = f"{number(sample.median)} {unit}"
    if len(sample.runs) > 1:
        text += f" ({number(min(sample.runs))} – {number(max(sample.runs))})"
    return text


def cells(line: Line) -> tuple[str, ...]:
    """The cells of a line, in the order of ``HEADER``."""
    peer = ""
    if line.peer is not None:
        measured = spread(line.peer, line.unit)
        peer = f"{line.peer_name}: {measured}" + (" *" if line.peer_is_constant else "")
    return (
        line.what,
        spread(line.ours, line.unit),
        peer,
        "" if line.ratio is None else f"{number(line.ratio)}×",
        _target(line),
        "" if line.reached is None else ("yes" if line.reached else "no"),
    )


def _target(line: Line) -> str:
    if line.target is None:
        return ""
    sign = "≤" if line.target.kind == "at most" else "≥"
    value = f"{line.target.value:,g}" if line.target.value < 1e6 else number(line.target.value)
    return f"{sign} {value}" + ("×" if line.target.kind == "ratio" else f" {line.unit}")


def markdown(lines: list[Line], repeats: int) -> str:
    """The table and what one must know to read it."""
    rows = [HEADER, ("---",) * len(HEADER), *map(cells, lines)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    about = machine()
    versions = ", ".join(f"{key} {value}" for key, value in about.items() if key != "processor")
    notes = "\n".join(f"- {line.what.strip()}: {line.note}." for line in lines if line.note)
    return (
        f"{table}\n\nMedians of {repeats} runs (range; without one, a single run), all sides in "
        "one run and in turn, one thread each. "
        f"{date.today().isoformat()}, {about['processor']}; {versions}. "
        "Ratios are times better; * not measured in this run but once before, on the same kind of "
        f"machine.\n\n{notes}\n"
    )


def write(lines: list[Line], repeats: int, name: str) -> str:
    """Write ``results/<name>.json`` and ``.md``; returns the Markdown."""
    FOLDER.mkdir(exist_ok=True)
    content = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "repeats": repeats,
        "lines": [line.as_dict() for line in lines],
    }
    text = markdown(lines, repeats)
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
    return text


def update_page(page: Path = PAGE, results: Path = FOLDER / "latest.md") -> None:
    """Put the latest table between the two markers of the page."""
    if not results.is_file():
        raise SystemExit(f"{results} is missing: run `python -m benchmarks` first")
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} needs the markers {BEGIN} and {END}")
    table = results.read_text(encoding="utf-8")
    page.write_text(f"{before}{BEGIN}\n{table}{END}{after}", encoding="utf-8")

"""Charts in SVG and heat maps in HTML, without any library."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ._markup import Html, number, scrolling, shorten, tag

_WIDTH, _HEIGHT = 360, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 40


class Series(NamedTuple):
    """One line of a chart."""

    name: str
    x: np.ndarray
    y: np.ndarray


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers between two values, about ``wanted`` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two values; with 2 and 5 where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [f * 10.0**p for p in powers for f in factors]
        ticks = [t for t in ticks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        if len(ticks) >= 3:
            break
    return ticks[:: max(1, math.ceil(len(ticks) / 6))]


class _Scale:
    """From values to places, linear or logarithmic."""

    def __init__(self, values: np.ndarray, start: float, end: float, log: bool, pad: float):
        self.log = log
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - abs(low) / 2 - 1e-12, high + 1e-12)
            high = high if high > low else low + 1.0
        self.low, self.high = (math.log10(low), math.log10(high)) if log else (low, high)
        margin = pad * (self.high - self.low)
        self.low, self.high = self.low - margin, self.high + margin
        self.start, self.end = start, end

    def __call__(self, value: Any) -> Any:
        value = np.log10(value) if self.log else value
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            return log_ticks(10.0**self.low, 10.0**self.high)
        return nice_ticks(self.low, self.high, 4)


def line_chart(
    series: list[Series], *, title: str, x_name: str, description: str, log: bool = False
) -> Html:
    """Lines over a common axis. Values that cannot be drawn are left out."""
    drawn = []
    for line in series:
        fine = np.isfinite(line.x) & np.isfinite(line.y)
        fine &= line.y > 0 if log else True
        drawn.append(Series(line.name, line.x[fine], line.y[fine]))
    if not any(len(line.x) for line in drawn):
        return tag("figure", tag("p", "nothing to draw", class_="note"), tag("figcaption", title))
    x = _Scale(np.concatenate([s.x for s in drawn]), _LEFT, _WIDTH - _RIGHT, False, 0.0)
    y = _Scale(np.concatenate([s.y for s in drawn]), _HEIGHT - _BOTTOM, _TOP, log, 0.06)
    parts = [*_axes(x, y, x_name)]
    for k, line in enumerate(drawn):
        if not len(line.x):
            continue
        points = list(zip(x(line.x), y(line.y), strict=True))
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        dash = " dash" if k == 1 else ""
        parts.append(tag("polyline", points=path, class_=f"series s{k}{dash}"))
        if len(points) <= 60:
            parts += [tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=2.5, class_=f"f{k}")
                      for a, b in points]  # fmt: skip
    drawing = tag(
        "svg", tag("title", f"{title}: {description}"), parts,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
    )  # fmt: skip
    return tag("figure", drawing, tag("figcaption", title))


def _axes(x: _Scale, y: _Scale, x_name: str) -> list[Html]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for value in y.ticks():
        at = f"{y(value):.1f}"
        parts.append(tag("line", x1=_LEFT, x2=right, y1=at, y2=at, class_="axis"))
        parts.append(tag("text", number(value, 3), x=_LEFT - 6, y=at, dy="0.33em",
                         text_anchor="end"))  # fmt: skip
    for value in x.ticks():
        at = f"{x(value):.1f}"
        parts.append(tag("line", x1=at, x2=at, y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(tag("text", number(value, 3), x=at, y=bottom + 17, text_anchor="middle"))
    parts.append(tag("text", x_name, x=(_LEFT + right) / 2, y=_HEIGHT - 4, text_anchor="middle"))
    return parts


class Interval(NamedTuple):
    """A score with its bounds, for :func:`interval_chart`; bounds may be None."""

    name: str
    value: float
    low: float | None
    high: float | None


def interval_chart(rows: list[Interval], *, percent: bool, description: str) -> Html:
    """Scores as dots with their intervals, one below the other, on one axis."""
    width, height, top = 360, 46 * len(rows) + 34, 6
    everything = [v for row in rows for v in (row.value, row.low, row.high) if v is not None]
    scale = _Scale(np.array(everything), 14, width - 14, False, 0.06)
    bottom = height - 28
    parts = []
    for value in scale.ticks():
        at = f"{scale(value):.1f}"
        text = f"{value:.0%}" if percent else number(value, 3)
        parts.append(tag("line", x1=at, x2=at, y1=top, y2=bottom, class_="axis"))
        parts.append(tag("text", text, x=at, y=height - 10, text_anchor="middle"))
    for k, row in enumerate(rows):
        y, tone = top + 46 * k + 30, min(k, 2)
        parts.append(tag("text", shorten(row.name, 48), x=4, y=y - 14, class_="ink halo"))
        if row.low is not None and row.high is not None:
            parts.append(tag("line", x1=f"{scale(row.low):.1f}", x2=f"{scale(row.high):.1f}",
                             y1=y, y2=y, class_=f"series s{tone}"))  # fmt: skip
        parts.append(tag("circle", cx=f"{scale(row.value):.1f}", cy=y, r=5, class_=f"f{tone}"))
    drawing = tag("svg", tag("title", description), parts, viewBox=f"0 0 {width} {height}",
                  role="img", style="max-width:520px;width:100%")  # fmt: skip
    return tag("figure", drawing)


class HeatMap(NamedTuple):
    """A table of numbers, drawn with colours that are symmetric about zero."""

    title: str
    values: np.ndarray
    rows: list[str]
    columns: list[str]
    row_name: str
    column_name: str
    note: str = ""
    counts: bool = False  # of examples: whole numbers, the diagonal is right
    blank: np.ndarray | None = None  # cells without a value


def heat_map(heat: HeatMap) -> Html:
    """A table whose cells are coloured by their values; the numbers stay readable as text."""
    largest = float(np.abs(heat.values[np.isfinite(heat.values)]).max(initial=0.0)) or 1.0
    corner = f"{heat.row_name} ↓ {heat.column_name} →"
    names = [tag("th", shorten(name, 18), scope="col", title=name) for name in heat.columns]
    head = tag("tr", tag("th", corner, scope="col"), names)
    body = []
    for r, name in enumerate(heat.rows):
        cells = [_cell(heat, r, c, largest) for c in range(len(heat.columns))]
        body.append(tag("tr", tag("th", shorten(name, 18), scope="row", title=name), cells))
    drawn = tag("table", tag("caption", heat.title), tag("thead", head), tag("tbody", body),
                class_="heat")  # fmt: skip
    note = tag("p", heat.note, class_="note") if heat.note else None
    return tag("div", scrolling(drawn, heat.title), note)


def _cell(heat: HeatMap, r: int, c: int, largest: float) -> Html:
    if heat.blank is not None and heat.blank[r, c]:
        return tag("td", "·", class_="more", style="--p:0%")
    value = float(heat.values[r, c])
    if not math.isfinite(value):
        return tag("td", "—", class_="more", style="--p:0%")
    share = abs(value) / largest
    share = math.sqrt(share) if heat.counts else share
    wrong = heat.counts and r != c
    kind = "less" if value < 0 or wrong else "more"
    text = (f"{int(value):,}" if value else "·") if heat.counts else f"{value:z.2f}"
    return tag("td", text, class_=kind, style=f"--p:{100 * share:.0f}%")

"""Outputs drawn as what they are: labels, words, pictures, rankings, matchings, trees, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import is_mapping, is_text
from ..tasks import VOID
from ._markup import Html, join, scrolling, shorten, tag
from ._style import N_COLOURS

_WORD_NAMES = ("word", "form", "token", "text", "w", "w0", "w[0]", "word[0]", "lower", "word.lower")
_LARGEST_SIDE = 64  # cells of a drawn picture


def chip(name: str, code: int, kind: str = "", said: str | None = None) -> Html:
    """A label in its colour; ``kind`` marks mistakes."""
    colour = f"c{code % N_COLOURS}" if code >= 0 else ""
    return tag("span", shorten(name, 40), class_=f"chip {colour} {kind}".strip(), title=said)


def score_bars(names: list[str], scores: np.ndarray, best: int) -> Html:
    """Scores of labels as bars that start at the worst one."""
    low, high = float(scores.min()), float(scores.max())
    rows = []
    for k, (name, score) in enumerate(zip(names, scores, strict=True)):
        share = (score - low) / (high - low) if high > low else 1.0
        bar = tag("i", class_=None if k == best else "other", style=f"--p:{100 * share:.0f}%")
        rows += [tag("span", shorten(name, 24)), bar, tag("span", f"{score:.2f}", class_="soft")]
    return tag("div", rows, class_="bars", aria_label="scores of the labels", role="group")


# --- words ----------------------------------------------------------------------------------


def word_of(position: Any) -> str | None:
    """The word of a position, if its features tell: a dict, or a list of names."""
    if is_text(position):
        return position
    if is_mapping(position):
        named = {name: value for name, value in position.items() if is_text(value)}
        texts = list(named.values())
    else:
        texts = list(filter(is_text, position))
        named = {name: text for name, mark, text in (t.partition("=") for t in texts) if mark}
    return next((named[name] for name in _WORD_NAMES if name in named), texts[0] if texts else None)


def word_box(shown: Any, true: int, found: int, labels: list[str]) -> Html:
    """A word or a picture with its predicted label, and the true one where they differ."""
    off = true not in (found, VOID)
    name = "unknown" if true < 0 else labels[true]
    truth = tag("small", "true: ", chip(name, true)) if off else None
    return tag("div", shown, chip(labels[found], found, "miss" if off else ""), truth,
               class_="word off" if off else "word")  # fmt: skip


# --- pictures -------------------------------------------------------------------------------


def picture(values: np.ndarray, width: int | None = None) -> Html:
    """Grey values, or three colours in the last axis, as a picture."""
    values = np.asarray(values, float)
    values = values[_thinned(values.shape[0])][:, _thinned(values.shape[1])]
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    tones = np.nan_to_num(255 * (values - low) / ((high - low) or 1.0)).astype(int)
    if tones.ndim == 3:
        tones = tones[:, :, :3] if tones.shape[2] >= 3 else tones[:, :, 0]
    fills = [
        [f"rgb({c},{c},{c})" if np.ndim(c) == 0 else f"rgb({c[0]},{c[1]},{c[2]})" for c in row]
        for row in tones
    ]
    return _cells(fills, "fill", "input picture", width)


def label_picture(codes: np.ndarray, said: str, wrong: np.ndarray | None = None) -> Html:
    """Labels of cells in their colours; wrong cells get a mark."""
    rows, columns = _thinned(codes.shape[0]), _thinned(codes.shape[1])
    codes = codes[rows][:, columns]
    names = [[f"k{c % N_COLOURS}" if c >= 0 else "" for c in row] for row in codes]
    marks = []
    if wrong is not None:
        for r, c in np.argwhere(wrong[rows][:, columns]):
            marks.append(f"M{c + 0.2} {r + 0.2}l.6 .6m0 -.6l-.6 .6")
    cross = tag("path", d="".join(marks), stroke="var(--bad)", stroke_width=0.16, fill="none")
    return _cells(names, "class_", said, None, cross if marks else None)


def _thinned(size: int) -> np.ndarray:
    """Rows or columns to draw: all, or some at equal distances."""
    return np.arange(0, size, -(-size // _LARGEST_SIDE))


def _cells(
    paint: list[list[str]], attribute: str, said: str, width: int | None, above: Html | None = None
) -> Html:
    """A grid of cells; neighbours in a row that are painted alike are one rectangle."""
    height, across = len(paint), len(paint[0])
    parts = []
    for r, row in enumerate(paint):
        start = 0
        for c in range(1, across + 1):
            if c == across or row[c] != row[start]:
                place = {"x": start, "y": r, "width": c - start, "height": 1}
                parts.append(tag("rect", **place, **{attribute: row[start]}))
                start = c
    size = {"width": width, "height": round(width * height / across)} if width else {}
    return tag("svg", tag("title", said), parts, above, viewBox=f"0 0 {across} {height}",
               role="img", shape_rendering="crispEdges", **size)  # fmt: skip


# --- rankings and matchings -----------------------------------------------------------------


def ranking(title: str, order: np.ndarray, items: list[str], off: np.ndarray | None) -> Html:
    """An ordered list of items; those at a wrong place are marked."""
    lines = []
    for place, item in enumerate(order):
        wrong = off is not None and bool(off[item])
        said = "at a wrong place" if wrong else None
        inner = tag("span", shorten(items[item], 30), class_=f"chip c{item % N_COLOURS}")
        lines.append(tag("li", inner, value=place + 1, class_="off" if wrong else None, title=said))
    return tag("div", tag("h4", title), tag("ol", lines, class_="ranking"))


def matching(true: np.ndarray, found: np.ndarray) -> Html:
    """Points in two columns with lines between partners; true ones have the same colour."""
    n = len(true)
    height, left, right = 24 * n + 8, 24, 196
    parts = []
    for a in range(n):
        ya = 16 + 24 * a
        wrong = found[a] != true[a]
        yb = 16 + 24 * int(found[a])
        parts.append(tag("line", x1=left + 8, y1=ya, x2=right - 8, y2=yb, stroke_width=2,
                         stroke="var(--bad)" if wrong else "var(--accent)",
                         class_="dash" if wrong else None))  # fmt: skip
        for x, anchor in ((left, "end"), (right, "start")):
            colour = a if anchor == "end" else int(np.flatnonzero(true == a)[0])
            parts.append(tag("circle", cx=x, cy=ya, r=6, class_=f"k{colour % N_COLOURS}"))
            aside = x - 10 if anchor == "end" else x + 10
            parts.append(tag("text", a, x=aside, y=ya, dy="0.33em", text_anchor=anchor))
    pairs = ", ".join(f"{a} with {b}" for a, b in enumerate(found))
    said = f"Predicted pairs: {pairs}."
    return tag("svg", tag("title", said), parts, viewBox=f"0 0 220 {height}", role="img",
               width=220, height=height)  # fmt: skip


# --- trees and graphs -----------------------------------------------------------------------


def tree(words: list[str], found: np.ndarray, true: np.ndarray | None = None) -> Html:
    """Arcs over words; head 0 is the root. Wrong arcs are dashed, the true ones are dotted."""
    n = len(words)
    widths = np.array([8.2 * min(len(w), 18) + 22 for w in words])
    x = np.cumsum(widths) - widths / 2 + 6
    span = max([1, *(abs(h - m) for m, h in enumerate(found, 1) if h > 0)])
    level = 14.0 if span > 8 else 20.0
    base = level * min(span, 14) + 40
    parts = []
    for m in range(n):
        h = int(found[m])
        wrong = true is not None and true[m] not in (h, VOID)
        colour = "var(--bad)" if wrong else "var(--accent)"
        parts.append(_arc(x, m, h - 1, base, level, colour, "5 4" if wrong else None))
        if wrong and true is not None and true[m] >= 0:
            parts.append(_arc(x, m, int(true[m]) - 1, base, level, "var(--third)", "1 4"))
        parts.append(tag("text", shorten(words[m], 18), x=f"{x[m]:.1f}", y=base + 18,
                         text_anchor="middle", class_="ink"))  # fmt: skip
    arcs = ", ".join(
        f"{words[m]} ← {'root' if h <= 0 else words[int(h) - 1]}" for m, h in enumerate(found)
    )
    width = float(widths.sum()) + 12
    drawing = tag("svg", tag("title", f"Tree: {shorten(arcs, 600)}"), parts, role="img",
                  viewBox=f"0 0 {width:.0f} {base + 28:.0f}",
                  style=f"min-width:{width:.0f}px;width:{width:.0f}px")  # fmt: skip
    return scrolling(drawing, "tree over words")


def _arc(
    x: np.ndarray, m: int, h: int, base: float, level: float, colour: str, dash: str | None
) -> Html:
    """The arc from head h to word m, with its point at the word; a head below 0 is the root."""
    line = {"stroke": colour, "fill": "none", "stroke_width": 1.8, "stroke_dasharray": dash}
    tip = tag("path", d=f"M{x[m] - 4:.1f} {base - 6:.1f}L{x[m]:.1f} {base:.1f}"
                        f"L{x[m] + 4:.1f} {base - 6:.1f}Z", fill=colour)  # fmt: skip
    if h < 0:
        root = tag("path", d=f"M{x[m]:.1f} 8V{base - 5:.1f}", **line)
        return join(root, tip)
    shift = 5.0 if h > m else -5.0
    top = base - level * min(abs(h - m), 14) - 8
    start, end = x[h] - shift, x[m]
    bend = min(18.0, abs(start - end) / 2)
    inward = bend if end > start else -bend
    path = (
        f"M{start:.1f} {base:.1f}C{start:.1f} {top:.1f} {start:.1f} {top:.1f} "
        f"{start + inward:.1f} {top:.1f}H{end - inward:.1f}"
        f"C{end:.1f} {top:.1f} {end:.1f} {top:.1f} {end:.1f} {base - 5:.1f}"
    )
    return join(tag("path", d=path, **line), tip)


def graph(edges: np.ndarray, true: np.ndarray, found: np.ndarray, labels: list[str]) -> Html:
    """Nodes in the colours of their predicted labels; wrong ones have a ring."""
    at = _layout(len(found), edges)
    parts = [
        tag("line", x1=f"{at[a, 0]:.1f}", y1=f"{at[a, 1]:.1f}", x2=f"{at[b, 0]:.1f}",
            y2=f"{at[b, 1]:.1f}", stroke="var(--third)", stroke_opacity=0.6)
        for a, b in edges
    ]  # fmt: skip
    radius = 9 if len(found) <= 40 else 5
    for v, (x, y) in enumerate(at):
        off = true[v] not in (found[v], VOID)
        truth = f", true {labels[true[v]]}" if off and true[v] >= 0 else ""
        parts.append(tag("circle", tag("title", f"node {v}: {labels[found[v]]}{truth}"),
                         cx=f"{x:.1f}", cy=f"{y:.1f}", r=radius,
                         class_=f"k{found[v] % N_COLOURS}",
                         stroke="var(--bad)" if off else "var(--soft)",
                         stroke_width=3 if off else 1))  # fmt: skip
    wrong = int(((true != found) & (true != VOID)).sum())
    said = f"Graph of {len(found)} nodes, {wrong} of them labelled wrong."
    return tag("svg", tag("title", said), parts, viewBox="0 0 320 220", role="img",
               style="width:100%;max-width:420px")  # fmt: skip


def _layout(n: int, edges: np.ndarray) -> np.ndarray:
    """Places of nodes: springs along edges, repulsion everywhere, from a circle."""
    angle = 2 * np.pi * np.arange(n) / max(n, 1)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ideal = 1.6 / np.sqrt(max(n, 1))
    for step in np.linspace(0.12, 0.005, 80):
        apart = at[:, None] - at[None]
        distance = np.sqrt((apart**2).sum(axis=2)) + 1e-9
        force = (apart * (ideal**2 / distance**2)[:, :, None]).sum(axis=1) - at  # and together
        if len(edges):
            along = at[edges[:, 0]] - at[edges[:, 1]]
            pull = along * (np.linalg.norm(along, axis=1) / ideal)[:, None]
            np.add.at(force, edges[:, 0], -pull)
            np.add.at(force, edges[:, 1], pull)
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-9
        at = at + force / size * np.minimum(size, step)
    at = at - at.min(axis=0)
    return at / np.maximum(at.max(axis=0), 1e-9) * [292.0, 192.0] + 14.0

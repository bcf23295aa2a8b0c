"""HTML and SVG from Python values; whatever comes from users is escaped on the way in."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from .._validation import is_text

_VOID = frozenset({"meta", "link", "br", "col", "hr"})
# Characters that turn the direction of text, or that no document may hold.
_UNSEEN = dict.fromkeys((*range(8234, 8239), *range(8294, 8298)), "�")
_UNSEEN |= {code: "\ufffd" for code in range(32) if code not in (9, 10, 13)}


class Html(str):
    """Text that is markup already and is not escaped again."""

    __slots__ = ()


def escape(value: Any) -> Html:
    """The text of a value as markup."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(str(value).translate(_UNSEEN), quote=True))


def join(*parts: Any) -> Html:
    """Markup of all parts in order: markup, text, None (nothing), or lists of these."""
    out: list[str] = []
    for part in parts:
        if part is None:
            continue
        if is_text(part) or not isinstance(part, Iterable):
            out.append(escape(part))
        else:
            out.append(join(*part))
    return Html("".join(out))


def tag(name: str, /, *content: Any, **attributes: Any) -> Html:
    """An element. ``class_`` is class, underscores are hyphens, and None leaves one out.

    Examples
    --------
    >>> from maxmargin.report._markup import tag
    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(text_of(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*content)}</{name}>")


def text_of(value: Any) -> str:
    """A value as text, numbers with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shorten(value: Any, length: int = 60) -> str:
    """The text of a value, cut where it is too long to show."""
    text = str(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float, digits: int = 4) -> str:
    """A number for people: 1,234 or 0.0123 or 1.2e-07."""
    if value != value or value in (float("inf"), float("-inf")):
        return "—"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits}g}"
    return f"{value:.{min(digits, 3)}g}"


def count(n: int, noun: str) -> str:
    """``3 words``, ``1 word``, ``2 passes``."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """``words``, ``passes``, ``pairs of point sets``."""
    first, _, rest = noun.partition(" of ")
    first += "es" if first.endswith("s") else "s"
    return f"{first} of {rest}" if rest else first


def table(
    header: list[Any], rows: Iterable[list[Any]], *, caption: str, label_columns: int = 1
) -> Html:
    """A table that scrolls sideways where it does not fit; the first columns are text.

    On narrow screens each row becomes a card, whose lines are named by the columns.
    """
    head = tag("tr", [
        tag("th", cell, scope="col", class_="t" if place < label_columns else None)
        for place, cell in enumerate(header)
    ])  # fmt: skip
    body = [
        tag(
            "tr",
            [
                tag("th", cell, scope="row") if place == 0 else
                tag("td", cell, class_=None if place < label_columns else "n",
                    data_label=str(header[place]))
                for place, cell in enumerate(row)
            ],
        )
        for row in rows
    ]  # fmt: skip
    inner = tag(
        "table", tag("caption", caption), tag("thead", head), tag("tbody", body), class_="rows"
    )
    return scrolling(inner, caption)


def scrolling(content: Html, label: str) -> Html:
    """A region that scrolls sideways, with the keyboard too."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex=0)

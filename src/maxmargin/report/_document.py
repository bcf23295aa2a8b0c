"""The page around the sections, and the file."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from .._validation import check_integer
from ..persistence import replacing
from ._markup import Html, count, join, shorten, table, tag
from ._section import Section, Summary
from ._style import style_sheet

GENERATOR = "maxmargin report"


class Report:
    """One or more fitted models in one HTML file.

    The file holds everything that it shows: no scripts, no other files, no network. It follows the
    reader's choice of light or dark, and fits phones and wide screens.

    Parameters
    ----------
    title : str
    introduction : str, optional
        A paragraph below the title.
    generator : str
        Written into the head of the file, so that a program can recognise its own reports.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import MulticlassClassifier
    >>> from maxmargin.report import Report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassClassifier("max-min", random_state=0).fit(X[::2], y[::2])
    >>> report = Report("Flowers")
    >>> summary = report.add(model, X_train=X[::2], y_train=y[::2], X_test=X[1::2], y_test=y[1::2])
    >>> summary.measure, summary.score > summary.baselines[0].score
    ('accuracy', True)
    >>> report.html().startswith("<!doctype html>")
    True
    """

    def __init__(
        self, title: str, *, introduction: str | None = None, generator: str = GENERATOR
    ) -> None:
        self.title = title
        self.introduction = introduction
        self.generator = generator
        self._sections: list[Section] = []

    @property
    def summaries(self) -> list[Summary]:
        """The main numbers of all models, in order."""
        return [section.summary for section in self._sections]

    def add(
        self,
        model: Any,
        *,
        X_train: Any = None,
        y_train: Any = None,
        X_test: Any = None,
        y_test: Any = None,
        task: str | None = None,
        title: str | None = None,
        data_name: str | None = None,
        baselines: bool = True,
        n_examples: int = 6,
        image_shape: tuple[int, ...] | None = None,
    ) -> Summary:
        """Add a model: predict, measure, and train its baselines.

        Parameters
        ----------
        model : fitted estimator
            Of this package; or a pipeline or a search that ends with one.
        X_train, y_train : optional
            Data that it was trained on; without them the report has no baselines.
        X_test, y_test : optional
            New data; needed if there are no training data. Without them the scores are those of
            the training data, and the report says so.
        task : str, optional
            "multiclass", "sequence", ...: what the estimator is for, if a program wants to be
            sure; "other" treats outputs as values that are equal or not.
        title, data_name : str, optional
        baselines : bool, default=True
            Whether to train and compare simpler models.
        n_examples : int, default=6
            Predictions that are drawn, half of them wrong ones.
        image_shape : pair of ints, optional
            If features (of an example, or of a position) are the pixels of a picture: its shape.

        Returns
        -------
        summary : Summary
            The main numbers.
        """
        check_integer("n_examples", n_examples, 0)
        section = Section(
            model, task=task, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test,
            title=title, data_name=data_name, baselines=baselines, n_examples=n_examples,
            image_shape=image_shape,
        )  # fmt: skip
        self._sections.append(section)
        return section.summary

    def html(self) -> str:
        """The whole document."""
        anchors = [f"model-{k}" for k in range(1, len(self._sections) + 1)]
        parts = zip(self._sections, anchors, strict=True)
        body = [
            tag("a", "skip to the content", href="#content", class_="skip"),
            tag("header", tag("h1", self.title),
                tag("p", self.introduction, class_="lead") if self.introduction else None),
            self._contents(anchors) if len(anchors) > 1 else None,
            tag("main", self._overview(anchors) if len(anchors) > 1 else None,
                [section.html(anchor) for section, anchor in parts], id="content"),
            tag("footer", tag("p", _signature())),
        ]  # fmt: skip
        page = tag("html", tag("head", *self._head()), tag("body", body), lang="en")
        return f"<!doctype html>\n{page}\n"

    def _head(self) -> list[Html]:
        # Nothing may be loaded, whatever a label or a word tries.
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        return [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="generator", content=self.generator),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", self.title),
            tag("link", rel="icon", href="data:,"),
            tag("style", Html(style_sheet())),
        ]

    def _contents(self, anchors: list[str]) -> Html:
        """Links to all models, which stay in sight."""
        links = [
            tag("a", shorten(s.title.partition(":")[0], 24), href=f"#{anchor}")
            for s, anchor in zip(self.summaries, anchors, strict=True)
        ]
        return tag("nav", links, class_="contents", aria_label="contents")

    def _overview(self, anchors: list[str]) -> Html:
        rows = []
        for s, anchor in zip(self.summaries, anchors, strict=True):
            measure = s.measure + (" (small is good)" if s.lower_is_better else "")
            best = (min if s.lower_is_better else max)(
                s.baselines, key=lambda b: b.score, default=None
            )
            rows.append([
                join(tag("a", s.title, href=f"#{anchor}"), tag("small", s.task)),
                join(s.text(s.score), tag("small", measure)),
                "—" if best is None else join(s.text(best.score), tag("small", best.name)),
                "—" if s.relative_gap is None else f"{s.relative_gap:.2%}",
                "—" if s.seconds is None else f"{s.seconds:.1f}",
            ])  # fmt: skip
        header = ["model", "score", "best baseline", "certified gap", "seconds"]
        inner = table(header, rows, caption=count(len(rows), "model"))
        return tag("nav", tag("div", inner, class_="card"), aria_label="models", class_="overview")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the document to a file, whole or not at all; an old file is replaced.

        Returns
        -------
        path : Path
        """
        with replacing(path) as file:
            file.write(self.html().encode("utf-8", "replace"))
        return Path(path)


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    *,
    title: str | None = None,
    data_name: str | None = None,
    **options: Any,
) -> Path:
    """Write a report on one fitted model; see :meth:`Report.add` for the parameters.

    Returns
    -------
    path : Path
        Where it is.
    """
    report = Report(title or f"Report: {data_name or type(model).__name__}")
    report.add(model, title=title, data_name=data_name, **options)
    return report.save(path)


def _signature() -> str:
    from .. import __version__

    return f"Written by maxmargin {__version__} on {date.today():%d %B %Y}."

"""Plots of fitted models and of outputs, with matplotlib (the extra ``plot``).

Every function draws into ``ax``, or into a new figure, and returns the axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._optional import require
from .tasks import unwrap
from .tasks.label_sets import MultiLabelTask
from .tasks.parts import GraphTask, SequenceTask

__all__ = ["convergence", "grid", "interactions", "reliability", "strengths", "transitions", "tree"]

_MOST_NUMBERS = 12  # labels up to which the cells of a heat map carry their numbers


def _axes(ax: Any, **size: Any) -> Any:
    if ax is not None:
        return ax
    pyplot = require("matplotlib.pyplot", "plot", "Plotting")
    return pyplot.subplots(layout="constrained", **size)[1]


def convergence(model: Any, *, over: str = "passes", ax: Any = None) -> Any:
    """Objective and certified lower bound over the passes, or the seconds, of a fit.

    The optimum lies between the two lines at every moment: their distance is the certificate. With
    hidden labels or latent variables that holds for the convex problem of each round only.

    Parameters
    ----------
    model : fitted estimator, or a pipeline or search around one
    over : {"passes", "seconds"}, default="passes"
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
    """
    if over not in ("passes", "seconds"):
        raise ValueError(f"over must be 'passes' or 'seconds'; received {over!r}.")
    model = unwrap(model)[0]
    check_is_fitted(model, "history_")
    history = model.history_
    if not history:
        raise ValueError("model.history_ is empty: the fit made no check that could be drawn.")
    checks = dict(zip(history[0]._fields, np.array(history, float).T, strict=True))
    x, primal, dual = checks[over], checks["primal"], checks["dual"]
    ax = _axes(ax)
    marker = "." if len(x) <= 60 else None
    ax.plot(x, primal, marker=marker, label="objective (primal)")
    finite = np.isfinite(dual)
    if finite.any():
        ax.plot(x[finite], dual[finite], "--", marker=marker, label="lower bound (dual)")
        ax.fill_between(x[finite], dual[finite], primal[finite], alpha=0.15)
    title, fitted = type(model).__name__, vars(model)
    if fitted.get("primal_") and math.isfinite(model.gap_):  # NaN of random structures
        title += f": gap {model.gap_ / abs(model.primal_):.2%}"
        title += " (last convex problem)" * ("certificate_" in fitted)
    ax.set(xlabel=over, ylabel="objective", title=title)
    ax.legend()
    return ax


def strengths(model: Any, *, ax: Any = None) -> Any:
    """Cross-validated scores of a model with ``alpha="cv"`` over the strengths of regularisation.

    Parameters
    ----------
    model : estimator fitted with ``alpha="cv"``, or a pipeline around one
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
        Mean scores, with a band of one standard error over the folds computed, and the chosen
        alpha.
    """
    model = unwrap(model)[0]
    results = vars(model).get("cv_results_")
    if results is None:
        raise TypeError(
            f'strengths needs a model fitted with alpha="cv"; received {type(model).__name__} '
            "without cv_results_."
        )
    alphas, mean = results["param_alpha"], results["mean_test_score"]
    splits = [scores for name, scores in results.items() if name.startswith("split")]
    n_folds = np.isfinite(splits).sum(axis=0)  # some may not have been computed
    error = results["std_test_score"] / np.sqrt(n_folds)
    ax = _axes(ax)
    ax.plot(alphas, mean, marker=".", label="mean score of the folds")
    ax.fill_between(alphas, mean - error, mean + error, alpha=0.15)
    best = int(np.argmax(np.where(n_folds == n_folds.max(), mean, -np.inf)))
    ax.axvline(alphas[best], linestyle="--", color="grey", label=f"chosen: {alphas[best]:.3g}")
    ax.set(xscale="log", xlabel="alpha", ylabel="score", title=type(model).__name__)
    ax.invert_xaxis()  # from strong to weak, as the path goes
    ax.legend()
    return ax


def reliability(model: Any, X: Any, y: Any, *, n_bins: int = 10, ax: Any = None) -> Any:
    """How often the most probable labels are right, over their probability.

    Points on the diagonal are calibrated; below it the model is too sure of itself.

    Parameters
    ----------
    model : fitted estimator with ``predict_marginals`` of single labels, or a pipeline around one
        Such as a SequenceLabeler (each position is an answer) or a MulticlassClassifier.
    X, y : held-out examples and their labels
    n_bins : int, default=10
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
        The title has the expected calibration error (:func:`maxmargin.metrics.reliability`).
    """
    from .metrics import reliability as measure

    final = unwrap(model)[0]
    if not hasattr(final, "predict_marginals") or "classes_" not in vars(final):
        raise TypeError(
            "reliability needs a fitted estimator with predict_marginals and classes_; received "
            f"{type(final).__name__}."
        )
    marginals = model.predict_marginals(X)
    flat, truth = marginals, list(y)
    if isinstance(marginals, list):
        flat, truth = np.concatenate(marginals), [label for part in y for label in part]
    if flat.shape != (len(truth), len(final.classes_)):
        raise ValueError(
            f"y has {len(truth)} labels, but the model gives probabilities of shape {flat.shape}; "
            "expected one label for each row, and one of classes_."
        )
    chosen = final.classes_[flat.argmax(axis=1)]
    right = [bool(a == b) for a, b in zip(chosen, truth, strict=True)]
    found = measure(right, flat.max(axis=1), n_bins)
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], "--", color="grey", label="calibrated")
    ax.plot(found.probability, found.frequency, marker="o", label="most probable labels")
    ax.set(xlabel="probability", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    ax.set_title(f"{type(final).__name__}: calibration error {found.error:.3f}")
    ax.legend()
    return ax


def _heat(ax: Any, values: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> Any:
    """A heat map with colours that are symmetric about zero."""
    side = 2.0 + 0.4 * max(len(rows), len(columns))
    ax = _axes(ax, figsize=(min(side + 1.0, 14.0), min(side, 13.0)))
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    image = ax.imshow(values, cmap="RdBu", vmin=-largest, vmax=largest)
    ax.set_xticks(range(len(columns)), columns, rotation=90)
    ax.set_yticks(range(len(rows)), rows)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    if max(values.shape) <= _MOST_NUMBERS:
        for (r, c), value in np.ndenumerate(values):
            if np.isfinite(value):
                dark = abs(value) > 0.6 * largest
                colour = "white" if dark else "black"
                ax.text(c, r, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)
    return ax


def transitions(model: Any, *, ax: Any = None) -> Any:
    """Weights of the transitions of a :class:`~maxmargin.SequenceLabeler`.

    Parameters
    ----------
    model : fitted SequenceLabeler, or a pipeline or search around one
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
        A row for each label, a column for the label that follows; white cells are 0, forbidden
        transitions are empty.
    """
    model = unwrap(model)[0]
    if "transitions_" not in vars(model):
        raise TypeError(
            "transitions needs a fitted SequenceLabeler, which has transitions_; received "
            f"{type(model).__name__}. For other models see interactions."
        )
    task = SequenceTask(model)
    ax = _heat(ax, task.pairs()[0].values, task.labels, task.labels)
    ax.set(xlabel="next label", ylabel="label", title="transitions")
    return ax


def interactions(model: Any, *, table: int = 0, ax: Any = None) -> Any:
    """How labels attract or exclude each other.

    Of a :class:`~maxmargin.MultiLabelClassifier` with edges the cell of labels i and j is
    ``T[1, 1] - T[1, 0] - T[0, 1] + T[0, 0]``, what the presence of both adds to that of each; of a
    :class:`~maxmargin.GraphLabeler` or :class:`~maxmargin.GridLabeler` it is the weight of the
    pair of labels in a table of ``pairwise_coef_``.

    Parameters
    ----------
    model : fitted estimator, or a pipeline or search around one
    table : int, default=0
        Which table of ``pairwise_coef_``; grids have one for each direction.
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
    """
    model = unwrap(model)[0]
    fitted = vars(model)
    if not {"interactions_", "pairwise_coef_"} & set(fitted):
        raise TypeError(
            "interactions needs a fitted MultiLabelClassifier, GraphLabeler or GridLabeler; "
            f"received {type(model).__name__}. For a SequenceLabeler see transitions."
        )
    task = MultiLabelTask(model) if "interactions_" in fitted else GraphTask(model)
    tables = task.pairs()
    if not tables:
        raise ValueError(
            "the labels of this model do not interact; fit it with edges='full', 'tree' or a list."
        )
    if not 0 <= table < len(tables):
        raise ValueError(f"table must be from 0 to {len(tables) - 1}; received {table!r}.")
    ax = _heat(ax, tables[table].values, task.labels, task.labels)
    ax.set(xlabel="label", ylabel="label", title="interactions")
    return ax


def tree(heads: Sequence[int], words: Sequence[str] | None = None, *, ax: Any = None) -> Any:
    """A dependency tree as arcs above its words.

    Parameters
    ----------
    heads : sequence of n ints
        The head of each word, counted from 1; 0 is the root.
    words : sequence of n strings, optional
        Numbers if not given.
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
    """
    found = np.asarray(heads)
    n = len(found)
    if found.ndim != 1 or not n or found.dtype.kind not in "iu":
        raise ValueError(f"heads must be a sequence of integers; received {heads!r}.")
    bad = np.flatnonzero((found < 0) | (found > n) | (found == np.arange(1, n + 1)))
    if len(bad):
        raise ValueError(
            f"heads[{bad[0]}] is {found[bad[0]]}; expected 0 for the root, or the number of "
            f"another word, from 1 to {n}."
        )
    names = [str(k) for k in range(1, n + 1)] if words is None else [str(w) for w in words]
    if len(names) != n:
        raise ValueError(f"there are {n} heads but {len(names)} words; expected one for each.")
    ax = _axes(ax, figsize=(max(4.0, 0.9 * n), 3.5))
    top = 1.0 + max([1, *(abs(int(h) - m) for m, h in enumerate(found, 1) if h)])
    for m, head in enumerate(found, 1):
        _draw_arc(ax, int(head), m, top)
        ax.text(m, -0.1, names[m - 1], ha="center", va="top")
    ax.set(xlim=(0.4, n + 0.6), ylim=(-0.6, top))
    ax.set_axis_off()
    return ax


def _draw_arc(ax: Any, head: int, word: int, top: float) -> None:
    """An arrow from the head to the word; from above if the head is the root."""
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "color": "C0"}
    if head == 0:
        ax.annotate("", xy=(word, 0.0), xytext=(word, top - 0.2), arrowprops=arrow)
        ax.text(word + 0.05, top - 0.25, "root", color="C0", va="top", fontsize=8)
        return
    start = head + (0.08 if word > head else -0.08)
    angle = np.linspace(0.0, np.pi, 40)
    middle, half = (start + word) / 2, (start - word) / 2
    height = abs(head - word) * 0.85
    x, y = middle + half * np.cos(angle), height * np.sin(angle)
    ax.plot(x, y, color="C0")
    ax.annotate("", xy=(word, 0.0), xytext=(x[-3], y[-3]), arrowprops=arrow)


def grid(y: Any, *, classes: Any = None, ax: Any = None) -> Any:
    """Labels of the cells of a grid as colours, with a legend.

    Parameters
    ----------
    y : array of shape (height, width)
        Labels, such as one entry of ``GridLabeler.predict``.
    classes : sequence, optional
        All labels in the order of their colours, so that plots can be compared; by default those
        that occur.
    ax : matplotlib axes, optional

    Returns
    -------
    ax : matplotlib axes
    """
    from ._labels import LabelCodes, find_classes

    cells = np.asarray(y)
    if cells.ndim != 2 or not cells.size:
        raise ValueError(
            f"y must be an array of labels of shape (height, width); received shape {cells.shape}."
        )
    names = find_classes(cells.ravel()) if classes is None else np.asarray(classes)
    codes = np.asarray(LabelCodes(names).codes_or_minus_one(cells.ravel()))
    if (codes < 0).any():
        row, column = divmod(int(np.argmax(codes < 0)), cells.shape[1])
        raise ValueError(
            f"y[{row}, {column}] is {cells[row, column]!r}, which is not among the "
            f"{len(names)} classes."
        )
    ax = _axes(ax)
    colours = require("matplotlib", "plot", "Plotting").colormaps["tab20"]
    chosen = [colours((2 * k) % 20 + (k // 10) % 2) for k in range(len(names))]
    image = np.array(chosen)[codes].reshape(*cells.shape, 4)
    ax.imshow(image, interpolation="nearest")
    patch = require("matplotlib.patches", "plot", "Plotting").Patch
    handles = [patch(color=chosen[k], label=str(name)) for k, name in enumerate(names)]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set(xticks=[], yticks=[])
    return ax

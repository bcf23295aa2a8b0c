"""Label noise: clean test error of M3N, CRF and M4N against the probability of the true label.

``python -m experiments noise`` writes ``docs/results/noise.md``, ``.json`` and ``.svg``. Cells that
are in the file already are not computed again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import maxmargin as mm

from .graphs import (
    arguments,
    make_figure,
    markdown_table,
    read_json,
    save,
    write_json,
    write_report,
)
from .protocol import bandwidth, gaussian_map, map_positions, parts
from .rows import BY_NAME, METHODS, Examples
from .summary import mean_and_error

FLAT = ("segment", "mfeat", "satimage", "letter")
SHARES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2)
SPLITS = 4
MOST = 5000  # examples of a set: letter is cut
LANDMARKS = 200
WORDS, TEST_WORDS, LETTER_LANDMARKS = 800, 1000, 400
PASSES = 100
GRADIENTS = 400  # of smooth max-min, whose steps are those of L-BFGS
# Factors of the entropy of smooth max-min, on words only.
SMOOTH = {"smooth M4N, s = 0.1": 0.1, "smooth M4N, s = 1": 1.0}
TITLE = "Label noise"
ABOUT = """
The label of an example (for words, of each letter by itself) is the true one with the probability
given, and otherwise any other one, all equally likely: in training and in the part that chooses α.
The test part is clean. Below one half no label has a majority, although the true one is still the
most probable one: there max-margin is not consistent, while max-min and the CRF are.

- segment, mfeat, satimage and letter (5000 random examples at most): 60 % for training, 20 % to
  choose α, 20 % for testing; standardised inputs, 200 Nyström features of the Gaussian kernel,
  α = 1/(C n) with C from 4^-4 to 4^6. Means over random splits, and their
  standard errors where there are several.
- words: 600 handwritten words for training, 200 to choose α, 1000 for testing; transitions, the
  loss summed over letters, C from 0.01 to 10 with pixels as features, and from 1 to 30 with 400
  Nyström features of the pixels. One split, or two. letters: the letters of the same words, each
  by itself (C from 0.01 to 10, and from 0.3 to 30). Smooth M4N is max-min with s times the entropy.
- Fits go from strong to weak regularisation, each from the dual solution before, to a certified gap
  of 1 % (words with Nyström features: 3 %) or 100 passes. Of equal validation errors the larger α
  is taken.
"""


class Noisy(NamedTuple):
    """Three parts: training and validation with noisy outputs, and a clean test part."""

    train: Examples
    validation: Examples
    test: Examples


def corrupt(
    y: np.ndarray, share: float, n_labels: int, random: np.random.RandomState
) -> np.ndarray:
    """Labels that are the true ones with probability ``share``, any other one otherwise."""
    others = (y + random.randint(1, n_labels, size=len(y))) % n_labels
    return np.where(random.rand(len(y)) < share, y, others)


def flat_parts(name: str, split: int) -> Noisy:
    """Features of a set, and its clean labels."""
    examples = BY_NAME[name].load()
    chosen = np.random.RandomState(split).permutation(len(examples.y))[:MOST]
    examples = examples.take(chosen)
    three = [examples.take(part) for part in parts(len(examples.y), split)]
    mean, deviation = three[0].X.mean(axis=0), three[0].X.std(axis=0)
    inputs = [(part.X - mean) / np.where(deviation > 0, deviation, 1.0) for part in three]
    mapped = gaussian_map(inputs, bandwidth(inputs[0]), "nystroem", split, LANDMARKS)
    return Noisy(*(part._replace(X=X) for part, X in zip(three, mapped, strict=True)))


def word_parts(features: str, split: int) -> Noisy:
    """Words and their letters; of the pixels, the features as they are or those of a kernel."""
    examples = BY_NAME["ocr"].load()
    order = np.random.RandomState(split).permutation(len(examples.y))
    first = 3 * WORDS // 4
    three = [examples.take(chosen) for chosen in (order[:first], order[first:WORDS])]
    three.append(examples.take(order[-TEST_WORDS:]))
    if features == "nystroem":
        three = map_positions(three, features, split, LETTER_LANDMARKS)
    return Noisy(*three)


def letter_parts(features: str, split: int) -> Noisy:
    """The letters of the same words, each by itself."""
    data = word_parts(features, split)
    return Noisy(*(Examples(np.concatenate(X), np.concatenate(y), k) for X, y, k in data))


class Setting(NamedTuple):
    """A set of examples, and what is run on it."""

    load: Callable[[int], Noisy]
    strengths: tuple[float, ...]
    shares: tuple[float, ...] = SHARES
    splits: int = SPLITS
    tolerance: float = 0.01
    methods: tuple[str, ...] = tuple(METHODS)


def _powers(base: float, exponents: np.ndarray) -> tuple[float, ...]:
    return tuple(float(f"{base ** float(k):.3g}") for k in exponents)


EXACT = "letters, pixels, to a gap of 0.01 %"
_PIXELS, _NYSTROEM = _powers(10, np.arange(-2, 1.1, 0.5)), _powers(10, np.arange(-0.5, 1.6, 0.5))
_WITH_SMOOTH = (*METHODS, *SMOOTH)
_OF_WORDS = (1.0, 0.8, 0.6, 0.4, 0.3)
SETTINGS = {
    **{name: Setting(partial(flat_parts, name), _powers(4, np.arange(-4, 7))) for name in FLAT},
    "letters, pixels": Setting(partial(letter_parts, "pixels"), _PIXELS, _OF_WORDS, 1),
    EXACT: Setting(partial(letter_parts, "pixels"), _PIXELS, (0.4,), 1, 1e-4),
    "letters, Nyström": Setting(partial(letter_parts, "nystroem"), _NYSTROEM, _OF_WORDS, 1),
    "words, pixels": Setting(
        partial(word_parts, "pixels"), _PIXELS, (1.0, 0.6, 0.4), 1, methods=_WITH_SMOOTH
    ),
    "words, Nyström": Setting(
        partial(word_parts, "nystroem"), _NYSTROEM[1:], (0.4, 0.6, 1.0), SPLITS, 0.03, _WITH_SMOOTH
    ),
}


def with_noise(data: Noisy, share: float, split: int) -> Noisy:
    """The same with noisy outputs, the test part excepted."""
    random = np.random.RandomState(1000 + split)

    def noisy(part: Examples) -> Examples:
        if isinstance(part.X, list):
            return part._replace(y=[corrupt(y, share, part.n_labels, random) for y in part.y])
        return part._replace(y=corrupt(part.y, share, part.n_labels, random))

    return data._replace(train=noisy(data.train), validation=noisy(data.validation))


def make_model(data: Noisy, method: str, split: int, tol: float) -> Any:
    """An estimator for a path of strengths."""
    smooth = SMOOTH.get(method)
    surrogate = METHODS[method] if smooth is None else mm.SmoothMaxMin(smooth)
    common = {
        "surrogate": surrogate, "classes": range(data.train.n_labels), "tol": tol,
        "max_iter": PASSES if smooth is None else GRADIENTS,
        "warm_start": True, "random_state": split,
    }  # fmt: skip
    if not isinstance(data.train.X, list):
        return mm.MulticlassClassifier(**common)
    solver = "auto" if method in ("M3N", "M4N") else "lbfgs"
    loss = mm.HammingLoss(normalize=False)
    return mm.SequenceLabeler(**common | {"loss": loss, "solver": solver})


def error(model: Any, part: Examples) -> float:
    """Share of wrong labels."""
    predicted = model.predict(part.X)
    if isinstance(part.X, list):
        return float(np.mean(np.concatenate(predicted) != np.concatenate(part.y)))
    return float(np.mean(predicted != part.y))


def walk(model: Any, data: Noisy, strengths: tuple[float, ...]) -> dict[str, Any]:
    """Errors for every strength; the test error at the one that validates best."""
    began, n = time.process_time(), len(data.train.y)
    noisy, clean, gaps = [], [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strength in strengths:
            model.set_params(alpha=1.0 / (strength * n)).fit(data.train.X, data.train.y)
            noisy.append(round(error(model, data.validation), 5))
            clean.append(round(error(model, data.test), 5))
            gaps.append(float(f"{model.gap_ / abs(model.primal_):.2g}"))
    best = int(np.argmin(noisy))
    return {
        "error": clean[best], "C": strengths[best], "gap": gaps[best],
        "seconds": round(time.process_time() - began, 1), "validation": noisy, "test": clean,
        "gaps": gaps,
    }  # fmt: skip


def main(words: list[str] | None = None) -> None:
    """Compute the cells that are missing, and write table and plot."""
    chosen = arguments("noise", __doc__, "segment, one split, two shares", words)
    names = ("segment",) if chosen.quick else chosen.data or tuple(SETTINGS)
    path = chosen.folder / "noise.json"
    content = read_json(path)
    content.pop("machine", None)
    settings = {name: SETTINGS[name] for name in names}
    if chosen.quick:
        settings = {name: SETTINGS[name]._replace(shares=(1.0, 0.4), splits=1) for name in names}
    for split, (name, setting) in product(range(SPLITS), settings.items()):
        if split < setting.splits:
            for _ in fill(content.setdefault(name, {}), name, setting, split):
                write_json(path, content)
    content = {name: content[name] for name in SETTINGS if name in content}
    write_json(path, content)
    plot(content, path.with_suffix(".svg"))
    write_report(chosen.folder, "noise", TITLE, ABOUT, table(content))
    print(table(content))


def fill(found: dict[str, Any], name: str, setting: Setting, split: int) -> Iterator[None]:
    """Compute the missing cells of a split, one after another."""
    data = None
    for share, method in product(setting.shares, setting.methods):
        cells = found.setdefault(method, {}).setdefault(f"{share:g}", [])
        if len(cells) > split:
            continue
        data = data or setting.load(split)
        noisy = with_noise(data, share, split)
        cells.append(
            walk(make_model(noisy, method, split, setting.tolerance), noisy, setting.strengths)
        )
        print(name, split, share, method, cells[-1]["error"], cells[-1]["seconds"], flush=True)
        yield


def table(content: dict) -> str:
    """Clean test errors in per cent: a table for each set."""
    made = []
    for name, found in content.items():
        shares = sorted(next(iter(found.values())), key=float, reverse=True)
        rows = [
            [share, *(entry(found[method].get(share, [])) for method in found)] for share in shares
        ]
        n = [len(cells) for by_share in found.values() for cells in by_share.values()]
        many = f"{min(n)} to {max(n)}" if min(n) < max(n) else str(max(n))
        title = f"{name}, {many} split{'s' if max(n) > 1 else ''}: clean test error in per cent"
        made.append(f"{title}:\n\n" + markdown_table(["P(true)", *found], rows))
    return "\n\n".join(made)


def entry(cells: list[dict]) -> str:
    """Mean and standard error."""
    if not cells:
        return ""
    centre, spread = mean_and_error([100.0 * found["error"] for found in cells])
    return f"{centre:.1f}" + ("" if np.isnan(spread) else f" ± {spread:.1f}")


def plot(content: dict, path: Path) -> None:
    """Error against the probability of the true label, a panel for each set."""
    content = {name: found for name, found in content.items() if name != EXACT}
    if not content:
        return
    figure, panels = make_figure(-(-len(content) // 3), min(3, len(content)))
    order = list(dict.fromkeys(method for found in content.values() for method in found))
    lines: dict[str, Any] = {}
    for panel, (name, found) in zip(panels.flat, content.items(), strict=False):
        for method, by_share in found.items():
            points = [
                (float(share), *mean_and_error([100.0 * one["error"] for one in cells]))
                for share, cells in sorted(by_share.items(), key=lambda item: float(item[0]))
                if cells
            ]
            places, centres, spreads = zip(*points, strict=True)
            lines[method] = panel.errorbar(
                places, centres, np.nan_to_num(spreads), marker="o", ms=3,
                color=f"C{order.index(method)}",
            )  # fmt: skip
        panel.axvline(0.5, color="grey", linestyle=":")
        panel.set(title=name, xlabel="probability of the true label", ylim=(0, None))
        panel.invert_xaxis()
    for row in panels:
        row[0].set_ylabel("clean test error in %")
    figure.legend(
        [lines[method] for method in order], order, loc="outside lower center", ncols=5, fontsize=9
    )
    for panel in list(panels.flat)[len(content) :]:
        panel.set_visible(False)
    save(figure, path)

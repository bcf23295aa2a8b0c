"""Matching under camera warps: error against the size of random affine warps of real pairs.

``python -m experiments warps`` writes ``docs/results/warps.json``, ``.md`` and ``.svg``.

Joints of two frames of different episodes are matched, as in ``buffy``; the coordinates of the
second frame, or of both, are multiplied by random matrices, in training and in test. Trained with
the identity as the only map, and with latent maps of two grids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import AffineMap, Latent, LatentPredictor, Permutation

from .buffy import GROUPS, load_frames, pairs
from .graphs import arguments, make_figure, markdown_table, rounded, save, write_json, write_report
from .latent_table1 import interval

SIZES = (0.0, 0.1, 0.2, 0.3, 0.4)
TRAIN, TEST, REPETITIONS = 120, 200, 15
WITHOUT = "no map"
KINDS = {"second frame": (0.0, 1.0), "both frames": (1.0, 1.0)}  # factors of the warp size
GRIDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    WITHOUT: ((1.0,), (0.0,)),
    "81 maps, ±0.2": ((0.8, 1.0, 1.2), (-0.2, 0.0, 0.2)),
    "81 maps, ±0.4": ((0.6, 1.0, 1.4), (-0.4, 0.0, 0.4)),
}
TITLE = "Matching under camera warps"
ABOUT = f"""
Joints of two frames of the Buffy Stickmen from different episodes are matched, as on the page of
[image matching](buffy.md). The coordinates of the second frame, or of both, are multiplied by a
matrix whose four entries differ from those of the identity by up to the warp size, independently
and uniformly; every frame of a pair has a matrix of its own, in training and in test. Descriptors
are those of the images as they are: a camera would change them as well.

- {TRAIN} pairs of episodes 3 and 4 for training, {TEST} pairs of episodes 2, 5 and 6 for test,
  {REPETITIONS} draws of frames and warps (seeds 0 to {REPETITIONS - 1}).
- The latent structural SVM with the default alpha of 2/n everywhere; "no map" has the identity as
  the only latent value. The grids are those of `AffineMap`: entries of the diagonal 1 and those
  off the diagonal 0, or these plus or minus 0.2 or 0.4.
- Coordinates are centred and scaled by the size of each point set, which removes shifts and a
  common factor from the warps, also for "no map".
- Errors (95 %) are those of drawing pairs and warps, not of drawing episodes. "Less wrong" is the
  mean difference to "no map" on the same pairs, in points.
"""


def one(kind: str, size: float, data: Any, seed: int) -> dict[str, float]:
    """Share of wrong partners with each grid, on the same pairs."""
    rng, everyone = np.random.RandomState(seed), np.arange(len(data.episode))
    warps = (size * KINDS[kind][0], size * KINDS[kind][1])
    train = pairs(data, everyone[data.is_train], TRAIN, rng, warps)
    test = pairs(data, everyone[~data.is_train], TEST, rng, warps)
    found = {}
    for name, (diagonal, off) in GRIDS.items():
        latent = Latent(Permutation(), AffineMap(diagonal, off, groups=GROUPS))
        model = LatentPredictor(latent, "lssvm", random_state=seed).fit(*train)
        found[name] = 1.0 - model.score(*test)
    return found


def table_of(kind: str, cells: dict[str, dict[str, list[float]]]) -> str:
    """Errors, and what the grids gain on the same pairs."""
    rows = []
    for size, found in cells.items():
        row = [f"± {float(size):.0%}", *(interval(values, 100) for values in found.values())]
        base = np.array(found[WITHOUT])
        gains = [interval(base - values, 100) for name, values in found.items() if name != WITHOUT]
        rows.append([*row, *gains])
    others = [f"less wrong: {name}" for name in GRIDS if name != WITHOUT]
    return markdown_table([f"warps of {kind}; wrong, %", *GRIDS, *others], rows)


def plot(content: dict[str, dict[str, dict[str, list[float]]]], path: Path) -> None:
    """Error over the size of the warps, a panel for each kind."""
    figure, panels = make_figure(1, len(content), sharey=True)
    for panel, (kind, cells) in zip(panels[0], content.items(), strict=True):
        for name in GRIDS:
            values = [100 * np.array(found[name]) for found in cells.values()]
            spread = [1.96 * v.std(ddof=1) / len(v) ** 0.5 for v in values]
            panel.errorbar(
                [100 * float(size) for size in cells], [v.mean() for v in values], spread,
                marker="o", markersize=3, capsize=2, label=name,
            )  # fmt: skip
        panel.set(title=f"warps of {kind}", xlabel="warp size, ± %")
    panels[0][0].set_ylabel("wrong partners, %")
    panels[0][0].legend(fontsize=7)
    save(figure, path)


def main(words: list[str] | None = None) -> None:
    """Run, write and plot."""
    chosen = arguments("warps", __doc__, "two repetitions of two sizes", words)
    sizes, repetitions = (SIZES[::4], 2) if chosen.quick else (SIZES, REPETITIONS)
    data = load_frames(10)
    content: dict[str, dict[str, dict[str, list[float]]]] = {kind: {} for kind in KINDS}
    for kind, cells in content.items():
        for size in sizes:
            each = [one(kind, size, data, seed) for seed in range(repetitions)]
            cells[f"{size:g}"] = {name: [found[name] for found in each] for name in GRIDS}
            print(f"{kind}: warps of {size:g}", flush=True)
    rows = {
        kind: {size: {m: rounded(v, 4) for m, v in found.items()} for size, found in cells.items()}
        for kind, cells in content.items()
    }
    write_json(chosen.folder / "warps.json", rows)
    plot(content, chosen.folder / "warps.svg")
    table = "\n\n".join(table_of(kind, cells) for kind, cells in content.items())
    write_report(chosen.folder, "warps", TITLE, ABOUT, table)
    print(table)

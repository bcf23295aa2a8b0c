"""Dependency trees on UD English EWT: three surrogates, and training with hidden heads.

Gold tags, lemmas and features; the strength of the regularisation is chosen on the development
part. UAS counts all words, punctuation included.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.data import data_file
from sklearn.exceptions import ConvergenceWarning

from maxmargin import TreeParser, read_conllu

from .graphs import make_figure, markdown_table, save, write_json, write_report
from .store import RESULTS

SURROGATES = {"max-margin": "bcfw", "max-min": "bcfw", "crf": "lbfgs"}
STRENGTHS = (1.0, 10.0, 100.0)  # multiples of alpha="auto"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the heads hidden


def load(split: str, most: int | None = None) -> tuple[list, list]:
    """Sentences and heads."""
    sentences = read_conllu(data_file(f"ud_english_ewt_{split}.conllu.gz"))[:most]
    return sentences, [sentence.heads for sentence in sentences]


def train(X: list, y: list, passes: int, strength: float, surrogate: str, **options: Any):
    """A model after so many passes, and the seconds they took."""
    words = sum(map(len, X)) if surrogate != "crf" else len(X)
    alpha = strength * words / len(X) ** 2
    model = TreeParser(
        surrogate, alpha=alpha, tol=1e-3, max_iter=passes, random_state=0, n_jobs=-1, **options
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, time.perf_counter() - began


def compare(parts: dict, passes: dict[str, int]) -> list[dict[str, Any]]:
    """Every surrogate at the strength that is best on the development part."""
    rows = []
    for surrogate, solver in SURROGATES.items():
        train(*(part[:20] for part in parts["train"]), 1, 1.0, surrogate, solver=solver)  # compiles
        tried = []
        for strength in STRENGTHS:
            model, spent = train(
                *parts["train"], passes[surrogate], strength, surrogate, solver=solver
            )
            tried.append((model.score(*parts["dev"]), strength, spent, model))
            print(surrogate, strength, f"dev {tried[-1][0]:.4f}, {spent:.1f} s", flush=True)
        dev, strength, spent, model = max(tried, key=lambda entry: entry[0])
        rows.append(
            {
                "surrogate": surrogate,
                "strength": strength,
                "dev": dev,
                "test": model.score(*parts["test"]),
                "seconds": spent,
                "passes": model.n_iter_,
                "gap": model.gap_ / abs(model.primal_),
            }
        )
    return rows


def hide(y: list, share: float, seed: int = 0) -> list:
    """Heads, a share of them replaced by None."""
    random = np.random.RandomState(seed)
    return [[None if random.rand() < share else head for head in heads] for heads in y]


def hidden_curve(parts: dict, passes: int, strength: float) -> list[dict[str, Any]]:
    """UAS on the test part when heads are hidden, beside training on complete sentences only."""
    X, y = parts["train"]
    rows = []
    for share in (0.0, *SHARES):
        partial = hide(y, share)
        whole = [i for i, heads in enumerate(partial) if None not in heads]
        row: dict[str, Any] = {"hidden": share, "complete sentences": len(whole)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # sentences without any head
            model, spent = train(
                X, partial, passes, strength, "max-margin", solver="bcfw", hidden=True
            )
        row |= {"latent": model.score(*parts["test"]), "seconds": spent}
        if share:
            some = [X[i] for i in whole], [y[i] for i in whole]
            model, _ = train(*some, passes, strength, "max-margin", solver="bcfw")
            row["complete only"] = model.score(*parts["test"])
        else:
            row["complete only"] = row["latent"]
        print(row, flush=True)
        rows.append(row)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The learning curve."""
    figure, panels = make_figure(1, 1)
    panel = panels[0, 0]
    shares = [row["hidden"] for row in rows]
    for name in ("latent", "complete only"):
        panel.plot(shares, [row[name] for row in rows], marker="o", label=name)
    panel.set_xlabel("share of heads hidden")
    panel.set_ylabel("UAS on the test part")
    panel.legend()
    save(figure, path)


def report(results: dict[str, Any]) -> str:
    """Both tables."""
    table = markdown_table(
        ["surrogate", "alpha / auto", "UAS dev", "UAS test", "seconds", "passes", "relative gap"],
        [
            [r["surrogate"], f"{r['strength']:g}", f"{r['dev']:.4f}", f"{r['test']:.4f}",
             f"{r['seconds']:.0f}", str(r["passes"]), f"{r['gap']:.2g}"]
            for r in results["surrogates"]
        ],
    )  # fmt: skip
    curve = markdown_table(
        ["heads hidden", "latent", "complete sentences only", "such sentences", "seconds"],
        [
            [f"{r['hidden']:.0%}", f"{r['latent']:.4f}", f"{r['complete only']:.4f}",
             str(r["complete sentences"]), f"{r['seconds']:.0f}"]
            for r in results["hidden"]
        ],
    )  # fmt: skip
    size = f"{results['sentences']} training sentences, the whole development and test parts."
    about = "Hidden heads (max-margin): missing ones are completed by the best tree that agrees."
    return f"{size}\n\n{table}\n\n{about}\n\n{curve}"


def main(words: list[str] | None = None) -> None:
    """Run, and write ``ewt.json``, ``ewt.md`` and ``ewt.svg``."""
    parser = argparse.ArgumentParser(prog="python -m experiments ewt", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="300 sentences, a few passes")
    parser.add_argument("--sentences", type=int, help="training sentences; all by default")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    chosen = parser.parse_args(words)
    if chosen.quick and chosen.folder == RESULTS:
        chosen.folder = RESULTS / "quick"
    chosen.folder.mkdir(parents=True, exist_ok=True)
    most = chosen.sentences or (300 if chosen.quick else None)
    test_size = 100 if chosen.quick else None
    parts = {
        "train": load("train", most),
        "dev": load("dev", test_size),
        "test": load("test", test_size),
    }
    passes = {"max-margin": 10, "max-min": 10, "crf": 60}
    if chosen.quick:
        passes = {"max-margin": 3, "max-min": 2, "crf": 5}
    results: dict[str, Any] = {"sentences": len(parts["train"][0])}
    results["surrogates"] = compare(parts, passes)
    best = results["surrogates"][0]["strength"]
    results["hidden"] = hidden_curve(parts, passes["max-margin"], best)
    write_json(chosen.folder / "ewt.json", results)
    draw(results["hidden"], chosen.folder / "ewt.svg")
    title = "Dependency trees on UD English EWT"
    write_report(chosen.folder, "ewt", title, __doc__ or "", report(results))

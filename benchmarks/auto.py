"""Is "auto" a good choice? Seconds of every solver to certified gaps of 10 %, 1 % and 0.1 %.

One estimator per kind of problem, at its default alpha and at a tenth of it. Every solver gets one
fit per gap; what counts is CPU time from the first check, when the data are packed, to the end.
"auto" goes first. The others are stopped when they have taken ``_PATIENCE`` times as long: then all
that is known is that they are slower. "auto" itself is stopped after the seconds of its case.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxmargin import (
    LBFGS,
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Flow,
    GraphLabeler,
    LabelRanker,
    Matcher,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    SoftAgreement,
    Subgradient,
    TreeParser,
    datasets_made,
    read_conllu,
)

from . import graph_data
from .data import chunking_rows, data_file, letter, load_npz, words
from .harness import Line, Sample, Target
from .kernel_fit import segment

GAPS = (0.1, 0.01, 0.001)
# "auto" may take this many times as long as the best solver.
_ALLOWED = 1.3
_PATIENCE = 1.5
_WARM_SECONDS = 1.0
# Below this, CPU time is too coarse to compare.
_LEAST_SECONDS = 0.02

PLAIN = BlockFrankWolfe(step_average=3.0)
PAIRWISE = BlockFrankWolfe(steps="pairwise", step_average=3.0)
FAST_PLAIN = Averaged(Accelerated(BlockFrankWolfe()))
FAST_PAIRWISE = Averaged(Accelerated(BlockFrankWolfe(steps="pairwise")))
BLOCKS = {
    "plain": PLAIN,
    "pairwise": PAIRWISE,
    "accelerated plain": FAST_PLAIN,
    "accelerated pairwise": FAST_PAIRWISE,
    "subgradient": Subgradient(),
}
CHAINS = {**BLOCKS, "accelerated flow": Averaged(Accelerated(Flow()))}
GRAPHS = {
    "soft": SoftAgreement(),
    "accelerated soft": Accelerated(SoftAgreement()),
}
MAX_MIN = {"plain": PLAIN, "accelerated plain": FAST_PLAIN, "subgradient": Subgradient()}
CRF = {"plain": PLAIN, "lbfgs": LBFGS()}


class Case(NamedTuple):
    """A training problem, and the solvers beside "auto"."""

    name: str
    estimator: type
    load: Callable[[], tuple[Any, Any]]
    solvers: dict[str, Any]
    settings: dict[str, Any] = {}
    seconds: float = 20.0  # for "auto"


def _letters(split: str) -> tuple[list, list]:
    found = words(split)
    return found.X, found.y


def _satimage() -> tuple[np.ndarray, np.ndarray]:
    data = load_npz("uci_satimage")
    X = data["X"].astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0), data["y"]


def _yeast() -> tuple[np.ndarray, np.ndarray]:
    X, Y, _, _ = graph_data.yeast_arrays()
    return X, Y


def _rcv1() -> tuple[sparse.csr_matrix, np.ndarray]:
    X, Y = graph_data.rcv1_arrays()
    return X[:2000], Y[:2000]


def _msrc() -> tuple[list, list]:
    """Superpixels of 100 images; those without a label count as one more class."""
    data = load_npz("msrc21_superpixels")
    X = data["X"].astype(np.float64)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)
    graphs, labels = [], []
    for m in np.flatnonzero(data["split"] < 2)[:100]:
        low, high = data["node_offsets"][m : m + 2]
        first, last = data["edge_offsets"][m : m + 2]
        graphs.append((X[low:high], data["edges"][first:last].astype(np.int64)))
        labels.append([int(label) for label in data["y"][low:high]])
    return graphs, labels


def _sentences() -> tuple[list, list]:
    sentences = read_conllu(data_file("ud_english_ewt_train.conllu.gz"))[:2000]
    return sentences, [sentence.heads for sentence in sentences]


def _ranking() -> tuple[np.ndarray, np.ndarray]:
    data = load_npz("lr_vowel")
    X = data["X"].astype(np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0), data["rank"].astype(np.int64) + 1


def _matching() -> tuple[Any, Any]:
    made = datasets_made.make_matchings(200, random_state=0)
    return made.X, made.y


def _segment() -> tuple[np.ndarray, np.ndarray]:
    return segment()[:2]


_KERNEL = {"kernel": "rbf"}
_RANKS = {"y_format": "ranks"}
CASES = (
    Case("OCR letters, fold 0", SequenceLabeler, lambda: _letters("test"), CHAINS),
    Case("OCR letters, folds 1-9", SequenceLabeler, lambda: _letters("train"), CHAINS),
    Case("CoNLL-2000, 2000 sentences", SequenceLabeler, lambda: chunking_rows(2000), CHAINS),
    Case("uci_letter", MulticlassClassifier, letter, BLOCKS),
    Case("uci_satimage", MulticlassClassifier, _satimage, BLOCKS),
    Case("yeast, all pairs", MultiLabelClassifier, _yeast, GRAPHS, {"edges": "full"}),
    Case("RCV1, all pairs, 2000 examples", MultiLabelClassifier, _rcv1, GRAPHS, {"edges": "full"},
         seconds=70.0),
    Case("MSRC-21, 100 images", GraphLabeler, _msrc, GRAPHS, {"pairwise": "potts"}),
    Case("EWT trees, 2000 sentences", TreeParser, _sentences, BLOCKS),
    Case("ranking: vowel", LabelRanker, _ranking, BLOCKS, _RANKS),
    Case("matching", Matcher, _matching, BLOCKS),
    Case("uci_segment, Gaussian kernel", MulticlassClassifier, _segment, BLOCKS, _KERNEL),
    Case("uci_satimage, max-min", MulticlassClassifier, _satimage, MAX_MIN,
         {"surrogate": "max-min"}),
    Case("OCR letters, fold 0, max-min", SequenceLabeler, lambda: _letters("test"),
         {"accelerated flow": CHAINS["accelerated flow"]}, {"surrogate": "max-min"}),
    Case("OCR letters, fold 0, CRF", SequenceLabeler, lambda: _letters("test"), CRF,
         {"surrogate": "crf"}),
    Case("CoNLL-2000, 2000 sentences, CRF", SequenceLabeler, lambda: chunking_rows(2000), CRF,
         {"surrogate": "crf"}),
)  # fmt: skip


class Run(NamedTuple):
    """CPU seconds of a fit without its packing, its relative gap at the end, and its alpha."""

    seconds: float
    gap: float
    alpha: float

    def reached(self, gap: float) -> bool:
        return self.gap <= gap


def fit(case: Case, data: tuple[Any, Any], solver: Any, most: float, **settings: Any) -> Run:
    """Train until the gap is reached or the time is over."""
    began: list[float] = []

    def watch(check: Any) -> bool:
        now = time.process_time()
        if not began:
            began.append(now)
        return now - began[0] < most

    options = {"max_iter": 100_000, "random_state": 0, **case.settings, **settings}
    model = case.estimator(solver=solver, callbacks=[watch], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*data)
    return Run(time.process_time() - began[0], model.gap_ / model.primal_, model.alpha_)


def compare(case: Case, data: tuple[Any, Any], alpha: float, name: str) -> Iterator[Line]:
    """One line per gap: "auto" beside the best of the others."""
    slower: set[str] = set()
    for gap in GAPS:
        ours = fit(case, data, "auto", case.seconds, alpha=alpha, tol=gap)
        limit = _PATIENCE * max(ours.seconds, _LEAST_SECONDS)
        others, missing = {}, []
        for which, solver in case.solvers.items():
            if which not in slower:
                found = fit(case, data, solver, limit, alpha=alpha, tol=gap)
                if found.reached(gap):
                    others[which] = found
                    continue
                missing.append(f"{which} > {limit:.2f} s (gap {found.gap:.2g})")
                if found.gap > 3.0 * gap:  # far away: it will not catch up
                    slower.add(which)
        spent = {which: max(run.seconds, _LEAST_SECONDS) for which, run in others.items()}
        best = min(spent, key=spent.__getitem__, default="")
        said = ", ".join([f"{which} {seconds:.2f} s" for which, seconds in spent.items()] + missing)
        missed = "" if ours.reached(gap) else f"stopped at a gap of {ours.gap:.2g}; "
        yield Line(
            "auto",
            f"{case.name}, {name}: to a gap of {gap:.1%}",
            "s",
            Sample([max(ours.seconds, _LEAST_SECONDS)]),
            Sample([spent[best]]) if best else None,
            best or f"none within {_PATIENCE:g} times",
            target=Target("ratio", 1.0 / _ALLOWED) if best else None,
            note=f"{missed}{said}",
        )
        if not ours.reached(gap):
            return


def run(repeats: int) -> list[Line]:
    """All cases; the times of one fit each."""
    lines = []
    for case in CASES:
        data = case.load()
        for solver in ("auto", *case.solvers.values()):  # compiles
            fit(case, data, solver, np.inf, tol=0.0, max_iter=2)
        # The first fit with more than two passes takes .06 s more, on any solver.
        found = fit(case, data, "auto", _WARM_SECONDS, tol=GAPS[0])
        for factor, name in ((1.0, "default alpha"), (0.1, "a tenth of it")):
            for line in compare(case, data, factor * found.alpha, name):
                print("   ", line.what, f"{line.ours.median:.2f} s,", line.note, flush=True)
                lines.append(line)
    return lines

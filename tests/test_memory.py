"""Estimates of memory against what fits really take."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
import warnings
from array import array

import numpy as np
import pytest
import scipy.sparse as sp

from marks import more
from maxmargin import (
    LabelRanker,
    MulticlassClassifier,
    MultiLabelClassifier,
    SequenceLabeler,
    estimate_memory,
)
from realdata import load_conll2000

RNG = np.random.RandomState(0)


@pytest.fixture(autouse=True)
def few_objects():
    """Collecting garbage looks at every object, also at those that earlier tests have left."""
    gc.freeze()
    yield
    gc.unfreeze()


def flat():
    X = RNG.randn(3000, 20)
    return (
        MulticlassClassifier(random_state=0),
        X,
        np.argmax(X[:, :12] + RNG.randn(3000, 12), axis=1),
    )


def sparse():
    X = sp.random_array((3000, 500), density=0.02, rng=np.random.default_rng(0), format="csr")
    return MulticlassClassifier(random_state=0), X, np.arange(3000) % 5


def sequences():
    X = [RNG.randn(RNG.randint(3, 9), 10) for _ in range(1500)]
    y = [RNG.choice(list("abcd"), len(x)) for x in X]
    return SequenceLabeler(random_state=0), X, y


def label_sets():
    X = RNG.randn(1500, 10)
    return MultiLabelClassifier(edges="full", random_state=0), X, (X[:, :6] > 0.5).astype(int)


def chunks():
    X = [sp.csr_array(RNG.randn(RNG.randint(3, 9), 8000) > 2.5) for _ in range(1500)]
    y = [RNG.choice(list("abcdef"), x.shape[0]) for x in X]
    return SequenceLabeler("crf", solver="bcfw", random_state=0), X, y


def rankings():
    X = RNG.randn(1500, 6)
    return LabelRanker(random_state=0), X, np.argsort(-X[:, :5], axis=1)


@pytest.mark.parametrize(
    "make",
    [flat, sequences, *map(more, (sparse, chunks, label_sets, rankings))],
)
def test_an_estimate_is_near_what_a_fit_takes(make):
    model, X, y = make()
    estimate = estimate_memory(model, X, y)
    assert not hasattr(model, "n_iter_")  # it was not touched
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(max_iter=10).fit(X, y)  # compiles, which takes memory of its own
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        model.fit(X, y)
    taken = tracemalloc.get_traced_memory()[1] - before + model.dual_nbytes_
    tracemalloc.stop()
    assert 0.6 * taken < estimate.total < 1.7 * taken
    assert estimate.total == pytest.approx(
        estimate.fixed + estimate.n_examples * estimate.per_example
    )
    assert f"for {len(y)} examples" in str(estimate)


def test_few_examples_are_all_taken():
    model, X, y = flat()
    estimate = estimate_memory(model, X[:100], y[:100])
    assert estimate.n_examples == 100
    assert estimate.fixed == 0.0
    assert estimate.total > X[:100].nbytes / 10


def test_classes_that_no_sample_has_are_counted():
    X = np.zeros((2000, 50))
    few, many = np.arange(2000) % 2, np.arange(2000) % 1000
    fixed = [estimate_memory(MulticlassClassifier(), X, y).fixed for y in (many, few)]
    # The weights of 1000 classes, where a sample has fewer; what Python itself takes cancels.
    assert fixed[0] - fixed[1] > 8 * 1000 * X.shape[1]


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (np.ones((3, 1)), [0, 1], {}, "3 and 2"),
        (np.ones((0, 1)), [], {}, "at least one"),
        (np.ones((3, 1)), [0, 1, 0], {"sample_size": 1}, "sample_size"),
    ],
)
def test_what_cannot_be_estimated_is_refused(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        estimate_memory(MulticlassClassifier(), X, y, **options)


# --- chunking of CoNLL-2000 with the usual features ------------------------------------------


def window(sentence, t):
    """Words, tags and what comes next to what within two tokens."""
    padded = dict.fromkeys(range(t - 2, t + 3), (" ", " "))
    padded |= {s: sentence[s][:2] for s in padded if 0 <= s < len(sentence)}
    for s in range(t - 2, t + 3):
        yield from ((s - t, "word", padded[s][0]), (s - t, "tag", padded[s][1]))
    for s in (t - 1, t):
        yield (s - t, "words", padded[s][0], padded[s + 1][0])
    for s in range(t - 2, t + 2):
        yield (s - t, "tags", padded[s][1], padded[s + 1][1])
    for s in range(t - 2, t + 1):
        yield (s - t, "three", *(padded[r][1] for r in range(s, s + 3)))


FIT = """
import resource, sys
from pathlib import Path
import numpy as np
import scipy.sparse as sp
from maxmargin import SequenceLabeler

n = int(sys.argv[2])
with np.load(sys.argv[1]) as data:
    indptr, lengths, labels = data["indptr"], data["lengths"], data["labels"]
    shape = len(indptr) - 1, int(data["indices"].max()) + 1
    X = sp.csr_array((np.ones(len(data["indices"])), data["indices"], indptr), shape=shape)
cuts = np.concatenate([[0], np.cumsum(lengths)])[: n + 1]
sequences = [X[a:b] for a, b in zip(cuts[:-1], cuts[1:])]
y = [labels[a:b] for a, b in zip(cuts[:-1], cuts[1:])]
del X
model = SequenceLabeler("crf", random_state=0).fit(sequences, y)
status = Path("/proc/self/status")
if status.is_file():  # getrusage counts what the parent had when it started this process
    line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
    peak = 1024 * int(line.split()[1])
else:
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak, model.dual_nbytes_, model.status_, model.n_features_in_)
"""


@pytest.mark.slow
def test_a_crf_for_chunking_fits_into_a_gigabyte(tmp_path):
    pytest.importorskip("resource")
    sentences = load_conll2000("train")
    columns: dict = {}
    indices, indptr = array("i"), array("q", [0])
    for sentence in sentences:
        for t in range(len(sentence)):
            found = {columns.setdefault(name, len(columns)) for name in window(sentence, t)}
            indices.extend(sorted(found))
            indptr.append(len(indices))
    path = tmp_path / "chunks.npz"
    np.savez(
        path, indices=np.asarray(indices), indptr=np.asarray(indptr),
        lengths=[len(sentence) for sentence in sentences],
        labels=np.array([tag for sentence in sentences for _, _, tag in sentence]),
    )  # fmt: skip
    script = tmp_path / "fit.py"
    script.write_text(FIT)
    # First a few sentences, so that the compiler is not part of what is measured.
    for n in ("50", str(len(sentences))):
        answer = subprocess.run(
            [sys.executable, script, path, n], check=True, capture_output=True, text=True
        )
    peak, dual, status, n_features = answer.stdout.split()
    assert status == "converged" and int(n_features) == len(columns) == 338_547
    assert int(dual) < 100e6
    assert int(peak) < 1e9  # the whole process, with the data

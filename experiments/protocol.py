"""One cell of Table 1: split, Gaussian features, lambda by validation, loss on the test part."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

import maxmargin as mm
from maxmargin import RBF

from .rows import WITH_QUADRATIC, Examples, Row

EXPONENTS = tuple(range(1, 11))  # lambda = 2 ** -exponent
WIDE_EXPONENTS = tuple(range(1, 17))
# What the authors' published scripts run: other strengths and passes than the paper says, and few
# of them for rankings and words; max-margin and max-min with the average of all iterates; features
# that are computed before the examples are split.
PUBLISHED = "scripts"
# The same grid with features of the training part and the last iterate, and with the library's own
# solver.
AUTHORS, SOLVED = "authors", "solved"
# The scripts with one thing changed: columns drawn anew for each split; all nine strengths also for
# rankings; max-min of rankings and words by the paper's own oracle and steps.
REDRAWN, LONGER, MIRROR = "redrawn", "longer", "mirror-prox"
AS_PUBLISHED = (PUBLISHED, REDRAWN, LONGER, MIRROR)
SCRIPTS = (*AS_PUBLISHED, AUTHORS, SOLVED)
AUTHORS_EXPONENTS = tuple(1.5 * k for k in range(1, 10))  # .3535 to .00009
# By kind of features and task; the five strengths of words are known for the first kind only.
_EARLIER: dict[str, tuple[float, ...]] = {
    "ranking": AUTHORS_EXPONENTS[:4],
    "sequence": AUTHORS_EXPONENTS[::2],
}
_PUBLISHED = _EARLIER | {"sequence": AUTHORS_EXPONENTS[3:8]}
AUTHORS_BY_TASK = {
    **dict.fromkeys(AS_PUBLISHED, _PUBLISHED),
    LONGER: _PUBLISHED | {"ranking": AUTHORS_EXPONENTS},
    AUTHORS: _EARLIER,
    SOLVED: _EARLIER,
}
AUTHORS_PASSES: dict[str, dict[str, int]] = {
    **dict.fromkeys(AS_PUBLISHED, {"ranking": 51, "sequence": 21}),
    AUTHORS: {"sequence": 21},
    SOLVED: {"sequence": 21},
}
# Iterations of the paper's oracle: 10 times the length of sequences, otherwise these.
ORACLE_ITERATIONS = 20
AUTHORS_WORDS = 2000
PASSES = 50
TOLERANCE = 1e-3
EXACT_UP_TO = 2500
LANDMARKS = {"nystroem": 500, "columns": 200}
STANDARDISED = ("columns", *SCRIPTS)
SEQUENCE_LANDMARKS = 200  # positions, of which there are ten times as many as examples
FEATURES = ("gaussian", "wide", "columns", *SCRIPTS)


class Cell(NamedTuple):
    """What one method did on one split; a loss for each exponent."""

    row: str
    features: str
    method: str
    split: int
    exponent: float
    test: float
    gap: float
    seconds: float
    validation: tuple[float, ...]
    tests: tuple[float, ...]


class Split(NamedTuple):
    """Features of the three parts, and the parameters that the estimator needs for them."""

    train: Examples
    validation: Examples
    test: Examples
    parameters: dict[str, Any]


def default_features(row: Row, n: int) -> str:
    """The form of the Gaussian kernel: exact for small sets."""
    return "exact" if n <= EXACT_UP_TO and row.task != "sequence" else "nystroem"


def exponents_of(row: Row, features: str) -> tuple[float, ...]:
    """The grid of lambda."""
    if features in SCRIPTS:
        return AUTHORS_BY_TASK[features].get(row.task, AUTHORS_EXPONENTS)
    return WIDE_EXPONENTS if features == "wide" else EXPONENTS


def parts(n: int, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """60 % for training, 20 % for validation, 20 % for testing."""
    order = np.random.RandomState(split).permutation(n)
    first, second = int(0.6 * n), int(0.8 * n)
    return order[:first], order[first:second], order[second:]


def bandwidth(X: np.ndarray) -> float:
    """``gamma = 1 / (2 sigma^2)`` with sigma^2 the sum of the columns' deviations.

    That is the number of columns, once they have deviation 1.
    """
    return 1.0 / (2.0 * X.std(axis=0).sum())


def make_split(row: Row, examples: Examples, split: int, features: str) -> Split:
    """Cut the examples and map their inputs; all that is learnt is learnt on the training part."""
    n = len(examples.y)
    if features in SCRIPTS and row.task == "sequence":
        examples = examples.take(np.random.RandomState(split).permutation(n)[:AUTHORS_WORDS])
        n = AUTHORS_WORDS
    if features == "wide":
        features = default_features(row, n)
    if features in AS_PUBLISHED:
        draw = 1 + split if features == REDRAWN else 0
        (examples,) = map_everything(row, examples, draw)
    three = [examples.take(chosen) for chosen in parts(n, split)]
    if features in AS_PUBLISHED:
        return Split(*three, {})
    if row.task == "sequence":
        return Split(*map_positions(three, features, split), {})
    scaler = StandardScaler().fit(three[0].X)
    inputs = [scaler.transform(part.X) for part in three]
    gamma = bandwidth(inputs[0])
    parameters: dict[str, Any] = {}
    if features == "exact":
        parameters = {"kernel": RBF(gamma)}
    else:
        inputs = gaussian_map(inputs, gamma, features, split)
    mapped = [part._replace(X=X) for part, X in zip(three, inputs)]
    return Split(*mapped, parameters)


def map_everything(row: Row, examples: Examples, draw: int) -> list[Examples]:
    """The scripts' features: all examples, also those of the test parts, are scaled and sampled."""
    if row.task == "sequence":
        return map_positions([examples], PUBLISHED, draw)
    X = StandardScaler().fit_transform(examples.X)
    return [examples._replace(X=gaussian_map([X], bandwidth(X), PUBLISHED, draw)[0])]


def gaussian_map(
    inputs: list, gamma: float, features: str, seed: int, most: int = LANDMARKS["nystroem"]
) -> list:
    """Explicit features, for the parts; the first part is the training part."""
    train = inputs[0]
    if features in STANDARDISED:
        # As the authors' code has it: the kernel with 200 examples, each column standardised.
        chosen = np.random.RandomState(seed).permutation(len(train))[: LANDMARKS["columns"]]
        columns = [rbf_kernel(X, train[chosen], gamma) for X in inputs]
        scaler = StandardScaler().fit(columns[0])
        return [scaler.transform(X) for X in columns]
    landmarks = min(most, len(train))
    transformer = Nystroem(gamma=gamma, n_components=landmarks, random_state=seed).fit(train)
    return [transformer.transform(X) for X in inputs]


def map_positions(
    three: list[Examples], features: str, seed: int, most: int = SEQUENCE_LANDMARKS
) -> list[Examples]:
    """The same for sequences of pixels, position by position; pixels are not scaled."""
    stacked = [np.concatenate(part.X) for part in three]
    sample = np.random.RandomState(seed).permutation(len(stacked[0]))[:5000]
    gamma = bandwidth(stacked[0])
    mapped = gaussian_map([stacked[0][sample], *stacked], gamma, features, seed, most)[1:]
    result = []
    for part, rows in zip(three, mapped):
        cuts = np.cumsum([len(y) for y in part.y])[:-1]
        result.append(part._replace(X=np.split(rows, cuts)))
    return result


def make_model(row: Row, method: str, alpha: float, n_labels: int, seed: int, **parameters) -> Any:
    """The estimator of a row."""
    loss = {"loss": mm.HammingLoss(normalize=True)} if row.task == "sequence" else {}
    common = loss | {
        "surrogate": WITH_QUADRATIC[method],
        "alpha": alpha,
        "max_iter": PASSES,
        "tol": TOLERANCE,
        "random_state": seed,
        **parameters,
    }
    if row.task == "multiclass":
        return mm.MulticlassClassifier(classes=range(n_labels), **common)
    if row.task == "ordinal":
        return mm.OrdinalClassifier(classes=range(n_labels), **common)
    if row.task == "ranking":
        return mm.LabelRanker(y_format="ranks", **common)
    return mm.SequenceLabeler(classes=range(n_labels), **common)


class FixedSteps(mm.BlockFrankWolfe):
    """Steps of fixed length, and what they end with: the average, or the last iterate.

    The library's solvers return the weights of the lowest objective that they have seen, which may
    be those of no step at all; the scripts do not.
    """

    def check(self, problem, state, at=None, dual_weights=None):
        """One candidate, and none before the first step."""
        state, candidates = super().check(problem, state, at, dual_weights)
        weights, found = candidates[-1]
        dual = max(other.dual for _, other in candidates)
        return state, [(weights, found._replace(dual=dual))] if state.calls else []


def authors_settings(row: Row, method: str, features: str) -> dict[str, Any]:
    """Passes and steps of the authors' scripts: 2n/(t+2n), without a line search.

    "scripts": max-margin and max-min average the iterates, the t-th weighted by t; "solved": the
    library's own solver, with as many passes.

    Max-min of rankings and words, whose oracle iterates, is left to the library's own solver, but
    for "mirror-prox".
    """
    passes = AUTHORS_PASSES[features].get(row.task, 101)
    if method == "QS":  # not among the scripts: solved, by L-BFGS
        return {"max_iter": 2000}
    # Their max-min adds the losses of letters where max-margin takes the mean.
    summed = features in AS_PUBLISHED and method == "M4N" and row.task == "sequence"
    loss = {"loss": mm.HammingLoss(normalize=False)} if summed else {}
    iterative = method == "M4N" and row.task in ("ranking", "sequence")
    if features == SOLVED or (iterative and features != MIRROR):
        return {"max_iter": passes, **loss}
    average = 1.0 if features in AS_PUBLISHED and method != "CRF" else None
    kind = FixedSteps if features in AS_PUBLISHED else mm.BlockFrankWolfe
    oracle: Any = "auto"
    if iterative:
        oracle = mm.MirrorProx("auto" if row.task == "sequence" else ORACLE_ITERATIONS)
    steps = kind(exact_blocks=False, line_search=False, step_average=average, oracle=oracle)
    return {"max_iter": passes, "tol": 0.0, "solver": mm.Checked(steps, every=passes), **loss}


def mean_loss(row: Row, likely: bool, model: Any, part: Examples) -> float:
    """Mean loss of the predictions.

    With ``likely`` False a CRF predicts what has the least expected loss, otherwise the likeliest
    output, as all others do.
    """
    if row.task == "ordinal" and not likely:
        levels = np.arange(part.n_labels)
        costs = np.abs(levels[:, None] - levels)
        predicted = (model.predict_proba(part.X) @ costs).argmin(axis=1)
        return float(np.abs(predicted - part.y).mean())
    if row.task == "sequence" and not likely:
        predicted = [np.argmax(marginals, axis=1) for marginals in model.predict_marginals(part.X)]
    else:
        predicted = model.predict(part.X)
    if row.task == "ordinal":
        return float(np.abs(predicted - part.y).mean())
    wrong = [np.mean(np.asarray(p) != y) for p, y in zip(predicted, part.y)]
    return float(np.mean(wrong))


def run_cell(
    row: Row,
    features: str,
    method: str,
    split: int,
    data: Split,
) -> Cell:
    """Train for every lambda, from scratch each time, and test the one that validates best.

    Of several that validate equally well the largest lambda is taken.
    """
    began = time.perf_counter()
    exponents = exponents_of(row, features)
    parameters = dict(data.parameters)
    # The authors' max-min oracle of rankings has no 1/M: that is another factor of lambda.
    factor = 1.0
    if features in SCRIPTS:
        parameters |= authors_settings(row, method, features)
        factor = data.train.n_labels if row.task == "ranking" and method == "M4N" else 1.0
    # The scripts' CRFs predict the likeliest output.
    likely = method != "CRF" or features in AS_PUBLISHED
    validation, tests, gaps = [], [], []
    for exponent in exponents:
        model = make_model(
            row, method, factor * 2.0**-exponent, data.train.n_labels, split, **parameters
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(data.train.X, data.train.y)
        validation.append(mean_loss(row, likely, model, data.validation))
        tests.append(mean_loss(row, likely, model, data.test))
        gaps.append(model.gap_ / abs(model.primal_))
    best = int(np.argmin(validation))
    seconds = time.perf_counter() - began
    return Cell(
        row.name, features, method, split, exponents[best], tests[best], gaps[best], seconds,
        tuple(validation), tuple(tests),
    )  # fmt: skip

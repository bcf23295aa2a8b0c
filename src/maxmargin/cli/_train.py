"""``maxmargin train TASK DATA -o MODEL``."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._progress import messages_every
from ..cli import INTERRUPTED, NOT_CONVERGED, OK
from ..datasets import take
from ..files.prepare import Choices, Prepared, follow, learn, scaled_by, texts_wanted
from ..report._markup import count
from ..solvers.result import CONVERGED, FAILED, MAX_ITER, STATIONARY
from ..tasks.measures import say_malformed
from ._fit import N_PARTITIONS, Fits, fingerprint_of
from ._model_file import ModelFile, write_model_file
from ._options import Names, TaskName, json_option, read_data, reading_options
from ._output import check_apart, check_output, note, print_json, print_table
from ._path import Point, as_rows, best_alpha, walk_path
from ._tasks import (
    TASKS,
    Scores,
    baseline_of,
    certificate_of,
    certified,
    estimator_class,
    say_unknown,
    scores_of,
)

# Where fits end, unless the user says otherwise. Trained on 300 sentences of EWT, UAS on 500 others
# is 75.0 % both at a gap of 10 % (30 passes) and of 1 % (120 passes).
LIMITS = {"tree": {"tol": 0.05, "max_iter": 50}}
# Without a terminal, and without --verbose.
SECONDS_BETWEEN_MESSAGES = 10.0

_HELP = f"""Train a model of TASK on DATA (a file, or @NAME) and write it to MODEL.

Tasks: {", ".join(TASKS)}.

\b
  maxmargin train multiclass flowers.csv -o flowers.mm --target species
  maxmargin train ordinal survey.csv -o survey.mm --order low,medium,high
  maxmargin train sequence train.conll.gz -o chunks.mm --test test.conll.gz
  maxmargin train multilabel yeast-train.arff -o yeast.mm --alpha cv
  maxmargin train ranking rankings.csv -o ranks.mm --target rank:a,rank:b,rank:c
  maxmargin train graph images.npz -o images.mm --set pairwise=potts
  maxmargin train tree train.conllu -o trees.mm --test test.conllu --set order=2

Columns of numbers in dense files are standardised (--no-scale leaves them), columns of texts become
indicators; how is kept in the model file, so that "predict" does the same to new files.

--resume goes on from the checkpoint that a killed or interrupted run left beside the model
(MODEL.checkpoint): at most --checkpoint-every seconds of work are lost, and the final model has the
same bits as that of a run that was never stopped. A search by --alpha cv that had not ended begins
again.
"""


def _alpha(ctx: Any, param: Any, value: str) -> float | str:
    if value in ("auto", "cv"):
        return value
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not (number > 0 and np.isfinite(number)):
        raise click.BadParameter(f"must be a number above 0, 'auto' or 'cv'; got {value!r}")
    return number


def _scoring(ctx: Any, param: Any, value: str | None) -> str | None:
    if value is not None:
        from ..metrics import get_scorer

        try:
            get_scorer(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


def _settings(ctx: Any, param: Any, values: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for text in values:
        name, mark, value = text.partition("=")
        if not mark:
            raise click.BadParameter(f"must be NAME=VALUE; got {text!r}")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found


@dataclass
class Request:
    """The options of a training that change its result."""

    task: str
    data: str
    surrogate: str | None
    alpha: float | str
    folds: int
    scoring: str | None
    tol: float | None
    max_iter: int | None
    solver: str | None
    seed: int
    params: dict[str, Any]
    partitions: int | None

    def estimator_params(self) -> dict[str, Any]:
        """Parameters that were given; all others are the estimator's own."""
        given = {
            "surrogate": self.surrogate, "tol": self.tol, "max_iter": self.max_iter,
            "solver": self.solver,
        }  # fmt: skip
        found = {name: value for name, value in given.items() if value is not None}
        return LIMITS.get(self.task, {}) | found | {"random_state": self.seed} | self.params


@dataclass
class Run:
    """The other options: what is written and said, and how a run is repeated."""

    model_path: str
    jobs: int | None
    workers: int | None
    cluster: str | None
    test_path: str | None
    holdout: float | None
    report: str | None
    resume: bool
    checkpoint_every: float
    strict: bool
    force: bool
    quiet: bool
    verbose: bool
    as_json: bool

    @property
    def silent(self) -> bool:
        """Whether nothing is said beside the result."""
        return self.quiet or self.as_json

    @property
    def level(self) -> int:
        """Of the progress that is shown."""
        return 0 if self.silent else int(self.verbose or sys.stderr.isatty())

    def progress(self) -> Any:
        """Without a terminal, fits report now and then; with --verbose every check."""
        return messages_every(0.0 if self.verbose else SECONDS_BETWEEN_MESSAGES)

    @property
    def checkpoint(self) -> str:
        """Where the state of the solver is kept."""
        return f"{self.model_path}.checkpoint"

    def check(self, data: str) -> None:
        """Refuse files that exist, or that are one."""
        check_output(self.model_path, self.force or self.resume)
        check_output(self.report, self.force or self.resume)
        check_apart(self.model_path, data, self.test_path, self.report)
        check_apart(self.report, data, self.test_path, self.checkpoint)
        _check_checkpoint(self)
        if self.test_path and self.holdout:
            raise click.UsageError("--test and --holdout exclude each other")


def _pick(cls: Any, options: dict[str, Any], **others: Any) -> Any:
    """Take the fields of a class out of the options."""
    names = [field.name for field in fields(cls) if field.name not in others]
    return cls(**{name: options.pop(name) for name in names}, **others)


# fmt: off
@click.command("train", help=_HELP, short_help="Train a model on a file.")
@click.argument("task", metavar="TASK", type=TaskName(TASKS))
@click.argument("data")
@click.option("-o", "--output", "model_path", required=True, metavar="MODEL",
              help="Where to write.")
@click.option("--surrogate", type=click.Choice(["max-margin", "max-min", "crf", "smooth-max-min",
                                                 "quadratic", "restricted-max-margin"]),
              help="What a mistake costs in training; by default that of the estimator.")
@click.option("--alpha", default="auto", show_default=True, callback=_alpha,
              help="Regularisation: a number, 'auto' (by the size of the features), or 'cv' "
              "(cross-validation).")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True,
              help="Of the cross-validation of --alpha cv.")
@click.option("--scoring", callback=_scoring, metavar="NAME",
              help="What --alpha cv maximises, such as span_f1; by default the first measure.")
@click.option("--tol", type=click.FloatRange(0),
              help="Relative gap to stop at (0.01; trees: 0.05).")
@click.option("--max-iter", type=click.IntRange(1),
              help="Passes over the data at most (trees: 50).")
@click.option("--solver", help="By default the one that measured best.")
@click.option("--set", "params", multiple=True, callback=_settings, metavar="NAME=VALUE",
              help="Any other parameter of the estimator, such as kernel=rbf; repeatable.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--jobs", type=int, help="Threads; -1: all.")
@click.option("--workers", type=click.IntRange(1), metavar="N",
              help="Train in N processes of this machine (Dask).")
@click.option("--cluster", metavar="ADDRESS",
              help="Train on a cluster: tcp://... (Dask), ray://... or ray.")
@click.option("--partitions", type=click.IntRange(1), metavar="K",
              help="Of the data, for --workers and --cluster; they decide the result (4).")
@click.option("--target", type=Names(), default=(), help="Columns that hold the labels.")
@click.option("--drop", type=Names(), default=(), help="Columns to leave out.")
@click.option("--categorical", type=Names(), default=(), help="Columns of numbers as categories.")
@click.option("--missing", type=click.Choice(["error", "drop", "mean"]), default="error",
              show_default=True, help="Missing features of a table: refuse them, leave their "
              "rows out, or put the mean of the column in their place.")
@click.option("--group", help="Column that numbers the sequences of a table.")
@click.option("--order", type=Names(), default=(), help="Classes of task ordinal, lowest first.")
@click.option("--no-scale", is_flag=True, help="Do not standardise columns of numbers.")
@click.option("--test", "test_path", metavar="FILE", help="Score on this file afterwards.")
@click.option("--holdout", type=click.FloatRange(0, 1, min_open=True, max_open=True),
              help="Hold back this share of DATA, and score on it.")
@click.option("--report", metavar="FILE.html", help="Also write a report.")
@click.option("--resume", is_flag=True, help="Go on from MODEL.checkpoint.")
@click.option("--checkpoint-every", type=click.FloatRange(0), default=30.0, show_default=True,
              metavar="SECONDS", help="Between two checkpoints.")
@click.option("--strict", is_flag=True, help="Exit with 3 if the tolerance was not reached.")
@click.option("--force", is_flag=True, help="Replace what exists.")
@click.option("-q", "--quiet", is_flag=True, help="Only errors.")
@click.option("-v", "--verbose", is_flag=True, help="Every check, also where there is no terminal.")
@json_option
@reading_options
def command(**options: Any) -> int:
    # fmt: on
    """Train, score, write."""
    request, run = _pick(Request, options), _pick(Run, options)
    with warnings.catch_warnings():
        if run.quiet:
            warnings.simplefilter("ignore")
        return _command(request, run, options)


def _command(request: Request, run: Run, options: dict[str, Any]) -> int:
    choices = _pick(Choices, options, scale=not options.pop("no_scale"))
    reading = options
    run.check(request.data)
    prepared, test = _read(request, run, choices, reading)
    _tell_data(prepared, run.silent)
    # More passes may be allowed later; the contents of the file count, and the format by its name.
    name = request.data if request.data.startswith("@") else "".join(Path(request.data).suffixes)
    same = replace(request, max_iter=None, data=name)
    of_reading = [f"{name}={reading[name]}" for name in ("format_", "header", "encoding", "part")]
    fingerprint = fingerprint_of(
        [repr(same), repr(choices), repr(run.holdout), *of_reading], [request.data]
    )
    make = _factory(request, prepared, run.jobs, int(not run.silent))
    fits = Fits(
        make, run.checkpoint, run.checkpoint_every, fingerprint, run.resume, request.scoring,
        run.quiet,
    )  # fmt: skip
    began = time.perf_counter()
    try:
        with run.progress(), _engine(request, run) as fits.engine:
            fits.n_partitions = request.partitions or N_PARTITIONS
            path, model = _train(fits, request, prepared)
    except KeyboardInterrupt:
        kept = os.path.exists(run.checkpoint)
        where = f"; continue with --resume (from {run.checkpoint})" if kept else ""
        note(f"interrupted before the last fit: there is no model yet{where}", run.quiet)
        return INTERRUPTED
    seconds = time.perf_counter() - began
    baseline = baseline_of(model, prepared.X, prepared.y)
    about = {
        "file": os.path.basename(request.data),
        "n_examples": len(prepared.y),
        "sha256": fingerprint_of([], [request.data]),
    }
    model_file = ModelFile(model, request.task, prepared.recipe, baseline, about)
    write_model_file(run.model_path, model_file)
    scores = Scores() if test is None else scores_of(model, *test, baseline)
    _tell(request, run, model, path, scores, baseline, seconds)
    if run.report:
        _write_report(run.report, model, request, prepared, test)
    if model.status_ == "interrupted":
        note(f"interrupted: {run.model_path} holds the best model so far; --resume goes on")
        return INTERRUPTED
    if model.status_ == MAX_ITER and fits.keep():
        note(f"--resume with a larger --max-iter continues from {run.checkpoint}", run.silent)
    else:
        fits.forget()
    done = model.status_ in (CONVERGED, STATIONARY) or not (run.strict or model.status_ == FAILED)
    return OK if done else NOT_CONVERGED


@contextmanager
def _engine(request: Request, run: Run) -> Iterator[Any]:
    """Where partitions work; None if there are none."""
    if run.workers is None and run.cluster is None:
        if request.partitions is not None:
            raise click.UsageError("--partitions is for --workers and --cluster")
        yield None
        return
    if run.workers is not None and (run.cluster or "").startswith("tcp://"):
        raise click.UsageError("--workers starts processes here; a cluster of Dask has its own")
    from ..distributed.engines import opened

    with opened(run.cluster, run.workers) as engine:
        yield engine


def _read(
    request: Request, run: Run, choices: Choices, reading: dict[str, Any]
) -> tuple[Prepared, tuple[Any, Any] | None]:
    """The data of the training, and those to score on."""
    texts = set(choices.categorical)
    if request.task == "sequence":
        texts.add(choices.group or "sequence")
    options = {"task": request.task, "verbose": run.level, **reading}
    prepared = learn(read_data(request.data, texts=texts, **options), request.task, choices)
    if run.holdout:
        return _held_out(prepared, run.holdout, request.seed)
    if not run.test_path:
        return prepared, None
    texts = texts_wanted(prepared.recipe)
    test = follow(read_data(run.test_path, texts=texts, **options), prepared.recipe)
    if test[1] is None:
        raise click.UsageError(f"{run.test_path}: holds no labels, which scores need")
    return prepared, test


def _check_checkpoint(run: Run) -> None:
    exists = os.path.exists(run.checkpoint)
    if exists and not run.resume and not run.force:
        raise click.UsageError(
            f"{run.checkpoint} was left by a run that did not end, or not converge; --resume goes "
            "on from it, --force starts anew"
        )
    if exists and not run.resume:
        os.remove(run.checkpoint)
    if run.resume and not exists:
        if os.path.exists(run.model_path):
            raise click.UsageError(f"nothing to resume: {run.model_path} is complete")
        note(f"there is no {run.checkpoint} yet; starting from the beginning", run.quiet)


def _held_out(prepared: Prepared, share: float, seed: int) -> tuple[Prepared, tuple[Any, Any]]:
    """Part of the data for scores; means and scales are those of the rest."""
    n = len(prepared.y)
    held = max(1, round(share * n))
    if held >= n:
        raise click.UsageError(f"--holdout {share:g} leaves none of {n} examples for training")
    order = np.random.RandomState(seed).permutation(n)
    rest, test = np.sort(order[held:]), np.sort(order[:held])
    prepared = scaled_by(prepared, rest)
    held_out = take(prepared.X, test), take(prepared.y, test)
    X, y = take(prepared.X, rest), take(prepared.y, rest)
    return Prepared(X, y, prepared.recipe, prepared.params), held_out


def _factory(request: Request, prepared: Prepared, jobs: int | None, verbose: int):
    from sklearn.base import clone

    from ..estimators.values import VALUES  # the compiler comes with it

    cls: Any = estimator_class(request.task)
    given = {"n_jobs": jobs, "verbose": verbose} | prepared.params | request.estimator_params()
    if type(request.alpha) is float:
        given["alpha"] = request.alpha
    known = set(cls._get_param_names())
    unknown = sorted(name for name in given if name.partition("__")[0] not in known)
    if unknown:
        raise click.UsageError(
            f"{cls.__name__} has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    model = cls(**{name: value for name, value in given.items() if name in known})
    for name in given.keys() - known:  # of a value, which may have been given by a short form
        outer, _, own = name.partition("__")
        if outer in VALUES:
            model.set_params(**{outer: VALUES[outer].of(vars(model)[outer])})
        model.set_params(**{name: given[name]})
    return lambda: clone(model)


def _train(fits: Fits, request: Request, prepared: Prepared) -> tuple[list[Point], Any]:
    path: list[Point] = []
    model = fits.new_model()
    if request.alpha == "cv":
        path = walk_path(fits, prepared.X, prepared.y, request.folds)
        model.set_params(alpha=best_alpha(path))
    return path, fits.fit(model, prepared.X, prepared.y)


def _write_report(
    path: str, model: Any, request: Request, prepared: Prepared, test: tuple[Any, Any] | None
) -> None:
    try:
        from ..report import write_report
    except ImportError as error:
        raise ImportError(f"--report is not available: {error}") from error
    X_test, y_test = (None, None) if test is None else test
    write_report(
        path, model, task=request.task, X_train=prepared.X, y_train=prepared.y, X_test=X_test,
        y_test=y_test, data_name=os.path.basename(request.data),
    )  # fmt: skip


# --- what is said ------------------------------------------------------------------------------


def _tell_data(prepared: Prepared, quiet: bool) -> None:
    recipe = prepared.recipe
    said = count(len(prepared.y), "example")
    if "feature_names" in recipe and recipe["feature_names"]:
        said += f", {count(len(recipe['feature_names']), 'feature')}"
    elif "n_features" in recipe:
        said += f", {count(recipe['n_features'], 'feature')}"
    if "targets" in recipe:
        said += f"; labels: {', '.join(recipe['targets'][:4])}"
        said += " ..." if len(recipe["targets"]) > 4 else ""
    if "center" in recipe:
        said += "; numbers standardised (--no-scale leaves them)"
    note(said, quiet)


def _tell(
    request: Request, run: Run, model: Any, path: list[Point], scores: Scores,
    baseline: dict[str, Any], seconds: float,
) -> None:  # fmt: skip
    certificate = certificate_of(model)
    points = as_rows(path, certificate["alpha"]) if path else []
    if run.as_json:
        print_json({
            "model": run.model_path,
            "task": request.task,
            "estimator": type(model).__name__,
            "seconds": seconds,
            "certificate": certificate,
            "alpha_path": points,
            **scores.as_json(),
            "baseline": baseline["says"],
        })  # fmt: skip
        return
    if run.quiet:
        return
    if points:
        rows = [
            (f"{alpha:.3g}", mean, deviation, n_folds, "<- chosen" * chosen)
            for alpha, mean, deviation, n_folds, chosen in map(dict.values, points)
        ]
        titles = ("alpha", "score", "deviation", "folds", "")
        print_table(titles, rows, f"{request.folds}-fold path")
    if scores.measures:
        print_scores(scores, baseline)
    click.echo(
        f"{certified(certificate)} (alpha {certificate['alpha']:.3g}, "
        f"{count(certificate['passes'], 'pass')}, {seconds:.1f} s)"
    )
    click.echo(f"wrote {run.model_path}")


def print_scores(scores: Scores, baseline: dict[str, Any]) -> None:
    """A table of scores beside those of the baseline, and one of the types of spans."""
    rows = [
        (s.measure, s.value, s.baseline, f"{'higher' if s.larger_is_better else 'lower'} is better")
        for s in scores.measures
    ]
    print_table(("measure", "model", "baseline", ""), rows)
    if scores.types:
        titles = next(iter(scores.types.values()))
        types = [(name, *each.values()) for name, each in scores.types.items()]
        print_table(("type", *titles), types)
    click.echo(f"baseline: {baseline['says']}")
    if scores.malformed:
        click.echo(say_malformed(scores.malformed))
    if scores.n_unknown:
        click.echo(say_unknown(scores.n_unknown, scores.n_features))

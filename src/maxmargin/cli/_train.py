"""``maxmargin train TASK DATA -o MODEL``."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np

from ..cli import INTERRUPTED, NOT_CONVERGED, OK
from ..datasets import take
from ..files.prepare import Choices, Prepared, follow, learn, scaled_by, texts_wanted
from ..solvers.result import CONVERGED, FAILED, STATIONARY
from ._fit import Fits, fingerprint_of
from ._model_file import ModelFile, write_model_file
from ._options import Names, json_option, read_data, reading_options
from ._output import check_apart, check_output, note, print_json, print_table
from ._path import Point, best_alpha, walk_path
from ._tasks import TASKS, Score, baseline_of, certificate_of, certified, estimator_class, scores_of

_HELP = f"""Train a model of TASK on DATA (a file, or @NAME) and write it to MODEL.

Tasks: {", ".join(TASKS)}.

\b
  maxmargin train multiclass flowers.csv -o flowers.mm --target species
  maxmargin train ordinal survey.csv -o survey.mm --order low,medium,high
  maxmargin train sequence train.conll.gz -o chunks.mm --test test.conll.gz
  maxmargin train multilabel yeast-train.arff -o yeast.mm --alpha cv
  maxmargin train ranking rankings.csv -o ranks.mm --target rank:a,rank:b,rank:c
  maxmargin train graph images.npz -o images.mm --set pairwise=potts

Columns of numbers in dense files are standardised (--no-scale leaves them), columns of texts become
indicators; how is kept in the model file, so that "predict" does the same to new files.

--resume goes on from the checkpoint that a killed or interrupted run left beside the model
(MODEL.checkpoint): at most --checkpoint-every seconds of work are lost, and the final model has the
same bits as that of a run that was never stopped.
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

    def estimator_params(self) -> dict[str, Any]:
        """Parameters that were given; all others are the estimator's own."""
        given = {
            "surrogate": self.surrogate, "tol": self.tol, "max_iter": self.max_iter,
            "solver": self.solver,
        }  # fmt: skip
        found = {name: value for name, value in given.items() if value is not None}
        return found | {"random_state": self.seed} | self.params


# fmt: off
@click.command("train", help=_HELP, short_help="Train a model on a file.")
@click.argument("task", metavar="TASK", type=click.Choice(TASKS))
@click.argument("data")
@click.option("-o", "--output", "model_path", required=True, metavar="MODEL",
              help="Where to write.")
@click.option("--surrogate", type=click.Choice(["max-margin", "max-min", "crf"]),
              help="What a mistake costs in training; by default that of the estimator.")
@click.option("--alpha", default="auto", show_default=True, callback=_alpha,
              help="Regularisation: a number, 'auto' (C = 1), or 'cv' (cross-validation).")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True,
              help="Of the cross-validation of --alpha cv.")
@click.option("--scoring", callback=_scoring, metavar="NAME",
              help="What --alpha cv maximises, such as span_f1; by default the first measure.")
@click.option("--tol", type=click.FloatRange(0), help="Relative gap to stop at (0.01).")
@click.option("--max-iter", type=click.IntRange(1), help="Passes over the data at most.")
@click.option("--solver", help="By default the one that measured best.")
@click.option("--set", "params", multiple=True, callback=_settings, metavar="NAME=VALUE",
              help="Any other parameter of the estimator, such as kernel=rbf; repeatable.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True)
@click.option("--jobs", type=int, help="Threads for evaluation; -1: all.")
@click.option("--target", type=Names(), default=(), help="Columns that hold the labels.")
@click.option("--drop", type=Names(), default=(), help="Columns to leave out.")
@click.option("--categorical", type=Names(), default=(), help="Columns of numbers as categories.")
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
def command(
    task, data, model_path, surrogate, alpha, folds, scoring, tol, max_iter, solver, params, seed,
    jobs, target, drop, categorical, group, order, no_scale, test_path, holdout, report, resume,
    checkpoint_every, strict, force, quiet, verbose, as_json, **reading,
):
    # fmt: on
    """Train, score, write."""
    quiet = quiet or as_json
    checkpoint = f"{model_path}.checkpoint"
    check_output(model_path, force or resume)
    check_output(report, force or resume)
    check_apart(model_path, data, test_path, report)
    check_apart(report, data, test_path, checkpoint)
    _check_checkpoint(checkpoint, model_path, resume, force)
    if test_path and holdout:
        raise click.UsageError("--test and --holdout exclude each other")
    request = Request(
        task, data, surrogate, alpha, folds, scoring, tol, max_iter, solver, seed, params
    )
    choices = Choices(target, drop, categorical, not no_scale, group, order)
    level = 0 if quiet else int(verbose or sys.stderr.isatty())
    texts = {*categorical, group or "sequence"} if task == "sequence" else set(categorical)
    prepared = learn(read_data(data, task, texts=texts, verbose=level, **reading), task, choices)
    test = None
    if test_path:
        texts = texts_wanted(prepared.recipe)
        examples = read_data(test_path, task, texts=texts, verbose=level, **reading)
        test = follow(examples, prepared.recipe)
        del examples
        _need_labels(test[1], test_path)
    elif holdout:
        prepared, test = _held_out(prepared, holdout, seed)
    _tell_data(prepared, quiet)
    make = _factory(request, prepared, jobs, level)
    same = replace(request, max_iter=None)  # more passes may be allowed later
    of_reading = [f"{name}={reading[name]}" for name in ("format_", "header", "encoding", "part")]
    fingerprint = fingerprint_of([repr(same), repr(choices), repr(holdout), *of_reading], [data])
    fits = Fits(make, checkpoint, checkpoint_every, fingerprint, resume, request.scoring)
    began = time.perf_counter()
    try:
        path, model = _train(fits, request, prepared, quiet)
    except KeyboardInterrupt:
        where = (
            f"; continue with --resume (from {checkpoint})" if os.path.exists(checkpoint) else ""
        )
        note(f"interrupted before the last fit: there is no model yet{where}")
        return INTERRUPTED
    seconds = time.perf_counter() - began
    baseline = baseline_of(model, prepared.X, prepared.y)
    about = {"file": os.path.basename(data), "n_examples": len(prepared.y)}
    write_model_file(model_path, ModelFile(model, task, prepared.recipe, baseline, about))
    scores = [] if test is None else scores_of(model, *test, baseline)
    _tell(request, model_path, model, path, scores, baseline, seconds, as_json, quiet)
    if report:
        _write_report(report, model, request, prepared, test)
    if model.status_ == "interrupted":
        note(f"interrupted: {model_path} holds the best model so far; --resume goes on")
        return INTERRUPTED
    fits.forget()
    done = model.status_ in (CONVERGED, STATIONARY) or not (strict or model.status_ == FAILED)
    return OK if done else NOT_CONVERGED


def _check_checkpoint(checkpoint: str, model_path: str, resume: bool, force: bool) -> None:
    exists = os.path.exists(checkpoint)
    if exists and not resume and not force:
        raise click.UsageError(
            f"{checkpoint} was left by a run that did not end; --resume goes on from it, --force "
            "starts anew"
        )
    if exists and not resume:
        os.remove(checkpoint)
    if resume and not exists:
        if os.path.exists(model_path):
            raise click.UsageError(f"nothing to resume: {model_path} is complete")
        note(f"there is no {checkpoint} yet; starting from the beginning")


def _need_labels(y: Any, path: str) -> None:
    if y is None:
        raise click.UsageError(f"{path}: holds no labels, which scores need")


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
    from ..solvers.moved import with_solver  # the compiler comes with it

    cls: Any = estimator_class(request.task)
    params = prepared.params | request.estimator_params()
    if type(request.alpha) is float:
        params["alpha"] = request.alpha
    params = with_solver(cls, params)
    unknown = sorted(set(params) - set(cls._get_param_names()))
    if unknown:
        raise click.UsageError(
            f"{cls.__name__} has no parameter {unknown[0]!r}; it has "
            f"{', '.join(sorted(cls._get_param_names()))}"
        )
    params = {"n_jobs": jobs, "verbose": verbose} | params
    return lambda: cls(**params)


def _train(
    fits: Fits, request: Request, prepared: Prepared, quiet: bool
) -> tuple[list[Point], Any]:
    path: list[Point] = []
    model = fits.new_model()
    if request.alpha == "cv":
        path = walk_path(fits, request.task, prepared.X, prepared.y, request.folds, request.seed)
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
    said = f"{len(prepared.y)} examples"
    if "feature_names" in recipe and recipe["feature_names"]:
        said += f", {len(recipe['feature_names'])} features"
    elif "n_features" in recipe:
        said += f", {recipe['n_features']} features"
    if "targets" in recipe:
        said += f"; labels: {', '.join(recipe['targets'][:4])}"
        said += " ..." if len(recipe["targets"]) > 4 else ""
    if "center" in recipe:
        said += "; numbers standardised (--no-scale leaves them)"
    note(said, quiet)


def _tell(
    request: Request, model_path: str, model: Any, path: list[Point], scores: list[Score],
    baseline: dict[str, Any], seconds: float, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    certificate = certificate_of(model)
    if as_json:
        print_json({
            "model": model_path,
            "task": request.task,
            "estimator": type(model).__name__,
            "seconds": seconds,
            "certificate": certificate,
            "alpha_path": [point._asdict() for point in path],
            "scores": [score._asdict() for score in scores],
            "baseline": baseline["says"],
        })  # fmt: skip
        return
    if quiet:
        return
    if path:
        chosen = best_alpha(path)
        rows = [
            (f"{p.alpha:.3g}", p.mean, p.deviation, "<- chosen" if p.alpha == chosen else "")
            for p in path
        ]
        print_table(("alpha", "score", "deviation", ""), rows, f"{request.folds}-fold path")
    if scores:
        print_scores(scores, baseline)
    click.echo(
        f"{certified(certificate)} (alpha {certificate['alpha']:.3g}, "
        f"{certificate['passes']} passes, {seconds:.1f} s)"
    )
    click.echo(f"wrote {model_path}")


def print_scores(scores: list[Score], baseline: dict[str, Any]) -> None:
    """A table of scores beside those of the baseline."""
    rows = [
        (s.measure, s.value, s.baseline, "larger is better" if s.larger_is_better else "smaller")
        for s in scores
    ]
    print_table(("measure", "model", "baseline", ""), rows)
    click.echo(f"baseline: {baseline['says']}")

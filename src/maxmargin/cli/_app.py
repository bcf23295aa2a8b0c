"""The group of commands, and what becomes of errors."""

from __future__ import annotations

import sys
import traceback
import warnings
from importlib import import_module
from typing import Any

import click

from . import BAD_INPUT, FAILED, INTERRUPTED, OK

_TOUR = """\
Structured prediction with a certificate: from a file to a model, in one line each.

\b
  maxmargin demo                                     a tour, and report.html
  maxmargin train multiclass data.csv -o model.mm    learn the column "label"
  maxmargin evaluate model.mm test.csv               scores beside a trivial baseline
  maxmargin report model.mm test.csv                 the same as report.html, with pictures
  maxmargin predict model.mm new.csv -o labels.csv
  maxmargin inspect model.mm                         strongest features, certificate

\b
  maxmargin train sequence train.conll -o tagger.mm --surrogate crf
  maxmargin train multilabel data.svm -o labels.mm --alpha cv --folds 5
  maxmargin train multiclass @wine -o wine.mm --holdout 0.3     data by name
  maxmargin datasets list

DATA is a file (CSV, TSV, Parquet, svmlight, CoNLL, CoNLL-U, ARFF, npz; .gz allowed), or @NAME for
a data set of "maxmargin datasets list". Tasks: multiclass, ordinal, sequence, multilabel, ranking,
graph, tree. Each command explains itself: maxmargin train --help.

Exit codes: 0 done; 1 failed; 2 bad input or usage; 3 not converged (train --strict);
130 interrupted. --json prints what a program can read; --debug shows tracebacks.
"""

_COMMANDS = (
    "demo", "train", "predict", "evaluate", "report", "inspect", "datasets", "kernels", "reproduce",
)  # fmt: skip


class Lazy(click.Group):
    """A group whose commands are imported when they are used: ``--help`` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return import_module(f"._{name}", __package__).command


@click.group(cls=Lazy, help=_TOUR, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(package_name="maxmargin", prog_name="maxmargin")
def app(debug: bool) -> None:
    """All commands."""


def _say(kind: str, message: Any) -> None:
    line = " ".join(str(message).split())
    sys.stderr.write(f"{kind}: {line}\n")
    sys.stderr.flush()


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    _say("warning", message)


def run(arguments: list[str]) -> int:
    """Run a command; every error becomes one line and an exit code."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _show_warning
            code = app.main(words, prog_name="maxmargin", standalone_mode=False)
        return OK if code is None else int(code)
    except BaseException as error:
        if debug and not isinstance(error, (click.exceptions.Exit, SystemExit)):
            traceback.print_exc()
        return _code_of(error)


def _code_of(error: BaseException) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # since click 8.2
        error.show()  # type: ignore[attr-defined]
        return BAD_INPUT
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit(code=int(code)):
            return code
        case SystemExit():
            return FAILED
        case KeyboardInterrupt() | click.Abort():
            _say("interrupted", "nothing was written")
            return INTERRUPTED
        case click.UsageError(ctx=click.Context() as ctx):
            _say("error", f"{error.format_message()} (see {ctx.command_path} --help)")
            return BAD_INPUT
        case click.ClickException():
            _say("error", error.format_message())
            return BAD_INPUT
        case BrokenPipeError():  # the reader of our output has seen enough
            sys.stderr.close()
            return OK
        case OSError():
            name = f"{error.filename}: " if error.filename else ""
            _say("error", f"{name}{error.strerror or error}")
            return FAILED
        case ValueError() | TypeError():
            _say("error", error)
            return BAD_INPUT
        case ImportError():
            _say("error", error)
            return FAILED
    _say("error", f"{type(error).__name__}: {error} (a bug? --debug shows where)")
    return FAILED

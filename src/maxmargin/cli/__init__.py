"""The command line ``maxmargin``: train, predict, evaluate and inspect from files.

Exit codes: 0 done; 1 failed (a full disk, a missing package, a bug); 2 bad input or usage;
3 trained, but not to the tolerance, with ``train --strict``; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

OK, FAILED, BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors go to standard error, in one line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``maxmargin``; those of the process by default.
    """
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        sys.stderr.write(
            f"error: the command line needs {error.name}, which is not installed. "
            'Install it with: pip install "maxmargin[cli]"\n'
        )
        return FAILED
    from ._app import run

    return run(list(sys.argv[1:] if arguments is None else arguments))

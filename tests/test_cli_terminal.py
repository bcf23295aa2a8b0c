"""What a person sees: a bar in a terminal, none in a pipe."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("click", reason="needs the extra cli")
pty = pytest.importorskip("pty", reason="needs a Unix terminal")
termios = pytest.importorskip("termios", reason="needs a Unix terminal")

COMMAND = [sys.executable, "-m", "maxmargin", "train", "multiclass", "@wine", "--tol", "1e-6", "-o"]


def in_terminal(words, folder):
    """Output of a command in a pseudo-terminal of 100 columns, and its exit code."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    environment = os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment
    )
    os.close(slave)
    pieces = []
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(master)
    return b"".join(pieces).decode(), process.wait()


@pytest.mark.more
def test_a_bar_in_a_terminal(tmp_path):
    shown, code = in_terminal([*COMMAND, "a.mm", "--holdout", "0.3"], tmp_path)
    assert code == 0, shown
    bars = [part for part in shown.split("\r") if part.startswith("MulticlassClassifier  ")]
    assert bars and "█" in bars[-1] and "gap" in bars[-1]
    assert max(map(len, bars)) < 100
    assert "accuracy" in shown and "wrote a.mm" in shown


@pytest.mark.more
def test_no_bar_in_a_pipe(tmp_path):
    done = subprocess.run(
        [*COMMAND, "a.mm"], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr and "█" not in done.stderr and "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1] == "wrote a.mm"
    assert done.stderr.count("\n") == 1  # what was read

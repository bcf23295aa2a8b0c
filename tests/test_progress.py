"""Progress: silent, a bar on a terminal, or log lines."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from types import SimpleNamespace

import pytest

from maxmargin import _compiling, _progress
from maxmargin._progress import ProgressReporter, messages_every

pty = pytest.importorskip("pty", reason="needs a Unix terminal")
termios = pytest.importorskip("termios", reason="needs a Unix terminal")


def check(passes, gap=0.045, **more):
    values = {"passes": passes, "seconds": 3.2, "primal": 0.312, "dual": 0.2981, "gap": gap}
    return SimpleNamespace(**(values | more))


class Terminal:
    """A pseudo-terminal in the place of standard error."""

    def __init__(self, columns):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, columns))
        self.stream = open(slave, "w", encoding="utf-8")
        os.set_blocking(self.master, False)

    def read(self):
        self.stream.flush()
        pieces = []
        while True:
            try:
                piece = os.read(self.master, 65536)
            except BlockingIOError:
                return b"".join(pieces).decode()
            pieces.append(piece)

    def close(self):
        self.stream.close()
        os.close(self.master)


@pytest.fixture
def terminal(monkeypatch):
    opened = []

    def open_terminal(columns=100):
        opened.append(Terminal(columns))
        monkeypatch.setattr(sys, "stderr", opened[-1].stream)
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when told to."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(_progress, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


def bare_logger(monkeypatch, handlers, level=logging.NOTSET):
    """Our logger as in a program that did not set up logging, with its stderr as a string.

    Not a fixture: pytest sets its own handlers and stderr between fixtures and test.
    """
    logger = logging.getLogger("maxmargin")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", list(handlers))
    monkeypatch.setattr(logger, "level", level)
    logger.setLevel(level)  # also forgets which levels were enabled before
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    return logger


@pytest.mark.parametrize("verbose", [0, -1, False])
def test_silent(verbose, terminal, caplog):
    screen = terminal()
    with caplog.at_level(logging.DEBUG), ProgressReporter(verbose, 10, "fit") as progress:
        progress.pulse(0.5, 0)
        progress.update(check(1))
    assert screen.read() == ""
    assert caplog.records == []


def test_messages_come_now_and_then(caplog, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("maxmargin._progress.time.perf_counter", lambda: clock[0])
    with caplog.at_level(logging.INFO), messages_every(10.0):
        with ProgressReporter(1, 100, "fit") as progress:
            for second in range(1, 26):
                clock[0] = float(second)
                progress.update(check(second))
                progress.pulse(0.5, second)
    said = [record.getMessage() for record in caplog.records]
    assert [text.split("  ")[0] for text in said] == ["fit: pass 10/100", "fit: pass 20/100"]
    with caplog.at_level(logging.INFO), ProgressReporter(1, 100, "fit") as progress:
        progress.update(check(26))
    assert len(caplog.records) == 3


def test_bar_is_one_line_rewritten_and_closed(terminal):
    screen = terminal()
    with ProgressReporter(1, 100, "maxmargin") as progress:
        progress.update(check(12))
        progress.update(check(50, gap=1e-3))
    first, second, last = screen.read().removesuffix("\r\n").split("\r")[1:]
    assert "pass 12/100  primal 0.3120  dual 0.2981  gap 4.5e-02  3.2 s" in first
    assert first.startswith("maxmargin  █")
    assert "pass 50/100" in second and "gap 1.0e-03" in second
    assert second.count("█") == second.count("─") > 0
    assert "─" not in last and "pass 50/100" in last


@pytest.mark.parametrize("columns", [1, 2, 10, 20, 40, 60, 80, 200])
def test_bar_never_wraps(terminal, columns):
    screen = terminal(columns)
    with ProgressReporter(1, 100, "SequenceLabeler") as progress:
        for passes in (0, 1, 100):
            progress.update(check(passes, validation_score=0.91))
    lines = screen.read().replace("\n", "").split("\r")
    assert max(map(len, lines)) < max(columns, 2)
    assert any("pass" in line for line in lines) or columns < 5


def test_shorter_line_erases_the_longer_one(terminal):
    screen = terminal(200)
    with ProgressReporter(1, 10, "fit") as progress:
        progress.update(check(1, validation_score=0.91))
        progress.update(check(2))
    first, second, _ = screen.read().removesuffix("\r\n").split("\r")[1:]
    assert len(second) == len(first) and second.endswith(" ")


def test_values_that_are_missing_are_left_out(terminal):
    screen = terminal()
    with ProgressReporter(1, 10, "fit") as progress:
        progress.update(check(1, dual=None, gap=None))
    shown = screen.read()
    assert "primal" in shown and "dual" not in shown and "gap" not in shown


def test_numbers_out_of_the_ordinary(terminal):
    screen = terminal()
    with ProgressReporter(1, 0, "fit") as progress:
        progress.update(check(1.5, primal=float("inf"), dual=float("-inf"), gap=float("nan")))
    assert "primal inf  dual -inf  gap nan" in screen.read()


def test_pulse_moves_the_bar_ten_times_a_second(terminal, clock):
    screen = terminal()
    with ProgressReporter(1, 2, "fit") as progress:
        for step in range(1000):
            clock.seconds += 0.001
            progress.pulse(step / 1000, 1)
    lines = screen.read().removesuffix("\r\n").split("\r")[1:]
    assert 9 <= len(lines) <= 11
    assert lines[-1].count("█") > lines[0].count("█")


def test_clock_runs_on_between_checks(terminal, clock):
    screen = terminal()
    with ProgressReporter(1, 10, "fit") as progress:
        progress.update(check(1))
        clock.seconds += 2.0
        progress.pulse(0.5, 1)
    assert "3.2 s" in (text := screen.read()) and "5.2 s" in text


def test_line_is_closed_when_the_fit_fails(terminal):
    screen = terminal()
    with pytest.raises(KeyboardInterrupt), ProgressReporter(1, 10, "fit") as progress:
        progress.update(check(1))
        raise KeyboardInterrupt
    assert screen.read().endswith("\r\n")


def test_plain_marks_where_the_terminal_is_not_unicode(terminal):
    screen = terminal()
    screen.stream.reconfigure(encoding="ascii")
    with ProgressReporter(1, 2, "fit") as progress:
        progress.update(check(1))
    assert "###" in screen.read()


def test_log_lines_where_logging_is_set_up(caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO), ProgressReporter(1, 100, "fit") as progress:
        progress.pulse(0.5, 0)
        progress.update(check(12, validation_score=0.5))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("maxmargin", logging.INFO)
    expected = "pass 12/100  primal 0.3120  dual 0.2981  gap 4.5e-02  validation 0.5000  3.2 s"
    assert record.getMessage() == f"fit: {expected}"
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize("handlers", [[], [logging.NullHandler()]])
def test_log_lines_reach_stderr_where_logging_is_not_set_up(monkeypatch, handlers):
    logger = bare_logger(monkeypatch, handlers)
    with ProgressReporter(1, 100, "fit") as progress:
        progress.update(check(12))
    assert sys.stderr.getvalue().startswith("fit: pass 12/100")
    assert sys.stderr.getvalue().count("\n") == 1
    assert logger.handlers == handlers
    assert logger.level == logging.NOTSET


def test_logger_is_restored_when_the_fit_fails(monkeypatch):
    logger = bare_logger(monkeypatch, [], logging.ERROR)
    with pytest.raises(RuntimeError), ProgressReporter(1, 100, "fit"):
        raise RuntimeError
    assert logger.handlers == []
    assert logger.level == logging.ERROR


def test_no_standard_error_at_all(monkeypatch, caplog):
    monkeypatch.setattr(sys, "stderr", None)
    with caplog.at_level(logging.INFO), ProgressReporter(1, 10, "fit") as progress:
        progress.update(check(1))
    assert len(caplog.records) == 1


def test_bar_moves_with_the_logarithm_of_the_gap(terminal):
    screen = terminal()
    with ProgressReporter(1, 1000, "fit", tol=0.01) as progress:
        for passes, gap in enumerate((1.0, 0.1, 0.2, 0.01)):
            progress.update(check(passes, gap=gap, primal=1.0))
    full = [line.count("█") for line in screen.read().removesuffix("\r\n").split("\r")[1:]]
    # Half of the way at a gap of 0.1 = sqrt(1 * 0.01); the bar never goes back; full at the end.
    assert full[0] == 0 and full[1] == full[2] == 15 and full[3] == full[4] == 30


# --- compilation ----------------------------------------------------------------------------------


def compile_something():
    numba = pytest.importorskip("numba")
    if numba.config.DISABLE_JIT:
        pytest.skip("nothing is compiled")
    return numba.njit(lambda x: x + 1)(1)


def test_compilation_is_announced_once(terminal, caplog):
    with caplog.at_level(logging.INFO), ProgressReporter(0, 10, "SequenceLabeler"):
        compile_something()
        compile_something()
    (record,) = caplog.records
    expected = "SequenceLabeler: compiling kernels, once per machine, about 8 s"
    assert record.getMessage() == expected
    screen = terminal()
    with ProgressReporter(1, 10, "fit") as progress:
        compile_something()
        progress.update(check(1))
    assert "compiling kernels, once per machine" in screen.read()
    with caplog.at_level(logging.INFO):
        compile_something()  # no fit at work
    assert len(caplog.records) == 1


def test_clock_stands_still_while_functions_are_compiled():
    began, whole = _compiling.clock(), time.perf_counter()
    before = _compiling.WATCH.seconds
    compile_something()
    compiled = _compiling.WATCH.seconds - before
    whole = time.perf_counter() - whole
    assert 0 < compiled <= whole
    assert _compiling.clock() - began <= whole - compiled + 0.05

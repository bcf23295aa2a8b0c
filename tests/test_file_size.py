"""Memory that data files take: a small multiple of their size, and a line that tells how far."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from maxmargin import _progress
from maxmargin._progress import ReadingReporter
from maxmargin.files import FileError, delimited, read
from maxmargin.files import _source as source
from maxmargin.files._growing import Growing
from maxmargin.files.prepare import Choices, follow, learn

pytest.importorskip("click", reason="needs the extra cli")

# Trains on a small file first, so that compiled code and imported modules do not count.
MEASURE = """
import json, os, sys
from maxmargin.cli import main
from maxmargin.files import read
from maxmargin.files.prepare import Choices, learn

what, task, small, large = sys.argv[1:]

def use(path):
    if what == "prepare":
        return learn(read(path, task), task, Choices())
    assert main(["train", task, path, "-o", path + ".mm", "--max-iter", "2", "-q", "--force"]) == 0

def memory(kind):
    # Not ru_maxrss, which starts with the peak of the process that started this one.
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(kind))

use(small)
before = memory("VmRSS")
kept = use(large)
print(json.dumps((memory("VmHWM") - before) / os.path.getsize(large)))
"""


def table(rng, n):
    """Rows of 30 numbers, two categories and a label."""
    X = rng.randn(n, 30)
    ends = [
        f",{colour},{shape},{label}\n"
        for colour, shape, label in zip(
            rng.choice(["red", "green", "blue"], n),
            rng.choice(["round", "long"], n),
            np.where(X[:, 0] > 0, "yes", "no"),
            strict=True,
        )
    ]
    return [",".join(f"{v:.6g}" for v in x) + end for x, end in zip(X, ends, strict=True)]


def svmlight(rng, n):
    """Rows with 60 of 5000 features."""
    rows = []
    for _ in range(n):
        columns = np.unique(rng.randint(1, 5000, 60))
        pairs = zip(columns, rng.rand(len(columns)), strict=True)
        rows.append(f"{rng.randint(3)} " + " ".join(f"{k}:{v:.1f}" for k, v in pairs) + "\n")
    return rows


def sentences(rng, n):
    """Sentences of 5 to 39 words, of which few are frequent."""
    words = ["".join(rng.choice(list("abcdefghij"), rng.randint(2, 9))) for _ in range(3000)]
    frequency = 1.0 / np.arange(1, 3001)
    found = []
    for _ in range(n):
        numbers = rng.choice(3000, rng.randint(5, 40), p=frequency / frequency.sum())
        lines = [f"{words[k]} {'NVD'[k % 3]} {'BIO'[k % 3]}\n" for k in numbers]
        found.append("".join(lines) + "\n")
    return found


@pytest.mark.more
@pytest.mark.parametrize(
    ("suffix", "task", "make", "what"),
    [
        ("csv", "multiclass", table, "train"),
        ("svm", "multiclass", svmlight, "train"),
        # A model of words has weights for all pairs of words and does not fit into this bound.
        ("conll", "sequence", sentences, "prepare"),
    ],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_file_takes_at_most_four_times_its_size(tmp_path, suffix, task, make, what):
    first = ",".join([*(f"x{k}" for k in range(30)), "colour", "shape", "label\n"])
    header = first if suffix == "csv" else ""
    rows = make(np.random.RandomState(0), 1000)
    small, large = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"
    small.write_text(header + "".join(rows[:200]))
    text = "".join(rows)
    large.write_text(header + text * (20_000_000 // len(text)))
    command = [sys.executable, "-c", MEASURE]
    if os.environ.get("MAXMARGIN_PREBUILT") == "0":  # what is found on disk takes no memory to make
        run(*command, what, task, str(small), str(small))
    assert run(*command, what, task, str(small), str(large)) <= 4.0


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# --- what is read in pieces is what is read at once ----------------------------------------------


@pytest.fixture
def pieces(monkeypatch):
    """Readers that hold a few bytes and rows at a time."""
    monkeypatch.setattr(source, "_BYTES_AT_ONCE", 7)
    monkeypatch.setattr(delimited, "_FIELDS_AT_ONCE", 4)
    monkeypatch.setattr(delimited, "_MOST_SHARED", 2)


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


TABLE = (
    'n,colour,label\r\n1,r\u00f6d,a\r\n300,"bl,\r\nue",b\r\n-0.1,gr\u00fcn,a\r\n'
    "1e300,r\u00f6d,b\r\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_in_pieces(write, pieces, encoding, packed):
    content = TABLE.encode(encoding)
    path = write("a.csv.gz" if packed else "a.csv", gzip.compress(content) if packed else content)
    given = "utf-8" if encoding.startswith("utf-8") else encoding
    table = read(path, "multiclass", encoding=given)
    assert table.lines.tolist() == [2, 4, 5, 6]
    found = learn(table, "multiclass", Choices(scale=False))
    assert found.X[:, 0].tolist() == [1.0, 300.0, -0.1, 1e300]  # no type but the last holds all
    assert found.recipe["feature_names"][1:] == [
        "colour=bl,\nue",
        "colour=gr\u00fcn",
        "colour=r\u00f6d",
    ]
    assert found.X[:, 1:].argmax(axis=1).tolist() == [2, 0, 1, 2]
    assert found.y.tolist() == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("1 2 3 4 x 6", "line 6, column 'v': 'x' is not a finite number"),
        ("1 2 3 4 ? 6", "line 6, column 'v': the value is missing"),
        ("1 2 3 4 inf 6", "line 6, column 'v': 'inf' is not a finite number"),
        ("x y x y 5 6", "line 2, column 'v': 'x' is not a finite number"),
        ("na y x y 5 6", "line 2, column 'v': the value is missing"),
        ("1 x 3 4 5 6", "line 3, column 'v': 'x' is not a finite number"),
        ("x y z u w ?", "line 7, column 'v': the value is missing"),
    ],
)
def test_what_a_column_is_may_show_late(write, pieces, values, said):
    text = "v,label\n" + "".join(f"{v},{'ab'[k % 2]}\n" for k, v in enumerate(values.split()))
    with pytest.raises(FileError, match=said):
        learn(read(write("a.csv", text), "multiclass"), "multiclass", Choices())


def test_texts_of_numbers_are_those_of_the_file(write, pieces):
    text = "id,v,label\n" + "".join(
        f"{a},{b},{c}\n"
        for a, b, c in [
            ("01", "1.0", "1"), ("01", "1", "2"), ("1", "1.0", "x"),
            ("12345678901234567890", "1", "1"), ("12345678901234567891", "1", "2"),
        ]
    )  # fmt: skip
    path = write("a.csv", text)
    found = learn(read(path, "multiclass"), "multiclass", Choices(drop=("id",), categorical=("v",)))
    assert found.recipe["feature_names"] == ["v=1", "v=1.0"]
    assert found.y.tolist() == ["1", "2", "x", "1", "2"]
    for texts in ((), ("id", "v")):  # read again, or kept
        table = read(path, "sequence", texts=texts)
        found = learn(table, "sequence", Choices(group="id", categorical=("v",)))
        assert [len(y) for y in found.y] == [2, 1, 1, 1]
        X, _ = follow(table, found.recipe)
        assert X[0].tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_a_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    writer = subprocess.Popen(
        [sys.executable, "-c", f"open({str(path)!r}, 'w').write('x,label\\n1,1\\n2,b\\n')"]
    )
    found = learn(read(path, "multiclass"), "multiclass", Choices())
    assert found.y.tolist() == ["1", "b"] and writer.wait() == 0


def test_a_file_that_changes_is_noticed(write):
    path = write("a.csv", "x,label\n1,1\n2,b\n")
    table = read(path, "multiclass")
    path.write_text("x,label\n1,1\n")
    with pytest.raises(FileError, match="has changed while it was read"):
        learn(table, "multiclass", Choices())


@pytest.mark.parametrize(
    ("name", "content", "task", "said"),
    [
        ("a.csv", b"a,label\n" + b"1,x\n" * 9 + b"1,caf\xe9\n", "multiclass", "line 11: byte 0xe9"),
        ("a.csv", b"a,label\n" + b"1,x\n" * 9 + b"1,\xc3", "multiclass", "line 11: byte 0xc3"),
        ("a.csv", b"a,label\r\n" + b"1,x\r\n" * 9 + b"1,\0\r\n", "multiclass", "line 11: .* zero"),
        ("a.csv", "a,label\n" + "1,x\n" * 9 + "1\n", "multiclass", "line 11: 1 fields"),
        ("a.csv", " \n" * 20, "multiclass", "the file is empty"),
        ("a.csv", '""\n', "multiclass", "the file is empty"),
        ("a.svm", "1 1:2\n" * 9 + "1 x:2\n1 1:1\n", "multiclass", "line 10: '1 x:2'"),
        ("a.conll", "\n\na b\n\nc d\ne\n", "sequence", "line 6: 1 columns"),
    ],
)  # fmt: skip
def test_the_place_of_an_error_is_counted_across_pieces(write, pieces, name, content, task, said):
    with pytest.raises(FileError, match=said):
        read(write(name, content), task)


def test_svmlight_and_conll_in_pieces(write, pieces):
    path = write("a.svm", "1 1:0.5 3:2 # c\n\n-1 2:1\n1.5\n2 70000:1\n")
    found = read(path, "multiclass")
    assert found.X.shape == (4, 70001) and found.y.tolist() == [1.0, -1.0, 1.5, 2.0]
    assert found.X[0, 3] == 2.0 and found.X[3, 70000] == 1.0 and found.X.nnz == 4
    found = read(write("b.svm", "3,17 1:1\n 2:1\n17 1:2\n"), "multilabel")
    assert found.label_names == [3, 17] and found.y.tolist() == [[1, 1], [0, 0], [0, 1]]
    path = write("a.conll", "The DT B\r\ncat NN I\r\n\r\n\r\nRun VB O\r\n")
    found = read(path, "sequence")
    assert list(found.rows) == [[["The", "DT", "B"], ["cat", "NN", "I"]], [["Run", "VB", "O"]]]
    assert found.rows[-1] == [["Run", "VB", "O"]] and list(found.lines) == [1, 5]
    with pytest.raises(IndexError):
        found.rows[2]
    prepared = learn(found, "sequence", Choices())
    some = prepared.X[np.array([1])]
    assert len(prepared.X) == 2 and len(prepared.X[0]) == 2 and len(some) == 1
    assert some[0][0]["word"] == "Run" and some == [list(prepared.X[1])]


def test_arrays_that_grow():
    growing = Growing(np.uint8, np.int16, np.float64, width=(2,))
    whole = np.arange(9000.0).reshape(-1, 2) % 250
    for rows in np.array_split(whole, 7):
        growing.extend(rows)
    growing.extend(np.array([[-1.0, 2.5]]))
    found = growing.finish()
    assert found.dtype == np.float64 and np.array_equal(found, [*whole, [-1.0, 2.5]])


# --- how far reading is --------------------------------------------------------------------------


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_reading_is_shown_in_a_terminal(write, pieces, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(_progress, "_SECONDS_BEFORE_READING_IS_SHOWN", 0.0)
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_DRAWINGS", 0.0)
    path = write("a.csv", "x,label\n" + "1,a\n" * 40)
    with ReadingReporter(1, "reading a.csv") as reporter:
        read(path, "multiclass", progress=reporter.update)
    lines = shown.getvalue().split("\r")
    assert len(lines) > 10 and lines[-1].startswith("reading a.csv  ███") and "─" in lines[2]
    assert "0.0/0.0 MB" in lines[-1] and shown.getvalue().endswith("\n")


@pytest.mark.parametrize(("terminal", "verbose"), [(True, 0), (False, 0), (False, 1)])
def test_reading_is_not_shown_elsewhere(write, monkeypatch, caplog, terminal, verbose):
    shown = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(_progress, "_SECONDS_BEFORE_READING_IS_SHOWN", 0.0)
    path = write("a.csv", "x,label\n" + "1,a\n" * 40)
    with ReadingReporter(verbose, "reading a.csv") as reporter:
        read(path, "multiclass", progress=reporter.update)
    assert shown.getvalue() == ""
    assert [record.getMessage()[:14] for record in caplog.records] == ["reading a.csv:"] * verbose


def test_a_short_file_is_read_in_silence(write, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(_progress, "_SECONDS_BEFORE_READING_IS_SHOWN", 3600.0)
    with ReadingReporter(1, "reading a.csv") as reporter:
        read(write("a.csv", "x,label\n1,a\n"), "multiclass", progress=reporter.update)
    assert shown.getvalue() == ""

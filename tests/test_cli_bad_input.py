"""Files and options that are not right: one line that says so, exit code 2, nothing written."""

from __future__ import annotations

import errno
import gzip
import os
import re
import socket
import subprocess
import sys
import zipfile
from unittest import mock

import pytest

pytest.importorskip("click", reason="needs the extra cli")

import maxmargin
from maxmargin.cli import main

CSV = "x,z,label\n1,2,a\n2,1,b\n3,1,a\n4,0,b\n"
GOOD = {"a.csv": CSV, "a.conll": "the DET\ncat NOUN\n\na DET\n"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in GOOD.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def refused(folder, capsys):
    """Run a command that must fail in one line, and leave the folder as it was."""

    def run(*words, code=2):
        before = sorted(os.listdir(folder))
        capsys.readouterr()
        assert main([str(word) for word in words]) == code
        out, err = capsys.readouterr()
        assert out == "" and sorted(os.listdir(folder)) == before
        *notes, last = err.splitlines()
        assert last.startswith("error: ") and "Traceback" not in err
        assert len(notes) <= 1 and "error" not in "".join(notes)
        return last

    return run


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.csv", None, "missing.csv: there is no such file"),
        ("b.csv", "", "the file is empty"),
        ("b.csv.gz", gzip.compress(CSV.encode() * 50)[:-9], "the gzip archive is truncated"),
        ("b.csv", b"x,label\n1,\xe9\n", "line 2: byte 0xe9 is not utf-8"),
        ("b.csv", CSV + "5,1\n", "line 6: 2 fields, but line 1 has 3"),
        ("b.csv", CSV + "five,1,a\n", "line 6, column 'x': 'five' is not a finite number"),
        ("b.csv", CSV + "5,1,\n", "line 6, column 'label': the label is missing"),
        ("b.csv", "x,label\n1,a\n2,a\n", "y has 1 class: 'a'; at least 2"),
        ("b.npz", "no archive", "this is no whole npz archive"),
        ("b.txt", CSV, "tells no format"),
    ],
)  # fmt: skip
def test_bad_training_files(refused, folder, name, content, said):
    if content is not None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert re.search(said, refused("train", "multiclass", name, "-o", "m.mm"))


def test_windows_line_ends_work(folder, capsys):
    (folder / "w.csv").write_bytes(CSV.replace("\n", "\r\n").encode())
    assert main(["train", "multiclass", "a.csv", "-o", "a.mm", "-q"]) == 0
    assert main(["train", "multiclass", "w.csv", "-o", "w.mm", "-q"]) == 0
    a, w = maxmargin.load("a.mm"), maxmargin.load("w.mm")
    assert a.coef_.tobytes() == w.coef_.tobytes() and a.classes_.tolist() == w.classes_.tolist()


def test_other_encodings_can_be_named(folder):
    (folder / "l.csv").write_bytes("x,label\n1,café\n2,thé\n".encode("latin-1"))
    words = ["train", "multiclass", "l.csv", "-o", "l.mm", "-q", "--encoding", "latin-1"]
    assert main(words) == 0
    assert maxmargin.load("l.mm").classes_.tolist() == ["café", "thé"]


def test_a_large_file_is_refused_with_its_size(refused, folder):
    (folder / "large.csv").touch()
    os.truncate(folder / "large.csv", 1_200_000_000)
    err = refused("train", "multiclass", "large.csv", "-o", "m.mm")
    assert "has 1.2 GB, more than the limit of 1.0 GB" in err and "--max-size" in err
    assert "limit of 10 bytes" in refused(
        "train", "multiclass", "a.csv", "-o", "m.mm", "--max-size", "10"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--alpha", "-1"], "must be a number above 0"),
        (["--alpha", "much"], "must be a number above 0, 'auto' or 'cv'"),
        (["--surrogate", "hinge"], "hinge"),
        (["--set", "kernel"], "must be NAME=VALUE"),
        (["--set", "kernle=rbf"], "has no parameter 'kernle'"),
        (["--set", "kernel=cubic"], "kernel"),
        (["--target", "colour"], "there is no column 'colour'"),
        (["--solver", "magic"], "solver must be"),
        (["--test", "a.csv", "--holdout", "0.5"], "exclude each other"),
        (["--alpha", "cv", "--folds", "9"], "--folds 9 needs as many examples"),
        (["--max-size", "lots"], "no size"),
        (["--part", "train"], "--part is for npz files"),
        (["--report", "nowhere/a.html"], "nowhere does not exist"),
        (["--report", "./m.mm"], "the same command needs ./m.mm"),
        (["--report", "a.csv", "--force"], "the same command needs a.csv"),
        (["--seed", "-1"], "--seed"),
    ],
)  # fmt: skip
def test_bad_options(refused, options, said):
    assert said in refused("train", "multiclass", "a.csv", "-o", "m.mm", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--partitions", "3"], "--partitions is for --workers and --cluster"),
        (["--workers", "0"], "--workers"),
        (["--workers", "2", "--cluster", "tcp://host:1"], "a cluster of Dask has its own"),
        (["--workers", "2", "--partitions", "0"], "--partitions"),
        (["--cluster", "here"], "scheme://host:port"),
        (["--cluster", "ray://host"], "scheme://host:port"),
        (["--cluster", "tcp://127.0.0.1:{port}"], "nobody answers at tcp://127.0.0.1"),
        (["--cluster", "ray://127.0.0.1:{port}"], "nobody answers at ray://127.0.0.1"),
    ],
)
def test_bad_clusters(refused, monkeypatch, options, said):
    fakes = dict.fromkeys(("ray", "distributed"), mock.MagicMock())
    fakes["ray"].is_initialized.return_value = False
    for name, fake in fakes.items():  # nothing is started
        monkeypatch.setitem(sys.modules, name, fake)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    options = [option.format(port=port) for option in options]
    code = 1 if "nobody" in said else 2
    assert said in refused("train", "multiclass", "a.csv", "-o", "m.mm", *options, code=code)


@pytest.mark.parametrize(
    ("options", "extra"), [(["--workers", "2"], "dask"), (["--cluster", "ray"], "ray")]
)
def test_clusters_name_their_extras(refused, monkeypatch, options, extra):
    for name in ("ray", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    said = refused("train", "multiclass", "a.csv", "-o", "m.mm", *options, code=1)
    assert f"maxmargin[{extra}]" in said


def test_unknown_tasks_and_commands(refused):
    assert "banana" in refused("train", "banana", "a.csv", "-o", "m.mm")
    assert "No such command 'fly'" in refused("fly")
    assert "Missing option" in refused("train", "multiclass", "a.csv")


def test_nothing_that_a_command_reads_is_written_over(refused, folder):
    words = ("train", "multiclass", "a.csv", "-o", "a.csv", "--force")
    assert "cannot write a.csv: the same command needs a.csv" in refused(*words)
    main(["train", "multiclass", "a.csv", "-o", "m.mm", "-q", "--set", "n_jobs=1"])
    for name in ("a.csv", "m.mm"):
        assert "the same command" in refused("predict", "m.mm", "a.csv", "-o", name, "--force")
    assert (folder / "a.csv").read_text() == CSV


def test_no_command_at_all_shows_the_tour(folder, capsys):
    main([])
    said = "".join(capsys.readouterr())
    assert re.search(r"\n +maxmargin demo  ", said) and "error" not in said.splitlines()[0]


def test_models_that_do_not_fit_the_data(refused, folder):
    main(["train", "multiclass", "a.csv", "-o", "flat.mm", "-q"])
    main(["train", "sequence", "a.conll", "-o", "chain.mm", "-q"])
    err = refused("predict", "flat.mm", "a.conll", "--format", "conll")
    assert "is a file of sentences, but the model was trained on one of table" in err
    err = refused("evaluate", "chain.mm", "a.csv")
    assert "is a file of table, but the model was trained on one of sentences" in err
    (folder / "b.csv").write_text("x,label\n1,a\n")
    assert "column 'z' is missing" in refused("predict", "flat.mm", "b.csv")
    (folder / "c.csv").write_text("x,z\n1,soon\n")
    assert "line 2, column 'z': 'soon'" in refused("predict", "flat.mm", "c.csv")


def test_files_that_are_no_models(refused, folder):
    assert "there is no such file" in refused("predict", "no.mm", "a.csv")
    assert "damaged or incomplete" in refused("inspect", "a.csv")
    assert "is a folder" in refused("inspect", folder)
    main(["train", "multiclass", "a.csv", "-o", "m.mm", "-q"])
    (folder / "cut.mm").write_bytes((folder / "m.mm").read_bytes()[:-30])
    assert "damaged or incomplete" in refused("predict", "cut.mm", "a.csv")
    with zipfile.ZipFile(folder / "zip.mm", "w") as archive:
        archive.writestr("a.txt", "hello")
    assert "not a maxmargin model" in refused("inspect", "zip.mm")


def test_folders_that_cannot_be_written_to(refused, folder):
    (folder / "file").write_text("x")
    assert "is no folder" in refused("train", "multiclass", "a.csv", "-o", "file/m.mm")
    assert "does not exist" in refused("train", "multiclass", "a.csv", "-o", "nowhere/m.mm")
    (folder / "sub").mkdir()
    assert "it is a folder" in refused("train", "multiclass", "a.csv", "-o", "sub")
    if os.geteuid() != 0:  # root may write anywhere
        (folder / "sub").chmod(0o500)
        assert "no permission" in refused("train", "multiclass", "a.csv", "-o", "sub/m.mm")


def full_disk(monkeypatch):
    """From now on, no file can be completed."""

    def no_space(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)


def test_a_full_disk_leaves_nothing_half_written(refused, folder, monkeypatch):
    main(["train", "multiclass", "a.csv", "-o", "old.mm", "-q"])
    before = (folder / "old.mm").read_bytes()
    full_disk(monkeypatch)
    err = refused("train", "multiclass", "a.csv", "-o", "m.mm", "-q", code=1)
    assert "No space left on device" in err
    refused("train", "multiclass", "a.csv", "-o", "old.mm", "-q", "--force", "--alpha", "9", code=1)
    assert (folder / "old.mm").read_bytes() == before
    refused("predict", "old.mm", "a.csv", "-o", "out.csv", code=1)
    refused("datasets", "fetch", "iris", "-o", "iris.csv", code=1)


def test_training_outlives_checkpoints_that_cannot_be_written(folder, capsys, monkeypatch):
    import maxmargin.cli._fit as fit

    def no_space(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fit, "write_checkpoint", no_space)
    words = [
        "train",
        "multiclass",
        "a.csv",
        "-o",
        "m.mm",
        "--checkpoint-every",
        "0",
        "--tol",
        "1e-6",
    ]
    assert main(words) == 0
    err = capsys.readouterr().err
    assert err.count("no checkpoint could be written: No space left on device") == 1
    assert os.path.exists("m.mm")


@pytest.mark.more
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_nobody_can_take(folder):
    main(["train", "multiclass", "a.csv", "-o", "m.mm", "-q"])
    command = [sys.executable, "-m", "maxmargin", "predict", "m.mm", "a.csv"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device\n"


def test_debug_shows_where(folder, capsys):
    assert main(["--debug", "train", "multiclass", "no.csv", "-o", "m.mm"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_missing_extra_is_named():
    code = (
        "import sys; sys.modules['click'] = None\n"
        "from maxmargin.cli import main; sys.exit(main(['--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and 'pip install "maxmargin[cli]"' in done.stderr


@pytest.mark.parametrize("option", ["--target", "--drop", "--group", "--categorical"])
def test_options_of_tables_are_refused_for_other_files(refused, folder, option):
    (folder / "a.conll").write_text("the D O\ncat N O\n")
    err = refused("train", "sequence", "a.conll", "-o", "m.mm", option, "x")
    assert f"a.conll: {option} names columns of a table, but this file holds columns of" in err

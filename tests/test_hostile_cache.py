"""The cache of compiled code with damage, a full disk, other users and other processes."""

from __future__ import annotations

import ctypes
import errno
import os
import pickle
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from maxmargin._kernels import cache, jit
from test_cache import FEW, FIT, run

posix = pytest.mark.skipif(os.name != "posix", reason="needs owners, modes and limits")


def triple(x):
    return 3 * x


def quintuple(x):  # the same bytecode; only a constant differs
    return 5 * x


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(cache, "_said", set())


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "maxmargin" / "kernels"


def fresh(folder, function=triple):
    """A function as another process would have it."""
    return jit._cached(function, jit._OPTIONS, folder)


def counts(function):
    found = function.stats
    return sum(found.cache_hits.values()), sum(found.cache_misses.values())


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_version_is_found_again(folder):
    first, second = fresh(folder), fresh(folder)
    assert first(2) == 6 and first(0.5) == 1.5
    assert second(2) == 6 and second(0.5) == 1.5
    assert counts(first) == (0, 2) and counts(second) == (2, 0)


def test_levels_of_optimisation_do_not_meet(folder, monkeypatch):
    assert fresh(folder)(2) == 6
    monkeypatch.setattr(cache.config, "OPT", 1)
    second, third = fresh(folder), fresh(folder)
    assert second(2) == 6 and counts(second) == (0, 1)
    assert third(2) == 6 and counts(third) == (1, 0)


# --- damage -------------------------------------------------------------------------------------


def truncate(content):
    return content[: len(content) // 2]


def flip(where):
    def damage(content):
        position = int(where * (len(content) - 1))
        return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]

    return damage


@pytest.mark.parametrize(
    "damage",
    [truncate, lambda content: b"", lambda content: content[:-1], lambda content: content + b"."]
    + [flip(where) for where in (0.0, 0.002, 0.01, 0.1, 0.5, 1.0)],
)
def test_damaged_files_are_compiled_again_and_replaced(folder, damage, caplog):
    assert fresh(folder)(2) == 6 and fresh(folder)(0.5) == 1.5
    whole = {path: path.read_bytes() for path in files(folder)}
    for path, content in whole.items():
        path.write_bytes(damage(content))
    second = fresh(folder)
    assert second(2) == 6 and second(0.5) == 1.5 and counts(second) == (0, 2)
    [record] = caplog.records
    assert record.name.startswith("maxmargin") and record.levelname == "WARNING"
    assert str(files(folder)[0].parent) in record.getMessage()
    third = fresh(folder)
    assert third(2) == 6 and third(0.5) == 1.5 and counts(third) == (2, 0)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_nothing_is_unpickled_before_its_checksum_was_verified(folder, tmp_path):
    assert fresh(folder)(2) == 6
    mark = tmp_path / "exploded"
    for path in files(folder):
        path.write_bytes(pickle.dumps(Bomb(mark)))
    assert fresh(folder)(2) == 6 and not mark.exists()
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists()  # as it would have


def test_the_file_of_another_function_is_not_used(folder):
    assert fresh(folder)(2) == 6 and fresh(folder, quintuple)(2) == 10
    for path in files(folder):
        other = path.name.replace("quintuple", "triple")
        if other != path.name:
            [target] = [found for found in files(folder) if found.name[:25] == other[:25]]
            shutil.copyfile(path, target)
    assert fresh(folder)(2) == 6


def test_what_cannot_be_rebuilt_is_compiled_again(folder, monkeypatch, caplog):
    assert fresh(folder)(2) == 6

    def fail(self, context, payload):
        raise AttributeError("of a class that is not there any more")

    second = fresh(folder)
    monkeypatch.setattr(type(second._cache._impl), "rebuild", fail)
    assert second(2) == 6 and counts(second) == (0, 1)
    assert "not there any more" in caplog.text


# --- a disk that does not take it ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EACCES"])
def test_a_disk_that_refuses_is_warned_about_once(folder, name, monkeypatch):
    code = getattr(errno, name)

    def refuse(*args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(UserWarning, match="not kept") as met:
        first = fresh(folder)
        assert first(2) == 6 and first(0.5) == 1.5 and fresh(folder)(2) == 6
    assert len(met) == 1
    assert os.strerror(code) in str(met[0].message) and "NUMBA_CACHE_DIR" in str(met[0].message)
    assert files(folder) == []  # nothing half written


SMALL = """
import warnings
from maxmargin._kernels.jit import compiled

@compiled
def triple(x):
    return 3 * x

with warnings.catch_warnings(record=True) as met:
    warnings.simplefilter("always")
    print(triple(2), triple(0.5), len(met), *(warning.message for warning in met))
"""


def small(folder, preexec=None, command=(sys.executable,), **environment):
    """Output of a process that compiles two versions of a function."""
    base = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for name, value in ({"NUMBA_CACHE_DIR": None} | environment).items():
        base.pop(name, None)
        if value is not None:
            base[name] = str(value)
    script = folder / "small.py"
    script.write_text(SMALL)
    done = subprocess.run(
        [*command, str(script)],
        env=base, cwd=folder, capture_output=True, text=True, timeout=300, preexec_fn=preexec,
    )  # fmt: skip
    script.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.more
@posix
def test_files_that_may_not_grow(tmp_path):
    """A real refusal by the system in the middle of a write."""
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    said = small(tmp_path, limit, NUMBA_CACHE_DIR=tmp_path / "cache")
    assert said.startswith("6 1.5 1 ") and os.strerror(errno.EFBIG) in said
    assert files(tmp_path / "cache") == []


@pytest.mark.more
def test_a_full_disk(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=16k tmpfs '{full}'"
    if not shutil.which("unshare") or subprocess.call(["unshare", "-m", "sh", "-c", mount]):
        pytest.skip("a full disk is made by mounting a small one, as root of a Linux system")
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$0" "$1"', sys.executable]
    said = small(tmp_path, command=command, NUMBA_CACHE_DIR=full)
    assert said.startswith("6 1.5 1 ") and os.strerror(errno.ENOSPC) in said


def obey_modes():
    """Have root meet the modes of files like any user, from the next program on."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


@pytest.mark.more
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="drops a capability of Linux")
def test_a_home_that_is_read_only(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    said = small(tmp_path, obey_modes, HOME=home, XDG_CACHE_HOME=None)
    assert said.startswith("6 1.5 1 ") and os.strerror(errno.EACCES) in said
    assert "NUMBA_CACHE_DIR" in said and list(home.iterdir()) == []


@pytest.mark.more
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="drops a capability of Linux")
def test_a_home_that_cannot_be_looked_into(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o000)

    def obey_all_modes():
        obey_modes()
        ctypes.CDLL(None).prctl(24, 2, 0, 0, 0)  # CAP_DAC_READ_SEARCH

    said = small(tmp_path, obey_all_modes, HOME=home, XDG_CACHE_HOME=None)
    home.chmod(0o700)
    assert said.startswith("6 1.5 1 ") and os.strerror(errno.EACCES) in said


@pytest.mark.more
@pytest.mark.parametrize("home", ["missing", "relative"])
def test_without_a_home(tmp_path, home):
    value = tmp_path / "nonexistent" if home == "missing" else "somewhere"
    said = small(tmp_path, HOME=value, XDG_CACHE_HOME="relative/too")
    assert said.startswith("6 1.5 1 ") and "there is no home folder" in said
    assert list(tmp_path.iterdir()) == []  # and none was made


@posix
@pytest.mark.parametrize("known", [True, False])
def test_home_unset(tmp_path, monkeypatch, known):
    """The system knows it, or does not know the user at all, as in some containers."""
    import pwd

    def entry(user):
        if not known:
            raise KeyError(user)
        return pwd.struct_passwd(("me", "x", user, 0, "", str(tmp_path), "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwuid", entry)
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    found = jit.cache_folder()
    if known:
        assert found.is_relative_to(tmp_path / ".cache" / "maxmargin")
    else:
        assert found is None  # not a folder named "~"


# --- other users --------------------------------------------------------------------------------


@posix
def test_folders_and_files_are_private(tmp_path, folder):
    before = os.umask(0)
    try:
        assert fresh(folder)(2) == 6
    finally:
        os.umask(before)
    for path in (tmp_path / "maxmargin").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((tmp_path / "maxmargin").stat().st_mode) == 0o700


def which(folder, level):
    return {"top": folder.parent, "middle": folder, "folder": files(folder)[0].parent,
            "file": files(folder)[0]}[level]  # fmt: skip


@posix
@pytest.mark.parametrize("level", ["top", "middle", "folder", "file"])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o722])
def test_what_others_can_write_is_not_used(folder, level, mode):
    assert fresh(folder)(2) == 6
    path = which(folder, level)
    path.chmod(mode)
    kept = files(folder)[0].read_bytes()
    second = fresh(folder)
    with pytest.warns(UserWarning, match=f"chmod go-w '{path}'") as met:
        assert second(2) == 6 and fresh(folder)(2) == 6
    assert len(met) == 1 and counts(second) == (0, 1)
    if level == "file":  # its folder is private: it is replaced
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    else:
        assert stat.S_IMODE(path.stat().st_mode) == mode  # not changed behind the user's back
        assert files(folder)[0].read_bytes() == kept
        path.chmod(0o755)  # as the warning says
    third = fresh(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert third(2) == 6 and counts(third) == (1, 0)


@posix
@pytest.mark.parametrize("level", ["top", "middle", "folder", "file", "link"])
def test_what_belongs_to_others_is_not_used(folder, level, monkeypatch):
    assert fresh(folder)(2) == 6
    if level == "link":
        folder.rename(folder.with_name("elsewhere"))
        folder.symlink_to("elsewhere")
        path = folder
    else:
        path = which(folder, level)
    if os.geteuid() == 0:
        os.chown(path, 4243, -1, follow_symlinks=False)
    else:  # they all belong to somebody else
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    second = fresh(folder)
    with pytest.warns(UserWarning, match="belongs to user") as met:
        assert second(2) == 6
    assert len(met) == 1 and counts(second) == (0, 1)
    assert "NUMBA_CACHE_DIR" in str(met[0].message)


@posix
def test_a_link_to_a_folder_of_ones_own_is_fine(folder):
    assert fresh(folder)(2) == 6
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")
    second = fresh(folder)
    assert second(2) == 6 and counts(second) == (1, 0)


def test_without_owners_there_is_nothing_to_check(folder, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "geteuid", raising=False)
    second = fresh(folder)
    assert fresh(folder)(2) == 6 and second(2) == 6 and counts(second) == (1, 0)


def test_relative_folders(tmp_path, monkeypatch):
    from maxmargin import datasets

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says its specification
    assert jit.cache_folder().is_relative_to(tmp_path / ".cache" / "maxmargin")
    assert datasets.cache_folder() == tmp_path / ".cache" / "maxmargin" / "data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "chosen"))
    assert jit.cache_folder().is_relative_to(tmp_path / "chosen" / "maxmargin")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "here")
    assert jit.cache_folder().is_relative_to(tmp_path / "here")  # also after a change of folder


# --- other processes ----------------------------------------------------------------------------


def test_two_writers_of_different_versions(folder, monkeypatch):
    """The worst order: each begins to write before the other has ended."""
    real, pending, begun = os.replace, [], []

    def replace(source, target):
        if not begun:
            begun.append(True)
            pending.append((source, target))
            assert fresh(folder)(0.5) == 1.5  # another process, meanwhile
        while pending:
            real(*pending.pop())
        if os.path.exists(source):
            real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert fresh(folder)(2) == 6
    monkeypatch.undo()
    third = fresh(folder)
    assert third(2) == 6 and third(0.5) == 1.5
    assert counts(third) == (2, 0)


SLOW = pytest.mark.slow
VALUES = (2, 0.5, 2j, True, np.float32(0.5), np.int8(2))  # each of another type


def compile_in_a_fork(folder, first):
    """Number of a process like this one that compiles all versions, beginning with some."""
    process = os.fork()
    if process:
        return process
    failed = True
    try:
        function = fresh(folder)
        rotated = VALUES[first:] + VALUES[:first]
        failed = any(function(value) != 3 * value for value in rotated) or bool(cache._said)
    finally:
        os._exit(failed)


@pytest.mark.more
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("n_processes", [2, *(pytest.param(n, marks=SLOW) for n in (4, 8))])
def test_processes_that_write_the_versions_of_one_function(folder, n_processes):
    fresh(folder.with_name("warm"))(2)  # so that children start with the compiler ready
    for repetition in range(3 if n_processes == 2 else 10):
        target = folder / str(repetition)
        started = [compile_in_a_fork(target, k % len(VALUES)) for k in range(n_processes)]
        assert [os.waitpid(process, 0)[1] for process in started] == [0] * n_processes
        later = fresh(target)
        assert all(later(value) == 3 * value for value in VALUES)
        assert counts(later) == (len(VALUES), 0)
        assert not any(".tmp" in path.name for path in files(target))


def hits_and_misses(lines):
    return [line.split()[1:] for line in lines]


# A few functions of the package, compiled in a second or two; the rest is as in FIT.
def compile_at_once(n_processes, folder, code=FIT, n_kernels=4):
    """The value that all processes find."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "MAXMARGIN_PREBUILT": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(n_processes)
    ]  # fmt: skip
    ended = [process.communicate(timeout=600) for process in started]
    for process, (_, err) in zip(started, ended):
        assert process.returncode == 0 and not err, err
    values = {out.split()[-1] for out, _ in ended}
    *lines, value = run(code, folder)
    assert hits_and_misses(lines) == [["1", "0"]] * n_kernels and values == {value}
    assert {path.suffix for path in files(folder)} == {".nbc"}
    return value


@pytest.mark.more
def test_two_processes_compile_at_once_and_damage_is_mended(tmp_path):
    value = compile_at_once(2, tmp_path, FEW, 3)
    for number, path in enumerate(files(tmp_path)):
        content = path.read_bytes()
        path.write_bytes(truncate(content) if number % 2 else flip(0.7)(content))
    *damaged, again = run(FEW, tmp_path)
    assert again == value and hits_and_misses(damaged) == [["0", "1"]] * 3
    *mended, again = run(FEW, tmp_path)
    assert again == value and hits_and_misses(mended) == [["1", "0"]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(10))
@pytest.mark.parametrize("n_processes", [2, 4, 8])
def test_many_processes_compile_at_once(n_processes, repetition, tmp_path):
    compile_at_once(n_processes, tmp_path)

"""Files that are complete or absent: written under another name, then renamed."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # where there is none, an open file cannot be removed by others anyway
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends without an error.

    Until then it has a name of its own beside ``path``; files that killed processes left there are
    removed.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot save {os.fspath(path)}: there is no folder {folder}")
    remove_leftovers(target)
    temporary = os.path.join(folder, f"{_prefix(target)}{uuid.uuid4().hex}.tmp")
    try:
        with _new_file(temporary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.filename == temporary:  # name what was asked for
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what processes left that were killed while they wrote to ``path``.

    The file of a process that is still at work is locked, and stays.
    """
    target = os.path.realpath(path)
    pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{32}\.tmp")
    folder = os.path.dirname(target)
    for name in filter(pattern.fullmatch, os.listdir(folder)):
        leftover = os.path.join(folder, name)
        with suppress(OSError), open(leftover, "rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.remove(leftover)


def _prefix(target: str) -> str:
    return f".{os.path.basename(target)[:100]}."  # names of files may have 255 bytes


def _new_file(name: str) -> BinaryIO:
    """A new file that is locked while it is open, which tells it from one that was left behind."""
    while True:
        file = open(name, "xb")
        if fcntl is None:
            return file  # type: ignore[unreachable]  # no such module on Windows
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another process took it for a leftover just before it was locked

"""Bytes and text of a data file, checked before anything is made of them."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from pathlib import Path

__all__ = ["MAX_SIZE", "FileError", "format_size", "read_bytes", "read_text", "suffix_of"]

# Larger files are refused unless a caller allows them: data must fit in memory several times.
MAX_SIZE = 1_000_000_000

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class FileError(ValueError):
    """A data file cannot be used; the message names the file, the place and a remedy."""


def format_size(n_bytes: int) -> str:
    """A number of bytes for people: ``1.1 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The suffix that tells the format, without ``.gz``: ``.csv`` of ``data.CSV.gz``."""
    name = Path(path).name.lower().removesuffix(".gz")
    return Path(name).suffix


def check_file(path: str | os.PathLike[str], max_size: int = MAX_SIZE) -> int:
    """Refuse what is missing, a folder, empty or too large; returns the size."""
    name = os.fspath(path)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise FileError(f"{name}: there is no such file") from None
    except NotADirectoryError:
        raise FileError(f"{name}: there is no such file (a part of the path is a file)") from None
    if stat.S_ISDIR(found.st_mode):
        raise FileError(f"{name}: is a folder; expected a file")
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        raise FileError(f"{name}: the file is empty")
    if found.st_size > max_size:
        raise FileError(
            f"{name}: the file has {format_size(found.st_size)}, more than the limit of "
            f"{format_size(max_size)}. Data must fit in memory: take a sample, or raise the limit "
            "with --max-size"
        )
    return found.st_size


def read_bytes(path: str | os.PathLike[str], max_size: int = MAX_SIZE) -> bytes:
    """The content of a file, unpacked if its name ends in ``.gz``.

    Parameters
    ----------
    path : path
    max_size : int
        Files that are larger, or become larger when unpacked, are refused.

    Raises
    ------
    FileError
        If the file is missing, empty, too large, or a gzip archive that is cut or damaged.
    """
    name = os.fspath(path)
    check_file(path, max_size)
    packed = name.lower().endswith(".gz")
    try:
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            content = file.read(max_size + 1)
    except EOFError:
        raise FileError(
            f"{name}: the gzip archive is truncated; fetch or copy the file again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{name}: this is no whole gzip archive ({error})") from None
    if len(content) > max_size:
        raise FileError(
            f"{name}: unpacked, the file has more than the limit of {format_size(max_size)}; "
            "take a sample, or raise the limit with --max-size"
        )
    if not content:
        raise FileError(f"{name}: the file is empty")
    return content


def read_text(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> str:
    """The text of a file with ``\\n`` at the ends of lines, whatever the file has there."""
    name = os.fspath(path)
    content = read_bytes(path, max_size)
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        if content.startswith(_UTF16):
            raise FileError(f"{name}: the file is UTF-16, expected UTF-8; pass --encoding utf-16")
        encoding = "utf-8-sig"  # with or without a byte order mark
    try:
        text = content.decode(encoding)
    except LookupError:
        raise FileError(f"encoding {encoding!r} is not known; try utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(
            f"{name}: line {line}: byte 0x{content[error.start]:02x} is not {error.encoding}; "
            "convert the file, or name its encoding with --encoding (often latin-1 or cp1252)"
        ) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise FileError(f"{name}: line {line}: holds a zero byte; this is no text file")
    if not text.strip():
        raise FileError(f"{name}: the file is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")

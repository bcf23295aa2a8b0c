"""Bytes and text of a data file, checked before anything is made of them."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["MAX_SIZE", "FileError", "Progress", "TextFile", "format_size", "read_text", "suffix_of"]

Progress = Callable[[int, int], None]

# Larger files are refused unless a caller allows them: data must fit in memory several times.
MAX_SIZE = 1_000_000_000

# What is read and decoded at a time.
_BYTES_AT_ONCE = 1 << 20
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


class TextFile:
    """The text of a file, some of it at a time: never more than a piece is in memory.

    A file is unpacked on the way if its name ends in ``.gz``; one that is larger than
    ``max_size``, or becomes larger when unpacked, is refused. ``progress`` is called with the
    number of bytes read so far and the size of the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encoding: str = "utf-8",
        max_size: int = MAX_SIZE,
        progress: Progress | None = None,
    ) -> None:
        self.name = os.fspath(path)
        self.size = check_file(path, max_size)
        self._path, self._max_size, self.progress = path, max_size, progress
        self._encoding = encoding
        # A pipe can be read only once, and a file may be needed again: see Table.texts.
        self._content = None
        if not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                self._content = file.read(max_size + 1)

    def pieces(self) -> Iterator[str]:
        """Whole lines of text, about a megabyte at a time, with ``\\n`` at the ends of lines.

        Raises
        ------
        FileError
            If the file is empty, too large, no whole archive, or not of the encoding.
        """
        rest, found = "", False
        for text in self._decoded():
            found = found or not text.isspace()
            end = text.rfind("\n") + 1
            if end:
                yield rest + text[:end]
                rest = text[end:]
            else:
                rest += text
        if not found:
            raise FileError(f"{self.name}: the file is empty")
        if rest:
            yield rest

    def lines(self) -> Iterator[str]:
        """All lines with their ends."""
        for piece in self.pieces():
            yield from io.StringIO(piece)

    def _decoded(self) -> Iterator[str]:
        """Text that may end anywhere; what cannot be text is refused with its line."""
        decoder, bytes_of_lines, lines = None, 0, 0
        for block in self._blocks():
            decoder = decoder or self._decoder(block)
            try:
                text = decoder.decode(block)
            except UnicodeDecodeError as error:
                raise self._not_decoded(error, bytes_of_lines) from None
            if "\0" in text:
                line = lines + text[: text.index("\0")].count("\n") + 1
                raise FileError(
                    f"{self.name}: line {line}: holds a zero byte; this is no text file"
                )
            bytes_of_lines += block.count(b"\n")
            lines += text.count("\n")
            if text:
                yield text
        if decoder is not None:
            try:
                text = decoder.decode(b"", final=True)
            except UnicodeDecodeError as error:
                raise self._not_decoded(error, bytes_of_lines) from None
            if text:
                yield text

    def _decoder(self, first: bytes) -> io.IncrementalNewlineDecoder:
        encoding = self._encoding
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
            if first.startswith(_UTF16):
                raise FileError(
                    f"{self.name}: the file is UTF-16, expected UTF-8; pass --encoding utf-16"
                )
            encoding = "utf-8-sig"  # with or without a byte order mark
        try:
            decoder = codecs.getincrementaldecoder(encoding)()
        except LookupError:
            raise FileError(f"encoding {encoding!r} is not known; try utf-8 or latin-1") from None
        return io.IncrementalNewlineDecoder(decoder, translate=True)

    def _not_decoded(self, error: UnicodeDecodeError, lines: int) -> FileError:
        line = lines + error.object[: error.start].count(b"\n") + 1
        return FileError(
            f"{self.name}: line {line}: byte 0x{error.object[error.start]:02x} is not "
            f"{error.encoding}; convert the file, or name its encoding with --encoding (often "
            "latin-1 or cp1252)"
        )

    def _blocks(self) -> Iterator[bytes]:
        """The bytes of the file, unpacked."""
        packed = self.name.lower().endswith(".gz")
        total = 0
        with (
            io.BytesIO(self._content)
            if self._content is not None
            else open(self._path, "rb") as raw
        ):
            file = gzip.GzipFile(fileobj=raw) if packed else raw
            while True:
                try:
                    block = file.read(_BYTES_AT_ONCE)
                except EOFError:
                    raise FileError(
                        f"{self.name}: the gzip archive is truncated; fetch or copy the file again"
                    ) from None
                except (gzip.BadGzipFile, zlib.error) as error:
                    raise FileError(
                        f"{self.name}: this is no whole gzip archive ({error})"
                    ) from None
                if not block:
                    return
                total += len(block)
                if total > self._max_size:
                    raise FileError(
                        f"{self.name}: unpacked, the file has more than the limit of "
                        f"{format_size(self._max_size)}; take a sample, or raise the limit with "
                        "--max-size"
                    )
                if self.progress is not None:
                    self.progress(raw.tell(), self.size)
                yield block


def read_text(
    path: str | os.PathLike[str], *, encoding: str = "utf-8", max_size: int = MAX_SIZE
) -> str:
    """The whole text of a file with ``\\n`` at the ends of lines, whatever the file has there."""
    return "".join(TextFile(path, encoding=encoding, max_size=max_size).pieces())

"""Zip archives of JSON and plain arrays from unknown hands: sizes are known before memory is taken.

A few kilobytes can unpack to gigabytes, and the header of an array can promise any number of
elements. So the sizes that an archive declares are added up and compared with a limit before
anything is read; members are read in pieces, no further than declared; and an array gets its memory
once its header agrees with the bytes that follow it.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ._codec import ModelFileError

# Bytes that a file may unpack to by default: this many, or more if the file itself is large.
# Arrays that are mostly zeros shrink by a factor of up to a thousand, all others by far less.
DEFAULT_BYTES = 1 << 30
_USUAL_RATIO = 20
# The same for a JSON document, which becomes about twenty times as large in memory.
_JSON_BYTES = 1 << 24
_JSON_RATIO = 10
_MOST_MEMBERS = 100_000
_PIECE = 1 << 20
# The header of an array is text of about a hundred bytes; numpy itself reads up to 10,000.
_HEADER_BYTES = 10_000
_NESTED = ("model.skops", ".npz")

# What zipfile, json, numpy and a decoder raise when bytes are not what they should be.
DAMAGE: tuple[type[Exception], ...] = (zipfile.BadZipFile, zlib.error, struct.error)
DAMAGE += (
    MemoryError,
    EOFError,
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
)


class Archive:
    """An open archive whose members are read within a limit.

    Parameters
    ----------
    file : binary file
        With ``seek``.
    max_bytes : int, optional
        Bytes that may be unpacked in all, again for every time that a member is read. By default 1
        GiB, or twenty times the size of the file where that is more.
    """

    def __init__(self, file: BinaryIO, max_bytes: int | None = None) -> None:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._given = max_bytes
        self.limit = max(DEFAULT_BYTES, _USUAL_RATIO * size) if max_bytes is None else max_bytes
        self._left = self.limit  # of what may still be read
        self._zip = zipfile.ZipFile(file)
        self._members: dict[str, zipfile.ZipInfo] = {}
        self._check_members(size)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: Any) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def _check_members(self, size: int) -> None:
        listed = self._zip.infolist()
        if len(listed) > _MOST_MEMBERS:
            raise ModelFileError(
                f"it has {len(listed)} members; expected at most {_MOST_MEMBERS} (the file is "
                "damaged, or not what it seems)"
            )
        for member in listed:
            if member.filename in self._members:
                raise zipfile.BadZipFile(f"two members are called {member.filename!r}")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile(f"{member.filename!r} is compressed in an unknown way")
            if member.compress_size > size:
                raise zipfile.BadZipFile(f"{member.filename!r} is larger than the file")
            self._members[member.filename] = member
        declared = sum(member.file_size for member in listed)
        if declared > self.limit:
            raise self._too_large(declared)

    def _too_large(self, needed: int) -> ModelFileError:
        return ModelFileError(
            f"it unpacks to {needed} bytes, and the limit is {self.limit}. If the file comes "
            f"from a source that you trust, pass a larger limit: max_bytes={needed}"
        )

    # --- members ----------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        """The content of a member."""
        content = bytearray()
        for piece in self._pieces(name):
            content += piece
        return bytes(content)

    def _pieces(self, name: str) -> Iterator[bytes]:
        """The content of a member in pieces; an error if it is longer or shorter than declared."""
        member = self._members[name]
        self._charge(member)
        read = 0
        with self._zip.open(member) as stream:
            while piece := stream.read(min(_PIECE, member.file_size - read + 1)):
                read += len(piece)
                yield piece
        if read != member.file_size:
            raise EOFError(f"{name} has {read} bytes instead of {member.file_size}")

    def read_json(self, name: str) -> Any:
        """The JSON document in a member."""
        member = self._members[name]
        limit = max(_JSON_BYTES, _JSON_RATIO * member.compress_size)
        limit = limit if self._given is None else max(limit, self._given)
        if member.file_size > limit:
            raise ModelFileError(
                f"{name} has {member.file_size} bytes, and the limit is {limit}. If the file comes "
                f"from a source that you trust, pass a larger limit: max_bytes={self.limit}"
            )
        return json.loads(self.read(name))

    def read_array(self, name: str) -> np.ndarray:
        """The array in a member; its CRC is that of all bytes read."""
        member = self._members[name]
        self._charge(member)
        with self._zip.open(member) as stream:
            head = stream.read(min(_HEADER_BYTES, member.file_size))
            dtype, shape, fortran, offset = array_header(head, member.file_size, name)
            if dtype.kind not in "biufcmMSU":
                raise ValueError(f"{name} has elements of type {dtype}")
            flat = np.empty(math.prod(shape), dtype)
            raw: Any = flat.view(np.uint8) if flat.nbytes else np.empty(0, np.uint8)
            filled = len(head) - offset
            raw[:filled] = np.frombuffer(head, np.uint8)[offset:]
            while filled < len(raw):
                piece = stream.read(min(_PIECE, len(raw) - filled))
                if not piece:
                    raise EOFError(f"{name} ends after {filled} of {len(raw)} bytes")
                raw[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
                filled += len(piece)
            stream.read(1)  # the end: zipfile compares the CRC there
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)

    def _charge(self, member: zipfile.ZipInfo) -> None:
        self._left -= member.file_size
        if self._left < 0:
            raise self._too_large(self.limit - self._left)

    def verify(self) -> None:
        """Read all members in pieces, also of archives within this one, and check all headers.

        For readers that would trust what the archive declares.
        """
        for name, member in self._members.items():
            if name.endswith(_NESTED):
                content = self.read(name)
                with Archive(io.BytesIO(content), self._left) as inner:
                    inner.verify()
                    self._left = inner._left
            elif name.endswith(".npy"):
                pieces = self._pieces(name)
                array_header(next(pieces, b"")[:_HEADER_BYTES], member.file_size, name)
                for _ in pieces:  # to the end, where the length and the CRC are compared
                    pass
            elif name.endswith(".json"):
                self.read_json(name)
            else:
                self.read(name)


def array_header(
    head: bytes, n_bytes: int, name: str
) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Dtype, shape, whether it is in Fortran order, and where the data start, of a ``.npy`` file.

    Refuses what ``numpy.load`` would allocate before it finds that the file has ``n_bytes``.
    """
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        second = version == (2, 0)
        reader = "read_array_header_2_0" if second else "read_array_header_1_0"
        shape, fortran, dtype = getattr(np.lib.format, reader)(stream)
    except Exception as error:  # also those of Python's tokenizer
        raise ValueError(f"{name} has no header of an array ({error})") from None
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, for which allow_pickle would be needed")
    offset = stream.tell()
    expected = math.prod(shape) * dtype.itemsize
    if expected != n_bytes - offset or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(
            f"{name} declares shape {shape} of {dtype}, {expected} bytes, and holds "
            f"{n_bytes - offset}"
        )
    return dtype, shape, fortran, offset

"""Prebuilt kernels: compiled code that comes with the package, in a wheel or built by a checkout.

A store is a folder with two files. The record (JSON) names the versions and the processor that the
code was built for and, for each compiled version of a function, where it is in the other file and
its SHA-256. The code is for a baseline that nearly all processors support, not for the host.

- Code is used only if the record names these sources, this Python, numba and llvmlite, and this
  processor has all that the baseline needs. Otherwise functions are compiled as without a store,
  which is logged once.
- Nothing is unpickled before its SHA-256 was compared with the record.
- Only functions that Python calls are stored, without the bitcode that other functions could be
  linked with.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba.core import config

from .sources import PACKAGE, content_hash
from .target import Target, baseline

FOLDER = PACKAGE / "_prebuilt"
RECORD = "record.json"
FORMAT = 1
SWITCH = "MAXMARGIN_PREBUILT"
_LOGGER = logging.getLogger("maxmargin.cache")
_BITS_OF_DIGEST = 128  # of a key, in the record; the whole key is compared when code is read


def versions() -> dict[str, str]:
    """Versions that compiled code depends on, besides the sources and the processor."""
    return {
        "python": sys.implementation.cache_tag,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def digest_of(key: Any) -> str:
    """A name for the key of a compiled version."""
    return hashlib.sha256(repr(key).encode()).hexdigest()[: _BITS_OF_DIGEST // 4]


class Damaged(Exception):
    """A file of a store does not match its record, or the record is not valid."""


class Store:
    """The prebuilt kernels in a folder, for a target: the baseline of this machine by default."""

    def __init__(self, folder: Path = FOLDER, target: Target | None = None):
        self.folder = folder
        self.wanted = target or baseline()
        self._targets: dict[tuple, tuple[str, str, str] | None] = {}
        self._said = False

    @functools.cached_property
    def record(self) -> dict[str, Any] | None:
        """The record, or None if there is no store."""
        try:
            text = (self.folder / RECORD).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Damaged(f"{RECORD}: {error}") from None
        try:
            found = json.loads(text)
            version = found["format"]
            whole = version != FORMAT or isinstance(found["entries"], dict)
        except (ValueError, TypeError, KeyError):
            whole = False
        if not whole:
            raise Damaged(f"{RECORD} is no record")
        if version != FORMAT:
            raise Damaged(f"{RECORD} has format {version!r}; this version reads {FORMAT}")
        return found

    def unfit(self, magic: tuple[str, str, str]) -> str:
        """Why the code cannot be used on this machine, or an empty string.

        Parameters
        ----------
        magic : tuple
            The system, the processor and its features, from numba's code generator.
        """
        record = self.record or {}
        for name, ours in versions().items():
            if record.get(name) != ours:
                return f"they were built with {name} {record.get(name)}, this is {ours}"
        if record.get("sources") != content_hash():
            return "they were built from other sources"
        system, cpu, features = magic
        if record.get("system") != system:
            return f"they were built for {record.get('system')}, this is {system}"
        target = self.wanted
        if target is None or (record.get("cpu"), record.get("features")) != target[:2]:
            return f"they were built for {record.get('cpu')}, this needs {target and target.cpu}"
        if (cpu, features) == target[:2]:
            return ""
        if config.CPU_NAME is not None:
            return f"they were built for {target.cpu}, numba is told to use {cpu}"
        have = {name[1:] for name in features.split(",") if name.startswith("+")}
        if missing := sorted(set(target.needs) - have):
            return f"this processor, {cpu}, lacks {', '.join(missing)}"
        return ""

    def target(self, magic: tuple[str, str, str]) -> tuple[str, str, str] | None:
        """Target of the code in the terms of numba, or None if it cannot be used here."""
        if os.environ.get(SWITCH) == "0":
            return None
        if magic not in self._targets:
            self._targets[magic] = self._find_target(magic)
        return self._targets[magic]

    def _find_target(self, magic: tuple[str, str, str]) -> tuple[str, str, str] | None:
        try:
            if self.record is None:
                return None
            reason = self.unfit(magic)
        except Damaged as damage:
            self.distrust(str(damage))
            return None
        if reason:
            # Sources change only in a checkout, by an edit of its user.
            edited = reason.endswith("other sources")
            self._say(logging.INFO if edited else logging.WARNING, f"are not used: {reason}")
            return None
        assert self.record is not None
        return self.record["system"], self.record["cpu"], self.record["features"]

    def read(self, digest: str) -> bytes | None:
        """The verified contents of an entry; None if there is no such entry."""
        assert self.record is not None
        entry = self.record["entries"].get(digest)
        if entry is None:
            return None
        try:
            with open(self.folder / self.record["file"], "rb") as file:
                file.seek(entry["offset"])
                packed = file.read(entry["size"])
            good = hashlib.sha256(packed).hexdigest() == entry["sha256"]
        except (OSError, KeyError, TypeError) as error:
            raise Damaged(f"{type(error).__name__}: {error}") from None
        if not good:
            raise Damaged(f"the checksum of {entry['name']} does not match its contents")
        return zlib.decompress(packed)

    def distrust(self, reason: str) -> None:
        """Log, once, that something in the store is damaged."""
        self._say(logging.WARNING, f"are damaged: {reason}; what is damaged")

    def _say(self, level: int, what: str) -> None:
        if not self._said:
            self._said = True
            _LOGGER.log(
                level,
                "prebuilt kernels in %s %s; functions are compiled when first called, which takes "
                "seconds",
                *(self.folder, what),
            )


STORE = Store()


def pack(key: Any, payload: tuple) -> tuple[str, bytes]:
    """The digest of a key, and the contents of its entry.

    Parameters
    ----------
    key : tuple
        The key of the compiled version of a function.
    payload : tuple
        What numba pickles of it; the code comes first.
    """
    from numba.core.serialize import dumps

    body = dumps(key) + dumps((_without_bitcode(payload[0]), *payload[1:]))
    return digest_of(key), zlib.compress(body, 9)


def _without_bitcode(code: tuple[str, str, tuple[bytes, bytes]]) -> tuple:
    """Compiled code whose module for linking only lists its symbols.

    Numba reads them from there. To parse the complete module took half of the time to load a
    kernel.
    """
    name, kind, (machine_code, bitcode) = code
    module = binding.parse_bitcode(bitcode)
    local = (binding.Linkage.internal, binding.Linkage.private)
    lines = [f'target triple = "{module.triple}"', f'target datalayout = "{module.data_layout}"']
    for symbol in module.global_variables:
        if not symbol.is_declaration and symbol.linkage not in local:
            lines.append(f'@"{symbol.name}" = common global i64 0')
    for symbol in module.functions:
        if not symbol.is_declaration and symbol.linkage not in local:
            lines.append(f'define void @"{symbol.name}"() {{ unreachable }}')
    return name, kind, (machine_code, binding.parse_assembly("\n".join(lines)).as_bitcode())


def forbid_linking(library: Any) -> None:
    """Make prebuilt code raise an error when it is linked into other code: it has no bitcode."""

    def refuse() -> Any:
        raise RuntimeError(
            f"{library.name} is called by compiled code, which needs its bitcode, and prebuilt "
            "kernels have none: declare it with @inner or @leaf instead of @compiled"
        )

    library._get_module_for_linking = refuse

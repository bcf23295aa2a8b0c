"""Compiled code on disk: only verified files are used, and no state of the disk ends a fit.

Each compiled version of a function has one file: a mark, the SHA-256 of the rest, a pickle of the
key (numba's version, the sources, the processor, the types of the arguments), a pickle of the code.

- Nothing is unpickled before the checksum was compared. A file that does not match is compiled
  again and replaced; this is logged once.
- A file is written under another name and then renamed. It names its own key, so processes that
  write at the same time cannot mix the code of two versions, as they can with numba's own files, an
  index and numbered data files.
- Unpickling runs code. Before a file is read, it and its folders must belong to this user or to
  root, and be writable by nobody else; otherwise the cache is not used, with a warning.
- Code that cannot be written (a full disk, a read-only home, no home) is not cached, with a
  warning.

Code that is not on disk may be among the prebuilt kernels of the package (:mod:`.store`).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import pickle
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from .sources import PACKAGE, source_hash
from .store import STORE, Damaged, digest_of, forbid_linking

_LOGGER = logging.getLogger("maxmargin.cache")
_MARK = b"maxmargin compiled code 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_START = os.path.join(PACKAGE, "")
_ELSEWHERE = "or set NUMBA_CACHE_DIR to a folder of your own"

_said: set[str] = set()  # kinds of messages that this process has given


class _Untrusted(Exception):
    """Another user could have written a file."""


def _check_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):  # root can write everywhere anyway
        raise _Untrusted(
            f"{path} belongs to user {found.st_uid}, not to user {os.geteuid()}: remove it"
        )


def _check(path: Path, found: os.stat_result) -> None:
    """Refuse what another user could have written."""
    if not hasattr(os, "geteuid"):  # Windows: folders of the user are private
        return
    _check_owner(path, found)
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise _Untrusted(f"{path} is writable by others (mode {mode:04o}): chmod go-w '{path}'")


def _check_folder(path: Path) -> None:
    if hasattr(os, "geteuid"):
        _check_owner(path, os.lstat(path))  # the owner of a symbolic link chose its target
    _check(path, os.stat(path))


def _warn_once(kind: str, message: str) -> None:
    if kind not in _said:
        _said.add(kind)
        warnings.warn(message, UserWarning, stacklevel=2)


class _Files:
    """Verified files in one folder.

    ``folders`` are the folder and those above it that belong to the cache, outermost first. The
    folder that holds them (``~/.cache``) is not checked: a user who can write there can only
    replace our folders by their own, and these are refused.
    """

    def __init__(self, folders: list[Path]):
        self.folders = folders

    def read(self, name: str) -> bytes | None:
        """The verified contents of a file, or None."""
        path = self.folders[-1] / name
        try:
            for folder in self.folders:
                _check_folder(folder)
            with open(path, "rb") as file:
                _check(path, os.fstat(file.fileno()))
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except _Untrusted as reason:
            self._refuse(reason)
            return None
        except OSError as error:
            self.distrust(name, str(error))
            return None
        start = len(_MARK) + _DIGEST_BYTES
        body = memoryview(content)[start:]
        if content[:start] != _MARK + hashlib.sha256(body).digest():
            self.distrust(name, "its checksum does not match its contents")
            return None
        return bytes(body)

    def write(self, name: str, body: bytes) -> None:
        """Write a file atomically."""
        if "write" in _said:  # after a failure, do not try again for every function
            return
        path = self.folders[-1] / name
        try:
            os.makedirs(self.folders[0].parent, mode=0o700, exist_ok=True)
            for folder in self.folders:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
                _check_folder(folder)
            self._replace(path, _MARK + hashlib.sha256(body).digest() + body)
        except _Untrusted as reason:
            self._refuse(reason)
        except OSError as error:
            if os.name == "nt" and isinstance(error, PermissionError) and path.exists():
                return  # another process has the file open
            cannot_keep(
                f"{self.folders[-1]} cannot be written ({error}): free space or make it writable"
            )

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        # Private for any umask; a process that is killed here leaves only this file.
        handle, unfinished = tempfile.mkstemp(suffix=".tmp", prefix=path.name, dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    def remove(self, start: str) -> None:
        """Remove the files whose names start with ``start``."""
        with contextlib.suppress(OSError):
            for path in self.folders[-1].iterdir():
                if path.name.startswith(start):
                    path.unlink()

    def distrust(self, name: str, reason: str) -> None:
        """Log, once, that a file is not used and its code is compiled again."""
        if "damaged" not in _said:
            _said.add("damaged")
            _LOGGER.warning(
                "the cache of compiled code in %s has a damaged file, %s (%s); what is damaged "
                "there is compiled again and replaced",
                *(self.folders[-1], name, reason),
            )

    @staticmethod
    def _refuse(reason: _Untrusted) -> None:
        _warn_once(
            "refused",
            f"the cache of compiled code is not used, because others could have put code there: "
            f"{reason}, {_ELSEWHERE}",
        )


def cannot_keep(reason: str) -> None:
    """Warn, once, that code compiled by this process is not stored."""
    _warn_once("write", f"compiled code is not kept for the next process: {reason}, {_ELSEWHERE}")


# Older versions of numba (0.61) have it under a private name.
_FolderLocator: Any = (
    getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator
)


class _Locator(_FolderLocator):
    """The location of a function in the cache, without a fallback.

    Numba falls back to ``__pycache__`` beside the source, where versions are not distinguished. The
    cache folder is named after the sources of the package, so their location and time stamps do not
    matter; functions defined elsewhere are distinguished by both.
    """

    def __init__(self, function: Callable[..., Any], folder: Path):
        self._py_file = function.__code__.co_filename
        self._lineno = function.__code__.co_firstlineno
        self.module = None
        if self._py_file.startswith(_START):  # text, because there are hundreds at every import
            self.module = self._py_file[len(_START) :].removesuffix(".py").replace(os.sep, ".")
        subfolder = self.module or self.get_suitable_cache_subpath(self._py_file)
        self._cache_path = os.path.join(folder, subfolder)

    def get_source_stamp(self) -> Any:
        """What distinguishes versions of the source, beside the name of the cache folder."""
        return self.module or super().get_source_stamp()


class _CacheImpl(CompileResultCacheImpl):
    def __init__(self, function: Callable[..., Any], folder: Path):
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Locator(function, folder)
        stem = os.path.basename(self._locator._py_file).removesuffix(".py")
        name = f"{stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class VerifiedCache(FunctionCache):
    """The compiled versions of a function on disk.

    Parameters
    ----------
    function : callable
        The Python function.
    folder : Path or None
        The folder of the cache; None if there is none.
    caller : str
        Kind of caller: a function that compiled functions call has separate code for Python.
    """

    #: Called with the key and the data that numba pickles, for each version called from Python.
    collect: Callable[[Any, tuple], None] | None = None

    def __init__(self, function: Callable[..., Any], folder: Path | None, caller: str = "Python"):
        self._name = repr(function)
        self._py_func = function
        self._impl = _CacheImpl(function, folder or Path())
        self._cache_path = self._impl.locator.get_cache_path()
        self._files = None
        if folder is not None:
            self._files = _Files([folder.parent, folder, Path(self._cache_path)])
        try:
            stamp = self._impl.locator.get_source_stamp()
        except OSError:  # no source file, as in an interactive session
            self.disable()
            return
        self._is_prebuilt = caller == "Python" and self._impl.locator.module is not None
        self._identity = numba.__version__, source_hash(), caller, self._impl.filename_base, stamp
        self.enable()

    def _key(self, sig: Any, codegen: Any) -> Any:
        return self._identity, self._index_key(sig, codegen)

    def _file_name(self, key: Any) -> str:
        # Code with another level of optimisation, or for another library, has a separate file.
        settings = int(config.OPT), bool(config.USING_SVML)
        return f"{self._impl.filename_base}.{digest_of((key, settings))}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled version for some types, or None if it must be compiled."""
        if not self._enabled:
            return None
        # This is enough to run code. The cache of numba refreshes the context, which takes most of
        # a second and is needed only by the compiler, which does it again.
        rtsys.initialize(target_context)
        key = self._key(sig, target_context.codegen())
        found = self._from_disk(key, target_context)
        if found is None and self._is_prebuilt:
            found = self._from_store(key, target_context)
        return found

    def _from_disk(self, key: Any, target_context: Any) -> Any:
        name = self._file_name(key)
        body = self._files and self._files.read(name)
        if body is None:
            return None
        try:
            return self._rebuild(body, key, target_context)
        except Exception as error:  # for any error, compile again
            self._files.distrust(name, f"{type(error).__name__}: {error}")
            return None

    def _from_store(self, key: Any, target_context: Any) -> Any:
        identity, (sig, magic, code) = key
        target = STORE.target(magic)
        if target is None:
            return None
        key = identity, (sig, target, code)
        try:
            body = STORE.read(digest_of(key))
            found = body and self._rebuild(body, key, target_context)
        except Damaged as damage:
            STORE.distrust(str(damage))
            return None
        except Exception as error:
            STORE.distrust(f"{self._impl.filename_base}: {type(error).__name__}: {error}")
            return None
        if found is not None:
            forbid_linking(found.library)
        return found

    def _rebuild(self, body: bytes, key: Any, target_context: Any) -> Any:
        stream = io.BytesIO(body)
        if pickle.load(stream) != key:  # types of equal names
            return None
        payload = pickle.load(stream)
        self._collect(key, payload)
        return self._impl.rebuild(target_context, payload)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled version, if possible."""
        if not self._enabled or not self._impl.check_cachable(data):
            return
        key = self._key(sig, data.codegen)
        # The inferred types are long, and only for human readers.
        payload = self._impl.reduce(data._replace(type_annotation=""))
        self._collect(key, payload)
        if self._files is None:
            cannot_keep("there is no home folder: set HOME or XDG_CACHE_HOME")
        else:
            self._files.write(self._file_name(key), dumps(key) + dumps(payload))

    def _collect(self, key: Any, payload: tuple) -> None:
        if VerifiedCache.collect is not None and self._is_prebuilt:
            VerifiedCache.collect(key, payload)

    def flush(self) -> None:
        """Delete all versions."""
        if self._files is not None:
            self._files.remove(f"{self._impl.filename_base}.")

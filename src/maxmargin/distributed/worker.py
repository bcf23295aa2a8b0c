"""Code that runs on a worker: parts, stored by key, whose methods are called by name.

Everything is sent as bytes of pickle, so that arrays arrive as they were sent: writeable, and with
their own memory.
"""

from __future__ import annotations

import copyreg
import pickle
import signal
from types import MappingProxyType
from typing import Any

_PARTS: dict[tuple[str, int], Any] = {}


def _frozen(found: dict) -> MappingProxyType:
    return MappingProxyType(found)


# Traits of structures hold such mappings, which pickle does not support.
copyreg.pickle(MappingProxyType, lambda found: (_frozen, (dict(found),)))


def dask_setup(worker: Any) -> None:
    """Called by Dask in a new worker: Ctrl-C in a terminal reaches all processes started there, and
    the driver, which returns the best model, needs the workers until its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class NoPart(RuntimeError):
    """This worker does not have the part: it was restarted."""


def version() -> str:
    """The version of the library here."""
    from .. import __version__

    return __version__


def put(key: tuple[str, int], make: bytes, data: Any = None) -> str:
    """Make a part and keep it; returns the version of the library."""
    maker = pickle.loads(make)
    _PARTS[key] = maker() if data is None else maker(data)
    return version()


def call(key: tuple[str, int], payload: bytes) -> bytes:
    """Call a method of a part; returns its result."""
    part = _PARTS.get(key)
    if part is None:
        raise NoPart(f"partition {key[1]} is not on this worker")
    return pickle.dumps(part.call(*pickle.loads(payload)), protocol=5)


def drop(run: str) -> None:
    """Delete the parts of a run."""
    for key in [key for key in _PARTS if key[0] == run]:
        del _PARTS[key]

"""Engines: the interface between training and a cluster.

Engines are :class:`~maxmargin.solvers.parts.Engine`. This module holds what the remote ones share,
and selects the engine for the argument of a user.
"""

from __future__ import annotations

import logging
import pickle
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._validation import is_text
from ..solvers.parts import Engine, Maker, Threads, lost_among
from . import worker
from .disk import Disk

_LOGGER = logging.getLogger("maxmargin")
# Seconds within which an address must answer.
CONNECT_SECONDS = 8.0
# Seconds after which a call that is still running is logged as slow.
SLOW_SECONDS = 60.0


class VersionError(RuntimeError):
    """A worker has another version of the library."""


class RemoteEngine(Engine):
    """Parts on workers. Subclasses implement the communication with a worker."""

    fallible = True

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex

    def put(self, ks: list[int], makers: list[Maker]) -> list[Any]:
        """Versions of the workers that now hold the parts, or :class:`Lost`."""
        raise NotImplementedError

    def send(self, ks: list[int], payloads: list[bytes]) -> list[Any]:
        """Bytes that the parts return, or :class:`Lost`."""
        raise NotImplementedError

    def start(self, makers: list[Maker]) -> None:
        ks = list(range(len(makers)))
        self._check(ks, self.put(ks, makers), makers)

    def restart(self, k: int, make: Maker) -> None:
        _LOGGER.warning("partition %d was lost; it starts again on another worker", k)
        self._check([k], self.put([k], [make]), [make])

    def _check(self, ks: list[int], found: list[Any], makers: list[Maker]) -> None:
        for _ in range(3):
            for i in lost_among(found):
                found[i] = self.put([ks[i]], [makers[i]])[0]
        for i, reason in lost_among(found).items():
            raise RuntimeError(f"partition {ks[i]} could not be put on a worker: {reason}")
        for k, answer in zip(ks, found, strict=True):
            if answer != worker.version():
                raise VersionError(
                    f"the worker of partition {k} has maxmargin {answer}, but this process has "
                    f"{worker.version()}; install the same version everywhere."
                )

    def call(self, ks: list[int], name: str, share: float, each: list[tuple]) -> list[Any]:
        packed: dict[int, bytes] = {}  # the same arguments are packed once
        for args in each:
            packed.setdefault(id(args), pickle.dumps((name, share, args), protocol=5))
        answers = self.send(ks, [packed[id(args)] for args in each])
        lost = lost_among(answers)
        return [
            answer if i in lost else pickle.loads(answer)  # from our own workers
            for i, answer in enumerate(answers)
        ]


def refuse_silent(address: str) -> None:
    """Raise ConnectionError unless a process listens at ``scheme://host:port``."""
    host, _, port = address.partition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"the address of a cluster is scheme://host:port, such as tcp://host:8786 or "
            f"ray://host:10001; received {address!r}."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"nobody answers at {address}: {error}") from error


def open_engine(engine: Any, n_workers: int | None = None) -> Any:
    """The engine for None, an address, a Dask client, "ray", "threads" or "disk".

    None is a new local Dask cluster with ``n_workers`` processes.
    """
    if isinstance(engine, Engine):
        return engine
    if engine == "disk":
        return Disk()
    if engine == "threads":
        return Threads(n_workers or 1)
    if engine == "ray" or (is_text(engine) and engine.startswith("ray://")):
        from .ray import RayEngine

        return RayEngine(None if engine == "ray" else engine, n_workers)
    from .dask import DaskEngine

    return DaskEngine(engine, n_workers)


@contextmanager
def opened(engine: Any, n_workers: int | None) -> Iterator[Any]:
    """An engine that is closed at the end, unless the caller gave an engine."""
    found = open_engine(engine, n_workers)
    try:
        yield found
    finally:
        if found is not engine:
            found.close()

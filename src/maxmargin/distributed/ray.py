"""Partitions in the actors of a Ray cluster."""

from __future__ import annotations

import logging
import os
import pickle
import time
from typing import Any

from .._optional import require
from ..solvers.parts import Lost, StaleRound
from . import worker
from .data import columns_of
from .engines import SLOW_SECONDS, Maker, RemoteEngine, refuse_silent

_LOGGER = logging.getLogger("maxmargin")
_LOOK_SECONDS = 1.0


class _Actor:
    """One process that holds parts."""

    def put(self, key: tuple[str, int], make: bytes, data: Any = None) -> str:
        return worker.put(key, make, data)

    def call(self, key: tuple[str, int], payload: bytes) -> bytes:
        return worker.call(key, payload)

    def pid(self) -> int:
        return os.getpid()


class RayEngine(RemoteEngine):
    """Parts in actors. Restarts and repeated calls are left to the driver, not to Ray.

    Parameters
    ----------
    address : str, optional
        ``ray://host:port``; by default the Ray that this process is connected to, or a new one on
        this machine.
    n_workers : int, optional
        Actors; by default one per processor of the cluster.
    """

    def __init__(self, address: str | None = None, n_workers: int | None = None):
        super().__init__()
        self._ray = require("ray", "ray", "Training on a Ray cluster")
        self._owned = not self._ray.is_initialized()
        if address is not None:
            refuse_silent(address)
        if self._owned:
            options = {"num_cpus": n_workers} if address is None and n_workers else {}
            self._ray.init(
                address=address, log_to_driver=False, include_dashboard=False,
                configure_logging=False, **options,
            )  # fmt: skip
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self._n_workers = n_workers or max(1, cpus)
        self._actors: dict[int, Any] = {}
        self._dead: set[int] = set()

    @property
    def n_workers(self) -> int:
        return self._n_workers

    def _actor(self, k: int) -> Any:
        slot = k % self.n_workers
        if slot not in self._actors or slot in self._dead:
            self._dead.discard(slot)
            kind = self._ray.remote(max_restarts=0, max_task_retries=0, num_cpus=0)(_Actor)
            self._actors[slot] = kind.remote()
        return self._actors[slot]

    def put(self, ks: list[int], makers: list[Maker]) -> list[Any]:
        references = []
        for k, maker in zip(ks, makers, strict=True):
            args = [(self.run, k), pickle.dumps(maker.make, protocol=5)]
            args += [] if maker.source is None else [maker.source]
            references.append(self._actor(k).put.remote(*args))
        return self._results(ks, references)

    def send(self, ks: list[int], payloads: list[bytes]) -> list[Any]:
        stored: dict[int, Any] = {}  # the same bytes are stored once
        for payload in payloads:
            if id(payload) not in stored:
                stored[id(payload)] = self._ray.put(payload)
        references = [
            self._actors[k % self.n_workers].call.remote((self.run, k), stored[id(payload)])
            for k, payload in zip(ks, payloads, strict=True)
        ]
        return self._results(ks, references)

    def _results(self, ks: list[int], references: list[Any]) -> list[Any]:
        """Results in order; :class:`Lost` for an actor that ended."""
        waiting, began, warned = list(references), time.monotonic(), False
        while waiting:
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK_SECONDS)
            if waiting and not warned and time.monotonic() - began > SLOW_SECONDS:
                warned = True
                _LOGGER.warning("waiting for %d slow partitions", len(waiting))
        found = []
        for k, reference in zip(ks, references, strict=True):
            try:
                found.append(self._ray.get(reference))
            except self._ray.exceptions.RayActorError as error:
                self._dead.add(k % self.n_workers)
                found.append(Lost(type(error).__name__))
            except (worker.NoPart, StaleRound, self._ray.exceptions.ObjectLostError) as error:
                found.append(Lost(type(error).__name__))
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, Exception) else error from None
        return found

    def partitions_of(self, data: Any, target: Any) -> list[Any] | None:
        """References to ``(X, y)`` per partition; None if the data are not of a type of Ray."""
        ray = self._ray
        if isinstance(data, list) and data and all(isinstance(d, ray.ObjectRef) for d in data):
            return data
        if not hasattr(data, "iter_batches"):
            return None
        if target is None:
            raise ValueError("a ray.data.Dataset needs target=, the column of the labels.")
        cut = ray.remote(columns_of)
        return [cut.remote(block, target) for block in data.to_pandas_refs()]

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors = {}
        if self._owned:
            self._ray.shutdown()

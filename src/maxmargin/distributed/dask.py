"""Partitions on the workers of a Dask cluster."""

from __future__ import annotations

import logging
import pickle
import time
from contextlib import suppress
from typing import Any

from .._optional import require
from .._validation import is_text
from ..solvers.parts import Lost, StaleRound
from . import worker
from .data import columns_of
from .engines import CONNECT_SECONDS, SLOW_SECONDS, Maker, RemoteEngine, refuse_silent

_LOGGER = logging.getLogger("maxmargin")
# Seconds between two checks of the workers while calls are running.
_LOOK_SECONDS = 0.5
# Bytes above which arguments do not go through the scheduler.
_LARGE = 1 << 20
_PURPOSE = "Training on a Dask cluster"


class DaskEngine(RemoteEngine):
    """Parts on the workers of a Dask cluster, each stored by its worker under a key.

    Parameters
    ----------
    engine : distributed.Client, str or None
        A client, the address of a scheduler, or None for a new cluster on this machine.
    n_workers : int, optional
        Processes of the new cluster; 2 by default.
    """

    def __init__(self, engine: Any = None, n_workers: int | None = None):
        super().__init__()
        self._dask = require("distributed", "dask", _PURPOSE)
        self._cluster: Any = None
        self._owned = False
        if engine is None:
            self._cluster = self._dask.LocalCluster(
                n_workers=n_workers or 2, threads_per_worker=1, processes=True,
                dashboard_address=None, silence_logs=logging.CRITICAL, preload=[worker.__name__],
            )  # fmt: skip
            engine = self._cluster.scheduler_address
        if is_text(engine):
            refuse_silent(engine)
            try:
                engine = self._dask.Client(engine, timeout=CONNECT_SECONDS, set_as_default=False)
            except OSError as error:
                raise ConnectionError(f"no Dask scheduler answers at {engine}") from error
            self._owned = True
        if not isinstance(engine, self._dask.Client):
            raise TypeError(
                "engine must be a Dask client, an address, 'ray', 'threads' or None; received "
                f"{type(engine).__name__}."
            )
        self.client = engine
        self._places: dict[int, str] = {}

    def _workers(self) -> list[str]:
        """Addresses of the connected workers; waits a short time for the first."""
        self._refuse_closed()
        deadline = time.monotonic() + 30.0
        while not (found := sorted(self.client.nthreads())):
            if time.monotonic() > deadline:
                raise RuntimeError("the Dask cluster has no workers")
            time.sleep(0.1)
        return found

    def _refuse_closed(self) -> None:
        if self.client.status != "running":
            raise ConnectionError(
                f"the Dask client is {self.client.status}: it was closed, or its scheduler ended."
            )

    @property
    def n_workers(self) -> int:
        return len(self._workers())

    def put(self, ks: list[int], makers: list[Maker]) -> list[Any]:
        workers = self._workers()
        places = [workers[k % len(workers)] for k in ks]
        self._places.update(zip(ks, places, strict=True))
        futures = []
        for k, place, maker in zip(ks, places, makers, strict=True):
            make = self._sent(pickle.dumps(maker.make, protocol=5), [place])
            args = [(self.run, k), make] + ([] if maker.source is None else [maker.source])
            futures.append(self._submit(place, worker.put, *args))
        return self._results(futures, places)

    def send(self, ks: list[int], payloads: list[bytes]) -> list[Any]:
        self._refuse_closed()
        places = [self._places[k] for k in ks]
        sent: dict[int, Any] = {}  # the same bytes are sent once
        for payload in payloads:
            if id(payload) not in sent:
                to = [p for p, data in zip(places, payloads, strict=True) if data is payload]
                sent[id(payload)] = self._sent(payload, sorted(set(to)))
        futures = [
            self._submit(place, worker.call, (self.run, k), sent[id(payload)])
            for k, place, payload in zip(ks, places, payloads, strict=True)
        ]
        return self._results(futures, places)

    def _submit(self, place: str, function: Any, *args: Any) -> Any:
        return self.client.submit(
            function, *args, workers=[place], allow_other_workers=False, pure=False, retries=0
        )

    def _sent(self, data: bytes, places: list[str]) -> Any:
        """Send large arguments to the workers directly; a lost worker is reported by the call."""
        if len(data) < _LARGE:
            return data
        with suppress(OSError, TimeoutError, KeyError, ValueError):
            return self.client.scatter(
                [data], workers=places, broadcast=len(places) > 1, hash=False, direct=True
            )[0]
        return data

    def _results(self, futures: list[Any], places: list[str]) -> list[Any]:
        """Results in order; :class:`Lost` for a worker that ended."""
        found: list[Any] = [None] * len(futures)
        waiting = set(range(len(futures)))
        began, warned, patience = time.monotonic(), False, 1.0
        while waiting:
            with suppress(TimeoutError), self.client.as_current():
                self._dask.wait(
                    [futures[i] for i in waiting], timeout=_LOOK_SECONDS,
                    return_when="FIRST_COMPLETED",
                )  # fmt: skip
            self._refuse_closed()
            for i in [i for i in waiting if futures[i].done()]:
                found[i] = self._answer(futures[i], patience)
                if found[i] is not None:
                    waiting.discard(i)
            patience = min(2.0 * patience, SLOW_SECONDS)
            if not waiting:
                break
            alive = set(self.client.nthreads())
            for i in [i for i in waiting if places[i] not in alive]:
                waiting.discard(i)
                futures[i].cancel()
                found[i] = Lost(f"its worker {places[i]} is gone")
            if not warned and time.monotonic() - began > SLOW_SECONDS:
                warned = True
                slow = sorted({places[i] for i in waiting})
                _LOGGER.warning("waiting for slow workers: %s", ", ".join(slow))
        return found

    def _answer(self, future: Any, patience: float) -> Any:
        """Result of a call; None if it cannot be fetched, as its worker may have ended."""
        if future.status == "finished":
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                return None
            except (OSError, self._dask.CancelledError, KeyError) as error:
                return Lost(repr(error))
        if future.status in ("cancelled", "lost"):
            return Lost(future.status)
        failure = future.exception()
        gone = (worker.NoPart, StaleRound, self._dask.KilledWorker, OSError)
        comm = getattr(self._dask.comm, "CommClosedError", OSError)
        if isinstance(failure, (*gone, comm)):
            return Lost(repr(failure))
        raise failure

    def partitions_of(self, data: Any, target: Any) -> list[Any] | None:
        return _partitions_of(data, target, self.client)

    def close(self) -> None:
        """Delete the parts; shut down a cluster that was started here."""
        try:
            if self.client.status == "running":
                self.client.run(worker.drop, self.run, on_error="ignore")
        finally:
            if self._owned:
                self.client.close()
            if self._cluster is not None:
                self._cluster.close()


# --- data ------------------------------------------------------------------------------------


def _pairs(found: Any) -> tuple[list, list]:
    """Inputs and outputs of a partition of pairs."""
    pairs = list(found)
    return [x for x, _ in pairs], [y for _, y in pairs]


def _partitions_of(data: Any, target: Any, client: Any) -> list[Any] | None:
    """Futures of ``(X, y)`` per partition of a Dask collection; None for other data."""
    dask = require("dask", "dask", _PURPOSE)
    Future = require("distributed", "dask", _PURPOSE).Future
    if isinstance(data, tuple) and all(map(dask.is_dask_collection, data)):
        X, *others = data
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        blocks = [part.to_delayed().ravel() for part in (X, *others)]
        if len({len(part) for part in blocks}) > 1:
            raise ValueError(
                f"the arrays have {[len(part) for part in blocks]} chunks; expected equal numbers: "
                "rechunk them alike."
            )
        found = [dask.delayed(tuple)(list(parts)) for parts in zip(*blocks, strict=True)]
    elif hasattr(data, "to_delayed"):
        parts = data.to_delayed()
        if hasattr(data, "columns"):
            if target is None:
                raise ValueError("a dask.dataframe needs target=, the column of the labels.")
            found = [dask.delayed(columns_of)(part, target) for part in parts]
        else:
            found = [dask.delayed(_pairs)(part) for part in parts]
    elif not isinstance(data, list) or not data:
        return None
    elif all(map(dask.is_dask_collection, data)):
        found = data
    else:
        return data if all(isinstance(part, Future) for part in data) else None
    return client.compute(found)

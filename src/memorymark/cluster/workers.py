"""Workers on the nodes of a cluster: each a worker process, held by an actor on its node."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from memorymark.cluster.nodes import on_node
from memorymark.errors import MemoryMarkError, WorkerLostError
from memorymark.worker.confinement import Confinement
from memorymark.worker.supervisor import WorkerProcess

# What a call takes besides its work: Ray starts the actor first, when its node has room.
START_SECONDS = 120.0
END_SECONDS = 10.0
# One thread calls the worker, another can end it meanwhile.
THREADS = 2


class Host:
    """Holds a worker process; runs as an actor on a node."""

    def __init__(self, confinement: dict[str, Any] | None) -> None:
        self._worker = WorkerProcess(Confinement(**confinement) if confinement is not None else None)

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Calls the worker; returns its answer or its error as a document, and its process id."""
        try:
            told = {"result": self._worker.call(name, arguments, time_limit_seconds)}
        except MemoryMarkError as error:
            told = {"error": error.to_dict(with_detail=True)}
        return {**told, "pid": self._worker.pid}

    def end(self) -> None:
        """Ends the worker; a pending call returns."""
        self._worker.kill()


class ClusterWorker:
    """A worker on a node, which is called like one of this machine. It needs a CPU, or with a ``node`` a GPU of it."""

    def __init__(self, ray: Any, confinement: Confinement | None = None, *, node: str | None = None) -> None:
        self._ray, self.confinement = ray, confinement
        self.pid: int | None = None
        self._is_over = threading.Event()
        self._ended: Any = None
        host = ray.remote(Host)
        options: dict[str, Any] = {"max_restarts": 0, "max_concurrency": THREADS}
        bound = (
            host.options(num_cpus=1, **options)
            if node is None
            else on_node(ray, node, host, num_gpus=1, num_cpus=0, **options)
        )
        self._host = bound.remote(asdict(confinement) if confinement is not None else None)

    @property
    def is_sealed(self) -> bool:
        """Whether the worker can reach neither the network nor the node's files."""
        return self.confinement is not None and self.confinement.sealed

    def call(self, name: str, arguments: dict[str, Any], time_limit_seconds: float) -> dict[str, Any]:
        """Calls the worker and waits for its answer; raises the worker's errors here."""
        errors = self._ray.exceptions
        try:
            told = self._ray.get(
                self._host.call.remote(name, arguments, time_limit_seconds),
                timeout=min(time_limit_seconds + START_SECONDS, threading.TIMEOUT_MAX),
            )
        except errors.GetTimeoutError:
            raise WorkerLostError(
                "the cluster had no room for a worker, or its node does not answer",
                hint="ask again when it is less busy",
            ) from None
        except errors.RayError as error:
            self._is_over.set()
            raise WorkerLostError(
                "the worker's node, or the worker on it, was lost", hint="ask again", detail=type(error).__name__
            ) from None
        self.pid = told["pid"]
        if "error" in told:
            raise MemoryMarkError.from_dict(told["error"])
        result: dict[str, Any] = told["result"]
        return result

    def interrupt(self) -> None:
        """Ends the worker and everything it started; a pending ``call`` raises."""
        self._is_over.set()
        if self.pid is None:  # it may still wait for its place
            self._ray.kill(self._host, no_restart=True)
        elif self._ended is None:
            self._ended = self._host.end.remote()

    @property
    def is_fit(self) -> bool:
        """Tells whether the worker can take another call, as far as is known here."""
        return not self._is_over.is_set()

    def kill(self) -> None:
        """Ends the worker, waits until its device memory is free, and gives its place back to the cluster."""
        self.interrupt()
        if self._ended is not None:
            with suppress(self._ray.exceptions.RayError):  # its node is lost
                self._ray.get(self._ended, timeout=END_SECONDS)
        self._ray.kill(self._host, no_restart=True)

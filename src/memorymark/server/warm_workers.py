"""Worker processes that have imported torch before they are needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any

from memorymark.errors import StoppedError, WorkerError
from memorymark.worker.confinement import Confinement
from memorymark.worker.supervisor import AnyWorker, WorkerProcess

LOAD_SECONDS = 300.0
LOOK_UP_SECONDS = 0.1
# A waiting worker answers a ping in milliseconds, or within a second on a busy host.
ANSWER_SECONDS = 5.0
# A worker that could not start is started again after this long, so that a lane recovers without a job.
RETRY_SECONDS = 10.0
# A worker is replaced after this many jobs, so that leaks of models cannot add up.
USES = 100


class WarmWorkers:
    """Keeps one worker ready for the next job, for one user at a time.

    With ``reuse``, a worker that is given back is used again, as for predictions, which hold no device. Without it,
    the worker ends, which frees the device's memory, while the next one is already starting. ``new`` starts a worker
    elsewhere than in this machine.
    """

    def __init__(
        self,
        *,
        reuse: bool,
        uses: int = USES,
        confinement: Confinement | None = None,
        new: Callable[[Confinement | None], AnyWorker] | None = None,
    ) -> None:
        self._reuse, self._uses, self._confinement, self._make = reuse, uses, confinement, new
        self._lock = threading.Lock()
        self._ready: Future[AnyWorker] | None = None
        self._loading: AnyWorker | None = None
        self._loads: list[threading.Thread] = []
        self._used = 0
        self._stopped = threading.Event()
        self.loaded: dict[str, Any] = {}

    def prepare(self) -> Future[AnyWorker]:
        """Starts a worker, if none is ready or starting, and returns at once."""
        with self._lock:
            if self.is_stopped:
                raise StoppedError("the service is shutting down.")
            if self._ready is None:
                self._ready, self._used = Future(), 0
                self._loads = [thread for thread in self._loads if thread.is_alive()]
                self._loads.append(threading.Thread(target=self._load, args=[self._ready], daemon=True))
                self._loads[-1].start()
            return self._ready

    def take(self, is_stopped: Callable[[], bool] = lambda: False) -> AnyWorker:
        """Waits for a ready worker and returns it; ``is_stopped`` ends the wait."""
        while True:
            ready = self.prepare()
            failed_before = ready.done() and ready.exception() is not None
            while not ready.done() and not is_stopped():
                wait([ready], LOOK_UP_SECONDS)
            with self._lock:
                if self._ready is ready:  # a failed one may have been restarted meanwhile
                    self._ready = None
                is_abandoned = not ready.done()
                if is_abandoned and self._loading is not None:
                    self._loading.interrupt()  # it may hang, and the next job must not wait for it
            if is_abandoned:
                raise StoppedError("stopped before it began.")
            if failed_before:
                continue  # that start failed before this call; try a new one
            worker = ready.result()
            if _answers(worker):
                self._used += 1
                return worker
            worker.kill()  # it died or hung while it waited, so start a new one

    def give_back(self, worker: AnyWorker) -> None:
        """Keeps the worker for the next time, or ends it."""
        with self._lock:
            is_fit = self._reuse and self._used < self._uses and worker.is_fit
            if is_fit and not self.is_stopped and self._ready is None:
                self._ready = Future()
                self._ready.set_result(worker)
                return
        worker.kill()

    def stop(self) -> None:
        """Ends the worker that is ready or starting."""
        with self._lock:
            self._stopped.set()
            ready = self._ready
            if self._loading is not None:
                self._loading.interrupt()
        for thread in list(self._loads):  # including starts that nobody waits for any more
            thread.join()
        if ready is not None and ready.exception() is None:
            ready.result().kill()

    @property
    def is_stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped.is_set()

    @property
    def state(self) -> str:
        """``ready``, ``starting``, ``failed``, or ``none`` if there is no worker."""
        ready = self._ready
        if ready is None:
            return "none"
        if not ready.done():
            return "starting"
        return "failed" if ready.exception() else "ready"

    @property
    def pid(self) -> int | None:
        """The process id of the ready worker, or ``None``."""
        ready = self._ready
        return ready.result().pid if ready is not None and self.state == "ready" else None

    def _load(self, ready: Future[AnyWorker]) -> None:
        self._start(ready)
        if ready.done() and ready.exception() is not None and not self._stopped.wait(RETRY_SECONDS):
            with self._lock:
                is_wanted = self._ready is ready
                if is_wanted:
                    self._ready = None
            if is_wanted:
                with suppress(StoppedError):
                    self.prepare()

    def _new(self) -> AnyWorker:
        return WorkerProcess(self._confinement) if self._make is None else self._make(self._confinement)

    def _start(self, ready: Future[AnyWorker]) -> None:
        worker: AnyWorker | None = None
        try:
            worker = self._new()
            with self._lock:
                self._loading = worker
                if self.is_stopped or self._ready is not ready:
                    worker.interrupt()  # the taker gave up before the worker existed
            self.loaded = worker.call("load", {}, LOAD_SECONDS)
        except BaseException as error:
            if worker is not None:
                worker.kill()
            ready.set_exception(error)
        else:
            with self._lock:
                is_wanted = self._ready is ready
                if is_wanted:
                    ready.set_result(worker)
            if not is_wanted:
                worker.kill()
        finally:
            with self._lock:
                if self._loading is worker:
                    self._loading = None


def _answers(worker: AnyWorker) -> bool:
    """Tells whether a worker answers: one that was just killed may look alive until it is called."""
    if not worker.is_fit:
        return False
    try:
        worker.call("load", {}, ANSWER_SECONDS)
    except WorkerError:
        return False
    return worker.is_fit


class Lease:
    """The use of warm workers for one job, which anyone may stop."""

    def __init__(self) -> None:
        self._workers: WarmWorkers | None = None
        self._lock = threading.Lock()
        self._in_use: list[AnyWorker] = []
        self.stopped: str | None = None

    def of(self, workers: WarmWorkers) -> Lease:
        """Sets the workers to take from, and returns the lease."""
        self._workers = workers
        return self

    def take(self) -> AnyWorker:
        """Takes a worker; raises if the job has been stopped."""
        if self.stopped is not None or self._workers is None:
            raise StoppedError("stopped before it began.")
        worker = self._workers.take(lambda: self.stopped is not None)
        with self._lock:
            self._in_use.append(worker)
            if self.stopped is not None:
                worker.interrupt()
        return worker

    def give_back(self, worker: AnyWorker) -> None:
        """Gives the worker back; ``stop`` no longer affects it."""
        with self._lock:
            self._in_use = [one for one in self._in_use if one is not worker]
        if self._workers is not None:
            self._workers.give_back(worker)

    def stop(self, reason: str) -> None:
        """Ends the workers, and so the job; the first reason counts."""
        with self._lock:
            if self.stopped is None:
                self.stopped = reason
            for worker in self._in_use:
                worker.interrupt()

    @property
    def pid(self) -> int | None:
        """The process id of the worker in use that was taken last, or ``None``."""
        in_use = self._in_use
        return in_use[-1].pid if in_use else None

"""The engine of this machine: threads, each with a worker process, for its cores and for each of its GPUs."""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from memorymark.catalog import match_gpu
from memorymark.devices import nvml
from memorymark.devices.machine import available_host_bytes, lacks_accelerator
from memorymark.errors import StoppedError, UsageError
from memorymark.messages import Message
from memorymark.sweep.cases import Case, Place
from memorymark.sweep.work import Happened, Lost, Work, outcomes
from memorymark.units import GIB
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.worker.supervisor import AnyWorker, KeptWorkers, WorkerProcess

# What a worker that predicts usually needs of the host's memory.
WORKER_BYTES = 2 * GIB
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Slot:
    """A place where one set runs at a time; without a ``device``, it predicts."""

    device: str | None = None
    gpu: str | None = None

    def accepts(self, place: Place) -> bool:
        """Whether it can work on cases that need this place."""
        if self.device is None or not place.measures:
            return self.device is None and not place.measures
        if place.gpu is not None:
            return place.gpu == self.gpu
        return place.device in (self.device, self.device.partition(":")[0])


class EndableWorkers:
    """Starts workers that can all be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[WorkerProcess] = []
        self._is_ended = False

    def take(self) -> WorkerProcess:
        """Starts a worker; raises if all have been ended."""
        with self._lock:
            if self._is_ended:
                raise StoppedError("the sweep was stopped.", code="cancelled")
            worker = WorkerProcess()
            self._workers = [one for one in self._workers if one.is_fit] + [worker]
        return worker

    def give_back(self, worker: AnyWorker) -> None:
        """Ends the worker."""
        worker.kill()

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers, ended ones included until the next start."""
        return [worker.process.pid for worker in self._workers]

    def end(self) -> None:
        """Ends all workers and everything they started, and starts no more."""
        with self._lock:
            self._is_ended = True
            for worker in self._workers:
                worker.interrupt()


class LocalEngine:
    """Fills the cores and the GPUs of this machine."""

    def __init__(self, *, workers: int | None = None, time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS) -> None:
        if workers is not None and workers < 1:
            raise UsageError(
                Message("{workers} must be 1 or more, not {given}.", given=workers),
                code="out_of_range",
                field="workers",
                given=workers,
                allowed={"minimum": 1},
            )
        self._time_limit_seconds = time_limit_seconds
        self.processes = EndableWorkers()
        self._happened: queue.Queue[Happened] = queue.Queue()
        self._changed = threading.Condition()
        self._waiting: list[Work] = []
        self._is_closed = False
        self._threads: list[threading.Thread] = []
        self._idle: list[Slot] = []
        self.slots = [*[Slot()] * (workers or usual_workers()), *_device_slots()]
        self._unstarted = list(self.slots)

    @property
    def measures_by_default(self) -> bool:
        """Whether this machine has a GPU."""
        return not lacks_accelerator()

    @property
    def width(self) -> int:
        """How many sets are predicted at a time."""
        return sum(slot.device is None for slot in self.slots)

    def require(self, cases: Sequence[Case]) -> None:
        """Raises if this machine lacks the device that a case is to be measured on."""
        for place in dict.fromkeys(case.place for case in cases):
            if not any(slot.accepts(place) for slot in self.slots):
                here = sorted({slot.gpu or slot.device or "" for slot in self.slots if slot.device})
                raise UsageError(
                    f"there is no {place.gpu or place.device} in this machine to measure on, only {', '.join(here)}; "
                    "leave measure out to predict for it, or run the sweep on a Ray cluster that has one.",
                    code="no_device",
                    field="gpu" if place.gpu else "device",
                    given=place.gpu or place.device,
                    allowed=here,
                )

    def submit(self, work: Work) -> None:
        """Takes a set of cases, and starts one more thread if all that could take it are busy."""
        with self._changed:
            self._waiting.append(work)
            self._changed.notify_all()
            wanting = sum(slot.accepts(work.place) for slot in self._idle)
            waiting = sum(one.place == work.place for one in self._waiting)
            free = next((slot for slot in self._unstarted if slot.accepts(work.place)), None)
            if free is not None and waiting > wanting:
                self._unstarted.remove(free)
                self._threads.append(threading.Thread(target=self._run, args=[free], daemon=True))
                self._threads[-1].start()

    def _run(self, slot: Slot) -> None:
        """Works on sets until there are no more; a worker that predicts is kept from set to set."""
        kept = KeptWorkers(self.processes)
        while (work := self._take(slot)) is not None:
            self._answer(work, slot, kept)
            if slot.device is not None:
                kept.close()  # which frees the device's memory
        kept.close()

    def _take(self, slot: Slot) -> Work | None:
        with self._changed:
            self._idle.append(slot)
            try:
                while not self._is_closed:
                    for work in self._waiting:
                        if slot.accepts(work.place):
                            self._waiting.remove(work)
                            return work
                    self._changed.wait()
            finally:
                self._idle.remove(slot)
        return None

    def _answer(self, work: Work, slot: Slot, workers: KeptWorkers) -> None:
        asked = [(case.number, case.on(slot.device)) for case in work.cases]
        done: list[int] = []
        try:
            for outcome in outcomes(asked, workers, time_limit_seconds=self._time_limit_seconds):
                if self._is_closed:
                    return
                self._happened.put(outcome)
                done.append(outcome.number)
        except Exception as error:  # such as no more processes or memory
            workers.close()
            self._happened.put(Lost(work.without(done), f"a worker could not be run: {error}"))

    def next(self, seconds: float) -> list[Happened]:
        """Waits for something to happen."""
        found: list[Happened] = []
        try:
            found.append(self._happened.get(timeout=seconds))
            while True:
                found.append(self._happened.get_nowait())
        except queue.Empty:
            return found

    def close(self) -> None:
        """Ends all workers; no process stays behind."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.processes.end()
        until = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))


def usual_workers() -> int:
    """Returns how many predictions this machine runs at a time: one for each core, as far as its memory allows."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, available_host_bytes() // WORKER_BYTES))


def _device_slots() -> list[Slot]:
    """Returns a slot for each device that steps can be measured on."""
    gpus = [match_gpu(state.name) for state in nvml.gpus()]
    slots = [Slot(f"cuda:{index}", entry.id if entry is not None else None) for index, entry in enumerate(gpus)]
    if not slots and not lacks_accelerator():
        slots.append(Slot("mps" if platform.system() == "Darwin" else "cuda"))
    return [*slots, Slot("cpu")]

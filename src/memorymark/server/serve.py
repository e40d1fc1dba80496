"""The service from start to shutdown."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

from memorymark.devices import nvml
from memorymark.errors import UsageError
from memorymark.history import Store
from memorymark.server.app import create_front
from memorymark.server.http_server import BACKLOG, HttpServer
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.lock import only_server
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers

log = logging.getLogger(__name__)


class Service:
    """A running service; ``port`` is the one it got."""

    def __init__(self, jobs: Jobs, server: HttpServer) -> None:
        self.jobs, self._server = jobs, server
        self.port = server.port

    def stop(self) -> None:
        """Ends what runs, marks it, tells whoever waits or watches, and closes every connection."""
        self.jobs.stop()
        self._server.stop()


@contextmanager
def running(settings: Settings) -> Iterator[Service]:
    """The service, up and answering inside the ``with``."""
    store = Store(settings.database_url)
    try:
        with only_server(store), closing(_bind(settings)) as listening:
            first = WarmWorkers(reuse=True)
            first.prepare().result()
            kind = first.loaded["device_kind"]
            jobs = Jobs(
                store,
                list(_lanes(settings, first, kind)),
                queue_size=settings.queue_size,
                max_seconds=settings.job_seconds,
                allow_code=settings.allow_code,
            )
            front = create_front(jobs, settings, kind)
            jobs.start()
            service = Service(jobs, HttpServer(front, listening))
            try:
                yield service
            finally:
                service.stop()
    finally:
        store.close()


def serve(settings: Settings, on_ready: Callable[[Service], None]) -> None:
    """Runs until the process is asked to end."""
    asked_to_end = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        asked_to_end.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)  # who asks twice does not want to wait

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end)
    with running(settings) as service:
        # What is there now stays to the end. To look through all of it for garbage again and again holds everyone up.
        gc.collect()
        gc.freeze()
        log.info("ready on port %s", service.port)
        on_ready(service)
        while not asked_to_end.wait(1.0):
            pass
        log.info("shutting down")


def _lanes(settings: Settings, first: WarmWorkers, device_kind: str) -> Iterator[Lane]:
    for number in range(settings.prediction_workers):
        yield Lane(f"prediction-{number}", first if number == 0 else WarmWorkers(reuse=True))
    gpus = max(len(nvml.gpus()), 1) if device_kind == "cuda" else 0
    for index in range(gpus):
        yield Lane(f"gpu-{index}", WarmWorkers(reuse=False), f"cuda:{index}")
    if device_kind == "mps":
        yield Lane("mps", WarmWorkers(reuse=False), "mps")
    yield Lane("cpu", WarmWorkers(reuse=False), "cpu")


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}; choose another with --port."
        ) from None

"""The service from start to shutdown."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from memorymark.devices import nvml
from memorymark.errors import UsageError
from memorymark.history import Store
from memorymark.history.recording import Recording, read_recording
from memorymark.messages import Message
from memorymark.server.accelerators import NO_GPU, Accelerators
from memorymark.server.app import create_front
from memorymark.server.cluster_lanes import Cluster, cluster_lanes
from memorymark.server.http_server import BACKLOG, HttpServer
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.lock import only_server
from memorymark.server.replay import ReplayedJobs
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from memorymark.worker.confinement import shortcomings

log = logging.getLogger(__name__)


class Service:
    """A running service and its ``port``."""

    def __init__(self, jobs: Jobs, server: HttpServer) -> None:
        self.jobs, self._server = jobs, server
        self.port = server.port

    def stop(self) -> None:
        """Stops running jobs, notifies waiting callers and watchers, and closes every connection."""
        self.jobs.stop()
        self._server.stop()


@contextmanager
def running(settings: Settings) -> Iterator[Service]:
    """Runs the service inside the ``with``."""
    recording = read_recording(settings.replay) if settings.replay is not None else None
    with _history(settings) as store, closing(_bind(settings)) as listening:
        jobs, has = _working_jobs(store, settings) if recording is None else _replayed_jobs(store, settings, recording)
        front = create_front(jobs, settings, has)
        try:
            jobs.start()
            service = Service(jobs, HttpServer(front, listening))
        except BaseException:
            jobs.stop()
            front.close()
            raise
        try:
            yield service
        finally:
            service.stop()


@contextmanager
def _history(settings: Settings) -> Iterator[Store]:
    """Opens the history for this server alone; jobs that are only played get one that ends with the service."""
    with ExitStack() as until_the_end:
        url = settings.database_url
        if settings.replay is not None:
            url = f"sqlite:///{until_the_end.enter_context(TemporaryDirectory(prefix='memorymark-'))}/history.db"
        store = until_the_end.enter_context(closing(Store(url)))
        until_the_end.enter_context(only_server(store))
        yield store


def _working_jobs(store: Store, settings: Settings) -> tuple[Jobs, Accelerators]:
    """Starts a first worker; returns the queue with its lanes, and what its workers can use."""
    cluster = Cluster.at(settings.address) if settings.engine == "ray" else None
    first = WarmWorkers(
        reuse=True, confinement=settings.confinement(), new=cluster.on_cpu if cluster is not None else None
    )
    first.prepare().result()
    _tell_confinement(settings, first.loaded)
    if cluster is not None:
        has, lanes = Accelerators.of_cluster(cluster.gpus), cluster_lanes(settings, first, cluster)
    else:
        has = Accelerators.of_this_machine(first.loaded["device_kind"])
        lanes = _lanes(settings, first, has.kind)
    jobs = Jobs(
        store,
        list(lanes),
        queue_size=settings.queue_size,
        max_seconds=settings.job_seconds,
        allow_code=settings.allow_code,
    )
    return jobs, has


def _replayed_jobs(store: Store, settings: Settings, recording: Recording) -> tuple[Jobs, Accelerators]:
    return ReplayedJobs(store, recording, settings), NO_GPU


def serve(settings: Settings, on_ready: Callable[[Service], None]) -> None:
    """Runs the service until the process is asked to end."""
    asked_to_end = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        asked_to_end.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)  # a second signal ends the process at once

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, end)
    with running(settings) as service:
        # All objects so far live until the end; scanning them for garbage again and again would delay answers.
        gc.collect()
        gc.freeze()
        log.info("ready on port %s", service.port)
        on_ready(service)
        while not asked_to_end.wait(1.0):
            pass
        log.info("shutting down")


def _lanes(settings: Settings, first: WarmWorkers, device_kind: str) -> Iterator[Lane]:
    for number in range(settings.prediction_workers):
        predicting = first if number == 0 else WarmWorkers(reuse=True, confinement=settings.confinement())
        yield Lane(f"prediction-{number}", predicting)
    gpus = max(len(nvml.gpus()), 1) if device_kind == "cuda" else 0
    devices = {**{f"gpu-{index}": f"cuda:{index}" for index in range(gpus)}, "cpu": "cpu"}
    if device_kind == "mps":
        devices = {"mps": "mps", **devices}
    for name, device in devices.items():
        yield Lane(name, WarmWorkers(reuse=False, confinement=settings.confinement(device)), device)


def _tell_confinement(settings: Settings, loaded: Mapping[str, Any]) -> None:
    """Logs how workers are confined, and warns of what this kernel cannot prevent."""
    holds = loaded["confinement"]
    log.info("workers are confined: %s", ", ".join(f"{what} {how}" for what, how in holds.items()))
    missing = shortcomings(holds)
    if missing and not settings.allow_code:
        log.warning("this kernel cannot seal workers: from inside one, %s", " and ".join(missing))


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            Message(
                "cannot listen on {host}, port {port}: {reason}; choose another with {serve.port}.",
                host=settings.host,
                port=settings.port,
                reason=error.strerror,
            ),
            code="conflict",
            field="port",
            given=settings.port,
        ) from None

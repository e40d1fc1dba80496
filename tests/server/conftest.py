import socket
from contextlib import closing, contextmanager

import pytest
from calls import QUICK, Caller

from memorymark.history import Store
from memorymark.server.app import create_front
from memorymark.server.http_server import HttpServer
from memorymark.server.jobs import Jobs
from memorymark.server.lane import Lane
from memorymark.server.serve import running
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """The whole service with real workers; shared, because a worker takes seconds to import torch."""
    database = f"sqlite:///{tmp_path_factory.mktemp('service')}/history.db"
    with running(Settings(port=0, database=database, prediction_workers=1, heartbeat_seconds=0.2)) as service:
        yield service


@pytest.fixture(scope="session")
def call(service):
    return Caller(service.port)


@pytest.fixture(scope="session")
def answered(call):
    """What POST /analyze says to the quick question."""
    return call.post("/analyze", QUICK)


@pytest.fixture
def idle_jobs(tmp_path):
    """Makes lines of jobs that nobody works on: what is asked is checked, written down, and then waits."""
    made = []

    def make(*, queue_size=1000, max_seconds=60.0):
        store = Store(f"sqlite:///{tmp_path}/idle.db")
        lanes = [Lane("prediction-0", WarmWorkers(reuse=True)), Lane("cpu", WarmWorkers(reuse=False), "cpu")]
        made.append(Jobs(store, lanes, queue_size=queue_size, max_seconds=max_seconds))
        return made[-1]

    yield make
    for jobs in made:
        jobs.stop()
        jobs.store.close()


@pytest.fixture
def served(idle_jobs):
    """Serves a line of jobs that nobody works on over real connections, and gives a caller of it."""

    @contextmanager
    def serve(jobs=None, connections=None, **settings):
        with closing(socket.create_server(("127.0.0.1", 0), backlog=1024)) as listening:
            front = create_front(jobs or idle_jobs(), Settings(**settings))
            server = HttpServer(front, listening, connections)
            try:
                yield Caller(server.port)
            finally:
                server.stop()

    return serve

"""Fixtures: one whole service with real workers for the run, and lines of jobs that nobody works on.

The web server is imported only where it is used: the tests on a GPU run where it is not installed, too.
"""

import socket
from contextlib import closing, contextmanager

import pytest


def quick_service(database, **settings):
    """The whole service with one worker for predictions, whose silences are short."""
    from memorymark.server.serve import running
    from memorymark.server.settings import Settings

    url = f"sqlite:///{database}"
    return running(Settings(port=0, database=url, prediction_workers=1, heartbeat_seconds=0.2, **settings))


@contextmanager
def serving(jobs, connections=None, **settings):
    """Serves a line of jobs over real connections, with settings of its own, and gives a caller of it."""
    from memorymark.server.app import create_front
    from memorymark.server.http_server import HttpServer
    from memorymark.server.settings import Settings
    from support.calls import Caller

    with closing(socket.create_server(("127.0.0.1", 0), backlog=1024)) as listening:
        server = HttpServer(create_front(jobs, Settings(**settings)), listening, connections)
        try:
            yield Caller(server.port)
        finally:
            server.stop()


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """The service of the run: whoever breaks one, or needs other settings, has its own or serves its jobs again.

    Shared, because a worker takes seconds to import torch. Other tests may have asked it anything before.
    """
    with quick_service(tmp_path_factory.mktemp("service") / "history.db") as service:
        yield service


@pytest.fixture(scope="session")
def call(service):
    from support.calls import Caller

    return Caller(service.port)


@pytest.fixture(scope="session")
def client(call):
    from memorymark.client import Client

    return Client(call.address)


@pytest.fixture(scope="session")
def answered(call):
    """What POST /analyze says to the quick question."""
    from support.calls import QUICK

    return call.post("/analyze", QUICK)


@pytest.fixture
def idle_jobs(tmp_path):
    """Makes lines of jobs that nobody works on: what is asked is checked, written down, and then waits."""
    from memorymark.history import Store
    from memorymark.server.jobs import Jobs
    from memorymark.server.lane import Lane
    from memorymark.server.warm_workers import WarmWorkers

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
    """Serves a line of jobs, one that nobody works on unless one is given."""
    return lambda jobs=None, connections=None, **settings: serving(jobs or idle_jobs(), connections, **settings)

"""The recordings that come with the project, and a service that plays one."""

from contextlib import contextmanager
from pathlib import Path

from memorymark.server.serve import running
from memorymark.server.settings import Settings
from support.calls import Caller

RECORDINGS = Path(__file__).parents[2] / "demo" / "recordings"
MEASURED = RECORDINGS / "bert-h200-measured.json"
PREDICTED = RECORDINGS / "bert-a10-predicted.json"


@contextmanager
def replaying(path=MEASURED, speed=300.0, **settings):
    """Plays a recording over real connections, and gives a caller of the service."""
    with running(Settings(port=0, replay=path, replay_speed=speed, heartbeat_seconds=0.2, **settings)) as service:
        yield Caller(service.port)

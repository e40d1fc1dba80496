"""What tests of processes share: waiting for something to be so, whether a process still runs, workers by their id."""

import os
import time
from pathlib import Path

from memorymark.worker.supervisor import FreshWorkers

PATIENCE_SECONDS = 90


def wait_until(condition, seconds=PATIENCE_SECONDS):
    """What the condition gives as soon as it is something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited for nothing"
        time.sleep(0.02)
    return found


def is_running(pid):
    try:
        os.kill(pid, 0)
        # A process that ended and that nobody has asked about is still listed, on Linux as Z.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


class SeenWorkers(FreshWorkers):
    """Fresh workers, and the process ids of all that were started."""

    def __init__(self):
        self.pids = []

    def take(self):
        worker = super().take()
        self.pids.append(worker.process.pid)
        return worker

"""A disk that is full or read-only, before, while and after a server works on it."""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drilling.calls import GONE, Caller
from drilling.judge import UNFINISHED, Outcome, Promise
from drilling.questions import LONG, new_name, tiny
from drilling.server import Server

DISK_SIZE = "8m"
# In which what could not be written must be, once there is room.
SECONDS_TO_CATCH_UP = 15.0


class SmallDisk:
    """A file system of a few MiB, which root may mount."""

    what = f"tmpfs of {DISK_SIZE}iB"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, server: Server) -> None:  # noqa: ARG002
        """Leaves no byte free."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self, server: Server) -> None:  # noqa: ARG002
        """Makes room."""
        self._filler.unlink()

    def start_full(self, server: Server) -> bool:
        """Starts a server while nothing can be written."""
        return server.start()

    def set_read_only(self, is_read_only: bool) -> None:
        """Lets nobody write, or everybody; no file may be open."""
        mode = "ro" if is_read_only else "rw"
        subprocess.run(["mount", "-o", f"remount,{mode}", str(self.folder)], check=True)


class LimitedFiles:
    """Where nothing may be mounted: the server's files may not grow."""

    what = "files that may not grow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, server: Server) -> None:
        """The files stay as large as the smallest of them."""
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def free(self, server: Server) -> None:
        """They may grow."""
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def start_full(self, server: Server) -> bool:
        """Starts a server whose files may not grow."""
        limits = (0, resource.RLIM_INFINITY)
        return server.start(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))

    def set_read_only(self, is_read_only: bool) -> None:
        """Lets the owner write, or not."""
        self.folder.chmod(0o500 if is_read_only else 0o700)
        for file in self.folder.iterdir():
            file.chmod(0o400 if is_read_only else 0o600)


@contextmanager
def disk() -> Iterator[SmallDisk | LimitedFiles]:
    """The best stand-in for a small disk that there is here; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="memorymark-drill-disk-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "memorymark-drill", name]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            yield LimitedFiles(Path(name))
            return
        try:
            yield SmallDisk(Path(name))
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


def disk_full() -> Outcome:
    """The drill: every way in which a disk fills while a server works, and one that cannot be written at all."""
    outcome = Outcome("disk full, read-only", "")
    with disk() as small:
        server = Server(small.folder / "history.db")
        try:
            server.must_start()
            acknowledged = _full_while_it_works(small, server, outcome)
            acknowledged += _full_at_the_start(small, server, outcome)
            _read_only(small, server, outcome)
            states = {job_id: server.call.finished(job_id)["state"] for job_id in acknowledged}
            listed = {job["id"]: job["state"] for job in server.call.all_jobs()}
            outcome.promises.append(Promise("not healthy afterwards", server.call.is_well()))
        finally:
            server.close()
        outcome.count, outcome.done = len(acknowledged), f"{small.what}: full in a job, full at a start, read-only"
        unfinished = [job_id for job_id, state in states.items() if state in UNFINISHED]
        missing = [job_id for job_id in acknowledged if job_id not in listed]
        outcome.promises.append(Promise(f"lost {len(missing)}", not missing))
        outcome.promises.append(Promise(f"stuck {len(unfinished)}", not unfinished))
        outcome.statuses = server.call.statuses
    return outcome


def _full_while_it_works(small: SmallDisk | LimitedFiles, server: Server, outcome: Outcome) -> list[str]:
    call = server.call
    running = call.document("POST", "/jobs", tiny(new_name()))["job"]["id"]
    small.fill(server)
    refused = call("POST", "/jobs", tiny(new_name()))
    outcome.promises.append(Promise(f"a new job on a full disk: {refused.status}", refused.status in (202, 503)))
    ended = call.finished(running)
    outcome.promises.append(Promise(f"the one that ran: {ended['state']}", ended["state"] == "done"))
    small.free(server)
    outcome.promises.append(Promise("not healthy once there was room", _soon(call.is_well)))
    after = call.document("POST", "/jobs", tiny(new_name()))["job"]["id"]
    return [running, after]


def _full_at_the_start(small: SmallDisk | LimitedFiles, server: Server, outcome: Outcome) -> list[str]:
    """Kill -9 in the middle of a job, a start on a full disk, then room: nothing may run for ever."""
    call = server.call
    running = call.document("POST", "/jobs", LONG)["job"]["id"]
    _soon(lambda: call.job(running)["state"] == "running")
    server.kill()
    if isinstance(small, SmallDisk):
        small.fill(server)
    has_started = small.start_full(server)
    outcome.notes.append(f"On a full disk a server {'starts' if has_started else 'does not start and says why'}.")
    if has_started:
        small.free(server)
    else:
        outcome.promises.append(Promise("a traceback at the start", "Traceback" not in server.log.read_text()))
        server.stop()
        if isinstance(small, SmallDisk):
            small.free(server)
        server.must_start()
    is_over = _soon(lambda: call.job(running)["state"] == "interrupted")
    state = call.job(running)["state"]
    outcome.promises.append(Promise(f"killed, started on a full disk, freed: {state}", is_over))
    if not is_over:
        call("DELETE", f"/jobs/{running}")
    return [running]


def _read_only(small: SmallDisk | LimitedFiles, server: Server, outcome: Outcome) -> None:
    server.stop()
    before = server.log.stat().st_size
    small.set_read_only(True)
    try:
        has_started = server.start()
        statuses = _statuses(server.call) if has_started else {}
        server.stop()
    finally:
        small.set_read_only(False)
    said = server.log.read_text()[before:]
    outcome.promises.append(Promise("read-only: a traceback", "Traceback" not in said, said[-200:]))
    how = f"starts and answers {statuses}" if has_started else "does not start and says why"
    outcome.notes.append(f"On a read-only disk a server {how}.")
    server.must_start()


def _statuses(call: Caller) -> dict[str, int]:
    asked = [("GET", "/jobs", None), ("POST", "/jobs", tiny(new_name())), ("GET", "/health", None)]
    return {f"{method} {path}": call(method, path, body).status for method, path, body in asked}


def _soon(condition: Any, seconds: float = SECONDS_TO_CATCH_UP) -> bool:
    """Whether it is so before long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except GONE:
            pass
        time.sleep(0.2)
    return False

"""``memorymark serve`` as a process that can be killed and started again, and what its processes hold."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from drilling.calls import Caller

START_SECONDS = 180.0
END_SECONDS = 30.0
MIB = 1024 * 1024


class DidNotStartError(Exception):
    """A server ended, or said nothing, where it should have said that it is ready."""


class Server:
    """A server with a port and a history that outlive its process."""

    def __init__(self, database: Path, *options: str) -> None:
        self.database, self._options = database, options
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="memorymark-drill-log-")
        self.log = Path(self._folder.name) / "log"
        self.process: subprocess.Popen[str] | None = None
        self.call = Caller(self.port)

    def start(self, before: Callable[[], None] | None = None) -> bool:
        """Whether it is ready; a server that ends instead is not."""
        command = [sys.executable, "-m", "memorymark", "serve", "--port", str(self.port), "--quiet"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *self._options, "--database", f"sqlite:///{self.database}"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=before,
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        return bool(readable) and "ready" in self.process.stdout.readline()

    def must_start(self) -> None:
        """Starts it where nothing is in its way."""
        if not self.start():
            raise DidNotStartError(self.complaints())

    @property
    def pid(self) -> int:
        """The process id of the server."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> list[int]:
        """Ends it with no say in it; tells which of its workers outlive it by too long."""
        workers = descendants(self.pid)
        self._end(signal.SIGKILL)
        left = wait_for_end(workers)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def stop(self) -> None:
        """Asks it to end, and makes sure that it does."""
        if self.process is None or self.process.poll() is not None:
            return
        workers = descendants(self.pid)
        self._end(signal.SIGTERM)
        for pid in wait_for_end(workers):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it and removes its log; what else it wrote is its starter's."""
        self.stop()
        self._folder.cleanup()

    def complaints(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text().splitlines()[-5:])

    def _end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def is_running(self) -> bool:
        """Whether its process has not ended."""
        return self.process is not None and self.process.poll() is None


@contextmanager
def running(*options: str) -> Iterator[Server]:
    """A server that is ready, on a history of its own; all of it is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="memorymark-drill-") as folder:
        server = Server(Path(folder) / "history.db", *options)
        try:
            server.must_start()
            yield server
        finally:
            server.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def parents() -> dict[int, int]:
    """The parent of every process that has not ended."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                found[int(path.parent.name)] = int(parent)
    return found


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have."""
    parent_of, found = parents(), [pid]
    for one in found:
        found += [child for child, parent in parent_of.items() if parent == one]
    return found[1:]


def workers(pid: int) -> list[int]:
    """Those of them that work."""

    def command(one: int) -> bytes:
        with suppress(OSError):
            return Path(f"/proc/{one}/cmdline").read_bytes()
        return b""

    return [one for one in descendants(pid) if b"memorymark" in command(one)]


def wait_for_end(pids: list[int], seconds: float = 15.0) -> list[int]:
    """Those that still run after so long."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if pid in parents()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def resident_mib(pid: int) -> int:
    """What a process holds of the memory; nothing if it has ended."""
    with suppress(OSError):
        found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) // 1024 if found else 0
    return 0

"""Starts workers in milliseconds: forks of a process that has imported torch and transformers before.

They take the place of ``supervisor.launch`` in this process. What a worker is told (its code, arguments, environment,
folder and pipes) is what a fresh one is told, and it is a child of this process as a fresh one is. Whoever tests how
workers start, how they are sealed or how they die uses ``fresh_workers``. Workers of other processes, such as those of
``memorymark serve``, are always fresh.
"""

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from memorymark.worker import supervisor

SERVER = Path(__file__).with_name("fork_server.py")
WORKER = "memorymark.worker.child"
PR_SET_CHILD_SUBREAPER = 36
# Read when a worker is called, not when it imports: these may differ from those of the process that it is forked from.
READ_LATE = re.compile(r"PYTEST_\w+|MEMORYMARK_\w+|TEST_\w+")

fresh = supervisor.launch
# To other processes they look like workers.
server_pids = set()


class ForkedProcess:
    """What ``subprocess.Popen`` is for a process that it started."""

    def __init__(self, pid, stdin, stdout):
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode = None
        self._lock = threading.Lock()

    def poll(self):
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self):
        while self.poll() is None:
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # another thread has asked in between
                continue
        return self.returncode


class ForkServer:
    """A process that forks workers with one environment."""

    def __init__(self, source, environment):
        self._lock = threading.Lock()
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, SERVER, str(theirs.fileno()), source, "--", WORKER],
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        server_pids.add(self._process.pid)

    def launch(self, command, environment, folder, stderr):
        child_in, stdin = os.pipe()
        stdout, child_out = os.pipe()
        wanted = {
            "code": command[2],
            "arguments": command[3:],
            "environment": environment,
            "folder": folder or str(Path.cwd()),
        }
        with self._lock:
            socket.send_fds(self._asked, [json.dumps(wanted).encode()], [child_in, child_out, stderr.fileno()])
            os.close(child_in)
            os.close(child_out)
            pid = self._asked.recv(100)
        if not pid:
            raise RuntimeError(f"the process that forks workers has ended with {self._process.wait()}")
        return ForkedProcess(int(pid), os.fdopen(stdin, "w", encoding="utf-8"), os.fdopen(stdout, encoding="utf-8"))

    def close(self):
        self._asked.close()
        self._process.wait()


class ForkedWorkers:
    """The fork servers of a test run: one for each environment that workers were started with."""

    def __init__(self):
        self._servers = {}
        self._lock = threading.Lock()

    def launch(self, command, environment, folder, stderr):
        confinements = map(json.loads, command[4:])
        if WORKER not in command[2] or not all(confinement["sealed"] for confinement in confinements):
            # A stand-in for a worker, or one that fetches: they import little.
            return fresh(command, environment, folder, stderr)
        with self._lock:
            key = _key(environment)
            if key not in self._servers:
                self._servers[key] = ForkServer(command[3], environment)
        return self._servers[key].launch(command, environment, folder, stderr)

    def close(self):
        for server in self._servers.values():
            server.close()


def _key(environment):
    """The environment without what is read late; a home of a worker's own counts as any other."""
    kept = {name: value for name, value in environment.items() if not READ_LATE.fullmatch(name)}
    own = kept.get("HF_TOKEN_PATH", "").removesuffix("/none")
    return tuple(sorted((name, value.replace(own, "~") if own else value) for name, value in kept.items()))


@pytest.fixture(scope="session", autouse=True)
def forked_workers():
    """Workers of this process are forks: on Linux, which lets it adopt them; and not with CUDA, which survives none."""
    forks = ForkedWorkers()
    if sys.platform == "linux" and not Path("/dev/nvidiactl").exists():
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        supervisor.launch = forks.launch
    yield
    supervisor.launch = fresh
    forks.close()


@contextmanager
def fresh_workers():
    """Workers that start inside are new processes, as users have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "launch", fresh)
        yield


def is_fresh(pid):
    """Whether a worker, seen from outside, was started as users have it."""
    return SERVER.name.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.fixture
def workers_are_fresh():
    """For tests that are all about how workers start and end."""
    with fresh_workers():
        yield

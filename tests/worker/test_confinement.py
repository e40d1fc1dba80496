"""What a confined process can and cannot do, tried from inside one."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memorymark.errors import TooLargeForWorkerError
from memorymark.units import MIB
from memorymark.worker import landlock
from memorymark.worker.calls import Worker
from memorymark.worker.child import answer
from memorymark.worker.confinement import HOME_PREFIX, TOO_MUCH_MEMORY_EXIT, Confinement, make_home, shortcomings
from memorymark.worker.supervisor import WorkerProcess
from support.forked_workers import fresh_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are sealed on Linux")
HAS_LANDLOCK = sys.platform == "linux" and landlock.version() > 0
SECRETS = {
    "HF_TOKEN": "hf_of_the_operator",
    "MEMORYMARK_TOKEN": "0123456789abcdef",
    "MEMORYMARK_DATABASE": "postgresql://me:password@db/history",
    "AWS_SECRET_ACCESS_KEY": "very secret",
    "CUDA_API_KEY": "a secret under a name that passes",
    "SSH_AUTH_SOCK": "/run/agent",
}


def tried_inside(code, *arguments, sealed=True, memory_bytes=None):
    """Runs code in a Python confined as a worker is; gives the finished process."""
    home = make_home()
    confinement = Confinement(sealed=sealed, memory_bytes=memory_bytes)
    start = "import sys; from memorymark.worker import confinement; confinement.confine(sys.argv[1])\n"
    try:
        return subprocess.run(
            [sys.executable, "-c", start + code, confinement.to_argument(home), *arguments],
            env={**confinement.environment(home), "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        Path(home).rmdir()


def test_the_environment_of_a_worker_has_what_it_needs_and_no_secret(monkeypatch):
    for name, value in {**SECRETS, "CUDA_VISIBLE_DEVICES": "1", "OMP_NUM_THREADS": "3"}.items():
        monkeypatch.setenv(name, value)

    for sealed in (True, False):
        environment = Confinement(sealed=sealed).environment("/home-of-its-own")

        assert not SECRETS.keys() & environment.keys()
        assert (environment["CUDA_VISIBLE_DEVICES"], environment["OMP_NUM_THREADS"]) == ("1", "3")
        assert environment["PATH"] == os.environ["PATH"]
        assert environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"] == "1"


def test_a_sealed_worker_has_an_empty_home_and_no_hub():
    environment = Confinement().environment("/home-of-its-own")

    assert environment["HOME"] == "/home-of-its-own"
    assert environment["HF_HOME"].startswith("/home-of-its-own/")
    assert environment["HF_HUB_OFFLINE"] == "1"


@pytest.mark.skipif(not HAS_LANDLOCK, reason="this kernel has no Landlock")
def test_a_sealed_process_reads_no_file_of_the_operators_and_writes_only_at_home(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the operator")
    tries = """
import json, os, pathlib, tempfile
def outcome(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__
secret, parent = pathlib.Path(sys.argv[2]), sys.argv[3]
print(json.dumps({
    "read": outcome(secret.read_text),
    "write": outcome(lambda: secret.write_text("mine")),
    "list": outcome(lambda: os.listdir(secret.parent)),
    "environment of its parent": outcome(pathlib.Path(f"/proc/{parent}/environ").read_bytes),
    "passwords": outcome(pathlib.Path("/etc/shadow").read_bytes),
    "write at home": outcome(lambda: tempfile.TemporaryFile().write(b"mine")),
    "library": outcome(pathlib.Path(json.__file__).read_text),
    "memory of its own": outcome(pathlib.Path("/proc/self/status").read_text),
    "processors": outcome(pathlib.Path("/proc/cpuinfo").read_text),
}))
"""
    done = tried_inside(tries, str(secret), str(os.getpid()))

    assert json.loads(done.stdout or done.stderr) == {
        **dict.fromkeys(("read", "write", "list", "environment of its parent", "passwords"), "PermissionError"),
        **dict.fromkeys(("write at home", "library", "memory of its own", "processors"), "done"),
    }
    assert secret.read_text() == "of the operator"


def test_a_sealed_process_reaches_nobody():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        reach = f"""
import socket
holds = confinement.in_force()
try:
    socket.create_connection(("127.0.0.1", {port}), timeout=10)
    print("reached", confinement.shortcomings(holds))
except OSError:
    print("kept in", confinement.shortcomings(holds))
"""
        done = tried_inside(reach)
        outside = tried_inside(reach, sealed=False)

    assert done.stdout.startswith("kept in") or "the network can be reached" in done.stdout, done.stderr
    assert outside.stdout.startswith("reached"), outside.stderr


def test_what_a_kernel_does_not_keep_from_workers_is_said():
    assert shortcomings({"network": "none", "files": "landlock 7"}) == []
    assert shortcomings({"network": "in reach", "files": "not restricted"}) == [
        "the network can be reached",
        "files can be read",
    ]


def test_a_process_that_takes_too_much_memory_is_ended_or_told_so():
    slowly = "import time\nkept = []\nwhile True: kept.append(bytearray(8 << 20)); time.sleep(0.02)"
    at_once = "try: bytearray(1 << 30)\nexcept MemoryError: print('refused')"

    grown = tried_inside(slowly, memory_bytes=128 * MIB)
    asked = tried_inside(at_once, memory_bytes=128 * MIB)

    assert grown.returncode == TOO_MUCH_MEMORY_EXIT or "MemoryError" in grown.stderr
    assert asked.stdout == "refused\n"


def test_a_worker_that_took_too_much_memory_says_what_to_do(monkeypatch):
    class Greedy(Worker):
        def load(self, *, with_transformers=True):
            raise MemoryError

    monkeypatch.setattr("memorymark.worker.faults.memory_limit_bytes", lambda: 512 * MIB)
    error = answer(Greedy(), "load", {})["error"]

    assert error["code"] == "too_large_for_worker"
    assert "--worker-memory-gib" in error["error"]


def test_a_worker_ended_for_its_memory_is_a_question_that_asks_too_much():
    before = homes()
    with fresh_workers():
        worker = WorkerProcess(Confinement(memory_bytes=8 * MIB, on_gpu=True))  # less than Python itself takes
    try:
        with pytest.raises(TooLargeForWorkerError, match="more memory than a worker of the service may use"):
            worker.call("second_batch", {}, 60)
    finally:
        worker.kill()

    assert homes() <= before


def homes():
    """The folders of this process's workers."""
    return set(Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}{os.getpid()}-*"))

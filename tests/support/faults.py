"""What the tests of faults share: services to break, watchers of their jobs, and a look at their processes."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from support.calls import Caller
from support.forked_workers import server_pids
from support.processes import PATIENCE_SECONDS, is_running, wait_until

# Whoever is started with this in the environment, and all that it starts, can be found by it.
# Its name is one that the environment of workers lets through.
MARK_VARIABLE = "TORCH_MEMORYMARK_FAULTS"
PRICES = itertools.count(1)

# Measured on the CPU; its first trial comes at once and its last one much later.
SLOW = {"model_name": "bert", "device": "cpu", "small": True, "seq_len": 128, "max_batch": 64}
# Measured on the CPU too, and soon done.
SHORT = {"model_name": "bert", "device": "cpu", "small": True, "seq_len": 8, "max_batch": 2, "batch_size": 2}
# Predicted, for which the whole model is traced first.
LONG = {"model_name": "bert", "gpu": "a10"}


def quick():
    """A small prediction that nobody has asked for before."""
    question = {"model_name": "bert", "gpu": "a10", "small": True, "seq_len": 16, "max_batch": 2, "batch_size": 2}
    return {**question, "price_per_hour": next(PRICES)}


def workers(mark):
    """The process ids of the workers that carry a mark, whoever is their parent by now."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_worker = b"memorymark.worker.child" in (process / "cmdline").read_bytes()
            is_ours = is_worker and f"{MARK_VARIABLE}={mark}".encode() in (process / "environ").read_bytes()
        except OSError:  # it has just ended
            continue
        if is_ours and is_running(int(process.name)) and int(process.name) not in server_pids:
            found.add(int(process.name))
    return found


def end_workers(mark):
    for pid in workers(mark):
        os.kill(pid, signal.SIGKILL)


class Breakable(Caller):
    """A service whose workers carry a mark, so that none of them can be left behind unseen."""

    def __init__(self, port, mark, database):
        super().__init__(port)
        self.mark, self.database = mark, database

    def is_settled(self):
        """Whether every lane is idle and the only workers are those that wait in them."""
        lanes = self.health()["workers"]
        if any(lane["state"] != "idle" for lane in lanes):
            return False
        return workers(self.mark) == {lane["pid"] for lane in lanes if lane["pid"]}


def assert_well(service):
    """The service answers and works, has lost nothing, and has left nothing behind."""
    assert service.finished(service.submit(quick()))["state"] == "done"
    for state in ("queued", "running"):
        assert service.get(f"/jobs?state={state}").json["jobs"] == []
    wait_until(service.is_settled)
    wait_until(lambda: service.watchers() == 0)
    health = service.health()
    assert (health["status"], health["problem"]) == ("healthy", None)
    assert (health["queue"]["waiting"], health["queue"]["running"]) == (0, 0)


def assert_sentence(text):
    """What a person is told: one line that ends like a sentence and shows nothing of the inside."""
    assert text.endswith(".")
    assert "\n" not in text
    assert "Traceback" not in text


class Watcher(threading.Thread):
    """Reads the events of a job as they are sent, to the end of the stream."""

    def __init__(self, port, job_id, after=0):
        super().__init__(daemon=True)
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self._path, self._after = f"/jobs/{job_id}/events", after
        self.events = []
        self.broke = None
        self.start()

    def run(self):
        with closing(self._connection):
            try:
                self._connection.request("GET", self._path, headers={"Last-Event-ID": str(self._after)})
                response = self._connection.getresponse()
                assert response.status == 200
                for line in response:
                    if line.startswith(b"data: "):
                        self.events.append(json.loads(line.removeprefix(b"data: ")))
            except (OSError, HTTPException) as error:
                self.broke = error

    def wait_for(self, event):
        """The first event of a kind, as soon as it has been heard of."""
        return wait_until(lambda: next((one for one in list(self.events) if one["event"] == event), None))

    def trials(self):
        return [one["data"]["trial"] for one in list(self.events) if one["event"] == "trial"]

    def ended(self):
        """The last event of a stream that the server brought to its end, with every event in it."""
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()
        assert self.broke is None
        assert [event["id"] for event in self.events] == list(
            range(self._after + 1, self._after + len(self.events) + 1)
        )
        assert [event["event"] for event in self.events].index(self.events[-1]["event"]) == len(self.events) - 1
        assert self.events[-1]["event"] in ("result", "error")
        return self.events[-1]


class ServerProcess(Breakable):
    """``memorymark serve`` as a process of its own, which can be asked to end and killed."""

    def __init__(self, database, log, options):
        super().__init__(port=0, mark=uuid.uuid4().hex, database=database)
        self._log, self.said = log, ""
        command = [sys.executable, "-m", "memorymark", "serve", "--port", "0", "--database", f"sqlite:///{database}"]
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, MARK_VARIABLE: self.mark},
            # In the background SIGINT may be ignored; here it is to be heard.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    @property
    def log(self):
        """The lines that it wrote to stderr."""
        self._log.seek(0)
        return self._log.read().splitlines()

    def wait_until_ready(self):
        self.said = self.process.stdout.readline()
        assert "ready" in self.said, "\n".join(self.log)
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.said)[1])

    def kill(self):
        """Kill -9: the process has no say in it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self, number=signal.SIGTERM):
        """Asks it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def server_starting_on(database, *options):
    """A server that may never be ready; it and its workers are gone at the end, whatever happens."""
    with tempfile.TemporaryFile("w+") as log:
        server = ServerProcess(database, log, options)
        try:
            yield server
        finally:
            server.kill()
            try:
                wait_until(lambda: workers(server.mark) == set())
            finally:
                end_workers(server.mark)


@contextmanager
def server_on(database, *options):
    """A server that is ready."""
    with server_starting_on(database, *options) as server:
        server.wait_until_ready()
        yield server

"""What the tests of faults share: a service to break, a caller and watchers of it, and a look at its processes."""

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from contextlib import closing, contextmanager
from pathlib import Path

from processes import PATIENCE_SECONDS, is_running, wait_until

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
            is_worker = b"memorymark.worker" in (process / "cmdline").read_bytes()
            is_ours = is_worker and f"{MARK_VARIABLE}={mark}".encode() in (process / "environ").read_bytes()
        except OSError:  # it has just ended
            continue
        if is_ours and is_running(int(process.name)):
            found.add(int(process.name))
    return found


def end_workers(mark):
    for pid in workers(mark):
        os.kill(pid, signal.SIGKILL)


class Caller:
    """Calls a service; every call has a connection of its own."""

    def __init__(self, port, mark):
        self.port, self.mark = port, mark

    def call(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with closing(connection):
            connection.request(method, path, data, {**kind, **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read()), response.headers

    def get(self, path, **headers):
        status, document, _ = self.call("GET", path, **headers)
        assert status == 200, document
        return document

    def submit(self, question, **more):
        """The id of a new job."""
        status, document, _ = self.call("POST", "/jobs", {**question, **more})
        assert status == 202, document
        return document["job"]["id"]

    def job(self, job_id):
        return self.get(f"/jobs/{job_id}")["job"]

    def finished(self, job_id, seconds=PATIENCE_SECONDS):
        """The job, once it is in a state that it stays in."""
        return wait_until(lambda: (job := self.job(job_id))["state"] not in ("queued", "running") and job, seconds)

    def events(self, job_id):
        return self.get(f"/jobs/{job_id}/events", Accept="application/json")["events"]

    def cancel(self, job_id):
        status, document, _ = self.call("DELETE", f"/jobs/{job_id}")
        assert status == 200, document
        return document["job"]

    def health(self):
        return self.get("/health")

    def lane(self, name):
        return next(lane for lane in self.health()["workers"] if lane["name"] == name)

    def warm_pid(self, lane):
        """The process id of the worker that waits in a lane, once one does."""
        return wait_until(lambda: (found := self.lane(lane))["state"] == "idle" and found["pid"])

    def busy_pid(self, job_id):
        """The process id of the worker that runs a job, once one does."""
        return wait_until(lambda: next((w["pid"] for w in self.health()["workers"] if w["job"] == job_id), None))

    def watchers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        with closing(connection):
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        return float(re.search(r"^memorymark_watchers (\S+)$", page, re.MULTILINE)[1])

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
        assert service.get(f"/jobs?state={state}")["jobs"] == []
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
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
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
            except (OSError, http.client.HTTPException) as error:
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


class ServerProcess(Caller):
    """``memorymark serve`` as a process of its own, which can be killed."""

    def __init__(self, database):
        super().__init__(port=0, mark=uuid.uuid4().hex)
        self.database = database
        self.process = start_server(database, self.mark)

    def wait_until_ready(self):
        said = self.process.stdout.readline()
        assert "ready" in said, self.process.stderr.read()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", said)[1])
        return self

    def kill(self):
        """Kill -9: the process has no say in it."""
        self.process.kill()
        self.process.communicate()

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_SECONDS)


def start_server(database, mark):
    return subprocess.Popen(
        [sys.executable, "-m", "memorymark", "serve", "--port", "0", "--quiet", "--database", f"sqlite:///{database}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, MARK_VARIABLE: mark},
    )


@contextmanager
def server_on(database):
    """A server that is ready; it and its workers are gone at the end, whatever happens."""
    server = ServerProcess(database)
    try:
        yield server.wait_until_ready()
    finally:
        server.kill()
        try:
            wait_until(lambda: workers(server.mark) == set())
        finally:
            end_workers(server.mark)

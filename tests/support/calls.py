"""Calls a service over a real connection and reads what comes back."""

import json
import re
from dataclasses import dataclass, fields
from http.client import HTTPConnection, HTTPMessage

from prometheus_client.parser import text_string_to_metric_families

from memorymark.server import schemas
from memorymark.server.settings import Settings
from support.processes import PATIENCE_SECONDS, wait_until

# A prediction that a warm worker answers in about a second.
QUICK = {"model_name": "bert", "small": True, "gpu": "a10", "seq_len": 16}
# One that keeps a worker busy for longer than any test looks at it.
SLOW = {"model_name": "gpt2", "all_gpus": True, "fresh": True}
MEASURED = {"model_name": "bert", "device": "cpu", "seq_len": 8, "max_batch": 2}
OPTIONS_OF_SERVE = {setting.name.replace("_", "-") for setting in fields(Settings)}
TOKEN = "0123456789abcdef-a-token"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Caller:
    """Calls a service, each time on a connection of its own."""

    def __init__(self, port, **headers):
        self.port, self._headers = port, headers

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self):
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)

    def headers(self, **more):
        """What is sent: ``Last_Event_ID`` as ``Last-Event-ID``."""
        return {name.replace("_", "-"): value for name, value in {**self._headers, **more}.items()}

    def __call__(self, method, path, body=None, **headers):
        """Keyword arguments are headers."""
        sent = self.headers(**headers)
        if isinstance(body, dict | list):
            body = json.dumps(body)
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self("GET", path, **headers)

    def post(self, path, body, **headers):
        return self("POST", path, body, **headers)

    def delete(self, path, **headers):
        return self("DELETE", path, **headers)

    def submit(self, body, **more):
        """The id of a job, a new one unless the answer is known."""
        answer = self.post("/jobs", {**body, **more})
        assert answer.status in (200, 202), answer.json
        return answer.json["job"]["id"]

    def job(self, job_id):
        return self.get(f"/jobs/{job_id}").json["job"]

    def finished(self, job_id, seconds=PATIENCE_SECONDS):
        """The job, once nothing more happens to it."""
        return wait_until(lambda: (job := self.job(job_id))["state"] not in ("queued", "running") and job, seconds)

    def cancel(self, job_id):
        answer = self.delete(f"/jobs/{job_id}")
        assert answer.status == 200, answer.json
        return answer.json["job"]

    def events(self, job_id, after=0):
        return self.get(f"/jobs/{job_id}/events?after={after}", Accept="application/json").json["events"]

    def health(self):
        return self.get("/health").json

    def wait_until_idle(self):
        """Until no job is left of what others asked."""
        wait_until(lambda: not any(self.health()["queue"][name] for name in ("waiting", "running")))

    def lane(self, name):
        return next(lane for lane in self.health()["workers"] if lane["name"] == name)

    def warm_pid(self, lane):
        """The process id of the worker that waits in a lane, once one does."""
        return wait_until(lambda: (found := self.lane(lane))["state"] == "idle" and found["pid"])

    def busy_pid(self, job_id):
        """The process id of the worker that runs a job, once one does."""
        return wait_until(lambda: next((w["pid"] for w in self.health()["workers"] if w["job"] == job_id), None))

    def metric(self, name, **labels):
        """The sum of a metric over what the labels select."""
        families = text_string_to_metric_families(self.get("/metrics").body.decode())
        samples = [sample for family in families for sample in family.samples]
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def watchers(self):
        """How many streams of events are open."""
        return self.metric("memorymark_watchers")


def sent_events(body):
    """The events of a stream's text, whose fields must agree with each other."""
    events = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            event = json.loads(fields["data"])
            assert (fields["id"], fields["event"]) == (str(event["id"]), event["event"])
            events.append(event)
    return events


def is_error(answer, status):
    document = answer.json
    schemas.Error.model_validate(document)
    assert (answer.status, document["status"]) == (status, "error")
    assert document["error"].endswith(".")
    assert not set(re.findall("--([a-z-]+)", document["error"])) - OPTIONS_OF_SERVE
    return True

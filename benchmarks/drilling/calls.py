"""Calls over connections of their own, with the status and the time of each counted."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

PATIENCE_SECONDS = 60.0
# What a call raises where the server is gone.
GONE = (OSError, HTTPException)


@dataclass(frozen=True)
class Answer:
    """What came back, and after how long."""

    status: int
    body: bytes
    seconds: float

    @property
    def document(self) -> Any:
        """The JSON in it."""
        return json.loads(self.body)


@dataclass
class Caller:
    """Calls one port; safe to share between threads."""

    port: int
    statuses: Counter[int] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        timeout: float = PATIENCE_SECONDS,
    ) -> Answer:
        """Makes a call; a body that is not bytes is sent as JSON. Raises what ``GONE`` lists."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if data is not None else {}
        start = time.perf_counter()
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=timeout)) as connection:
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            answer = Answer(response.status, response.read(), time.perf_counter() - start)
        with self._lock:
            self.statuses[answer.status] += 1
        return answer

    def document(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of a call that must succeed."""
        answer = self(method, path, body)
        if answer.status not in (200, 202):
            raise OSError(f"{method} {path} answered {answer.status}: {answer.body[:200]!r}")
        return answer.document

    def job(self, job_id: str) -> dict[str, Any]:
        """A job."""
        found: dict[str, Any] = self.document("GET", f"/jobs/{job_id}")["job"]
        return found

    def finished(self, job_id: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """A job as soon as it has ended, or as it is after so long."""
        deadline = time.monotonic() + seconds
        while (job := self.job(job_id))["state"] in ("queued", "running") and time.monotonic() < deadline:
            time.sleep(0.1)
        return job

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """What happened to a job so far."""
        answer = self("GET", f"/jobs/{job_id}/events", headers={"Accept": "application/json"})
        found: list[dict[str, Any]] = answer.document["events"]
        return found

    def all_jobs(self) -> list[dict[str, Any]]:
        """Every job of the history, as listings show it."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.document("GET", f"/jobs?limit=500{after}")
            found += page["jobs"]
            if page["next"] is None:
                return found
            after = f"&before={page['next']}"

    def is_well(self) -> bool:
        """Whether /health has no complaint."""
        answer = self("GET", "/health")
        return answer.status == 200 and answer.document["problem"] is None


def open_socket(port: int, text: str | bytes, timeout: float = PATIENCE_SECONDS) -> socket.socket:
    """A connection on which something has been sent."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    opened.sendall(text.encode() if isinstance(text, str) else text)
    return opened


def posted(path: str, body: object) -> bytes:
    """A whole POST as it goes over the wire."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    return f"{head}\r\n\r\n".encode() + data

"""A server that has something to do for as long as a drill lasts, and yet leaves the processors alone."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from drilling.calls import GONE
from drilling.questions import LONG, tiny
from drilling.server import Server, running, workers

MANY_FILES = 4096


@contextmanager
def busy_lane() -> Iterator[tuple[Server, str]]:
    """A server that knows the answer to ``tiny("known")``, and the job that keeps its only lane busy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MANY_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(MANY_FILES, hard), hard))
    with running("--prediction-workers", "1") as server:
        server.call.document("POST", "/analyze", tiny("known"))
        job_id = server.call.document("POST", "/jobs", LONG)["job"]["id"]
        while server.call.job(job_id)["state"] == "queued":
            time.sleep(0.05)
        time.sleep(0.5)
        for worker in workers(server.pid):
            os.kill(worker, signal.SIGSTOP)
        try:
            yield server, job_id
        finally:
            with suppress(*GONE):
                server.call("DELETE", f"/jobs/{job_id}")

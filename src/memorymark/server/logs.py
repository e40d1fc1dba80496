"""Logs as JSON lines: one object for each thing that happened, with the job it happened to."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback

from flask import Flask, Response, g, request

from memorymark.history.views import iso_time

log = logging.getLogger(__name__)

FACTS = ("job", "lane", "model", "target", "state", "method", "path", "status", "milliseconds")


class JsonLines(logging.Formatter):
    """One line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's time, level and message, and the facts that came with it."""
        line = {"at": iso_time(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {name: getattr(record, name) for name in FACTS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


def log_requests(app: Flask) -> None:
    """Logs every call with its answer's status and how long it took until the answer began."""

    @app.before_request
    def begin() -> None:
        g.request_began = time.perf_counter()

    @app.after_request
    def end(response: Response) -> Response:
        facts = {"method": request.method, "path": request.path, "status": response.status_code}
        began = g.get("request_began")
        if began is not None:
            facts["milliseconds"] = round(1e3 * (time.perf_counter() - began), 1)
        log.info("request", extra=facts | ({"job": job} if (job := (request.view_args or {}).get("job_id")) else {}))
        return response


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends what the service and its server log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("memorymark", "waitress"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a queue is no news: watchers hold threads

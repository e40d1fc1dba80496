"""Logs as JSON lines: one object for each thing that happened, with the job it happened to."""

from __future__ import annotations

import json
import logging
import sys
import traceback

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


def log_call(method: str, path: str, status: int, seconds: float, job: str | None = None) -> None:
    """Logs a call with its answer's status and how long it took until the answer began."""
    facts = {"method": method, "path": path, "status": status, "milliseconds": round(1e3 * seconds, 1)}
    log.info("request", extra=facts | ({"job": job} if job else {}))


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends what the service and its server log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # What clients send that is no HTTP is no news of the server's.
    for name, least in (("memorymark", level), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)

"""Logs as JSON lines: one object for each event, with its job."""

from __future__ import annotations

import json
import logging
import sys
import traceback

from memorymark.units import iso_time

log = logging.getLogger(__name__)

FACTS = ("job", "lane", "model", "target", "state", "method", "path", "status", "milliseconds")


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the record's time, level, message and facts as JSON."""
        line = {"at": iso_time(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {name: getattr(record, name) for name in FACTS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


def log_call(method: str, path: str, status: int, seconds: float, job: str | None = None) -> None:
    """Logs a call with its status and the time until its answer began."""
    facts = {"method": method, "path": path, "status": status, "milliseconds": round(1e3 * seconds, 1)}
    log.info("request", extra=facts | ({"job": job} if job else {}))


def log_to_stderr(level: int = logging.INFO) -> None:
    """Sends the logs of the service and of uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # uvicorn warns when clients send something that is not HTTP, which is not worth logging.
    for name, least in (("memorymark", level), ("uvicorn", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)

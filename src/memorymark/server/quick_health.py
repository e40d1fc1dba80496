"""GET /health in the event loop itself: it is answered at once, whatever the threads do."""

from __future__ import annotations

import json
import time
from typing import Any

from werkzeug.datastructures import Headers
from werkzeug.sansio.utils import get_host

from memorymark.server.fact_routes import HealthReport
from memorymark.server.logs import log_call
from memorymark.server.metrics import Metrics
from memorymark.server.security import mark, refusal
from memorymark.server.settings import Settings
from memorymark.server.wsgi import Answer

PATH = "/health"


class QuickHealth:
    """Answers the plain call; one that is to be refused, or is unusual, is left to the app."""

    def __init__(self, report: HealthReport, settings: Settings, metrics: Metrics) -> None:
        self._report, self._settings, self._metrics = report, settings, metrics

    def __call__(self, scope: dict[str, Any]) -> Answer | None:
        """What the app would answer, or ``None`` where it shall."""
        if scope["method"] != "GET" or scope["raw_path"] != PATH.encode() or scope["query_string"]:
            return None
        began = time.perf_counter()
        sent = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in sent if name == b"host"]
        is_plain = len(hosts) == 1 and b"transfer-encoding" not in dict(sent)
        if not is_plain or dict(sent).get(b"content-length", "0") != "0":
            return None
        if refusal(self._settings, "GET", PATH, host=get_host(scope["scheme"], hosts[0]), authorization=""):
            return None
        body = json.dumps(self._report.document()).encode() + b"\n"
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body))})
        mark(self._settings, PATH, dict(sent).get(b"origin"), headers)
        seconds = time.perf_counter() - began
        self._metrics.count("health", 200, seconds)
        log_call("GET", PATH, 200, seconds)
        return Answer(200, [(name.lower().encode(), value.encode("latin-1")) for name, value in headers], body)

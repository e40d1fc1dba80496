"""Answers GET /health in the event loop itself, so that it is always quick, whatever the threads do."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import Any

from werkzeug.datastructures import Headers
from werkzeug.sansio.utils import get_host

from memorymark.server.fact_routes import HealthReport
from memorymark.server.logs import log_call
from memorymark.server.metrics import Metrics
from memorymark.server.security import mark, refusal
from memorymark.server.settings import Settings
from memorymark.server.wsgi import CompleteResponse

PATH = "/health"
# How many hosts and origins to cache the checks of.
KEPT = 256


class QuickHealth:
    """Answers plain calls, and leaves unusual and forbidden ones to the app."""

    def __init__(self, report: HealthReport, settings: Settings, metrics: Metrics) -> None:
        self._report, self._settings, self._metrics = report, settings, metrics
        self._is_welcome = lru_cache(KEPT)(self._find_if_welcome)
        self._marks = lru_cache(KEPT)(self._find_marks)

    def __call__(self, scope: dict[str, Any]) -> CompleteResponse | None:
        """Returns what the app would answer, or ``None`` to leave the call to the app."""
        if scope["raw_path"] != PATH.encode() or scope["method"] != "GET" or scope["query_string"]:
            return None
        began = time.perf_counter()
        sent = dict(scope["headers"])
        is_plain = len(sent) == len(scope["headers"]) and b"transfer-encoding" not in sent
        if not is_plain or sent.get(b"content-length", b"0") != b"0":
            return None
        if b"host" not in sent or not self._is_welcome(scope["scheme"], sent[b"host"]):
            return None
        body = json.dumps(self._report.document()).encode() + b"\n"
        seconds = time.perf_counter() - began
        self._metrics.count("health", 200, seconds)
        log_call("GET", PATH, 200, seconds)
        length = (b"content-length", str(len(body)).encode())
        return CompleteResponse(200, [length, *self._marks(sent.get(b"origin"))], body)

    def _find_if_welcome(self, scheme: str, host: bytes) -> bool:
        named = get_host(scheme, host.decode("latin-1"))
        return refusal(self._settings, "GET", PATH, host=named, authorization="") is None

    def _find_marks(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        headers = Headers({"Content-Type": "application/json"})
        mark(self._settings, PATH, None if origin is None else origin.decode("latin-1"), headers)
        return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]

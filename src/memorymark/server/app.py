"""Assembles the HTTP interface."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from flask import Response, g, jsonify, redirect, request, send_from_directory
from flask.json.provider import DefaultJSONProvider
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.wrappers import Response as AnyResponse

from memorymark.checks.text import require_text, too_deep
from memorymark.question.configs import LARGEST_CONFIG_BYTES
from memorymark.server import schemas
from memorymark.server.accelerators import NO_GPU, Accelerators
from memorymark.server.answers import explain_errors, invalid, no_object
from memorymark.server.compression import compress
from memorymark.server.event_stream import EventStreams
from memorymark.server.fact_routes import HealthReport, add_fact_routes
from memorymark.server.front import Front
from memorymark.server.handover import BEGAN, KEY, Handover
from memorymark.server.job_routes import STREAM, add_job_routes
from memorymark.server.jobs import Jobs
from memorymark.server.logs import log_call
from memorymark.server.metrics import Metrics
from memorymark.server.quick_health import QuickHealth
from memorymark.server.routes import FACTS, answers
from memorymark.server.security import protect
from memorymark.server.settings import Settings
from memorymark.server.sweep_routes import add_sweep_routes
from memorymark.units import KIB
from memorymark.version import __version__

DESCRIPTION = "Finds the GPU memory that training wastes, proves it and hands over the fix."
DOCUMENTATION = "/openapi/swagger"
LARGEST_BODY_BYTES = LARGEST_CONFIG_BYTES + 64 * KIB
DASHBOARD = Path(__file__).parent / "dashboard"


def create_app(jobs: Jobs, settings: Settings, has: Accelerators = NO_GPU) -> OpenAPI:
    """Makes the Flask app of the service; ``has`` says what its workers can use."""
    streams = EventStreams(jobs, settings)
    return _create(jobs, settings, HealthReport(jobs, has), Metrics(jobs, streams), streams)


def create_front(jobs: Jobs, settings: Settings, has: Accelerators = NO_GPU) -> Front:
    """Makes the service for a server with an event loop, in which waiting callers hold no threads."""
    streams = EventStreams(jobs, settings)
    health, metrics = HealthReport(jobs, has), Metrics(jobs, streams)
    app = _create(jobs, settings, health, metrics, streams)
    return Front(app, jobs, quick=QuickHealth(health, settings, metrics), largest_body_bytes=LARGEST_BODY_BYTES)


def _create(jobs: Jobs, settings: Settings, health: HealthReport, metrics: Metrics, streams: EventStreams) -> OpenAPI:
    app = OpenAPI(
        __name__,
        info=Info(title="MemoryMark", version=__version__, description=DESCRIPTION),
        security_schemes={"token": {"type": "http", "scheme": "bearer"}},
        validation_error_status=400,
        validation_error_model=schemas.Error,
        validation_error_callback=invalid,
        static_folder=None,
    )
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY_BYTES
    app.json = TextOnly(app)
    _record_calls(app, metrics)
    compress(app)
    protect(app, settings)
    explain_errors(app)
    _require_sense(app)
    _add_front_page(app)
    add_fact_routes(app, health, metrics)
    add_job_routes(app, jobs, metrics, streams, longest_wait_seconds=settings.job_seconds)
    add_sweep_routes(app, jobs.store.sweeps)
    _document_texts(app)
    return app


class TextOnly(DefaultJSONProvider):
    """Reads every body, and rejects invalid text and deep nesting."""

    sort_keys = False

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        """Parses a body; raises if it contains invalid text or is nested too deeply."""
        try:
            document = super().loads(s, **kwargs)
        except RecursionError:
            raise too_deep("the body") from None
        require_text(document, "the body")
        return document


def _record_calls(app: OpenAPI, metrics: Metrics) -> None:
    """Counts and logs every call once, when it is answered."""

    @app.before_request
    def begin() -> None:
        request.environ.setdefault(BEGAN, time.perf_counter())

    @app.after_request
    def end(response: Response) -> Response:
        if not g.get("is_left"):
            seconds = time.perf_counter() - request.environ[BEGAN]
            metrics.count(request.endpoint or "none", response.status_code, seconds)
            job_id = (request.view_args or {}).get("job_id")
            log_call(request.method, request.path, response.status_code, seconds, job_id)
        return response


def _document_texts(app: OpenAPI) -> None:
    """Adds the event stream and other texts to the OpenAPI document, which a model cannot describe."""
    texts = {"/jobs/{job_id}/events": (STREAM,), "/sweeps/{sweep_id}/report": ("text/html", "text/csv")}
    for path, types in texts.items():
        answer = app.api_doc["paths"][path]["get"]["responses"]["200"]
        answer["content"] |= {each: {"schema": {"type": "string"}} for each in types}


def _require_sense(app: OpenAPI) -> None:
    @app.before_request
    def check() -> None:
        handover: Handover | None = request.environ.get(KEY)
        if handover is not None:
            handover.require_room()
        try:
            query = unquote_to_bytes(request.query_string).decode()
        except UnicodeDecodeError:
            query = "\0"
        require_text(query, "the query")
        if request.method != "POST" or request.url_rule is None:
            return
        if request.content_length and request.mimetype != "application/json":
            raise UnsupportedMediaType
        if not isinstance(request.get_json(silent=True), dict):
            raise no_object()


def _add_front_page(app: OpenAPI) -> None:
    @app.get("/", tags=[FACTS], responses=answers(ok=schemas.Info), summary="The dashboard, or facts about the service")
    def front_page() -> AnyResponse:
        """Sends browsers the dashboard, and programs facts about the service."""
        if request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html":
            if (DASHBOARD / "index.html").is_file():
                page: AnyResponse = send_from_directory(DASHBOARD, "index.html")
            else:
                page = redirect(DOCUMENTATION)
            page.vary.add("Accept")
            return page
        endpoints = [f"{method.upper()} {path}" for path, item in app.api_doc["paths"].items() for method in item]
        facts = jsonify(
            kind="service",
            name="MemoryMark",
            version=__version__,
            description=DESCRIPTION,
            documentation=DOCUMENTATION,
            openapi="/openapi/openapi.json",
            endpoints=sorted(endpoints),
        )
        facts.vary.add("Accept")
        return facts

    @app.route("/assets/<path:name>")
    def assets(name: str) -> Response:
        response = send_from_directory(DASHBOARD / "assets", name)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response

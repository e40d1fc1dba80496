"""The HTTP interface, put together."""

from __future__ import annotations

from pathlib import Path

from flask import Response, jsonify, redirect, request, send_from_directory
from flask_openapi3.models.info import Info
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import UnsupportedMediaType
from werkzeug.wrappers import Response as AnyResponse

from memorymark.errors import UsageError
from memorymark.models.configs import LARGEST_CONFIG_BYTES
from memorymark.server import schemas
from memorymark.server.answers import NO_OBJECT, explain_errors, invalid
from memorymark.server.event_stream import EventStreams
from memorymark.server.fact_routes import add_fact_routes
from memorymark.server.job_routes import STREAM, add_job_routes
from memorymark.server.jobs import Jobs
from memorymark.server.logs import log_requests
from memorymark.server.metrics import Metrics
from memorymark.server.routes import FACTS, answers
from memorymark.server.security import protect
from memorymark.server.settings import Settings
from memorymark.units import KIB
from memorymark.version import __version__

DESCRIPTION = "Finds the GPU memory that training wastes, proves it and hands over the fix."
DOCUMENTATION = "/openapi/swagger"
LARGEST_BODY_BYTES = LARGEST_CONFIG_BYTES + 64 * KIB
DASHBOARD = Path(__file__).parent / "dashboard"


def create_app(jobs: Jobs, settings: Settings, device_kind: str = "cpu") -> OpenAPI:
    """The service over a line of jobs; ``device_kind`` is what torch can use here."""
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
    app.json.sort_keys = False  # type: ignore[attr-defined]
    streams = EventStreams(jobs, settings)
    metrics = Metrics(jobs, streams)
    metrics.count(app)
    log_requests(app)
    protect(app, settings)
    explain_errors(app)
    _require_json(app)
    _add_front_page(app)
    add_fact_routes(app, jobs, metrics, device_kind)
    add_job_routes(app, jobs, metrics, streams, longest_wait_seconds=settings.job_seconds)
    _document_streams(app)
    return app


def _document_streams(app: OpenAPI) -> None:
    """Adds to the document what a model cannot say: events come as JSON or as a stream."""
    answer = app.api_doc["paths"]["/jobs/{job_id}/events"]["get"]["responses"]["200"]
    answer["content"][STREAM] = {"schema": {"type": "string"}}


def _require_json(app: OpenAPI) -> None:
    @app.before_request
    def check() -> None:
        if request.method != "POST" or request.url_rule is None:
            return
        if request.content_length and request.mimetype != "application/json":
            raise UnsupportedMediaType
        try:
            body = request.get_json(silent=True)
        except RecursionError:  # brackets in brackets in brackets
            body = None
        if not isinstance(body, dict):
            raise UsageError(NO_OBJECT)


def _add_front_page(app: OpenAPI) -> None:
    @app.get("/", tags=[FACTS], responses=answers(ok=schemas.Info), summary="The dashboard, or what this is")
    def front_page() -> AnyResponse:
        if request.accept_mimetypes.best_match(["application/json", "text/html"]) == "text/html":
            if (DASHBOARD / "index.html").is_file():
                return send_from_directory(DASHBOARD, "index.html")
            return redirect(DOCUMENTATION)
        endpoints = [f"{method.upper()} {path}" for path, item in app.api_doc["paths"].items() for method in item]
        return jsonify(
            name="MemoryMark",
            version=__version__,
            description=DESCRIPTION,
            documentation=DOCUMENTATION,
            openapi="/openapi/openapi.json",
            endpoints=sorted(endpoints),
        )

    @app.route("/assets/<path:name>")
    def assets(name: str) -> Response:
        response = send_from_directory(DASHBOARD / "assets", name)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response

"""The routes of health, catalogs, options and metrics."""

from __future__ import annotations

import time
from typing import Any

from flask import Response, jsonify
from flask_openapi3.openapi import OpenAPI

from memorymark.catalog.listings import gpu_catalog, model_catalog
from memorymark.devices.machine import gpus_here
from memorymark.question.flat import OPTIONS
from memorymark.server import schemas
from memorymark.server.accelerators import Accelerators
from memorymark.server.jobs import Jobs
from memorymark.server.metrics import Metrics
from memorymark.server.routes import FACTS, GUARDED, answers
from memorymark.units import iso_time
from memorymark.version import __version__


class HealthReport:
    """Reports the service's health without using the database or waiting; ``has`` says what its workers can use."""

    def __init__(self, jobs: Jobs, has: Accelerators) -> None:
        self._jobs, self.has = jobs, has
        self._facts = {"version": __version__, **has.facts()}

    def document(self) -> dict[str, Any]:
        """Returns the answer to GET /health."""
        status = self._jobs.status()
        problem, recording = self._jobs.problem, self._jobs.recording
        return {
            "kind": "health",
            "status": "degraded" if problem else "healthy",
            "problem": problem,
            **self._facts,
            "recording": recording.to_dict() if recording is not None else None,
            "timestamp": iso_time(time.time()),
            **status,
        }


def add_fact_routes(app: OpenAPI, health_report: HealthReport, metrics: Metrics) -> None:
    """Adds the routes to the app."""

    @app.get("/health", tags=[FACTS], responses=answers(ok=schemas.Health), summary="The health of the service")
    def health() -> Response:
        """Answers at once, however busy the service is: it asks neither the history nor a worker."""
        return jsonify(health_report.document())

    @app.get("/metrics", tags=[FACTS], responses=answers(ok=METRICS), summary="Metrics for Prometheus", **GUARDED)
    def read_metrics() -> Response:
        """Counts calls, jobs and failures, and says how long they took."""
        return metrics.page()

    @app.get("/models", tags=[FACTS], responses=answers(ok=schemas.ModelsAnswer), summary="The models", **GUARDED)
    def models() -> Response:
        """Lists the models known by name, and the tasks they can be trained for."""
        return jsonify(model_catalog().to_dict())

    @app.get("/gpus", tags=[FACTS], responses=answers(ok=schemas.GpusAnswer), summary="The GPUs", **GUARDED)
    def gpus() -> Response:
        """Lists the GPUs known by name with their memory and prices, and says which are in the server."""
        return jsonify(gpu_catalog(health_report.has.ids | gpus_here()).to_dict())

    @app.get("/options", tags=[FACTS], responses=answers(ok=schemas.OptionsAnswer), summary="The options", **GUARDED)
    def options() -> Response:
        """Lists all options of a question, so that a program can build its form from them."""
        return jsonify(kind="options", options=[one.to_dict() for one in OPTIONS.values()])


METRICS = {"description": "Counters", "content": {"text/plain": {"schema": {"type": "string"}}}}

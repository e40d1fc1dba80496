"""Addresses that tell what is here: health, catalogs, metrics."""

from __future__ import annotations

import time
from typing import Any

from flask import Response, jsonify
from flask_openapi3.openapi import OpenAPI

from memorymark.catalog import all_gpus, all_models
from memorymark.devices import nvml
from memorymark.history import views
from memorymark.machine import gpus_here
from memorymark.models.tasks import TASKS
from memorymark.server import schemas
from memorymark.server.jobs import Jobs
from memorymark.server.metrics import Metrics
from memorymark.server.routes import FACTS, GUARDED, answers
from memorymark.units import gib
from memorymark.version import __version__


class HealthReport:
    """How the service is, told without the database and without waiting for anyone; ``device_kind`` is torch's."""

    def __init__(self, jobs: Jobs, device_kind: str) -> None:
        self._jobs = jobs
        gpus = nvml.gpus() if device_kind == "cuda" else []
        self._facts = {
            "version": __version__,
            "gpu_available": device_kind != "cpu",
            "gpu_name": gpus[0].name if gpus else None,
            "gpu_memory_total_gb": gib(gpus[0].total_bytes) if gpus else None,
            "device": device_kind,
        }

    def document(self) -> dict[str, Any]:
        """What GET /health answers."""
        status = self._jobs.status()
        problem = self._jobs.problem
        return {
            "status": "degraded" if problem else "healthy",
            "problem": problem,
            **self._facts,
            "timestamp": views.iso_time(time.time()),
            **status,
        }


def add_fact_routes(app: OpenAPI, health_report: HealthReport, metrics: Metrics) -> None:
    """Adds them to the app."""

    @app.get("/health", tags=[FACTS], responses=answers(ok=schemas.Health), summary="How the service is")
    def health() -> Response:
        return jsonify(health_report.document())

    @app.get("/metrics", tags=[FACTS], responses=answers(ok=METRICS), summary="For Prometheus", **GUARDED)
    def read_metrics() -> Response:
        return metrics.page()

    @app.get("/models", tags=[FACTS], responses=answers(ok=schemas.ModelsAnswer), summary="The models", **GUARDED)
    def models() -> Response:
        return jsonify(
            models=[entry.to_dict() for entry in all_models()], tasks=[task.to_dict() for task in TASKS.values()]
        )

    @app.get("/gpus", tags=[FACTS], responses=answers(ok=schemas.GpusAnswer), summary="The GPUs", **GUARDED)
    def gpus() -> Response:
        here = gpus_here()
        return jsonify(gpus=[{**entry.to_dict(), "here": entry.id in here} for entry in all_gpus()])


METRICS = {"description": "Counters", "content": {"text/plain": {"schema": {"type": "string"}}}}

"""Addresses that tell what is here: health, catalogs, metrics."""

from __future__ import annotations

import time

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


def add_fact_routes(app: OpenAPI, jobs: Jobs, metrics: Metrics, device_kind: str) -> None:
    """Adds them to the app; ``device_kind`` is what torch can use here."""

    @app.get("/health", tags=[FACTS], responses=answers(ok=schemas.Health), summary="How the service is")
    def health() -> Response:
        status, gpus = jobs.status(), nvml.gpus() if device_kind == "cuda" else []
        problem = jobs.problem
        return jsonify(
            status="degraded" if problem else "ok",
            problem=problem,
            version=__version__,
            gpu_available=device_kind != "cpu",
            gpu_name=gpus[0].name if gpus else None,
            gpu_memory_total_gb=gib(gpus[0].total_bytes) if gpus else None,
            device=device_kind,
            timestamp=views.iso_time(time.time()),
            **status,
        )

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

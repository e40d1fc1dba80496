"""The routes that show sweeps."""

from __future__ import annotations

import json

from flask import Response
from flask_openapi3.openapi import OpenAPI
from werkzeug.exceptions import NotFound

from memorymark.history.listed_sweep import ListedSweep
from memorymark.history.sweeps import Sweeps
from memorymark.render.grid import grid_csv
from memorymark.render.html import page
from memorymark.results.grid import Grid
from memorymark.server import bodies, schemas
from memorymark.server.answers import success
from memorymark.server.routes import GUARDED, SWEEPS, answers
from memorymark.server.watched_sweeps import WatchedSweeps

TYPES = {"html": "text/html", "csv": "text/csv", "json": "application/json"}


def add_sweep_routes(app: OpenAPI, sweeps: Sweeps) -> None:
    """Adds the routes to the app; the sweeps themselves are run by `memorymark sweep`."""
    watched = WatchedSweeps(sweeps)

    @app.get("/sweeps", tags=[SWEEPS], responses=answers(503, ok=schemas.SweepsAnswer), summary="Sweeps", **GUARDED)
    def list_sweeps(query: bodies.SweepsQuery) -> Response:
        """Lists sweeps without their cases, the last to start first."""
        found = sweeps.latest(limit=query.limit + 1, before=query.before)
        shown = [sweep.to_dict() for sweep in found[: query.limit]]
        return success("sweeps", sweeps=shown, next=shown[-1]["id"] if len(found) > query.limit else None)

    @app.get(
        "/sweeps/<sweep_id>",
        tags=[SWEEPS],
        responses=answers(404, 503, ok=schemas.SweepAnswer),
        summary="One sweep, while it runs and after",
        **GUARDED,
    )
    def show_sweep(path: bodies.SweepPath, query: bodies.SweepQuery) -> Response:
        """Returns a sweep and its cases; a watcher asks again for those that have changed since."""
        sweep = _existing(sweeps, path.sweep_id)
        view = watched.view(sweep, after=query.after, limit=query.limit)
        return success("sweep_state", sweep=view.to_dict())

    @app.get(
        "/sweeps/<sweep_id>/report",
        tags=[SWEEPS],
        responses=answers(404, 503, ok=schemas.SweepReport),
        summary="The cases of a sweep that have ended, as a file",
        **GUARDED,
    )
    def report_sweep(path: bodies.SweepPath, query: bodies.SweepReportQuery) -> Response:
        """Sends what `memorymark sweep -o` writes; a download, so that a page never runs on this site."""
        sweep = _existing(sweeps, path.sweep_id)
        grid = watched.grid(sweep)
        content = _written(grid, query.form)
        named = f"memorymark-sweep-{sweep.id}.{query.form}"
        headers = {"Content-Disposition": f"attachment; filename={named}"}
        return Response(content, content_type=f"{TYPES[query.form]}; charset=utf-8", headers=headers)


def _written(grid: Grid, form: str) -> str:
    if form == "json":
        return json.dumps(grid.to_dict(), indent=2) + "\n"
    return grid_csv(grid) if form == "csv" else page(grid)


def _existing(sweeps: Sweeps, sweep_id: str) -> ListedSweep:
    """Returns the sweep with this id; raises 404 if there is none."""
    sweep = sweeps.find(sweep_id) if sweep_id.isalnum() and sweep_id.isascii() else None
    if sweep is None:
        raise NotFound("there is no sweep with this id; GET /sweeps lists them.")
    return sweep

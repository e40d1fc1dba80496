"""Shared parts of routes in the OpenAPI document: tags, errors and the token."""

from __future__ import annotations

from typing import Any

from flask_openapi3.models.tag import Tag
from flask_openapi3.types import ResponseDict

from memorymark.server import schemas

FACTS, WORK, JOBS, SWEEPS = (Tag(name=name) for name in ("facts", "work", "jobs", "sweeps"))
# Marks a call that requires a token.
GUARDED: dict[str, Any] = {"security": [{"token": []}]}


def answers(*statuses: int, **by_status: Any) -> ResponseDict:
    """Returns the answers of a route: ``ok=Model`` or ``accepted=Model``, and errors by status."""
    names = {"ok": "200", "accepted": "202", "empty": "204"}
    documented: ResponseDict = {names[name]: model for name, model in by_status.items()}
    for status in (400, 401, 403, *statuses):
        documented[str(status)] = schemas.Error
    return documented

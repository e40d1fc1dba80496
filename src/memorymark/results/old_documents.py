"""Adds the missing ``kind`` to results that older versions wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memorymark.results.result import Kind


def with_kind(document: Any) -> Any:
    """Returns a stored result with a ``kind`` in each document; anything else is returned unchanged."""
    if not isinstance(document, dict) or "kind" in document:
        return document
    dated = {"kind": kind_of_old_document(document), **document}
    for name, fill in INSIDE.items():
        if name in document:
            dated[name] = _each(document[name], fill)
    return dated


def kind_of_old_document(document: dict[str, Any]) -> Kind:
    """Returns the kind of an old result, by a key that only documents of that kind had."""
    if "options" in document:
        return "advice"
    if "seq_lens" in document:
        return "sweep"
    return "comparison" if "analyses" in document else "analysis"


def _as_trial(value: Any) -> Any:
    return {"kind": "trial", **value} if isinstance(value, dict) else value


def _as_option(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _as_trial(part) if name in ("predicted", "measured") else part for name, part in value.items()}


# The keys under which old results held other documents.
INSIDE: dict[str, Callable[[Any], Any]] = {
    "analyses": with_kind,
    "trials": _as_trial,
    "today": _as_trial,
    "options": _as_option,
}


def _each(value: Any, fill: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: fill(part) for name, part in value.items()}
    return [fill(part) for part in value] if isinstance(value, list) else value

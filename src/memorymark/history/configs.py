"""Stores pasted configs once, since they are large and often repeated; documents refer to them by hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

HASH = "config_hash"


def put_away(document: dict[str, Any] | None) -> tuple[dict[str, Any] | None, dict[str, dict[str, Any]]]:
    """Returns a question or a result without its configs, and the configs by hash."""
    found: dict[str, dict[str, Any]] = {}

    def without(request: dict[str, Any]) -> dict[str, Any]:
        config = request.get("config")
        if not isinstance(config, dict):
            return request
        name = _hash(config)
        found[name] = config
        return {HASH: name, **{key: value for key, value in request.items() if key != "config"}}

    return _changed(document, without), found


def hashes_in(document: dict[str, Any] | None) -> set[str]:
    """Returns the hashes of the configs that a document refers to."""
    found: set[str] = set()

    def note(request: dict[str, Any]) -> dict[str, Any]:
        if HASH in request:
            found.add(request[HASH])
        return request

    _changed(document, note)
    return found


def bring_back(document: dict[str, Any] | None, configs: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Returns the document with its configs back in place."""

    def whole(request: dict[str, Any]) -> dict[str, Any]:
        if HASH not in request:
            return request
        rest = {key: value for key, value in request.items() if key != HASH}
        # A lost config becomes an empty one, which is rejected; without any, the label would be read as a model's name.
        return {**rest, "config": configs.get(request[HASH], {})}

    return _changed(document, whole)


def _changed(
    document: dict[str, Any] | None, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """Applies a change to every request in a document: its own, and those of the analyses in it."""
    if not isinstance(document, dict):
        return document
    changed = dict(document)
    if isinstance(changed.get("request"), dict):
        changed["request"] = change(changed["request"])
    if isinstance(changed.get("analyses"), dict):
        changed["analyses"] = {name: _changed(one, change) for name, one in changed["analyses"].items()}
    return changed


def _hash(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config).encode()).hexdigest()

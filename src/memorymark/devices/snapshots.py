"""Snapshots of torch's caching allocator on their way between processes: repeated stacks are written once. No torch."""

from __future__ import annotations

import json
from typing import Any

FRAMES = "frames"


def compact(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Returns a snapshot in JSON types, with a table of the stacks in it."""
    table: dict[str, int] = {}
    stacks: list[Any] = []

    def shared(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: place(one) if name == FRAMES else shared(one) for name, one in value.items()}
        return [shared(one) for one in value] if isinstance(value, (list, tuple)) else value

    def place(frames: Any) -> int:
        key = json.dumps(frames)
        if key not in table:
            table[key] = len(stacks)
            stacks.append(frames)
        return table[key]

    return {"snapshot": shared(snapshot), "stacks": stacks}


def expand(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the snapshot that ``compact`` wrote; equal stacks are one object, so that a pickle of it is small."""
    stacks = document["stacks"]

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: stacks[one] if name == FRAMES else _as_torch(name, whole(one)) for name, one in value.items()}
        return [whole(one) for one in value] if isinstance(value, list) else value

    return dict(whole(document["snapshot"]))


def _as_torch(name: str, value: Any) -> Any:
    return tuple(value) if name.endswith("pool_id") and isinstance(value, list) else value

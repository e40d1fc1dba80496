"""Errors and crashes in a worker, in the form that is sent to its caller."""

from __future__ import annotations

import traceback
from typing import Any

from memorymark.errors import MemoryMarkError
from memorymark.question.request import Request
from memorymark.training.blame import place_of
from memorymark.training.failures import lacks_host_memory
from memorymark.units import MIB
from memorymark.worker.confinement import memory_limit_bytes
from memorymark.worker.crashes import blamed, first_line
from memorymark.worker.supervisor import too_large

# Less than this left is nothing: one layer of activations takes more.
ROOM_BYTES = 64 * MIB


def told(error: Exception, suspect: Request | None) -> dict[str, Any]:
    """Returns an exception as JSON types; ``suspect`` is the request whose model has not run yet, if any."""
    if isinstance(error, MemoryMarkError):
        return _error(error)
    limit_bytes = memory_limit_bytes()
    if limit_bytes is not None and (lacks_host_memory(error) or not _has_room()):
        traceback.clear_frames(error.__traceback__)  # saying so takes memory, too
        return _error(too_large(limit_bytes))
    traceback.print_exception(error)
    refused = blamed(error, suspect) if suspect is not None else None
    return _crash(error) if refused is None else _error(refused)


def _has_room() -> bool:
    """Tells whether memory can still be had: where it cannot, Python and libraries fail with errors of any kind."""
    try:
        bytearray(ROOM_BYTES)
    except MemoryError:
        return False
    return True


def _crash(error: Exception) -> dict[str, Any]:
    return {"crash": first_line(error) + place_of(error)}


def _error(error: MemoryMarkError) -> dict[str, Any]:
    return {"error": error.to_dict(with_detail=True)}

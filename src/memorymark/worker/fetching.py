"""Fetches public configs from Hugging Face in a separate process, for workers that cannot reach it."""

from __future__ import annotations

import threading
import time
from typing import Any

from memorymark.errors import UsageError, WorkerError
from memorymark.question.request import Request
from memorymark.units import GIB
from memorymark.worker.confinement import Confinement
from memorymark.worker.supervisor import WorkerProcess

FETCH_SECONDS = 20.0
# One analysis asks for the same config many times; later ones ask again, because a branch may move.
KEPT_SECONDS = 300.0
MOST_KEPT = 64

_kept: dict[tuple[str, str | None], tuple[float, dict[str, Any]]] = {}
_lock = threading.Lock()


def fetched_config(request: Request) -> dict[str, Any] | None:
    """Returns the config.json of the Hugging Face id in a request; ``None`` if it names none."""
    if request.config is not None or request.name.kind != "hub":
        return None
    key, now = (request.model, request.revision), time.monotonic()
    with _lock:
        for old in [known for known, (since, _) in _kept.items() if now - since > KEPT_SECONDS]:
            del _kept[old]
        if key in _kept:
            return _kept[key][1]
    fetcher = WorkerProcess(Confinement(sealed=False, memory_bytes=GIB))
    try:
        config: dict[str, Any] = fetcher.call(
            "hub_config", {"name": request.model, "revision": request.revision}, FETCH_SECONDS
        )["config"]
    except WorkerError as error:
        raise UsageError(
            f"the config of {request.model} could not be fetched from Hugging Face; ask again later, or paste its "
            "config.json.",
            code="not_readable",
            field="model",
            given=request.model,
            detail=str(error),
        ) from None
    finally:
        fetcher.kill()
    with _lock:
        _kept[key] = (now, config)
        for oldest in list(_kept)[:-MOST_KEPT]:
            del _kept[oldest]
    return config

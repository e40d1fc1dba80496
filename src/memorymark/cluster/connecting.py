"""Connects to a Ray cluster."""

from __future__ import annotations

import os
import socket
from typing import Any

from memorymark.errors import MemoryMarkError, UsageError

# The cluster that this machine is a node of.
THIS_NODES = "auto"
ANSWER_SECONDS = 10.0


def connected(address: str | None) -> Any:
    """Returns the module ``ray``, connected to a cluster: the one at the address, or that of this node."""
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError(
            "Ray is not installed here; run `pip install 'memorymark[ray]'`, with the version that the cluster has.",
            code="not_installed",
            field="engine",
        ) from None
    if address is not None and address.startswith("ray://"):
        raise UsageError(
            "a Ray client cannot stream results; run this on a node of the cluster, or give the address of its head "
            "without ray://, with the port 6379.",
            code="malformed",
            field="address",
            given=address,
        )
    if ray.is_initialized():  # the caller's program uses the cluster itself
        return ray
    where = address or os.environ.get("RAY_ADDRESS") or THIS_NODES
    try:
        _require_answer(where)
        ray.init(address=where, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise MemoryMarkError(
            f"no Ray cluster answers at {where}.",
            hint="start one with `ray start`, or give the address of its head, such as 10.0.0.1:6379",
            field="address",
            given=address,
            detail=str(error).partition("\n")[0],
        ) from None
    return ray


def _require_answer(address: str) -> None:
    """Raises ``OSError`` if nothing listens at a host and port; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if separator and port.isdigit():
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()

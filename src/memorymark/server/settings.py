"""How the operator wants the service to be."""

from __future__ import annotations

import ipaddress
import math
import os
import threading
from dataclasses import dataclass

from memorymark.client import can_be_sent
from memorymark.errors import UsageError
from memorymark.history import default_url
from memorymark.machine import host_memory_bytes
from memorymark.probe.confinement import Confinement
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.server import DEFAULT_PORT
from memorymark.units import GIB

SHORTEST_TOKEN = 16
LEAST_WORKER_GIB = 1.0
# Without an option: all that predict share half of the host, and each that measures may take three quarters.
PREDICTING_SHARE, MEASURING_SHARE = 0.5, 0.75
LEAST_USUAL_GIB = 4


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``token`` is what callers must show; an address that others can reach needs one, unless ``open_to_all``.

    ``origins`` are the sites whose pages may call the service from a browser. With ``allow_code`` callers may name
    files and functions of this machine, and models that bring code: whoever can call can then run what they like.
    ``worker_memory_gib`` is the most of the host's memory that one worker may take; left out, it is a share of what
    the host has.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    database: str = ""
    token: str | None = None
    open_to_all: bool = False
    origins: tuple[str, ...] = ()
    allow_code: bool = False
    queue_size: int = 1000
    worker_memory_gib: float | None = None
    prediction_workers: int = max(1, min(4, (os.cpu_count() or 1) // 2))
    job_seconds: float = DEFAULT_TIME_LIMIT_SECONDS
    max_watchers: int = 256
    stream_seconds: float = 300.0
    heartbeat_seconds: float = 15.0

    def __post_init__(self) -> None:
        if not self.is_local and self.token is None and not self.open_to_all:
            raise UsageError(
                f"anyone who reaches {self.host} could use the GPUs; give a --token, or say --open-to-all."
            )
        object.__setattr__(self, "origins", tuple(origin.rstrip("/") for origin in self.origins))
        if self.token is not None and not can_be_sent(self.token):
            raise UsageError("a token is letters, digits and signs without spaces; `openssl rand -hex 16` makes one.")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise UsageError(
                f"a token needs at least {SHORTEST_TOKEN} characters; make one with `openssl rand -hex 16`."
            )
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                raise UsageError(f"{origin!r} is no origin; give one such as https://dashboard.example.org.")
        for name in ("queue_size", "prediction_workers", "max_watchers"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be 1 or more, not {getattr(self, name)}.")
        if self.worker_memory_gib is not None and not LEAST_WORKER_GIB <= self.worker_memory_gib < math.inf:
            raise UsageError(
                f"--worker-memory-gib must be {LEAST_WORKER_GIB:g} or more, which torch alone needs, not "
                f"{self.worker_memory_gib:g}."
            )
        if not 0 < self.job_seconds <= threading.TIMEOUT_MAX:
            raise UsageError(f"--job-seconds must be a number of seconds above 0, not {self.job_seconds:g}.")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def confinement(self, device: str | None = None) -> Confinement:
        """How workers are confined that measure on a device, or predict."""
        on_gpu = device is not None and device != "cpu"
        return Confinement(sealed=not self.allow_code, memory_bytes=self._worker_bytes(device), on_gpu=on_gpu)

    def _worker_bytes(self, device: str | None) -> int:
        if self.worker_memory_gib is not None:
            return round(self.worker_memory_gib * GIB)
        share = MEASURING_SHARE if device is not None else PREDICTING_SHARE / self.prediction_workers
        return round(max(share * host_memory_bytes(), LEAST_USUAL_GIB * GIB))

    @property
    def database_url(self) -> str:
        """Where the history is kept."""
        return self.database or default_url()

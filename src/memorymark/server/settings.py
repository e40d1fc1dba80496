"""The operator's settings of the service."""

from __future__ import annotations

import ipaddress
import math
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memorymark.client import DEFAULT_PORT, can_be_sent
from memorymark.devices.machine import host_memory_bytes
from memorymark.errors import UsageError
from memorymark.history import default_url
from memorymark.messages import Message, as_flag
from memorymark.units import GIB
from memorymark.worker.confinement import Confinement
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS

SHORTEST_TOKEN = 16
LEAST_WORKER_GIB = 1.0
# By default, all predicting workers share half of the host's memory, and each measuring one may use three quarters.
PREDICTING_SHARE, MEASURING_SHARE = 0.5, 0.75
LEAST_USUAL_GIB = 4


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a service. Callers must send the ``token``, if set.

    A ``host`` that others can reach needs a token, unless ``open_to_all``. ``origins`` are the sites whose pages may
    call the service from a browser. With ``allow_code``, callers may name local files and functions, and models that
    come with code, so that every caller can run any code. ``worker_memory_gib`` limits the host memory of one worker;
    it defaults to a share of the host's. ``replay`` is a recording to play instead of answering, ``replay_speed`` times
    as fast as it happened. ``engine`` is where workers run: on this machine, or on the nodes of the Ray cluster at
    ``address``.
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
    replay: Path | None = None
    replay_speed: float = 1.0
    engine: Literal["local", "ray"] = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if not self.is_local and self.token is None and not self.open_to_all:
            raise UsageError(
                Message(
                    "anyone who reaches {host} could use the GPUs; set a {serve.token}, or use {serve.open_to_all}.",
                    host=self.host,
                ),
                code="missing",
                field="token",
            )
        object.__setattr__(self, "origins", tuple(origin.rstrip("/") for origin in self.origins))
        if self.token is not None and not can_be_sent(self.token):
            raise UsageError(
                "a token must be printable ASCII without spaces; `openssl rand -hex 16` makes one.",
                code="malformed",
                field="token",
            )
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise UsageError(
                f"a token needs at least {SHORTEST_TOKEN} characters; make one with `openssl rand -hex 16`.",
                code="out_of_range",
                field="token",
                allowed={"shortest": SHORTEST_TOKEN},
            )
        for origin in self.origins:
            if not origin.startswith(("http://", "https://")) or origin.count("/") != 2:
                raise UsageError(
                    f"{origin!r} is not an origin; give one such as https://dashboard.example.org.",
                    code="malformed",
                    field="origin",
                    given=origin,
                )
        self._check_numbers()
        self._check_replay()

    def _check_numbers(self) -> None:
        for name in ("queue_size", "prediction_workers", "max_watchers"):
            if getattr(self, name) < 1:
                raise UsageError(
                    Message("{flag} must be 1 or more, not {given}.", flag=as_flag(name), given=getattr(self, name)),
                    code="out_of_range",
                    field=name,
                    given=getattr(self, name),
                    allowed={"minimum": 1},
                )
        if self.worker_memory_gib is not None and not LEAST_WORKER_GIB <= self.worker_memory_gib < math.inf:
            raise UsageError(
                Message(
                    "{serve.worker_memory_gib} must be {least:g} or more, which torch alone needs, not {given:g}.",
                    least=LEAST_WORKER_GIB,
                    given=self.worker_memory_gib,
                ),
                code="out_of_range",
                field="worker_memory_gib",
                given=self.worker_memory_gib,
                allowed={"minimum": LEAST_WORKER_GIB},
            )
        if not 0 < self.job_seconds <= threading.TIMEOUT_MAX:
            raise UsageError(
                Message(
                    "{serve.job_seconds} must be a number of seconds above 0, not {given:g}.", given=self.job_seconds
                ),
                code="out_of_range",
                field="job_seconds",
                given=self.job_seconds,
                allowed={"above": 0, "maximum": threading.TIMEOUT_MAX},
            )

    def _check_replay(self) -> None:
        if self.address is not None and self.engine == "local":
            raise UsageError(
                Message("{serve.address} is that of a Ray cluster; add {serve.engine} ray, or drop it."),
                code="not_applicable",
                field="address",
                given=self.address,
            )
        if self.replay is not None and self.database:
            raise UsageError(
                Message(
                    "{serve.replay} keeps no history, since the answers that it plays are not from this machine; "
                    "drop {serve.database}."
                ),
                code="conflict",
                field="database",
            )
        if not 0 < self.replay_speed < math.inf:
            raise UsageError(
                Message("{serve.replay_speed} must be a number above 0, not {given:g}.", given=self.replay_speed),
                code="out_of_range",
                field="replay_speed",
                given=self.replay_speed,
                allowed={"above": 0},
            )

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
        """Returns how to confine workers that measure on a device, or predict without one."""
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

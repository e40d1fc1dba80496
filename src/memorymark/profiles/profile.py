"""A profile: single operations and the host of one GPU, as they were timed, as a JSON document."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from memorymark.documents import ADDED_LATER, Record, from_document
from memorymark.errors import UsageError
from memorymark.units import MIB, format_bytes

VERSION = 1
LARGEST_PROFILE_BYTES = 4 * MIB
Origin = Literal["timed", "replayed"]


@dataclass(frozen=True)
class TimedOperation(Record):
    """One operation, or the few kernels of one call, and how long it took."""

    case: dict[str, Any]
    """What was timed: its kind, its sizes, its type."""
    runs: list[list[Any]]
    """The operations it runs, as a traced step has them."""
    seconds: float
    """How long it took on the GPU."""
    host_seconds: float
    """How long the host took to start it."""

    @property
    def waited_for_host(self) -> bool:
        """Whether the GPU may have waited for the host, so that its time says little about the GPU."""
        return self.seconds < max(LEAST_SECONDS, OF_HOST * self.host_seconds)


# A time counts from this many seconds, and this many times those of the host, on.
LEAST_SECONDS, OF_HOST = 20e-6, 1.5


@dataclass(frozen=True, kw_only=True)
class HostStep(Record):
    """A small training step that the GPU waited for, and how often the host did what."""

    seconds: float
    """How long the step took."""
    eager_calls: int
    """Kernels that Python started."""
    autograd_calls: int
    """Kernels that the backward pass started."""
    views: int
    """Operations that start no kernel."""
    updated_tensors: int
    """Parameters that the optimizer updated one by one."""


@dataclass(frozen=True, kw_only=True)
class Profile(Record):
    """What was timed on one GPU."""

    kind: ClassVar[Literal["profile"]] = "profile"

    version: int = VERSION
    """The version of this format."""
    gpu_id: str
    """The GPU's id in the catalog."""
    gpu_name: str
    """What the driver calls it."""
    driver: str
    """The version of its driver; empty if it is not known."""
    torch: str
    """The version of torch."""
    cuda: str
    """The version of CUDA that torch was built for."""
    date: str
    """The day it was timed, as in 2026-11-19."""
    origin: Origin = "timed"
    """Whether ``memorymark calibrate`` timed it, or it was made from operations recorded for another purpose."""
    operations: list[TimedOperation]
    """What was timed."""
    failed: int = field(default=0, metadata=ADDED_LATER)
    """How many operations could not run on this GPU."""
    host: HostStep | None = field(default=None, metadata=ADDED_LATER)
    """The host's part of a step; null if it was not timed."""
    to_device_bytes_per_second: float | None = field(default=None, metadata=ADDED_LATER)
    """How fast pinned memory is copied to the GPU; null if it was not timed."""
    to_host_bytes_per_second: float | None = field(default=None, metadata=ADDED_LATER)
    """How fast it is copied back; null if it was not timed."""

    @property
    def described(self) -> str:
        """Where it comes from, in a few words: ``NVIDIA H200, torch 2.11.0, 2026-11-19``."""
        return f"{self.gpu_name}, torch {self.torch}, {self.date}"


def read_profile(path: Path) -> Profile:
    """Reads a profile from a file; raises a sentence about what is wrong with it."""
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST_PROFILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _not_readable(path, f"{path} cannot be read: {reason}; `memorymark profiles` lists profiles.") from None
    if len(content) > LARGEST_PROFILE_BYTES:
        raise _no_profile(path, f"it is larger than {format_bytes(LARGEST_PROFILE_BYTES)}")
    try:
        return profile_of(json.loads(content.decode("utf-8")))
    except UsageError as error:
        raise _no_profile(path, error.sentence.rstrip(".")) from None
    except (ValueError, RecursionError):
        raise _no_profile(path, "it is not JSON") from None


def profile_of(document: Any) -> Profile:
    """Reads a profile from its document; raises a sentence about what is wrong with it."""
    if not isinstance(document, dict) or document.get("kind") != Profile.kind:
        raise UsageError("it is no document of kind profile", code="malformed", field="profile")
    if document.get("version") != VERSION:
        said = f"it has version {document.get('version')!r} of the format, and this MemoryMark reads version {VERSION}"
        raise UsageError(said, code="malformed", field="profile")
    try:
        profile = from_document(Profile, document)
        _check_numbers(profile)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(f"a part of it is missing or wrong ({error})", code="malformed", field="profile") from None
    return profile


def _check_numbers(profile: Profile) -> None:
    times = [seconds for one in profile.operations for seconds in (one.seconds, one.host_seconds)]
    rates = [profile.to_device_bytes_per_second, profile.to_host_bytes_per_second]
    if profile.host is not None:
        times.append(profile.host.seconds)
    for value in (*times, *(rate for rate in rates if rate is not None)):
        if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
            raise ValueError(f"{value!r} is no time or rate")


def _not_readable(path: Path, sentence: str) -> UsageError:
    return UsageError(sentence, code="not_readable", field="profile", given=str(path))


def _no_profile(path: Path, why: str) -> UsageError:
    sentence = f"{path} is not a profile: {why}; give a file that `memorymark calibrate` wrote."
    return UsageError(sentence, code="malformed", field="profile", given=str(path))

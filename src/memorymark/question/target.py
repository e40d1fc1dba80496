"""The device a step runs on, and how much of its memory it may use."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from memorymark.catalog import GpuEntry, find_gpu, own_gpu
from memorymark.catalog.own_gpu import LARGEST_FACTS_BYTES
from memorymark.errors import Proposal, UsageError
from memorymark.messages import Message
from memorymark.profiles.stored import NAME, NONE, is_file_name
from memorymark.question.limits import LARGEST_MEMORY_GIB, LONGEST_NAME, LONGEST_PATH
from memorymark.question.options import group, option, settle_options
from memorymark.suggestions import without
from memorymark.units import GIB, format_bytes

AUTO = "auto"
DEVICES = rf"{AUTO}|cpu|mps|cuda(:[0-9]{{1,3}})?"


def memory_cap(gib: float) -> int:
    """Converts ``memory_gib`` to bytes."""
    return max(int(gib * GIB), 1) if 0 < gib * GIB < math.inf else 0


@group("target")
@dataclass(frozen=True, kw_only=True)
class Target:
    """Where to train: on a local ``device`` (``auto``, ``cuda``, ``cuda:1``, ``mps`` or ``cpu``), or predicted.

    ``gpu`` names the GPU of the catalog to predict for, which this machine need not have; ``gpu_facts`` describes one
    that is not in the catalog. ``profile`` is what corrects the predicted times: a profile's name or file, or ``none``
    for nothing. ``memory_cap_bytes`` limits the allocator.
    """

    device: str = option(
        AUTO,
        "Measure on this device: auto, cuda, cuda:N, mps or cpu. auto uses the local GPU, or predicts without one.",
        metavar="DEVICE",
        rare=True,
        pattern=f"^({DEVICES})$",
    )
    gpu: str | None = option(
        None,
        "Predict for this GPU of the catalog; from a shell also for my_gpu.json, and analyze takes several: l4,a10.",
        title="GPU",
        metavar="NAME",
        longest=LONGEST_NAME,
    )
    gpu_facts: dict[str, Any] | None = option(
        None,
        "Predict for a GPU of your own: an object with the fields of the catalog's data file.",
        title="GPU of your own",
        rare=True,
        flags=("--gpu",),
        longest=LARGEST_FACTS_BYTES,
    )
    profile: str | None = option(
        None,
        "Correct predicted times by this profile of the GPU: a name, a file, or none; defaults to your own.",
        title="Profile of the GPU",
        metavar="FILE",
        rare=True,
        longest=LONGEST_PATH,
    )
    memory_cap_bytes: int | None = option(
        None,
        "Limit the memory that the allocator may use, in GiB.",
        called="memory_gib",
        type="number",
        title="Memory cap",
        rare=True,
        unit="GiB",
        above=0,
        maximum=LARGEST_MEMORY_GIB,
        stored=memory_cap,
        told=lambda cap_bytes: cap_bytes / GIB,
    )
    """The most that the allocator may use; null for no limit."""

    def __post_init__(self) -> None:
        settle_options(self)
        if self.gpu_facts is not None:
            object.__setattr__(self, "gpu", own_gpu(self.gpu_facts).id)
        if self.gpu is not None:
            self._check_gpu(self.gpu)
        if self.profile is not None:
            self._check_profile(self.profile)
        if not re.fullmatch(DEVICES, self.device):
            raise UsageError(
                Message("unknown device {given!r}; use auto, cuda, cuda:N, mps or cpu.", given=self.device),
                code="unknown_choice",
                field="device",
                given=self.device,
                allowed=[AUTO, "cuda", "cuda:N", "mps", "cpu"],
            )

    @property
    def is_open(self) -> bool:
        """Whether the machine that answers may choose to measure or predict, and where."""
        return self.gpu is None and self.device == AUTO

    @property
    def entry(self) -> GpuEntry | None:
        """The GPU to predict for: the caller's own or the catalog's; ``None`` if none is named."""
        if self.gpu_facts is not None:
            return own_gpu(self.gpu_facts)
        return find_gpu(self.gpu) if self.gpu is not None else None

    def _check_profile(self, name: str) -> None:
        if not is_file_name(name) and not NAME.fullmatch(name):
            raise UsageError(
                Message("{given!r} is neither a profile's name nor a .json file; see {list.profiles}.", given=name),
                code="malformed",
                field="profile",
                given=name,
            )
        if self.gpu is None and name != NONE:
            raise UsageError(
                Message("{profile} corrects predictions; name the GPU to predict for with {gpu}."),
                code="not_applicable",
                field="profile",
                given=name,
                proposals=[without("profile")],
            )

    def _check_gpu(self, name: str) -> None:
        if self.device != AUTO:
            raise UsageError(
                Message(
                    "{gpu:{wanted}} asks for a prediction, {device:{here}} for a local run; drop one of them.",
                    wanted=name,
                    here=self.device,
                ),
                code="conflict",
                field="gpu",
                given=name,
                proposals=[Proposal("predict", {"device": None}), Proposal("run here", {"gpu": None})],
            )
        gpu = self.entry or find_gpu(name)
        if self.memory_cap_bytes is not None and self.memory_cap_bytes > gpu.torch_memory_bytes:
            raise UsageError(
                Message(
                    "{memory_gib} asks for {cap} but {name} has {total}; lower it or leave it out.",
                    cap=format_bytes(self.memory_cap_bytes),
                    name=gpu.name,
                    total=format_bytes(gpu.torch_memory_bytes),
                ),
                code="out_of_range",
                field="memory_gib",
                given=self.memory_cap_bytes / GIB,
                allowed={"above": 0, "maximum": gpu.torch_memory_bytes / GIB},
                proposals=[Proposal("all of its memory", {"memory_gib": None})],
            )

"""Checks this machine: what is installed, what is wrong, and how to fix it."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar, Literal

from memorymark.catalog import match_gpu
from memorymark.devices import nvml
from memorymark.devices.allocator_settings import ALLOCATOR_SETTINGS
from memorymark.documents import Document
from memorymark.prediction.tracing.kept_traces import OFF, VARIABLE, KeptTraces, default_folder
from memorymark.units import format_bytes

Status = Literal["ok", "warn", "fail"]
# A GPU with more than this fraction of its memory in use is not free for an analysis.
BUSY_FRACTION = 0.05


@dataclass(frozen=True)
class Check(Document):
    """The result of one check, with advice if something is wrong."""

    name: str
    status: Status
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Checkup(Document):
    """The results of all checks."""

    kind: ClassVar[Literal["doctor"]] = "doctor"

    checks: list[Check]


def check_all() -> list[Check]:
    """Runs every check, from the interpreter to the GPUs."""
    return [_python(), _torch(), _transformers(), *_gpus(), *_allocator(), _traces()]


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _torch() -> Check:
    try:
        import torch
    except ImportError as error:
        return Check("torch", "fail", str(error), "pip install 'torch>=2.6'")
    build = (
        f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}" if torch.version.hip else ""
    )
    found = f"{torch.__version__} ({build or 'CPU build'})"
    if nvml.gpus() and not torch.cuda.is_available():
        reason = "the driver may be too old for it" if build else "this build cannot use it"
        advice = f"there is a GPU, but {reason}; install the torch build that matches the driver from pytorch.org."
        return Check("torch", "fail", found, advice)
    return Check("torch", "ok", found)


def _transformers() -> Check:
    try:
        return Check("transformers", "ok", version("transformers"))
    except PackageNotFoundError:
        return Check("transformers", "fail", "not installed", "pip install transformers")


def _gpus() -> list[Check]:
    states = nvml.gpus()
    if not states:
        return [_other_device()]
    checks = []
    for index, state in enumerate(states):
        found = f"{state.name}, {format_bytes(state.total_bytes)}, driver {state.driver_version}"
        used = f"other processes use {format_bytes(state.used_bytes)}"
        if state.used_bytes > BUSY_FRACTION * state.total_bytes:
            advice = "stop them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES."
            checks.append(Check(f"GPU {index}", "warn", f"{found}; {used}", advice))
        elif match_gpu(state.name, state.total_bytes) is None:
            advice = "not in the catalog; pass --price-per-hour to see savings."
            checks.append(Check(f"GPU {index}", "ok", found, advice))
        else:
            checks.append(Check(f"GPU {index}", "ok", found))
    return checks


def _other_device() -> Check:
    try:
        import torch
    except ImportError:
        return Check("GPU", "warn", "none found", "install torch first.")
    if torch.backends.mps.is_available():
        return Check("GPU", "ok", "Apple GPU (MPS)")
    advice = (
        "analyze predicts instead, for an A10 or the GPU that --gpu names. If this machine has an NVIDIA GPU, "
        "check that nvidia-smi works and that CUDA_VISIBLE_DEVICES does not hide it."
    )
    return Check("GPU", "warn", "none found", advice)


def _allocator() -> list[Check]:
    for name in ALLOCATOR_SETTINGS:
        if os.environ.get(name):
            advice = "results are valid for this setting only; train with it too."
            return [Check("allocator", "warn", f"{name}={os.environ[name]}", advice)]
    return []


def _traces() -> Check:
    folder = default_folder()
    if folder is None:
        return Check("traces", "ok", f"not kept ({VARIABLE}={OFF})")
    kept = KeptTraces(folder)
    found = f"{kept.count} kept in {folder}, {format_bytes(kept.size_bytes)} of {format_bytes(kept.limit_bytes)}"
    return Check("traces", "ok", found)

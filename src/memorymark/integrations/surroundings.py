"""What can be seen around a training without being told: its loader, its end, torch's settings, whose loop it is."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from memorymark.failures import classify
from memorymark.integrations.observation import DeviceFacts, Ending, LoaderFacts, ModelFacts


def describe_host(device: torch.device) -> DeviceFacts:
    """A device that is no GPU of CUDA's."""
    return DeviceFacts(kind=device.type, name=device.type.upper())


def describe_loader(loader: Any) -> LoaderFacts:
    """How a data loader was made, by its iterator."""
    return LoaderFacts(
        num_workers=int(getattr(loader, "_num_workers", 0)),
        pin_memory=bool(getattr(loader, "_pin_memory", False)),
        persistent_workers=bool(getattr(loader, "_persistent_workers", False)),
        prefetch_factor=getattr(loader, "_prefetch_factor", None),
    )


def describe_ending(error: BaseException) -> Ending:
    """What an exception says of the end of a training."""
    failure = classify(error)
    lines = str(error).strip().splitlines()
    return Ending(
        kind=type(error).__name__,
        message=lines[0] if lines else "",
        out_of_memory=failure is not None and failure.kind == "memory",
    )


def uses_tf32(model: ModelFacts | None) -> bool:
    """Whether what the model is made of may use TF32: convolutions have a switch of their own.

    torch refuses the old way of asking where the script set it the new way.
    """
    try:
        if model is not None and model.has_convolutions and torch.backends.cudnn.allow_tf32:
            return True
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:
        convolutions = model is not None and model.has_convolutions
        backend: Any = torch.backends.cudnn if convolutions else torch.backends.cuda.matmul
        return bool(getattr(backend, "conv", backend).fp32_precision == "tf32")


def framework() -> str | None:
    """Whose loop it may be, by what the script has imported."""
    loops = {"transformers.trainer": "transformers", "lightning.pytorch": "lightning", "pytorch_lightning": "lightning"}
    return next((name for module, name in loops.items() if module in sys.modules), None)


def processors() -> int:
    """How many of them this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1

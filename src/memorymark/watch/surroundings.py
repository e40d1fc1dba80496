"""Describes a training's surroundings: its loader, its ending, torch's settings and the training framework."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from memorymark.training.failures import classify
from memorymark.watch.observation import DeviceFacts, Ending, LoaderFacts, ModelFacts


def describe_host(device: torch.device) -> DeviceFacts:
    """Describes a device that is not a CUDA GPU."""
    return DeviceFacts(kind=device.type, name=device.type.upper())


def describe_loader(loader: Any) -> LoaderFacts:
    """Describes a data loader from its iterator."""
    return LoaderFacts(
        num_workers=int(getattr(loader, "_num_workers", 0)),
        pin_memory=bool(getattr(loader, "_pin_memory", False)),
        persistent_workers=bool(getattr(loader, "_persistent_workers", False)),
        prefetch_factor=getattr(loader, "_prefetch_factor", None),
    )


def describe_ending(error: BaseException) -> Ending:
    """Describes the exception that ended a training."""
    failure = classify(error)
    lines = str(error).strip().splitlines()
    return Ending(
        kind=type(error).__name__,
        message=lines[0] if lines else "",
        out_of_memory=failure is not None and failure.kind == "memory",
    )


def uses_tf32(model: ModelFacts | None) -> bool:
    """Tells whether the model's layers may use TF32; convolutions have a separate switch.

    torch rejects the older setting's query if the script used the newer one.
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
    """Guesses whose training loop it is from what the script has imported."""
    loops = {"transformers.trainer": "transformers", "lightning.pytorch": "lightning", "pytorch_lightning": "lightning"}
    return next((name for module, name in loops.items() if module in sys.modules), None)


def processors() -> int:
    """Returns how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1

"""Does the slow imports, and exempts what they load from garbage collection."""

from __future__ import annotations

import gc
import sys
from functools import cache
from importlib import import_module, metadata
from typing import Any

from memorymark.worker.confinement import in_force


def load(*, with_transformers: bool) -> dict[str, Any]:
    """Imports torch, and transformers if asked; returns the versions and devices found. Starts no device."""
    _import("transformers.models.auto.modeling_auto" if with_transformers else "torch")
    return _what_is_here()


def settle(*, anew: bool) -> None:
    """Exempts everything alive now from garbage collection, which makes later collections quick.

    Set ``anew`` to look for garbage also in what was exempted before, such as a model that left a device.
    """
    if anew:
        gc.unfreeze()
    gc.collect()
    gc.freeze()


def free_gpu() -> None:
    """Frees the GPU memory of a closed probe."""
    import torch

    gc.unfreeze()
    gc.collect()
    torch.cuda.empty_cache()


def _import(module: str) -> None:
    """Imports with garbage collection off: nothing imported is garbage, and looking for some takes a second in all."""
    if module in sys.modules:
        return
    gc.disable()
    try:
        import_module(module)
    finally:
        gc.freeze()
        gc.enable()


@cache
def _what_is_here() -> dict[str, Any]:
    import torch

    from memorymark.devices import accelerator_kind

    return {
        "device_kind": accelerator_kind() or "cpu",
        "versions": {
            "torch": torch.__version__,
            "transformers": metadata.version("transformers"),
            "cuda": torch.version.cuda or "none",
        },
        "confinement": in_force(),
    }

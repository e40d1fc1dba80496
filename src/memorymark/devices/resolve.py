"""Decides where a target's steps are run or predicted: the only place that knows where ``auto`` leads.

A target is open if it names neither a device to run on nor a GPU to predict for. An open target is measured on a GPU of
the machine that answers, or predicted for the default GPU if it has none. Needs no torch and does not start CUDA.
"""

from __future__ import annotations

from dataclasses import replace

from memorymark.catalog import GpuEntry, all_gpus, find_gpu, match_gpu
from memorymark.catalog.gpus import DEFAULT_GPU
from memorymark.devices import nvml
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.profiles.stored import NONE as NO_PROFILE
from memorymark.question.target import AUTO, Target
from memorymark.suggestions import Proposal
from memorymark.units import GIB, format_bytes


def where_no_gpu_is(target: Target) -> Target:
    """Returns the target for a machine without a GPU: an open one is predicted for the default GPU."""
    return default_gpu_target(target) if target.is_open else target


def default_gpu_target(target: Target) -> Target:
    """Returns the target for the default GPU: the published table's, or the smallest with the requested memory.

    A GPU with a known price is preferred, because it can be rented.
    """
    cap_bytes = target.memory_cap_bytes
    timed = [gpu for gpu in all_gpus() if not gpu.memory_only]
    roomy = [gpu for gpu in timed if cap_bytes is None or gpu.usable_bytes >= cap_bytes]
    if not roomy:
        raise UsageError(
            Message("no GPU in the catalog has the {cap} of {memory_gib}; lower it.", cap=format_bytes(cap_bytes or 0)),
            code="out_of_range",
            field="memory_gib",
            given=(cap_bytes or 0) / GIB,
            allowed={"above": 0, "maximum": max(gpu.usable_bytes for gpu in timed) / GIB},
        )
    default = find_gpu(DEFAULT_GPU)
    return for_gpu(
        target, default if default in roomy else min(roomy, key=lambda gpu: (gpu.price is None, gpu.usable_bytes))
    )


def for_gpu(target: Target, gpu: GpuEntry) -> Target:
    """Returns the target to predict for a GPU, with the same cap; another GPU's profile is left behind."""
    is_same = target.profile == NO_PROFILE or (target.entry is not None and target.entry.id == gpu.id)
    profile = target.profile if is_same else None
    return replace(target, device=AUTO, gpu=gpu.id, gpu_facts=gpu.own, profile=profile)


def for_prediction(target: Target) -> Target:
    """Returns the target with a GPU to predict for: the named one, this machine's, or the default."""
    if target.gpu is not None:
        return target
    if not _means_cuda(target):
        raise UsageError(
            Message("only CUDA GPUs can be predicted, not {here}; name one with {gpu}.", here=target.device),
            code="not_applicable",
            field="device",
            given=target.device,
            proposals=[Proposal(f"for {DEFAULT_GPU}", {"device": None, "gpu": DEFAULT_GPU})],
        )
    known = gpu_here(target)
    return for_gpu(target, known) if known is not None else default_gpu_target(target)


def on_device(target: Target, device: str) -> Target:
    """Returns an open target on a device of this machine; returns any other unchanged."""
    return replace(target, device=device) if target.is_open else target


def can_run_on(target: Target, device: str) -> bool:
    """Tells whether steps may be measured on a device of this machine; an open target's may on any GPU."""
    if target.gpu is not None:
        return False
    return device != "cpu" if target.is_open else _parts(target.device) == _parts(device)


def device_here(target: Target, accelerator: str | None) -> tuple[str, int]:
    """Returns the kind and index of the device that steps are measured on, if torch can use ``accelerator``."""
    return _parts((accelerator or "cpu") if target.is_open else target.device)


def gpu_here(target: Target) -> GpuEntry | None:
    """Returns the catalog's entry for this machine's GPU that a target means; ``None`` if there is none."""
    if target.gpu is not None or not _means_cuda(target):
        return None
    _, index = device_here(target, "cuda")
    here = [match_gpu(state.name, state.total_bytes) for state in nvml.gpus()][index : index + 1]
    return here[0] if here else None


def _means_cuda(target: Target) -> bool:
    return device_here(target, "cuda")[0] == "cuda"


def _parts(device: str) -> tuple[str, int]:
    """Splits ``cuda:1`` into ``cuda`` and ``1``."""
    kind, _, index = device.partition(":")
    return kind, int(index or 0)

"""The host's part of a step: a training of many tiny layers, whose kernels wait for the host."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from memorymark.devices.base import Device
from memorymark.prediction.timing.roofline import launches
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.prediction.tracing.operation import COPIES, MODEL_RETURNS
from memorymark.probe.measured import MeasuredProbe
from memorymark.profiles.profile import HostStep
from memorymark.question.recipe import Recipe
from memorymark.training.workload import Workload

LAYERS, WIDTH, SAMPLES = 24, 64, 4


def time_host_step(device: Device, capability: tuple[int, int]) -> HostStep | None:
    """Times the step and counts what the host does in it; ``None`` if it cannot be timed."""
    with MeasuredProbe(WORKLOAD, Recipe(), device) as probe:
        seconds = probe.measure(SAMPLES).step_seconds
    if not seconds:
        return None
    step = trace_training(WORKLOAD, Recipe(), capability, every_layer=True)
    counts: Counter[str] = Counter()
    for _, growth, times in step.later.counted(1):
        op = growth.operation
        if op.name != MODEL_RETURNS and op.base_name not in COPIES:
            counts["views" if not launches(op) else "eager" if op.eager else "autograd"] += times
    return HostStep(
        seconds=seconds,
        eager_calls=counts["eager"],
        autograd_calls=counts["autograd"],
        views=counts["views"],
        updated_tensors=step.tensors - step.frozen_tensors,
    )


def _build() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()) for _ in range(LAYERS)]
    return nn.Sequential(*layers)


def _batch(size: int, device: torch.device) -> Tensor:
    return torch.randn(size, WIDTH, device=device)


def _loss(model: nn.Module, batch: Tensor) -> Tensor:
    result: Tensor = model(batch)
    return result.square().mean()


WORKLOAD = Workload(_build, _batch, _loss, name="tiny layers", own_batches=True)

"""Links to the host whose memory is counted; where there is no GPU, operations stand in for the copies."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import is_fake

from memorymark.devices.host_memory import HostMeter, pinned_bytes
from memorymark.question.recipe import Recipe
from memorymark.training.offloading import HostLink, OffloadedActivations


class CountedLink(HostLink):
    """Counts the host memory that copies take, and refuses more than there is."""

    def __init__(self, meter: HostMeter) -> None:
        super().__init__()
        self._meter = meter

    def room_for(self, tensor: Tensor) -> Tensor:
        """Returns pinned memory, which is counted."""
        size = pinned_bytes(tensor.nbytes)
        self._meter.require(size)
        room = super().room_for(tensor)
        self._meter.count(room, size)
        return room

    def count(self, tensor: Tensor) -> None:
        """Counts another tensor on the host, which is not pinned."""
        if not is_fake(tensor):
            self._meter.count(tensor, tensor.nbytes)

    def onto_device(self, target: Tensor, host: Tensor) -> None:
        """Overwrites a tensor on the device; the computation waits for it."""
        _, arrival = self._beside(lambda: target.copy_(host, non_blocking=True))
        self.wait(arrival)


class StandInLink(CountedLink):
    """Makes the same copies on the device itself, at once."""

    def __init__(self, meter: HostMeter) -> None:
        self._sending, self._meter = deque(), meter  # copies are made at once, so there is no stream

    def to_host(self, tensor: Tensor) -> tuple[Tensor, Any]:
        """Returns the copy."""
        size = pinned_bytes(tensor.nbytes)
        if not is_fake(tensor):
            self._meter.require(size)
        host: Tensor = torch.ops.memorymark.to_host(tensor)
        if not is_fake(tensor):
            self._meter.count(host, size)
        return host, None

    def to_device(self, host: Tensor, device: torch.device) -> tuple[Tensor, Any]:  # noqa: ARG002 - the same
        """Returns the copy."""
        return torch.ops.memorymark.to_device(host), None

    def onto_device(self, target: Tensor, host: Tensor) -> None:
        """Overwrites a tensor on the device."""
        torch.ops.memorymark.onto_device(target, host)

    def wait(self, arrival: Any) -> None:
        """Does nothing: copies are made at once."""

    def finish(self) -> None:
        """Does nothing."""


def link_for(device: torch.device, meter: HostMeter) -> CountedLink:
    """Returns a link to the host for a device."""
    return CountedLink(meter) if device.type == "cuda" else StandInLink(meter)


def activations_kept(recipe: Recipe, model: nn.Module, link: CountedLink | None) -> AbstractContextManager[None]:
    """Returns the context of a recipe's forward passes, which keeps activations where the recipe says."""
    if link is None or recipe.offload != "activations":
        return nullcontext()
    return OffloadedActivations(model, link)

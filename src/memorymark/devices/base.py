"""What the measuring probe needs of a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from memorymark.prediction.allocator import Segment
    from memorymark.trace import Phase, Trace


@dataclass(frozen=True)
class MemoryReading:
    """The allocator's counters since the last reset.

    ``requested_bytes`` is what tensors asked for; the blocks that they got, which ``allocated_bytes`` counts, may be
    larger, one time more than another.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    allocator_retries: int


class Recorder(Protocol):
    """Writes down one step's allocations."""

    def mark(self, phase: Phase) -> None:
        """A phase of the step has just ended."""

    def finish(self) -> Trace:
        """Stops, and gives what was recorded."""


class Device(Protocol):
    """A device with a memory that can be measured, capped and recorded."""

    kind: str
    name: str
    total_bytes: int
    torch_device: torch.device
    other_processes_bytes: int

    @property
    def cap_bytes(self) -> int | None:
        """The cap in force, if any."""

    def cap(self, cap_bytes: int) -> None:
        """Lets the allocator take no more than this."""

    def capacity_bytes(self) -> int:
        """The most the allocator can hold now: the cap, or what is free and its own."""

    def counting(self) -> AbstractContextManager[None]:
        """Inside it, memory is counted."""

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Counts tensors that may have been there before the counting, as if they had been made in it."""

    def arrived(self, tensor: torch.Tensor) -> torch.Tensor:
        """A batch's tensor as it is after its way to the device: a copy, if it was there before the counting."""

    def reset(self) -> None:
        """Gives cached memory back and starts the peaks anew."""

    def start_over(self) -> None:
        """As ``reset``, and gives back what libraries keep from step to step: as before the first one."""

    def reset_peaks(self) -> None:
        """Starts the peaks anew from what is allocated now."""

    def reading(self) -> MemoryReading:
        """The counters now."""

    def held_bytes(self) -> int:
        """All that the device holds now, by whomever."""

    def layout(self) -> list[Segment] | None:
        """How the allocator's memory lies now; ``None`` if it is not one that can be modelled."""

    def scratch_limit_bytes(self) -> int | None:
        """What the scratch space of a reduction cannot exceed; ``None`` if that is not known."""

    def record(self) -> Recorder:
        """Starts writing down allocations."""

    def block_of(self, tensor: torch.Tensor) -> Hashable:
        """The key under which a trace knows the memory behind a tensor."""

    def synchronize(self) -> None:
        """Waits until everything asked of the device is done."""

    def time_steps(self, step: Callable[[], None], count: int) -> list[float]:
        """The device's seconds for each of ``count`` steps run back to back."""

"""The interface of a device, as the measuring probe uses it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from memorymark.devices.allocations import Phase, Trace
    from memorymark.devices.allocator_settings import AllocatorKind
    from memorymark.devices.segments import Segment


@dataclass(frozen=True)
class MemoryReading:
    """The allocator's counters since the last reset.

    ``requested_bytes`` counts the bytes of the tensors, ``allocated_bytes`` those of their blocks, which may be larger
    by an amount that varies.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    allocator_retries: int


class AllocationRecorder(Protocol):
    """Records the allocations of one step."""

    def mark(self, phase: Phase) -> None:
        """Marks the end of a phase."""

    def count(self) -> int:
        """Returns how many blocks were allocated and freed since the recording began."""

    def finish(self) -> Trace:
        """Stops recording and returns the trace."""


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
        """Limits what the allocator may take."""

    @property
    def allocator(self) -> AllocatorKind:
        """How its allocator works now; ``layout`` tells whether that can be modelled."""

    def use_allocator(self, kind: AllocatorKind) -> None:
        """Sets how the allocator works from here on; memory that it already holds stays as it is."""

    def capacity_bytes(self) -> int:
        """Returns the most the allocator can hold now: the cap, or what is free plus what it already holds."""

    def counting(self) -> AbstractContextManager[None]:
        """Counts memory inside the context."""

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Counts tensors as if they had been made inside ``counting``."""

    def arrived(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a batch's tensor as it arrives on the device: as a copy, if it existed before ``counting``."""

    def reset(self) -> None:
        """Frees cached memory and resets the peaks."""

    def start_over(self) -> None:
        """Like ``reset``, and also frees what libraries keep between steps, as before the first step."""

    def reset_peaks(self) -> None:
        """Resets the peaks to what is allocated now."""

    def reading(self) -> MemoryReading:
        """Returns the counters."""

    def held_bytes(self) -> int:
        """Returns all memory in use on the device, by any process."""

    def layout(self) -> list[Segment] | None:
        """Returns the allocator's segments; ``None`` if this allocator cannot be modelled."""

    def scratch_limit_bytes(self) -> int | None:
        """Returns the upper limit of a reduction's scratch space; ``None`` if unknown."""

    def record(self, *, counted: bool = False) -> AllocationRecorder:
        """Starts recording allocations; a recording that is ``counted`` says how many there are so far."""

    def block_of(self, tensor: torch.Tensor) -> Hashable:
        """Returns the key of the tensor's memory in a trace."""

    def synchronize(self) -> None:
        """Waits until the device has finished its work."""

    def time_steps(self, step: Callable[[], None], count: int) -> list[float]:
        """Returns the device's seconds for each of ``count`` steps run back to back."""

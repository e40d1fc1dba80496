"""An NVIDIA (or ROCm) GPU through torch.cuda."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from memorymark.devices import nvml
from memorymark.devices.allocations import Phase, Trace
from memorymark.devices.allocator_settings import AllocatorKind, allocator_in_force, use_allocator
from memorymark.devices.base import MemoryReading
from memorymark.devices.segments import Segment
from memorymark.errors import UsageError
from memorymark.messages import Message

# The end of a phase is marked in the allocator's history by a request of an odd size that no kernel makes.
MARK_BYTES = 509
# The most scratch space that torch's reductions take for each concurrent GPU thread.
SCRATCH_BYTES_PER_THREAD = 512


@cache
def _others_bytes(index: int) -> int:
    """Returns what other processes held at the first call; once this one uses CUDA, the two cannot be told apart."""
    return 0 if torch.cuda.is_initialized() else nvml.used_bytes(index) or 0


class CudaDevice:
    """One GPU, by its index after CUDA_VISIBLE_DEVICES."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.other_processes_bytes = _others_bytes(index)
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(index)
        self.name: str = torch.cuda.get_device_name(index)
        self.total_bytes: int = torch.cuda.mem_get_info(index)[1]
        self.cap_bytes: int | None = None

    def cap(self, cap_bytes: int) -> None:
        """Limits what the caching allocator may take; the CUDA context comes on top."""
        torch.cuda.set_per_process_memory_fraction(cap_bytes / self.total_bytes, self.torch_device)
        self.cap_bytes = cap_bytes

    @property
    def allocator(self) -> AllocatorKind:
        """How the allocator works now; ``default`` if its settings are not modelled."""
        return allocator_in_force() or "default"

    def use_allocator(self, kind: AllocatorKind) -> None:
        """Sets the allocator of this process; raises ``UsageError`` if torch does not support that here."""
        use_allocator(kind)
        if kind == "expandable" and not expands_segments():
            use_allocator("default")
            cannot = Message("torch cannot expand segments on this platform; drop {allocator}.")
            raise UsageError(cannot, field="allocator", given=kind)

    def capacity_bytes(self) -> int:
        """Returns what is free plus what is already reserved, or the cap if that is less."""
        free, _ = torch.cuda.mem_get_info(self.torch_device)
        obtainable = free + torch.cuda.memory_reserved(self.torch_device)
        return obtainable if self.cap_bytes is None else min(obtainable, self.cap_bytes)

    def counting(self) -> AbstractContextManager[None]:
        """Does nothing: the allocator always counts."""
        return nullcontext()

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Does nothing: the allocator has counted them."""

    def arrived(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor itself: the allocator has counted it, or the tensor that it is a view of."""
        return tensor

    def reset(self) -> None:
        """Returns cached memory to the device and to the host, and resets the peaks."""
        torch.cuda.empty_cache()
        _free_pinned_memory()
        self.reset_peaks()

    def start_over(self) -> None:
        """Also frees cuBLAS's workspaces, whose place in memory depends on when in a step they are allocated."""
        torch._C._cuda_clearCublasWorkspaces()
        self.reset()

    def reset_peaks(self) -> None:
        """Resets the peaks."""
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def reading(self) -> MemoryReading:
        """Returns the allocator's counters."""
        return read_memory(self.torch_device)

    def held_bytes(self) -> int:
        """Returns what the driver has handed out: to the context, to cached segments and to other processes."""
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return total - free

    def layout(self) -> list[Segment] | None:
        """Returns the allocator's segments; ``None`` unless all are of the kind that it makes now."""
        kind = allocator_in_force()
        if kind is None:
            return None
        found = [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == self.torch_device.index]
        if any(segment["is_expandable"] != (kind == "expandable") for segment in found):
            return None
        return [
            Segment(
                address=segment["address"],
                small=segment["segment_type"] == "small",
                blocks=tuple((block["size"], block["state"] != "inactive") for block in segment["blocks"]),
            )
            for segment in found
        ]

    def scratch_limit_bytes(self) -> int | None:
        """Returns the upper limit of a reduction's scratch space; ``None`` if unknown."""
        return scratch_limit_bytes(self.torch_device)

    def record(self, *, counted: bool = False) -> CudaRecorder:
        """Switches the allocator's history on."""
        return CudaRecorder(self.torch_device, counted=counted)

    def block_of(self, tensor: torch.Tensor) -> Hashable:
        """The address of the tensor's storage."""
        return tensor.untyped_storage().data_ptr()

    def synchronize(self) -> None:
        """Waits for the device."""
        torch.cuda.synchronize(self.torch_device)

    def time_steps(self, step: Callable[[], None], count: int) -> list[float]:
        """Times steps by CUDA events; the host waits only at the end, so it launches ahead as a real loop does."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            step()
            event.record()
        events[-1].synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairwise(events)]


def _free_pinned_memory() -> None:
    """Returns pinned memory that is cached to the host; the allocator keeps all sizes that it ever made."""
    free = getattr(torch._C, "_host_emptyCache", None)  # not in every torch
    if free is not None:
        free()


def expands_segments() -> bool:
    """Tells whether the allocator supports ``expandable_segments:True``; not every platform and backend does."""
    if torch.cuda.get_allocator_backend() != "native":
        return False
    return bool(torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"])


def read_memory(device: torch.device) -> MemoryReading:
    """The allocator's counters for a GPU."""
    stats: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(device)
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    return MemoryReading(
        requested_bytes=stats["requested_bytes"]["all"]["current"],
        allocated_bytes=allocated["current"],
        reserved_bytes=reserved["current"],
        peak_allocated_bytes=allocated["peak"],
        peak_reserved_bytes=reserved["peak"],
        allocator_retries=stats["num_alloc_retries"],
    )


def scratch_limit_bytes(device: torch.device) -> int | None:
    """Returns the upper limit of a reduction's scratch space; ``None`` if torch does not know enough of the GPU."""
    properties = torch.cuda.get_device_properties(device)
    threads = getattr(properties, "max_threads_per_multi_processor", None)
    return None if threads is None else properties.multi_processor_count * threads * SCRATCH_BYTES_PER_THREAD


def _blocks_so_far(device: torch.device) -> int:
    """Returns how often a block was allocated or freed in this process."""
    stats = torch.cuda.memory_stats_as_nested_dict(device)["allocation"]["all"]
    return int(stats["allocated"]) + int(stats["freed"])


class CudaRecorder:
    """Turns the allocator's own history into a trace; only one that is ``counted`` says how long it is so far."""

    def __init__(self, device: torch.device, *, max_entries: int = sys.maxsize, counted: bool = False) -> None:
        self._device, self._max_entries = device, max_entries
        self.overflowed = False
        self._marks: deque[tuple[Phase, int]] = deque()
        self._marked, self._blocks_before = 0, _blocks_so_far(device) if counted else 0
        self._before = {
            block["address"]: block["requested_size"]
            for segment in torch.cuda.memory_snapshot()
            if segment["device"] == device.index
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        }
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=max_entries)

    def mark(self, phase: Phase) -> None:
        """Leaves a mark in the history."""
        mark = torch.empty(MARK_BYTES, dtype=torch.uint8, device=self._device)
        self._marked += 1
        self._marks.append((phase, mark.data_ptr()))

    def count(self) -> int:
        """Returns how many blocks came and went since then, apart from those of the marks."""
        return _blocks_so_far(self._device) - self._blocks_before - 2 * self._marked

    def finish(self) -> Trace:
        """Reads the history and switches it off; if it ``overflowed``, its beginning is gone."""
        history: list[dict[str, Any]] = torch.cuda.memory._snapshot(self._device)["device_traces"][self._device.index]
        torch.cuda.memory._record_memory_history(enabled=None)
        self.overflowed = len(history) >= self._max_entries
        return self._trace_of(history)

    def abandon(self) -> None:
        """Switches the history off."""
        torch.cuda.memory._record_memory_history(enabled=None)

    def _trace_of(self, history: list[dict[str, Any]]) -> Trace:
        trace = Trace(before=dict(self._before))
        marks: set[int] = set()
        for entry in history:
            action, address, requested = entry["action"], entry.get("addr", 0), entry["size"]
            # The watched program may request the size of a mark too, so a mark's position counts as well.
            is_mark = requested == MARK_BYTES and bool(self._marks) and address == self._marks[0][1]
            if action == "alloc" and is_mark:
                marks.add(address)
                trace.marks.append((self._marks.popleft()[0], len(trace.events)))
            elif action == "alloc":
                trace.events.append((address, requested))
            elif action == "free_requested" and address in marks:
                marks.discard(address)
            elif action == "free_requested":
                trace.events.append((address, -requested))
        return trace

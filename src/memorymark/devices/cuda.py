"""An NVIDIA (or ROCm) GPU through torch.cuda."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

import torch

from memorymark.devices import nvml
from memorymark.devices.base import MemoryReading
from memorymark.prediction.allocator import ALLOCATOR_SETTINGS, Segment
from memorymark.trace import Phase, Trace

# A phase's end is written into the allocator's history as a request of an odd size that no kernel makes.
MARK_BYTES = 509
# What torch's reductions take for themselves at most, for each thread that the GPU runs at once.
SCRATCH_BYTES_PER_THREAD = 512


@cache
def _others_bytes(index: int) -> int:
    """What others held when this process first asked; once it has used CUDA, its own cannot be told from theirs."""
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
        """Lets the caching allocator take no more than this; the CUDA context comes on top."""
        torch.cuda.set_per_process_memory_fraction(cap_bytes / self.total_bytes, self.torch_device)
        self.cap_bytes = cap_bytes

    def capacity_bytes(self) -> int:
        """What is free and what is already reserved, or the cap if that is less."""
        free, _ = torch.cuda.mem_get_info(self.torch_device)
        obtainable = free + torch.cuda.memory_reserved(self.torch_device)
        return obtainable if self.cap_bytes is None else min(obtainable, self.cap_bytes)

    def counting(self) -> AbstractContextManager[None]:
        """The allocator always counts."""
        return nullcontext()

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """The allocator has counted them."""

    def arrived(self, tensor: torch.Tensor) -> torch.Tensor:
        """What lies on the device was copied there, or is counted with all that it is a part of."""
        return tensor

    def reset(self) -> None:
        """Returns cached segments to the device and starts the peaks anew."""
        torch.cuda.empty_cache()
        self.reset_peaks()

    def start_over(self) -> None:
        """Returns cuBLAS's workspaces too, which lie elsewhere if they are asked for in the midst of a step."""
        torch._C._cuda_clearCublasWorkspaces()
        self.reset()

    def reset_peaks(self) -> None:
        """Starts the peaks anew."""
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def reading(self) -> MemoryReading:
        """The allocator's counters."""
        return read_memory(self.torch_device)

    def held_bytes(self) -> int:
        """What the driver has handed out: the context, cached segments and other processes."""
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return total - free

    def layout(self) -> list[Segment] | None:
        """The allocator's segments, as long as it works in its default way."""
        if any(os.environ.get(name) for name in ALLOCATOR_SETTINGS):
            return None
        return [
            Segment(
                address=segment["address"],
                small=segment["segment_type"] == "small",
                blocks=tuple((block["size"], block["state"] != "inactive") for block in segment["blocks"]),
            )
            for segment in torch.cuda.memory_snapshot()
            if segment["device"] == self.torch_device.index
        ]

    def scratch_limit_bytes(self) -> int | None:
        """What the scratch space of a reduction cannot exceed."""
        return scratch_limit_bytes(self.torch_device)

    def record(self) -> CudaRecorder:
        """Switches the allocator's history on."""
        return CudaRecorder(self.torch_device)

    def block_of(self, tensor: torch.Tensor) -> Hashable:
        """The address of the tensor's storage."""
        return tensor.untyped_storage().data_ptr()

    def synchronize(self) -> None:
        """Waits for the device."""
        torch.cuda.synchronize(self.torch_device)

    def time_steps(self, step: Callable[[], None], count: int) -> list[float]:
        """Seconds between CUDA events; the host waits only at the end, so it launches ahead as a real loop does."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            step()
            event.record()
        events[-1].synchronize()
        return [start.elapsed_time(end) / 1e3 for start, end in pairwise(events)]


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
    """What the scratch space of a reduction cannot exceed, if torch knows the GPU well enough."""
    properties = torch.cuda.get_device_properties(device)
    threads = getattr(properties, "max_threads_per_multi_processor", None)
    return None if threads is None else properties.multi_processor_count * threads * SCRATCH_BYTES_PER_THREAD


class CudaRecorder:
    """Turns the allocator's own history into a trace."""

    def __init__(self, device: torch.device, *, max_entries: int = sys.maxsize) -> None:
        self._device, self._max_entries = device, max_entries
        self.overflowed = False
        self._marks: deque[tuple[Phase, int]] = deque()
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
        self._marks.append((phase, mark.data_ptr()))

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
            # Whoever is watched may ask for as many bytes as a mark takes, so its place counts too.
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

"""Devices without a measuring allocator: tensor bytes are counted as storages come and go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memorymark.devices.allocations import Phase, Trace
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.base import MemoryReading
from memorymark.devices.host_memory import HostStorages
from memorymark.devices.storages import StorageNumbers, dense_parts
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.units import GIB, format_bytes

# Returns its argument, though that is new: torch.tensor() ends with it.
LIFT_FRESH = torch.ops.aten.lift_fresh.default


class TensorTracker(TorchDispatchMode):
    """Counts the bytes of every storage an operation makes, until that storage is freed.

    Storages from before, such as a data set that a batch is a view of, count only if they are adopted. Those that stand
    for memory of the host do not count.
    """

    def __init__(self, device_type: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device_type = device_type
        self.cap_bytes: int | None = None
        self.allocated_bytes = 0
        self.peak_bytes = 0
        self.alive: dict[Hashable, int] = {}
        self.trace: Trace | None = None
        self._numbers = StorageNumbers(self._forget)
        self._on_host = HostStorages()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation and counts what it made."""
        result = func(*args, **(kwargs or {}))
        on_host = self._on_host.takes(func, (args, kwargs))
        for storage in self._storages(result):
            if on_host:
                self._on_host.add(storage)
            elif _gives_new_tensors(func) or self.serial_of(storage) is not None:  # a known one may have been resized
                self._count(storage)
        return result

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Counts tensors, wherever they were made."""
        for storage in self._storages(list(tensors)):
            self._count(storage)

    def has_counted(self, tensor: torch.Tensor) -> bool:
        """Whether all of a tensor's memory on the device is counted."""
        return all(self.serial_of(storage) is not None for storage in self._storages(tensor))

    def serial_of(self, storage: torch.UntypedStorage) -> int | None:
        """The number under which a living storage was counted."""
        return self._numbers.find(storage)

    def _storages(self, tree: Any) -> Iterator[torch.UntypedStorage]:
        for leaf in tree_leaves(tree):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == self.device_type:
                for part in dense_parts(leaf):
                    yield part.untyped_storage()

    def _count(self, storage: torch.UntypedStorage) -> None:
        size = storage.nbytes()
        serial = self._numbers.find(storage)
        if serial is not None and self.alive[serial] == size:
            return
        if self.cap_bytes is not None and self.allocated_bytes + size > self.cap_bytes:
            free = max(self.cap_bytes - self.allocated_bytes, 0)
            raise torch.OutOfMemoryError(
                f"out of memory. Tried to allocate {size} bytes, of which {free} bytes is free under the cap of "
                f"{format_bytes(self.cap_bytes)}."
            )
        if serial is not None:  # it was resized in place: the old block is gone
            self._change(serial, -self.alive.pop(serial))
        serial = self._numbers.number(storage)
        self.alive[serial] = size
        self._change(serial, size)
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)

    def _forget(self, serial: int) -> None:
        self._change(serial, -self.alive.pop(serial, 0))

    def _change(self, serial: int, size: int) -> None:
        self.allocated_bytes += size
        if self.trace is not None and size:
            self.trace.events.append((serial, size))


@cache
def _gives_new_tensors(operation: Any) -> bool:
    """Tells whether an operation's results are neither its arguments nor views of them."""
    return operation is LIFT_FRESH or not any(result.alias_info for result in operation._schema.returns)


class TrackedDevice:
    """A device whose memory is counted tensor by tensor; nothing is cached, so reserved equals allocated."""

    kind: str
    name: str
    total_bytes: int
    other_processes_bytes = 0
    allocator: AllocatorKind = "default"

    def __init__(self) -> None:
        self.torch_device = torch.device(self.kind)
        self._tracker = TensorTracker(self.kind)

    @property
    def cap_bytes(self) -> int | None:
        """The cap in force."""
        return self._tracker.cap_bytes

    def use_allocator(self, kind: AllocatorKind) -> None:
        """Raises ``UsageError`` for anything that only a caching allocator can do."""
        if kind != "default":
            wants = Message("expandable segments need a CUDA GPU; use one, or drop {allocator}.")
            raise UsageError(wants, field="allocator", given=kind)

    def cap(self, cap_bytes: int) -> None:
        """Raises torch.OutOfMemoryError when the counted bytes would pass this."""
        self._tracker.cap_bytes = cap_bytes

    def capacity_bytes(self) -> int:
        """The cap, or the whole device."""
        return self.total_bytes if self.cap_bytes is None else self.cap_bytes

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts every new tensor inside the context."""
        with self._tracker:
            yield

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Counts the tensors that are not counted yet."""
        self._tracker.adopt(tensors)

    def arrived(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a copy if the tensor is not counted yet."""
        return tensor if self._tracker.has_counted(tensor) else tensor.clone()

    def reset(self) -> None:
        """Starts the peaks anew."""
        self.reset_peaks()

    def start_over(self) -> None:
        """Does nothing: no library keeps memory that is counted."""
        self.reset()

    def reset_peaks(self) -> None:
        """Resets the peaks to what is allocated now."""
        self._tracker.peak_bytes = self._tracker.allocated_bytes

    def reading(self) -> MemoryReading:
        """The counted bytes."""
        now, peak = self._tracker.allocated_bytes, self._tracker.peak_bytes
        return MemoryReading(now, now, now, peak, peak, allocator_retries=0)

    def held_bytes(self) -> int:
        """Returns the counted bytes: the host's other memory does not matter to the step."""
        return self._tracker.allocated_bytes

    def layout(self) -> None:
        """Returns ``None``: there is no caching allocator to model."""

    def scratch_limit_bytes(self) -> None:
        """Returns ``None``: no kernel has scratch space."""

    def record(self, *, counted: bool = False) -> TrackedRecorder:  # noqa: ARG002 - it is counted anyway
        """Starts recording what the tracker counts."""
        return TrackedRecorder(self._tracker)

    def block_of(self, tensor: torch.Tensor) -> Hashable:
        """The serial number of the tensor's storage."""
        return self._tracker.serial_of(tensor.untyped_storage())

    def synchronize(self) -> None:
        """Does nothing: nothing is asynchronous."""

    def time_steps(self, step: Callable[[], None], count: int) -> list[float]:
        """Times steps by the host's clock, waiting for the device after each."""
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            step()
            self.synchronize()
            seconds.append(time.perf_counter() - start)
        return seconds


class CpuDevice(TrackedDevice):
    """The host's processor, with a cap by default: filling the host's memory helps nobody."""

    kind = "cpu"
    name = "CPU"
    default_cap_bytes = GIB // 4

    def __init__(self) -> None:
        super().__init__()
        self.total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.cap(self.default_cap_bytes)


class MpsDevice(TrackedDevice):
    """Apple's GPU; it shares the host's memory, and Metal recommends how much of it to use."""

    kind = "mps"
    name = "Apple GPU (MPS)"

    def __init__(self) -> None:
        super().__init__()
        self.total_bytes = torch.mps.recommended_max_memory()
        self.cap(self.total_bytes)

    def reset(self) -> None:
        """Frees cached memory and resets the peaks."""
        torch.mps.empty_cache()
        self.reset_peaks()

    def synchronize(self) -> None:
        """Waits for the device."""
        torch.mps.synchronize()


class TrackedRecorder:
    """Collects the tracker's events into a trace."""

    def __init__(self, tracker: TensorTracker) -> None:
        self._tracker = tracker
        self._trace = tracker.trace = Trace(before=dict(tracker.alive))

    def mark(self, phase: Phase) -> None:
        """Marks the end of a phase."""
        self._trace.marks.append((phase, len(self._trace.events)))

    def count(self) -> int:
        """Returns how many blocks came and went since then."""
        return len(self._trace.events)

    def finish(self) -> Trace:
        """Stops collecting and returns the trace."""
        self._tracker.trace = None
        return self._trace

"""The GPU beside a running training: its timeline, its allocator, one recorded step. Never waits for the device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable

import torch

from memorymark.catalog import match_gpu
from memorymark.devices import nvml
from memorymark.devices.allocations import Phase, Trace
from memorymark.devices.allocator_settings import allocator_in_force
from memorymark.devices.cuda import CudaRecorder, read_memory, scratch_limit_bytes
from memorymark.watch.observation import DeviceFacts, MemoryFacts

PENDING_PAIRS = 256
SAMPLE_SECONDS = 0.5
# Entries of the allocator's history: many times what a step makes, and still small.
MAX_ENTRIES = 300_000


class IdleClock:
    """Measures how long the GPU was idle between two moments of the host, on the GPU's own clock.

    Each moment puts an event into the queue. If the queue never ran empty, the GPU reaches them right after each other.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pending: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()
        self._spare: list[torch.cuda.Event] = []
        self._begun: torch.cuda.Event | None = None
        self.seconds = 0.0
        self.gaps = 0

    def begin(self) -> None:
        """Marks that the host has no more work for the GPU."""
        self.collect()
        self._begun = self._record() if len(self._pending) < PENDING_PAIRS else None

    def end(self) -> None:
        """Marks that the host has work for the GPU again."""
        if self._begun is not None:
            self._pending.append((self._begun, self._record()))
            self._begun = None

    def collect(self) -> None:
        """Reads the events that the GPU has passed."""
        while self._pending and self._pending[0][1].query():
            start, end = self._pending.popleft()
            self.seconds += start.elapsed_time(end) / 1e3
            self.gaps += 1
            self._spare += (start, end)

    def reset(self) -> None:
        """Forgets what was measured."""
        self._pending.clear()
        self.seconds, self.gaps = 0.0, 0

    def _record(self) -> torch.cuda.Event:
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event


class UtilizationSampler(threading.Thread):
    """Asks the driver twice a second how busy the GPU is, while steps run."""

    def __init__(self, index: int) -> None:
        super().__init__(name="memorymark-utilization", daemon=True)
        self._index = index
        self._ended = threading.Event()
        self._last_step = 0.0
        self._allowed_seconds = SAMPLE_SECONDS
        self.samples = 0
        self.busy = self.power = 0.0

    def stepped(self, step_seconds: float) -> None:
        """A step has ended."""
        self._last_step = time.monotonic()
        self._allowed_seconds = max(2 * step_seconds, SAMPLE_SECONDS)

    def reset(self) -> None:
        """Forgets what was sampled."""
        self.samples = 0
        self.busy = self.power = 0.0

    def run(self) -> None:
        """Samples until ``stop``."""
        with nvml.UtilizationMeter(self._index) as meter:
            while not self._ended.wait(SAMPLE_SECONDS):
                if time.monotonic() - self._last_step > self._allowed_seconds:
                    continue
                sample = meter.sample()
                if sample is None:
                    return
                self.busy += sample.busy
                self.power += sample.power or 0.0
                self.samples += 1

    def stop(self) -> None:
        """Ends the thread soon."""
        self._ended.set()


class GpuWatch:
    """What the detector reads from the GPU that a training runs on."""

    def __init__(self, device: torch.device, other_processes_bytes: int) -> None:
        self.device = torch.device("cuda", device.index if device.index is not None else torch.cuda.current_device())
        self.clock = IdleClock(self.device)
        self.sampler = UtilizationSampler(self.device.index)
        self.sampler.start()
        self._others = other_processes_bytes
        self._recorder: CudaRecorder | None = None
        self._peaks = (0, 0)
        self._first_retries: int | None = None

    def usable(self) -> bool:
        """Whether the GPU may be used now: not while the script captures a graph."""
        return not torch.cuda.is_current_stream_capturing()

    def facts(self) -> DeviceFacts:
        """Returns the device and how much memory the allocator could take."""
        properties = torch.cuda.get_device_properties(self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        obtainable = free + torch.cuda.memory_reserved(self.device)
        fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(self.device)
        known = match_gpu(properties.name, total)
        return DeviceFacts(
            kind="cuda",
            name=properties.name,
            gpu_id=known.id if known is not None else None,
            total_bytes=total,
            capacity_bytes=min(obtainable, int(fraction * total)),
            capped=fraction < 1,
            other_processes_bytes=self._others,
            capability=(properties.major, properties.minor),
        )

    def memory(self, *, settled: bool) -> MemoryFacts:
        """Returns the allocator's counters, with peaks from before any reset by the script."""
        reading = read_memory(self.device)
        self._peaks = (
            max(self._peaks[0], reading.peak_allocated_bytes),
            max(self._peaks[1], reading.peak_reserved_bytes),
        )
        if settled and self._first_retries is None:
            self._first_retries = reading.allocator_retries
        free, total = torch.cuda.mem_get_info(self.device)
        outside = total - free - reading.reserved_bytes
        kind = allocator_in_force()
        return MemoryFacts(
            peak_allocated_bytes=self._peaks[0],
            peak_reserved_bytes=self._peaks[1],
            device_bytes=self._peaks[1] + max(outside, 0),
            retries=0 if self._first_retries is None else reading.allocator_retries - self._first_retries,
            allocator=kind or "default",
            modelled=kind is not None,
        )

    def start_recording(self) -> bool:
        """Starts recording allocations, unless the script records them or uses its own allocator."""
        if torch.cuda.get_allocator_backend() != "native" or torch._C._cuda_isHistoryEnabled():
            return False
        self._recorder = CudaRecorder(self.device, max_entries=MAX_ENTRIES)
        return True

    @property
    def recording(self) -> bool:
        """Whether a step is being recorded."""
        return self._recorder is not None

    def mark(self, phase: Phase) -> None:
        """A phase of the recorded step has ended."""
        if self._recorder is not None:
            self._recorder.mark(phase)

    def finish_recording(self) -> Trace | None:
        """Returns the recorded trace; ``None`` if the script switched the history off meanwhile or it grew too long."""
        recorder, self._recorder = self._recorder, None
        if recorder is None or not torch._C._cuda_isHistoryEnabled():
            return None
        trace = recorder.finish()
        return None if recorder.overflowed else trace

    def abandon_recording(self) -> None:
        """Discards the current recording."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.abandon()

    def keys_of(self, tensors: Iterable[torch.Tensor]) -> list[int]:
        """Returns the tensors' addresses as in the allocator's history; sparse tensors have none."""
        return [t.untyped_storage().data_ptr() for t in tensors if t.layout == torch.strided]

    def scratch_limit_bytes(self) -> int | None:
        """Returns the upper limit of a reduction's scratch space; ``None`` if unknown."""
        return scratch_limit_bytes(self.device)

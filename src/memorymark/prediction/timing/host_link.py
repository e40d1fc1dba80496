"""The time of copies between a GPU and its host, and of updates on the host.

Nothing here was measured. Copies are assumed to reach the rate in the catalog, a practical one for the GPU's PCI
Express, in both directions at once. Updates are assumed to be bound by the host's memory, at half of what eight
channels of DDR4 promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.catalog import GpuEntry
from memorymark.prediction.tracing.operation import COPIES, TO_HOST, Operation

HOST_BYTES_PER_SECOND = 100e9


@dataclass
class HostWork:
    """What a phase of a step copies, and how long it updates on the host."""

    sent_bytes: int = 0
    fetched_bytes: int = 0
    update_seconds: float = 0.0

    def add(self, operation: Operation, times: int) -> None:
        """Adds an operation that runs this often."""
        if operation.base_name == TO_HOST:
            self.sent_bytes += times * sum(tensor.nbytes for tensor in operation.outputs)
        elif operation.base_name in COPIES:
            self.fetched_bytes += times * operation.inputs[-1].nbytes
        elif operation.on_host:
            read, written = (sum(t.nbytes for t in tensors) for tensors in (operation.inputs, operation.outputs))
            # Optimizers write in place, half of what they read.
            self.update_seconds += times * (read + (written or read / 2)) / HOST_BYTES_PER_SECOND

    def seconds_beside(self, device_seconds: float, gpu: GpuEntry) -> float:
        """Returns the time of a phase that computes this long on the device: copies run beside it, updates do not."""
        copies = max(self.sent_bytes, self.fetched_bytes) / gpu.host_link_bytes_per_second
        return max(device_seconds, copies) + self.update_seconds

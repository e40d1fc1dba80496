"""Host memory that offloaded tensors take: how much there is, what they hold, and stand-ins for copies to and from it.

Without a GPU, tensors on the host and on the device look alike. So copies between the two are operations of their own,
and whatever is computed from a tensor on the host counts as being on the host too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from memorymark.devices.machine import available_host_bytes
from memorymark.devices.storages import StorageNumbers
from memorymark.units import format_bytes

NAMESPACE = "memorymark"


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone()


def _written(target: Tensor, source: Tensor) -> None:
    target.copy_(source)


_library = torch.library.Library(NAMESPACE, "FRAGMENT")
for _schema, _does in (
    ("to_host(Tensor tensor) -> Tensor", _copied),
    ("to_device(Tensor host) -> Tensor", _copied),
    ("onto_device(Tensor(a!) target, Tensor host) -> ()", _written),
):
    _name = _library.define(_schema)
    _library.impl(_name, _does, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{_name}", torch.empty_like if _does is _copied else _does, lib=_library)

TO_HOST: Any = torch.ops.memorymark.to_host.default
TO_DEVICE: Any = torch.ops.memorymark.to_device.default
ONTO_DEVICE: Any = torch.ops.memorymark.onto_device.default


def runs_on_host(func: Any, *, on_host: bool) -> bool:
    """Tells whether an operation makes tensors on the host; ``on_host`` says that one of its inputs is there."""
    return func is TO_HOST or (on_host and func not in (TO_DEVICE, ONTO_DEVICE))


def pinned_bytes(requested: int) -> int:
    """Returns what a pinned tensor takes: torch rounds it up to a power of two."""
    return 1 << (requested - 1).bit_length() if requested > 0 else 0


class HostStorages:
    """Knows which storages stand for memory of the host."""

    def __init__(self) -> None:
        self._numbers = StorageNumbers(lambda _: None)

    def takes(self, func: Any, given: Any) -> bool:
        """Tells whether an operation makes tensors on the host; ``given`` are its arguments."""
        if not self._numbers.next:
            return runs_on_host(func, on_host=False)
        leaves = (leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor))
        return runs_on_host(func, on_host=any(map(self._holds, leaves)))

    def add(self, storage: torch.UntypedStorage) -> None:
        """Notes that a storage is memory of the host."""
        self._numbers.number(storage)

    def _holds(self, tensor: Tensor) -> bool:
        return tensor.layout == torch.strided and self._numbers.find(tensor.untyped_storage()) is not None


class HostMeter:
    """Counts what offloaded tensors hold on the host, and refuses more than ``limit_bytes``."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = self.peak_bytes = 0
        self._sizes: dict[int, int] = {}
        self._numbers = StorageNumbers(self._forget)

    @classmethod
    def of_this_machine(cls) -> HostMeter:
        """Returns a meter that refuses more than this machine has available now."""
        return cls(available_host_bytes())

    def require(self, size: int) -> None:
        """Raises ``MemoryError`` if there is no room for this many bytes more."""
        if self.limit_bytes is not None and self.held_bytes + size > self.limit_bytes:
            free = max(self.limit_bytes - self.held_bytes, 0)
            raise MemoryError(
                f"the host has {format_bytes(free)} of memory left, and what is offloaded needs {format_bytes(size)} "
                "more"
            )

    def count(self, tensor: Tensor, size: int) -> None:
        """Counts a tensor as this many bytes, for as long as its memory lives."""
        number = self._numbers.number(tensor.untyped_storage())
        if number not in self._sizes:
            self._sizes[number] = size
            self.held_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.held_bytes)

    def reset_peak(self) -> None:
        """Resets the peak to what is held now."""
        self.peak_bytes = self.held_bytes

    def _forget(self, number: int) -> None:
        self.held_bytes -= self._sizes.pop(number)

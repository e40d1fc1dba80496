"""Numbers the storages behind tensors for as long as they live."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch


def dense_parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields the tensor itself, or the indices and values of a sparse one, which own the storages."""
    if tensor.layout == torch.sparse_coo:
        yield from (tensor._indices(), tensor._values())
    elif tensor.layout == torch.strided:
        yield tensor


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """Returns what this process holds of a tensor that several share, and any other tensor as it is."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


class StorageNumbers:
    """Gives each storage a unique number; calls ``on_death`` with that number when the storage is gone."""

    def __init__(self, on_death: Callable[[int], None]) -> None:
        self.next = 0
        self._on_death = on_death
        self._numbers: dict[int, int] = {}
        self._references: dict[int, weakref.ref[Any]] = {}

    def find(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of a storage, or ``None`` if it was not seen before."""
        return self._numbers.get(id(storage))

    def number(self, storage: torch.UntypedStorage) -> int:
        """Returns the number of a storage, a new one if it was not seen before."""
        known = self._numbers.get(id(storage))
        if known is not None:
            return known
        number, self.next = self.next, self.next + 1
        self._numbers[id(storage)] = number
        self._references[number] = weakref.ref(storage, partial(self._forget, id(storage), number))
        return number

    def forget(self, storage: torch.UntypedStorage) -> None:
        """Takes a storage to be gone, as one whose memory was given back; if it is seen again, it gets a new number."""
        number = self._numbers.get(id(storage))
        if number is not None:
            self._forget(id(storage), number, None)

    def _forget(self, key: int, number: int, _: object) -> None:
        del self._numbers[key], self._references[number]
        self._on_death(number)

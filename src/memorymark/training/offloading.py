"""Keeps what the backward pass needs on the host. Training scripts can use it as it is::

    offloaded = OffloadedActivations(model)
    for batch in loader:
        with offloaded:
            loss = model(**batch).loss
        loss.backward()

Copies run on a stream of their own, beside the computation. A tensor that is copied stays on the device until two more
were sent, and the two that the backward pass probably needs next are fetched early. The computation waits for a copy
before it uses or frees the memory of it, so the memory that a step takes does not depend on how fast copies are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

# How many tensors are on the device only because of a copy, in each direction.
UNDER_WAY = 2
# Smaller tensors stay on the device, and so do views of a small part of a larger tensor.
LEAST_ELEMENTS = 1024
LEAST_PART = 1 / 16


class HostLink:
    """Copies tensors of a GPU to pinned host memory, and back."""

    def __init__(self) -> None:
        self._stream: Any = torch.cuda.Stream()
        self._sending: deque[HostCopy] = deque()

    def send(self, tensor: Tensor) -> HostCopy:
        """Starts to copy a tensor to the host."""
        copy = HostCopy(self, tensor)
        self._sending.append(copy)
        if len(self._sending) > UNDER_WAY:
            self._sending.popleft().drop()
        return copy

    def let_go(self) -> None:
        """Frees the last tensors on the device too once they are copied."""
        while self._sending:
            self._sending.popleft().drop()

    def forget(self) -> None:
        """Leaves the last tensors on the device to those who hold their copies."""
        self._sending.clear()

    def to_host(self, tensor: Tensor) -> tuple[Tensor, Any]:
        """Starts the copy; returns the tensor on the host and the event of its arrival."""
        return self._beside(lambda: self.room_for(tensor).copy_(tensor, non_blocking=True))

    def to_device(self, host: Tensor, device: torch.device) -> tuple[Tensor, Any]:
        """Starts to copy back; returns the new tensor on the device and the event of its arrival."""
        made = torch.empty_like(host, device=device)  # memory of the computation's stream
        return self._beside(lambda: made.copy_(host, non_blocking=True))

    def room_for(self, tensor: Tensor) -> Tensor:
        """Returns pinned memory on the host for a tensor."""
        return torch.empty_like(tensor, device="cpu", pin_memory=True)

    def wait(self, arrival: Any) -> None:
        """Lets the computation wait for a copy."""
        torch.cuda.current_stream().wait_event(arrival)

    def finish(self) -> None:
        """Waits until all copies are done, so that the host memory of earlier ones can be used again."""
        self._stream.synchronize()

    def _beside(self, copy: Callable[[], Tensor]) -> tuple[Tensor, Any]:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            return copy(), self._stream.record_event()


class HostCopy:
    """A copy on the host of a tensor. ``tensor`` is the one on the device, while it is there.

    ``before`` is the copy that was sent before it, which the backward pass probably needs after it. ``uses`` is how
    often the backward pass will ask for it.
    """

    def __init__(self, link: HostLink, tensor: Tensor) -> None:
        self.tensor: Tensor | None = None
        self.uses = 0
        self.before: Callable[[], HostCopy | None] = lambda: None
        self._link, self._device, self._memory = link, tensor.device, ref(tensor.untyped_storage())
        self.host, self._arrival = link.to_host(tensor)
        self.tensor = tensor

    def is_of(self, memory: torch.UntypedStorage) -> bool:
        """Tells whether it is a copy of this memory, and not of an earlier tensor at the same address."""
        return self._memory() is memory

    def fetch(self) -> None:
        """Starts to bring the tensor back, unless it is on the device."""
        if self.tensor is None:
            self.tensor, self._arrival = self._link.to_device(self.host, self._device)

    def used(self) -> Tensor:
        """Returns the tensor on the device once it is there; keeps it until the last use."""
        self.fetch()
        self._link.wait(self._arrival)
        tensor, self.uses = self.tensor, self.uses - 1
        if self.uses <= 0:
            self.tensor = None
        return tensor  # type: ignore[return-value]

    def drop(self) -> None:
        """Frees the tensor on the device once it is copied."""
        if self.tensor is not None:
            self._link.wait(self._arrival)
            self.tensor = None

    def __del__(self) -> None:
        self.drop()  # if it was fetched early and nobody asked for it


class OffloadedActivations(saved_tensors_hooks):
    """A context for the forward pass: what that saves for the backward pass is kept on the host.

    Each memory is copied once, however many views of it are saved. The model's weights and buffers stay.
    """

    def __init__(self, model: nn.Module, link: HostLink | None = None) -> None:
        super().__init__(self._pack, self._unpack)
        self._model, self._link = model, link or HostLink()
        self._staying: set[int] = set()
        self._copies: WeakValueDictionary[Any, HostCopy] = WeakValueDictionary()
        self._last: Callable[[], HostCopy | None] = lambda: None

    def __enter__(self) -> None:
        self._link.finish()
        weights = (*self._model.parameters(), *self._model.buffers())
        self._staying = {weight.untyped_storage()._cdata for weight in weights if weight.layout == torch.strided}
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._link.forget()

    def _pack(self, tensor: Tensor) -> Any:
        if not self._goes(tensor):
            return tensor
        memory = tensor.untyped_storage()
        key = (memory._cdata, tensor._version, tensor.dtype)
        copy = self._copies.get(key)
        if copy is None or not copy.is_of(memory):
            if tensor.nbytes < LEAST_PART * memory.nbytes():
                return tensor
            whole = tensor.as_strided((memory.nbytes() // tensor.element_size(),), (1,), 0)
            copy = self._copies[key] = self._link.send(whole)
            copy.before, self._last = self._last, ref(copy)
        copy.uses += 1
        return copy, tensor.size(), tensor.stride(), tensor.storage_offset()

    def _goes(self, tensor: Tensor) -> bool:
        is_plain = tensor.layout == torch.strided and not (tensor.is_conj() or tensor.is_neg())
        if not is_plain or tensor.numel() < LEAST_ELEMENTS:
            return False
        return tensor.untyped_storage()._cdata not in self._staying

    @staticmethod
    def _unpack(packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        copy, *layout = packed
        copy.fetch()
        following = copy
        for _ in range(UNDER_WAY):
            following = following.before()
            if following is None:
                break
            if following.uses > 0:
                following.fetch()
        return copy.used().as_strided(*layout)  # type: ignore[no-any-return]

"""What a model can do with real tensors on a GPU, and torch does differently with fake ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, partialmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only

from memorymark.prediction.tracing.values import known


@contextmanager
def like_real() -> Iterator[None]:
    """Lets ``module.to(dtype)``, ``f"expert_{index}"``, ``torch.tensor([scalar])``, ``autocast("cuda")`` and more work.

    Routers of mixtures need the first two. torch swaps fake parameters when it casts them, which fails once an
    optimizer refers to them. Positions of images in texts need the third, whose values torch reads from memory. Fake
    tensors are labelled CPU, so autocast for CUDA would leave them alone. ``torch.isfinite(tensor).all()`` is true: a
    training is planned for that. Numbers are copied to the host for an evaluation (``.numpy()``) or saved
    (``torch.save``, which writes nothing here): neither takes memory of the GPU.
    """
    casting: Any = nn.Module._apply
    entering: Any = torch.amp.autocast_mode.autocast.__init__
    torch.amp.autocast_mode.autocast.__init__ = partialmethod(_autocast, entering)  # type: ignore[method-assign,assignment]
    nn.Module._apply = _apply  # type: ignore[method-assign]
    FakeTensor.__format__ = _format  # type: ignore[method-assign]
    FakeTensor.numpy = _numpy  # type: ignore[method-assign,assignment]
    making, asking, saving = torch.tensor, torch.isfinite, torch.save
    torch.isfinite = partial(_isfinite, asking)
    torch.tensor = partial(_tensor, making)
    torch.save = _save
    try:
        yield
    finally:
        torch.tensor, torch.isfinite, torch.save = making, asking, saving
        del FakeTensor.numpy
        nn.Module._apply = casting  # type: ignore[method-assign]
        torch.amp.autocast_mode.autocast.__init__ = entering  # type: ignore[method-assign]
        del FakeTensor.__format__


def _autocast(
    self: Any, original: Any, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any
) -> None:
    if device_type == "cuda":
        device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
    original(self, device_type, dtype, *args, **kwargs)


def _apply(self: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    for child in self.children() if recurse else ():
        child._apply(fn)
    for parameter in self._parameters.values():
        if parameter is not None:
            with torch.no_grad():
                changed = fn(parameter)
            if changed is not parameter:
                parameter.data = changed
    for name, buffer in self._buffers.items():
        if buffer is not None:
            self._buffers[name] = fn(buffer)
    return self


def _format(self: Tensor, spec: str) -> str:
    return object.__format__(self, spec) if self.dim() else format(self.item(), spec)


def _numpy(self: Tensor, **_: Any) -> Any:
    """Returns an array of what the host would read: the values if known, else one that stands for all."""
    with torch._C._DisableTorchDispatch():
        kind = torch.empty(0, dtype=self.dtype).numpy().dtype
    values = known(self)
    if values is None and self.numel():
        return np.full(self.shape, self.reshape(-1)[0].item(), dtype=kind)
    with torch._C._DisableTorchDispatch():
        return np.empty(self.shape, dtype=kind) if values is None else values.detach().numpy().copy()


def _save(*_: Any, **__: Any) -> None:
    """Writes nothing: tensors without data have none."""


def _tensor(original: Callable[..., Tensor], data: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Reads the scalars in a list one by one, as operations that the trace can answer."""
    if isinstance(data, (list, tuple)):
        data = tree_map_only(FakeTensor, lambda one: one.item() if not one.dim() else one, data)
    return original(data, *args, **kwargs)


def _isfinite(original: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    finite = original(tensor)
    finite._memorymark_holds = True  # type: ignore[attr-defined]
    return finite

"""What a model can do with real tensors in its forward pass, and torch does differently with fake ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor


@contextmanager
def like_real() -> Iterator[None]:
    """Makes ``module.to(dtype)`` and ``f"expert_{index}"`` work on fake tensors; routers of mixtures need both.

    torch swaps fake parameters when it casts them, which fails once an optimizer refers to them.
    """
    casting: Any = nn.Module._apply
    nn.Module._apply = _apply  # type: ignore[method-assign]
    FakeTensor.__format__ = _format  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module._apply = casting  # type: ignore[method-assign]
        del FakeTensor.__format__


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

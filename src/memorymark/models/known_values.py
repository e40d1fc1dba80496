"""Runs code on tensors without data, of which only small whole numbers are known. Worker side: imports torch.

It serves to ask a model how many tokens an image becomes, without weights and without computing anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

MOST_KNOWN = 2**16


@contextmanager
def without_data() -> Iterator[KnownValues]:
    """Runs what is inside on fake tensors, which know their values where they are few."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    # A fused kernel's shape rule is wrong where one query serves all samples, which none of them takes.
    with fake_mode, KnownValues(fake_mode) as values, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        yield values


class KnownValues(TorchDispatchMode):
    """Computes the values of small tensors beside the fake ones.

    While a model ``is_built``, it may ask for a value that is not known: it looks at its random weights.
    """

    is_built = False

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fake_mode = fake_mode

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation on fake tensors, and on their values if they are known."""
        kwargs = kwargs or {}
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        value = _on_values(func, args, kwargs) if all(_real(tensor) is not None for tensor in inputs) else None
        if value is not None and not any(isinstance(leaf, Tensor) for leaf in tree_leaves(value)):
            return value
        if value is None and self.is_built and func is torch.ops.aten._local_scalar_dense.default:
            return 0
        if value is None and func._schema.is_mutable:
            for tensor in inputs:
                tensor._real = None  # type: ignore[attr-defined]
        try:
            result = func(*self._with_indices(func, args), **kwargs)
        except DynamicOutputShapeException:
            if value is None:
                raise
            with self._fake_mode:
                result = tree_map_only(Tensor, torch.empty_like, value)
        if value is not None:
            for fake, real in zip(tree_leaves(result), tree_leaves(value), strict=True):
                if isinstance(fake, FakeTensor) and isinstance(real, Tensor) and real.numel() <= MOST_KNOWN:
                    fake._real = real  # type: ignore[attr-defined]
        return result

    def _with_indices(self, func: Any, args: Any) -> Any:
        """Replaces known masks by indices, whose number is known."""
        if not func.name().startswith("aten::index") or len(args) < 2 or not isinstance(args[1], (list, tuple)):
            return args
        indices: list[Any] = []
        for index in args[1]:
            real = _real(index) if isinstance(index, Tensor) else None
            if real is None or real.dtype != torch.bool:
                indices.append(index)
                continue
            with torch._C._DisableTorchDispatch():
                places = real.nonzero().unbind(1)
            for place in places:
                with self._fake_mode:
                    indices.append(torch.empty(place.shape, dtype=torch.long, device="cpu"))
        return (args[0], indices, *args[2:])


def _real(tensor: Tensor) -> Tensor | None:
    return getattr(tensor, "_real", None) if isinstance(tensor, FakeTensor) else tensor


def _on_values(func: Any, args: Any, kwargs: Any) -> Any:
    if func.namespace != "aten":
        return None
    try:
        real_args, real_kwargs = tree_map_only(Tensor, _real, (args, kwargs))
        sizes = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, int))
        if any(size > MOST_KNOWN for size in sizes) and "size" in str(func._schema):
            return None
        with torch._C._DisableTorchDispatch():
            return func(*real_args, **real_kwargs)
    except Exception:  # what cannot be computed is unknown
        return None

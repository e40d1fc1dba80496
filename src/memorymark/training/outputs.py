"""The tensors in what a model returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

# How deep outputs nest: a cache of layers of keys and values takes four levels.
DEEPEST = 8


def tensors_inside(outputs: Any, depth: int = DEEPEST) -> Iterator[Tensor]:
    """Yields the tensors in outputs of any structure, such as the keys and values of a cache."""
    if isinstance(outputs, Tensor):
        yield outputs
        return
    if depth == 0 or isinstance(outputs, (str, bytes, type, nn.Module)):
        return
    if isinstance(outputs, Mapping):
        parts: Any = outputs.values()
    elif isinstance(outputs, (list, tuple)):
        parts = outputs
    else:
        parts = getattr(outputs, "__dict__", {}).values()
    for part in parts:
        yield from tensors_inside(part, depth - 1)

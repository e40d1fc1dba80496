"""How large a batch is, whatever form it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MAX_DEPTH = 5


class BatchSize(NamedTuple):
    """The leading dimension of a batch's first tensor, and how many elements that tensor has."""

    samples: int
    elements: int


def size_of(batch: Any) -> BatchSize | None:
    """The size of a batch: a tensor, or tensors inside dicts, tuples and objects; a list of samples counts as such."""
    for tensor in _tensors(batch, 0):
        return BatchSize(int(tensor.shape[0]), int(tensor.numel()))
    return BatchSize(len(batch), len(batch)) if isinstance(batch, (list, tuple)) and batch else None


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "numel"):
        if len(shape) > 0:
            yield value
        return
    if depth == MAX_DEPTH or isinstance(value, (str, bytes, int, float, bool, type(None))):
        return
    if isinstance(value, Mapping):
        inside: Any = value.values()
    elif isinstance(value, (list, tuple)):
        if len(value) > 8 and depth == 0 and isinstance(value, list):
            return  # samples that nobody collated: their number is the size
        inside = value
    else:
        inside = getattr(value, "__dict__", {}).values()
    for part in inside:
        yield from _tensors(part, depth + 1)

"""How large a batch is, whatever form it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MAX_DEPTH = 5
# What tells an image from a batch of series: so many channels, and sides longer than the features of most series.
CHANNELS, LEAST_SIDE = {1, 3, 4}, 8
# Fewer tensors side by side are no samples, by depth: two at the top are the usual inputs and targets.
LEAST_SAMPLES = (3, 1)


class BatchSize(NamedTuple):
    """The leading dimension of a batch's first tensor, or how many samples there are, and the elements of these."""

    samples: int
    elements: int


def size_of(batch: Any) -> BatchSize | None:
    """The size of a batch: a tensor, or tensors inside dicts, tuples and objects; a list of samples counts as such."""
    return next(_sizes(batch, 0), None) or _length(batch)


def size_of_arguments(arguments: Sequence[Any]) -> BatchSize | None:
    """The same for what a module is called with: arguments are no samples, but one of them may be a list of some."""
    found = (size for argument in arguments for size in _sizes(argument, 1))
    return next(found, None) or next(filter(None, map(_length, arguments)), None)


def _length(batch: Any) -> BatchSize | None:
    return BatchSize(len(batch), len(batch)) if isinstance(batch, (list, tuple)) and batch else None


def _sizes(value: Any, depth: int) -> Iterator[BatchSize]:
    if _is_tensor(value):
        if len(value.shape) > 0:
            yield BatchSize(int(value.shape[0]), int(value.numel()))
        return
    if depth == MAX_DEPTH or isinstance(value, (str, bytes, int, float, bool, type(None))):
        return
    if isinstance(value, Mapping):
        inside: Any = value.values()
    elif isinstance(value, (list, tuple)):
        if _are_samples(value, depth):
            yield BatchSize(len(value), sum(int(sample.numel()) for sample in value))
            return
        if len(value) > 8 and depth == 0 and isinstance(value, list):
            return  # samples that nobody collated: their number is the size
        inside = value
    else:
        inside = getattr(value, "__dict__", {}).values()
    for part in inside:
        yield from _sizes(part, depth + 1)


def _is_tensor(value: Any) -> bool:
    return getattr(value, "shape", None) is not None and hasattr(value, "numel")


def _are_samples(parts: Sequence[Any], depth: int) -> bool:
    """Whether they are images or the like that cannot be stacked, rather than tensors of one batch."""
    if depth >= len(LEAST_SAMPLES) or len(parts) < LEAST_SAMPLES[depth]:
        return False
    if not all(_is_tensor(part) and len(part.shape) == 3 for part in parts):
        return False
    leading = {int(part.shape[0]) for part in parts}
    are_images = leading <= CHANNELS and all(min(part.shape[1:]) >= LEAST_SIDE for part in parts)
    return are_images or len(leading) > 1

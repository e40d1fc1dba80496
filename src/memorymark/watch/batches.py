"""Finds the size of a batch of any form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MAX_DEPTH = 5
# The batch is one of so many first dimensions.
DIMENSIONS = 3
# An image, unlike a batch of series, has this many channels, and sides longer than the features of most series.
CHANNELS, LEAST_SIDE = {1, 3, 4}, 8
# Fewer tensors in a list are not samples, by depth: two at the top are usually inputs and targets.
LEAST_SAMPLES = (3, 1)


class SeenBatch(NamedTuple):
    """The leading dimension of a batch's first tensor, or the number of samples in a list, and their elements.

    ``shape`` holds the tensor's first dimensions, one of which is the batch.
    """

    samples: int
    elements: int
    shape: tuple[int, ...] = ()

    def along(self, dimension: int) -> int:
        """Returns the samples if this dimension is the batch; a list has only one."""
        return self.shape[dimension] if dimension < len(self.shape) else self.samples


def size_of(batch: Any) -> SeenBatch | None:
    """Returns the size of a batch: a tensor, a list of samples, or tensors inside dicts, tuples and objects."""
    return next(_sizes(batch, 0), None) or _length(batch)


def size_of_arguments(arguments: Sequence[Any]) -> SeenBatch | None:
    """Returns the batch size in a module's arguments, which are not samples but may include a list of samples."""
    found = (size for argument in arguments for size in _sizes(argument, 1))
    return next(found, None) or next(filter(None, map(_length, arguments)), None)


def tensors_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yields the tensors of a batch in order."""
    if _is_tensor(value):
        yield value
    elif depth < MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(part, depth + 1)


def _length(batch: Any) -> SeenBatch | None:
    return SeenBatch(len(batch), len(batch)) if isinstance(batch, (list, tuple)) and batch else None


def _sizes(value: Any, depth: int) -> Iterator[SeenBatch]:
    if _is_tensor(value):
        if len(value.shape) > 0:
            shape = tuple(int(length) for length in value.shape[:DIMENSIONS])
            yield SeenBatch(shape[0], int(value.numel()), shape)
        return
    if depth == MAX_DEPTH or isinstance(value, (str, bytes, int, float, bool, type(None))):
        return
    if isinstance(value, Mapping):
        inside: Any = value.values()
    elif isinstance(value, (list, tuple)):
        if _are_samples(value, depth):
            yield SeenBatch(len(value), sum(int(sample.numel()) for sample in value))
            return
        if len(value) > 8 and depth == 0 and isinstance(value, list):
            return  # uncollated samples: their number is the size
        inside = value
    else:
        inside = getattr(value, "__dict__", {}).values()
    for part in inside:
        yield from _sizes(part, depth + 1)


def _is_tensor(value: Any) -> bool:
    return getattr(value, "shape", None) is not None and hasattr(value, "numel")


def _are_samples(parts: Sequence[Any], depth: int) -> bool:
    """Tells whether these are separate samples, such as images of different sizes, not tensors of one batch."""
    if depth >= len(LEAST_SAMPLES) or len(parts) < LEAST_SAMPLES[depth]:
        return False
    if not all(_is_tensor(part) and len(part.shape) == 3 for part in parts):
        return False
    leading = {int(part.shape[0]) for part in parts}
    are_images = leading <= CHANNELS and all(min(part.shape[1:]) >= LEAST_SIDE for part in parts)
    return are_images or len(leading) > 1

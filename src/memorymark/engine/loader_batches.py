"""Batches of any size from a data loader of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any

from memorymark.errors import UsageError
from memorymark.training.workload import count_elements, tensors_of

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

# The largest of this many samples is repeated, so that no real batch is larger.
SAMPLES_SEEN = 64


def batches_of(loader: DataLoader[Any]) -> Callable[[int], Any]:
    """Returns a function that makes batches of any size: the largest of the first samples, repeated and collated.

    If the loader's data set yields whole batches, the first one is resized instead.
    """
    if loader.batch_size is None and loader.batch_sampler is None:
        return _resizing(loader)
    collate: Callable[[list[Any]], Any] = loader.collate_fn
    samples = list(islice(_samples(loader.dataset), SAMPLES_SEEN))
    if not samples:
        raise UsageError("the data loader has no samples; give it some.", code="bad_workload")
    largest = max(samples, key=lambda sample: count_elements(collate([copy(sample)])))
    # Copies, because some collators take their samples apart.
    return lambda size: collate([copy(largest) for _ in range(size)])


def _samples(dataset: Any) -> Iterator[Any]:
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return (dataset[index] for index in range(len(dataset)))
    return iter(dataset)


def _resizing(loader: DataLoader[Any]) -> Callable[[int], Any]:
    """Repeats or cuts the first batch of a loader along the first dimension."""
    first = next(iter(loader), None)
    leading = [tensor.shape[0] for tensor in tensors_of(first) if tensor.dim()]
    if not leading:
        raise UsageError("the data loader yields no tensors; pass a function that makes batches.", code="bad_workload")

    def resized(size: int) -> Any:
        import torch
        from torch.utils._pytree import tree_map_only

        def one(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.dim() or tensor.shape[0] != leading[0]:
                return tensor
            return tensor[torch.arange(size) % leading[0]]

        return tree_map_only(torch.Tensor, one, first)

    return resized

"""Finds out which dimension of a batch is the batch, from layers whose layout is known and from labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.rnn import PackedSequence

from memorymark.watch.batches import DIMENSIONS, SeenBatch, tensors_in

KNOWN_LAYOUTS = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, _ConvNd, _BatchNorm)
# More layers of a model tell the same.
MOST_WITNESSES = 8


class Witness(NamedTuple):
    """How many samples a layer was given, and along which dimension of its input."""

    samples: int
    dimension: int


def witnesses_in(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Returns some layers whose layout is known; none of a compiled model."""
    inside = [layer for module in modules for layer in module.modules()]
    if any("_orig_mod" in layer._modules or getattr(layer, "_compiled_call_impl", None) for layer in inside):
        return []
    found: list[nn.Module] = [layer for layer in inside if isinstance(layer, KNOWN_LAYOUTS)]
    return found[:MOST_WITNESSES]


def witness(layer: nn.Module, given: Sequence[Any]) -> Witness | None:
    """Returns what a layer's input tells; ``None`` if it is a single sample."""
    first = given[0] if given else None
    if isinstance(first, PackedSequence):
        return Witness(int(first.batch_sizes[0]), 0)
    if not isinstance(first, Tensor):
        return None
    if isinstance(layer, (nn.RNNBase, nn.MultiheadAttention)):
        dimension = 0 if layer.batch_first else 1
        return Witness(first.shape[dimension], dimension) if first.dim() == 3 else None
    if isinstance(layer, _ConvNd) and first.dim() != layer.weight.dim():
        return None
    return Witness(first.shape[0], 0) if first.dim() > 1 else None


def dimension_by_layers(size: SeenBatch, witnesses: Iterable[Witness]) -> int | None:
    """Returns the dimension of the batch that has as many samples as the layers were given, if they agree."""
    found = {where for one in witnesses if (where := _dimension(size, one)) is not None}
    return found.pop() if len(found) == 1 else None


def dimension_by_labels(batch: Any) -> int | None:
    """Returns the only dimension that a batch's first tensor shares with the first dimension of all others."""
    first, *others = ([*tensors_in(batch)] or [None])[: DIMENSIONS + 1]
    leading = {int(tensor.shape[0]) for tensor in others if len(tensor.shape) > 0}
    if first is None or len(leading) != 1:
        return None
    shared = [place for place, size in enumerate(first.shape[:DIMENSIONS]) if size in leading]
    return shared[0] if len(shared) == 1 else None


def _dimension(size: SeenBatch, one: Witness) -> int | None:
    places = [place for place, length in enumerate(size.shape) if length == one.samples]
    if not places:  # it sees something else, such as all frames of all videos
        return None
    if len(places) > 1:  # as long as it is wide: only a layer that has the batch first tells for sure
        return 0 if one.dimension == 0 and places[0] == 0 else None
    return places[0]

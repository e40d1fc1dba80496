"""Sums that torch makes in place with plain tensors, but not with fake ones."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import pairwise

from memorymark.prediction.operation import GRADIENTS_MEET, StepTrace, TensorFacts
from memorymark.trace import Owner


def add_in_place(trace: StepTrace) -> StepTrace:
    """The trace as it would be with plain tensors.

    Autograd does so when gradients meet, and attention when it adds a bias: into the first of the two, if it fills its
    memory, is no view of another tensor and nobody else needs it.
    """
    operations = [replace(operation) for operation in trace.operations]
    renamed: dict[int, int] = {}
    sizes: dict[int, int] = {}
    views: set[TensorFacts] = set()
    for operation, following in pairwise(operations):
        operation.freed = tuple(renamed.get(number, number) for number in operation.freed)
        sizes.update(operation.made)
        if "detach" not in operation.name:
            views -= set(operation.outputs)
            views |= {tensor for tensor in operation.outputs if tensor.storage not in dict(operation.made)}
        adds_bias = operation.name == "aten.add.Tensor" and following.name == "aten._safe_softmax.default"
        if not (operation.name == GRADIENTS_MEET or adds_bias) or len(operation.inputs) != 2 or not operation.made:
            continue
        first, second = operation.inputs
        place, other = (renamed.get(tensor.storage, tensor.storage) for tensor in (first, second))
        dying = {renamed.get(number, number) for number in following.freed}
        whole = adds_bias or (first not in views and first.nbytes == sizes.get(place))
        if not (whole and place in dying and place != other and first.dtype == operation.outputs[0].dtype):
            continue
        renamed[operation.made[0][0]] = place
        operation.made = ()
        following.freed = tuple(number for number in following.freed if renamed.get(number, number) != place)
    operations[-1].freed = tuple(renamed.get(number, number) for number in operations[-1].freed)
    owners: dict[Hashable, Owner] = {
        renamed.get(number, number) if isinstance(number, int) else number: owner
        for number, owner in trace.owners.items()
    }
    return StepTrace(operations, trace.marks, owners)

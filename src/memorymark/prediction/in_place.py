"""Sums that torch makes in place with plain tensors, but not with fake ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise

from memorymark.prediction.operation import GRADIENTS_MEET, Operation, StepTrace, TensorFacts
from memorymark.trace import Owner


def add_in_place(trace: StepTrace) -> StepTrace:
    """The trace as it would be with plain tensors.

    Autograd does so when gradients meet, and attention and linear layers when they add a bias: into the first of the
    two, if it fills its memory, is no view of another tensor and nobody else needs it.
    """
    operations = [replace(operation) for operation in trace.operations]
    renamed: dict[int, int] = {}
    sizes: dict[int, int] = {}
    views: set[TensorFacts] = set()
    for index, (operation, following) in enumerate(pairwise(operations)):
        operation.freed = tuple(renamed.get(number, number) for number in operation.freed)
        sizes.update(operation.made)
        if "detach" not in operation.name:
            views -= set(operation.outputs)
            views |= {tensor for tensor in operation.outputs if tensor.storage not in dict(operation.made)}
        adds_bias = operation.name == "aten.add.Tensor" and (
            following.name == "aten._safe_softmax.default" or _ends_linear(operations[max(index - 2, 0) : index + 1])
        )
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


def _ends_linear(operations: Sequence[Operation]) -> bool:
    """Whether a bias is added to a product with transposed weights: ``linear`` of what does not lie in one piece."""
    names = [operation.name for operation in operations]
    if names != ["aten.mm.default", "aten._unsafe_view.default", "aten.add.Tensor"]:
        return False
    product, view, added = operations
    is_sum = len(added.inputs) == 2 and added.inputs[0] in view.outputs
    return is_sum and not product.inputs[1].contiguous and added.inputs[1].shape == view.outputs[0].shape[-1:]

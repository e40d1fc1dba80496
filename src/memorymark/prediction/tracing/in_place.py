"""Sums that torch computes in place with plain tensors, but not with fake ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from memorymark.devices.allocations import Owner, Phase
from memorymark.prediction.tracing.operation import GRADIENTS_MEET, MODEL_RETURNS, Operation, StepTrace, TensorFacts

# Operations that return the same tensor under another name.
DETACHES = frozenset({"detach", "detach_"})
# What autograd writes into zeros that it has just made: in place, unless a tensor is a subclass, as fake ones are.
FILLS = frozenset({"scatter_add", "scatter", "index_put", "_index_put_impl", "index_add"})
ZEROS = frozenset({"new_zeros", "zeros", "zeros_like"})


def add_in_place(trace: StepTrace, before: StepTrace | None = None) -> StepTrace:
    """Returns the trace as it would be with plain tensors; ``before`` is that of the step before it.

    Autograd adds in place when gradients meet, and attention and linear layers when they add a bias: into the first of
    the two, if it fills its memory, is not a view of another tensor and is not needed any more. The backward passes of
    gathering and indexing write into zeros that they have made for that.
    """
    earlier = before.renamed if before is not None else {}
    sums = _Sums([replace(operation) for operation in trace.operations], trace.marks, earlier)
    for index in range(len(sums.operations) - 1):
        sums.see(index)
        if (place := sums.place_for(index)) is not None:
            sums.make_in(place, index)
    last = sums.operations[-1]
    last.freed = sums.as_renamed(last.freed)
    owners: dict[Hashable, Owner] = {
        sums.renamed.get(number, number) if isinstance(number, int) else number: owner
        for number, owner in trace.owners.items()
    }
    homes = {sums.renamed.get(number, number): home for number, home in trace.homes.items()}
    return replace(trace, operations=sums.operations, owners=owners, renamed=sums.renamed, homes=homes)


class _Sums:
    """Goes through the operations of a step; ``renamed`` maps each in-place sum to the storage that holds it."""

    def __init__(
        self, operations: list[Operation], marks: Sequence[tuple[Phase, int]], earlier: dict[int, int]
    ) -> None:
        self.operations = operations
        starts = [0, *(end for _, end in marks)]
        self._backward = {
            at
            for start, (phase, end) in zip(starts, marks, strict=False)
            for at in range(start, end)
            if phase == "backward"
        }
        self.renamed = dict(earlier)
        self._sizes: dict[int, int] = {}
        self._views: set[TensorFacts] = set()
        self._zeros: set[int] = set()

    def as_renamed(self, numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.renamed.get(number, number) for number in numbers)

    def see(self, index: int) -> None:
        """Notes the storages that an operation makes, and its views of existing ones."""
        operation = self.operations[index]
        operation.freed = self.as_renamed(operation.freed)
        if operation.name == MODEL_RETURNS:
            operation.inputs = tuple(
                one.stored_in(self.renamed.get(one.storage, one.storage)) for one in operation.inputs
            )
        self._sizes.update(operation.made)
        if operation.base_name in ZEROS:
            self._zeros.update(number for number, _ in operation.made)
        if operation.base_name not in DETACHES:
            made = dict(operation.made)
            self._views -= set(operation.outputs)
            self._views |= {tensor for tensor in operation.outputs if tensor.storage not in made}

    def place_for(self, index: int) -> int | None:
        """Returns the storage in which torch would compute an operation's sum; ``None`` if not in place."""
        operation, following = self.operations[index], self.operations[index + 1]
        if not operation.made:
            return None
        adds_bias = self._adds_bias(index)
        if not (operation.name == GRADIENTS_MEET or adds_bias) or len(operation.inputs) != 2:
            return self._filled_zeros(index)
        first, second = operation.inputs
        place, other = self.as_renamed((first.storage, second.storage))
        is_whole = adds_bias or (first not in self._views and first.nbytes == self._sizes.get(place))
        is_free = place in self.as_renamed(following.freed) and place != other
        return place if is_whole and is_free and first.dtype == operation.outputs[0].dtype else None

    def make_in(self, place: int, index: int) -> None:
        """Makes the sum in that storage: it allocates nothing, and the storage lives on under the sum's number."""
        operation, following = self.operations[index], self.operations[index + 1]
        self.renamed[operation.made[0][0]] = place
        operation.made = ()
        following.freed = tuple(n for n in following.freed if self.renamed.get(n, n) != place)

    def _filled_zeros(self, index: int) -> int | None:
        """Returns the storage of the zeros that an operation of autograd fills, if nothing else needs them."""
        operation, following = self.operations[index], self.operations[index + 1]
        if operation.base_name not in FILLS or index not in self._backward:
            return None
        place = self.renamed.get(operation.inputs[0].storage, operation.inputs[0].storage)
        are_new = place in self._zeros and self._sizes[place] == operation.made[0][1]
        return place if are_new and place in self.as_renamed(following.freed) else None

    def _adds_bias(self, index: int) -> bool:
        operation, following = self.operations[index], self.operations[index + 1]
        if operation.name != "aten.add.Tensor":
            return False
        to_scores = following.name == "aten._safe_softmax.default"
        return to_scores or _ends_linear(self.operations[max(index - 2, 0) : index + 1])


def _ends_linear(operations: Sequence[Operation]) -> bool:
    """Tells whether a bias is added to a product with transposed weights: ``linear`` on a non-contiguous input."""
    names = [operation.name for operation in operations]
    if names != ["aten.mm.default", "aten._unsafe_view.default", "aten.add.Tensor"]:
        return False
    product, view, added = operations
    is_sum = len(added.inputs) == 2 and added.inputs[0] in view.outputs
    return is_sum and not product.inputs[1].contiguous and added.inputs[1].shape == view.outputs[0].shape[-1:]

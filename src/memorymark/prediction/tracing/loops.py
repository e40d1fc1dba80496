"""Aligns steps whose batches differ by one sample each, if the model loops over its samples.

Such a loop runs its operations once for each sample, so a larger step has more of them. The operations of the last
sample stand for those of every further sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memorymark.prediction.tracing.operation import Operation, TensorFacts

# Two steps are aligned again where most operations in a row match: at least the first number, of at most the second.
FEWEST_IN_LINE, MOST_IN_LINE = 5, 40

Operations = Sequence[Operation]


@dataclass(frozen=True)
class Aligned:
    """An operation of the second of three steps, and its counterpart in the step before.

    If it ``repeats``, it belongs to the last sample, and its counterpart is in the step after. ``carried`` are the
    storages of the sample before that it frees.
    """

    operation: Operation
    other: Operation
    repeats: bool = False
    carried: tuple[int, ...] = ()


def aligned(small: Operations, large: Operations, larger: Operations) -> list[Aligned] | None:
    """Returns the operations of the second step with their counterparts; ``None`` if no loop explains the others."""
    before, after = _counterparts(small, large), _counterparts(large, larger)
    if before is None or after is None:
        return None
    last, next_last = _without_counterpart(large, before), _without_counterpart(larger, after)
    grow_evenly = _tensors(larger) - _tensors(large) == _tensors(large) - _tensors(small)
    if not grow_evenly or [op.name for op in last] != [op.name for op in next_last]:
        return None
    once_more = iter(_repeated(last, next_last, dict(_same_storages(larger, after, large))))
    own = {number for op in last for number, _ in op.made}
    return [
        next(once_more) if place is None else Aligned(op, _with_as_many(small[place], op, own))
        for place, op in zip(before, large, strict=True)
    ]


def _repeated(last: Operations, next_last: Operations, numbers: dict[int, int]) -> Iterable[Aligned]:
    """Yields the operations of the last sample; ``numbers`` maps storages of the larger step to this step's."""
    own = {number for op in last for number, _ in op.made}
    for op, then in zip(last, next_last, strict=True):
        freed = (numbers.get(number) for number in then.freed)
        yield Aligned(op, then, repeats=True, carried=tuple(number for number in freed if number in own))


def _same_storages(larger: Operations, places: list[int | None], large: Operations) -> Iterable[tuple[int, int]]:
    for place, op in zip(places, larger, strict=True):
        if place is not None:
            yield from ((a, b) for (a, _), (b, _) in zip(op.made, large[place].made, strict=False))


def _without_counterpart(operations: Operations, places: list[int | None]) -> list[Operation]:
    return [op for place, op in zip(places, operations, strict=True) if place is None]


def _tensors(operations: Operations) -> int:
    return sum(len(op.inputs) + len(op.outputs) for op in operations)


def _counterparts(small: Operations, large: Operations) -> list[int | None] | None:
    """Returns the place of each larger operation's counterpart; ``None`` for those that only the additional sample
    needs.
    """
    places: list[int | None] = []
    place = 0
    while len(places) < len(large):
        if place < len(small) and _match(small[place], large[len(places)]):
            places.append(place)
            place += 1
            continue
        most = len(large) - len(places) - (len(small) - place)
        ways = [(_in_line(small, place, large, len(places) + n), -n) for n in range(1, most + 1)]
        matching, skipped = max(ways, default=(0, 0))
        if matching < min(FEWEST_IN_LINE, len(small) - place) or not skipped:
            return None
        places += [None] * -skipped
    return places if place == len(small) else None


def _in_line(small: Operations, place: int, large: Operations, other: int) -> int:
    """Returns how many operations in a row match, from these two places on."""
    ahead = min(MOST_IN_LINE, len(small) - place)
    return next((n for n in range(ahead) if not _match(small[place + n], large[other + n])), ahead)


def _match(small: Operation, large: Operation) -> bool:
    """Tells whether an operation may be the other one with one more sample: no part of it is smaller."""
    if small.name != large.name or bool(small.made) != bool(large.made):
        return False
    both = ((small.inputs, large.inputs), (small.outputs, large.outputs), (small.made, large.made))
    has_as_many = all(len(a) <= len(b) for a, b in both)
    return has_as_many and all(_grow(a[:1], b[:1]) for a, b in both[:2])


def _grow(small: Sequence[TensorFacts], large: Sequence[TensorFacts]) -> bool:
    return [len(t.shape) for t in small] == [len(t.shape) for t in large] and all(
        x <= y for a, b in zip(small, large, strict=True) for x, y in zip(a.shape, b.shape, strict=True)
    )


def _with_as_many(small: Operation, large: Operation, of_the_last: set[int]) -> Operation:
    """Returns the smaller operation with as many tensors: what joins or splits samples has one for each.

    It also frees what the last sample leaves to it.
    """
    made = (*small.made, *((number, 0) for number, _ in large.made[len(small.made) :]))
    return replace(
        small,
        inputs=(*small.inputs, *map(_empty, large.inputs[len(small.inputs) :])),
        outputs=(*small.outputs, *map(_empty, large.outputs[len(small.outputs) :])),
        made=made,
        freed=(*small.freed, *(number for number in large.freed if number in of_the_last)),
    )


def _empty(tensor: TensorFacts) -> TensorFacts:
    return tensor._replace(shape=(0, *tensor.shape[1:]) if tensor.shape else ())


def for_sample(op: Operation, copy: int, own: set[int], carried: tuple[int, ...]) -> Operation:
    """Returns an operation of the last sample as it runs for another sample, on storages of its own."""

    def numbered(number: int) -> int:
        return copy_number(number, copy) if number in own else number

    before = (copy_number(number, copy - 1) for number in carried) if copy else ()
    return replace(
        op,
        made=tuple((numbered(number), size) for number, size in op.made),
        freed=(*map(numbered, op.freed), *before),
    )


def copy_number(number: int, copy: int) -> int:
    """Returns the number of a further sample's storage."""
    return number + copy * 2**32


def renumbered(small: Operation, large: Operation) -> Operation:
    """Returns the smaller operation with the storage numbers of the larger one, or that one if they are the same."""
    inputs, outputs = _with_numbers(small.inputs, large.inputs), _with_numbers(small.outputs, large.outputs)
    made = tuple([(number, size) for (_, size), (number, _) in zip(small.made, large.made, strict=True)])
    if (inputs, outputs, made) == (large.inputs, large.outputs, large.made):
        return large
    return large.with_tensors(inputs, outputs, large.freed, made)


def _with_numbers(facts: Sequence[TensorFacts], numbered: Sequence[TensorFacts]) -> tuple[TensorFacts, ...]:
    return tuple([a.stored_in(b.storage) for a, b in zip(facts, numbered, strict=True)])

"""A training step as a program of operations whose sizes are affine in the batch size.

Two traces, at batch sizes one apart, give every dimension as ``base + slope x batch``. From then on any batch size can
be looked at without tracing again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from memorymark.errors import CannotPredictError
from memorymark.prediction.operation import Operation, StepTrace, TensorFacts
from memorymark.trace import Phase


@dataclass(frozen=True)
class Growth:
    """An operation at the traced batch size, and the same one at the next larger size."""

    operation: Operation
    larger: Operation
    batch_size: int

    def at(self, batch_size: int) -> Operation:
        """The operation at any batch size."""
        if self.operation is self.larger:
            return self.operation
        steps = batch_size - self.batch_size
        op, larger = self.operation, self.larger
        return replace(
            op,
            inputs=_grown(op.inputs, larger.inputs, steps),
            outputs=_grown(op.outputs, larger.outputs, steps),
            made=self.made_at(batch_size),
        )

    def made_at(self, batch_size: int) -> tuple[tuple[int, int], ...]:
        """The new storages and their bytes at any batch size."""
        steps = batch_size - self.batch_size
        return tuple((number, size + slope * steps + bend * steps * steps) for number, size, slope, bend in self._made)

    @cached_property
    def _made(self) -> list[tuple[int, int, int, int]]:
        """Each new storage with its bytes, how they grow, and how the growth grows: batch by batch, as in contrasts."""
        op, larger = self.operation, self.larger
        made = []
        for (number, size), (_, grown) in zip(op.made, larger.made, strict=True):
            bend = 0
            if grown != size:
                whole = [t for t in zip(op.outputs, larger.outputs, strict=True) if t[0].storage == number]
                exact = [(a, b) for a, b in whole if a.nbytes == size and b.nbytes == grown]
                if exact:
                    small, large = exact[0]
                    twice = _grown((small,), (large,), 2)[0].nbytes
                    bend = (twice - 2 * grown + size) // 2
            made.append((number, size, grown - size - bend, bend))
        return made


@dataclass(frozen=True)
class Program:
    """The operations of one step in order, and after how many of them each phase ended."""

    operations: list[Growth]
    marks: list[tuple[Phase, int]]

    def of_phase(self, asked: Phase) -> Iterator[Operation]:
        """The operations of every phase of that name."""
        start = 0
        for phase, end in self.marks:
            if phase == asked:
                yield from (growth.operation for growth in self.operations[start:end])
            start = end


def merge(first: StepTrace, second: StepTrace, batch_size: int) -> tuple[Program, Program]:
    """The first step, which makes the optimizer's state, and every later one.

    ``first`` was traced at ``batch_size`` and ``second``, the step after it, with one sample more. What follows the
    last backward pass does not depend on the batch.
    """
    end, end_of_second = _end_of_backward(first), _end_of_backward(second)
    small, large = first.operations[:end], second.operations[:end_of_second]
    if [_form(op) for op in small] != [_form(op) for op in large]:
        raise CannotPredictError(
            "the model does different things at different batch sizes, so no other size follows; measure it on a GPU."
        )
    for_first = [Growth(a, b, batch_size) for a, b in zip(small, large, strict=True)]
    for_later = [Growth(_renumbered(a, b), b, batch_size) for a, b in zip(small, large, strict=True)]
    for_first += [Growth(op, op, batch_size) for op in first.operations[end:]]
    for_later += [Growth(op, op, batch_size) for op in second.operations[end_of_second:]]
    return Program(for_first, first.marks), Program(for_later, second.marks)


def _end_of_backward(trace: StepTrace) -> int:
    return max(end for phase, end in trace.marks if phase == "backward")


def _form(op: Operation) -> tuple[object, ...]:
    """What an operation must have in common with itself at another batch size."""
    ranks = [[len(tensor.shape) for tensor in tensors] for tensors in (op.inputs, op.outputs)]
    return op.name, ranks, len(op.made)


def _renumbered(small: Operation, large: Operation) -> Operation:
    """The smaller operation with the storages of the larger one."""
    return replace(
        large,
        inputs=_with_numbers(small.inputs, large.inputs),
        outputs=_with_numbers(small.outputs, large.outputs),
        made=tuple((number, size) for (_, size), (number, _) in zip(small.made, large.made, strict=True)),
    )


def _with_numbers(facts: Sequence[TensorFacts], numbered: Sequence[TensorFacts]) -> tuple[TensorFacts, ...]:
    return tuple(replace(a, storage=b.storage) for a, b in zip(facts, numbered, strict=True))


def _grown(small: Sequence[TensorFacts], large: Sequence[TensorFacts], steps: int) -> tuple[TensorFacts, ...]:
    return tuple(
        a
        if a.shape == b.shape
        else replace(a, shape=tuple(x + (y - x) * steps for x, y in zip(a.shape, b.shape, strict=True)))
        for a, b in zip(small, large, strict=True)
    )

"""A training step as a program of operations whose sizes follow from the batch size.

Two traces give every dimension as ``base + slope x batch``, or as the number of pairs of samples. After that, any batch
size can be evaluated without tracing again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import cycle, groupby, pairwise
from math import factorial, prod

from memorymark.devices.allocations import PHASES_OF_STEP, Phase
from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing.loops import Aligned, aligned, copy_number, for_sample, renumbered
from memorymark.prediction.tracing.operation import MODEL_RETURNS, PHASE_END, Operation, StepTrace, TensorFacts

# Bytes grow at most with this power of the batch: triples of samples, or pairs of pairs.
DEGREE = 4


@dataclass(frozen=True)
class Growth:
    """An operation at the traced batch size, and its counterpart at the size that is larger by the ``stride``.

    One that ``repeats`` belongs to the last sample, in a loop that runs it for each. ``carried`` are the storages of
    the sample before that it frees.
    """

    operation: Operation
    larger: Operation
    batch_size: int
    repeats: bool = False
    carried: tuple[int, ...] = ()
    stride: int = 1

    def times(self, batch_size: int) -> int:
        """Returns how often it runs in a step, not counting what the loop does for the samples before the last."""
        return max(batch_size - self.batch_size + 1, 0) if self.repeats else 1

    def at(self, batch_size: int) -> Operation:
        """Returns the operation at any batch size."""
        if self.operation is self.larger:
            return self.operation
        steps = batch_size - self.batch_size
        op, larger = self.operation, self.larger
        return op.with_tensors(
            self._grown(op.inputs, larger.inputs, steps),
            self._grown(op.outputs, larger.outputs, steps),
            op.freed,
            self.made_at(batch_size),
        )

    def made_at(self, batch_size: int) -> tuple[tuple[int, int], ...]:
        """Returns the new storages and their bytes at any batch size."""
        if self.operation.made == self.larger.made:  # views make nothing, and some storages do not depend on the batch
            return self.operation.made
        steps = batch_size - self.batch_size
        return tuple(
            (number, max(size + self._share(growth, steps) + (_higher(further, steps) if further else 0), 0))
            for number, size, growth, further in self._made
        )

    @property
    def line(self) -> list[tuple[int, int]] | None:
        """The bytes of each new storage at batch 0 and for each sample, if they are on a line."""
        made, grown = self.operation.made, self.larger.made
        if made == grown:
            return [(size, 0) for _, size in made]
        if self.stride > 1 or any(further for *_, further in self._made):
            return None
        return [(size - growth * self.batch_size, growth) for _, size, growth, _ in self._made]

    @cached_property
    def _made(self) -> list[tuple[int, int, int, list[int]]]:
        """Returns each new storage with its bytes, their growth, and higher differences, as contrastive losses have."""
        op, larger = self.operation, self.larger
        made = []
        for (number, size), (_, grown) in zip(op.made, larger.made, strict=True):
            further: list[int] = []
            if grown != size:
                whole = [t for t in zip(op.outputs, larger.outputs, strict=True) if t[0].storage == number]
                exact = [(a, b) for a, b in whole if a.nbytes == size and b.nbytes == grown]
                if exact:
                    tensor, other = exact[0]
                    further = self._further(tensor.shape, other.shape, tensor.dtype.itemsize)
            made.append((number, size, grown - size, further))
        return made

    def _grown(self, small: Sequence[TensorFacts], large: Sequence[TensorFacts], steps: int) -> tuple[TensorFacts, ...]:
        return tuple(
            a
            if a.shape == b.shape
            else a._replace(shape=tuple([self._dimension(x, y, steps) for x, y in zip(a.shape, b.shape, strict=True)]))
            for a, b in zip(small, large, strict=True)
        )

    def _further(self, shape: tuple[int, ...], larger: tuple[int, ...], itemsize: int) -> list[int]:
        return [] if self.stride > 1 else _further(shape, larger, itemsize, self.batch_size)

    def _dimension(self, size: int, larger: int, steps: int) -> int:
        if self.stride == 1:
            return _dimension(size, larger, self.batch_size, steps)
        return max(size + self._share(larger - size, steps), 0)

    def _share(self, growth: int, steps: int) -> int:
        """Returns how much of what grows with each stride belongs to some steps, rounded up."""
        return -(-growth * steps // self.stride)


@dataclass(frozen=True)
class Program:
    """The operations of one step in order, and after how many of them each phase ended.

    ``carried`` maps storages that the step leaves to those of the step before that it frees in their place.
    """

    operations: list[Growth]
    marks: list[tuple[Phase, int]]
    carried: dict[int, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Lets what follows from this program be kept for as long as it is there."""
        return id(self)

    def counted(self, accumulation_steps: int) -> Iterator[tuple[Phase, Growth, int]]:
        """Yields each operation with its phase and how often it runs in a step of this many accumulated batches.

        At most two batches were traced, and the second stands for all later ones. What runs between steps is left out.
        """
        second, start = self._second_batch if accumulation_steps > 1 else range(0), 0
        for phase, end in self.marks:
            times = accumulation_steps - 1 if start in second else 1
            if phase in PHASES_OF_STEP:
                yield from ((phase, growth, times) for growth in self.operations[start:end])
            start = end

    def accumulating(self, batches: int) -> Program:
        """Returns the step that accumulates the gradients of this many batches."""
        second, again = self._second_batch, max(batches - 2, 0)
        if not second or not again:
            return self
        more = again * len(second)
        repeated = [
            (phase, end + n * len(second)) for n in range(again) for phase, end in self.marks if end - 1 in second
        ]
        before = [(phase, end) for phase, end in self.marks if end <= second.start]
        after = [(phase, end + more) for phase, end in self.marks if end > second.start]
        operations = self.operations[: second.stop] + again * self.operations[second.start : second.stop]
        return replace(self, operations=operations + self.operations[second.stop :], marks=before + repeated + after)

    @cached_property
    def loops(self) -> bool:
        """Tells whether it loops over the samples."""
        return any(growth.repeats for growth in self.operations)

    def length(self, batch_size: int) -> int:
        """Returns how many operations the step has."""
        more = sum(growth.times(batch_size) - 1 for growth in self.operations if growth.repeats)
        return len(self.operations) + more

    def largest_batch(self, operations: int) -> int | None:
        """Returns the largest batch whose step has at most so many operations; ``None`` if it does not loop."""
        each = sum(growth.repeats for growth in self.operations)
        if not each:
            return None
        traced = next(growth.batch_size for growth in self.operations if growth.repeats)
        return max(traced + (operations - self.length(traced)) // each, 1)

    def unrolled(self, batch_size: int) -> Program:
        """Returns the step with the operations of every sample."""
        if not self.loops:
            return self
        copies = max((growth.times(batch_size) for growth in self.operations if growth.repeats), default=0)
        own = {number for growth in self.operations if growth.repeats for number, _ in growth.operation.made}
        operations: list[Growth] = []
        for repeats, group in groupby(self.operations, key=lambda growth: growth.repeats):
            if not repeats:
                operations += (_freeing_all(growth, own, copies) for growth in group)
                continue
            once = [(growth.at(batch_size), growth.carried) for growth in group]
            each = (for_sample(op, copy, own, carried) for copy in range(copies) for op, carried in once)
            operations += (Growth(op, op, batch_size) for op in each)
        return replace(self, operations=operations, marks=_marks(operations, self.marks))

    @cached_property
    def returned(self) -> frozenset[int]:
        """The storages that the step makes and the model returns."""
        made = {number for growth in self.operations for number, _ in growth.operation.made}
        ends = (growth.operation for growth in self.operations if growth.operation.name == MODEL_RETURNS)
        return frozenset(tensor.storage for end in ends for tensor in end.inputs if tensor.storage in made)

    @cached_property
    def _second_batch(self) -> range:
        """Returns the positions of a second batch's operations, if there is one."""
        ends = [end for phase, end in self.marks if phase == "backward"] or [0]
        return range(ends[0], ends[-1])


def merge(traces: Sequence[StepTrace], batch_size: int, stride: int = 1) -> tuple[Program, Program]:
    """Returns the first step, which makes the optimizer's state, and every later one.

    The first was traced at ``batch_size`` and each after it at a size larger by ``stride``. A third, and a stride of 1,
    is needed if the model loops over its samples. Updates do not depend on the batch and may differ; unless the step is
    the caller's own, these are all that follows the last backward pass.
    """
    if len(traces[0].updates) != len(traces[1].updates):
        raise CannotPredictError("the optimizers are used differently from step to step; measure it on a GPU.")
    for_first: list[Growth] = []
    for_later: list[Growth] = []
    for parts, is_update in zip(zip(*map(_parts, traces), strict=False), cycle((False, True))):
        if is_update:
            for_first += [Growth(op, op, batch_size) for op in parts[0]]
            for_later += [Growth(op, op, batch_size) for op in parts[1]]
            continue
        pairs = _aligned(parts)
        if pairs is None:
            raise CannotPredictError(
                "the model does different things at different batch sizes, so it cannot be predicted; measure it on a "
                "GPU."
            )
        for pair in pairs:
            op, other = pair.operation, pair.other
            if pair.repeats:
                once_more = Growth(op, renumbered(other, op), batch_size + 1, repeats=True, carried=pair.carried)
                for_first.append(once_more)
                for_later.append(once_more)
            else:
                for_first.append(Growth(other, op, batch_size, stride=stride))
                for_later.append(in_later_steps(for_first[-1]))
    carried = _carried(for_first, for_later)
    return Program(for_first, _marks(for_first, traces[0].marks)), Program(for_later, traces[1].marks, carried)


def in_later_steps(growth: Growth) -> Growth:
    """Returns an operation of the first step as later ones do it, which is how it was traced at the larger size."""
    op, larger = growth.operation, growth.larger
    return Growth(renumbered(op, larger), larger, growth.batch_size, stride=growth.stride)


def _carried(first: Sequence[Growth], later: Sequence[Growth]) -> dict[int, int]:
    """Returns which storages a step leaves in the place of those that it frees of the step before."""
    freed = {number for growth in later for number in growth.operation.freed}
    left: dict[int, int] = {}
    for one, other in zip(first, later, strict=False):
        for (before, _), (now, _) in zip(one.operation.made, other.operation.made, strict=False):
            if before in freed and before != now:
                left[now] = before
    return left


def same_work(first: StepTrace, second: StepTrace) -> bool:
    """Tells whether two steps do the same, apart from updates, at their batch sizes."""
    return all(map(_is_same, _parts(first)[::2], _parts(second)[::2]))


def splits_unevenly(first: StepTrace, second: StepTrace) -> bool:
    """Tells whether only some of the parts that the second step splits a batch into got its additional samples."""

    def uneven(op: Operation) -> bool:
        return len({tensor.shape for tensor in op.outputs}) > 1

    pairs = zip(first.operations, second.operations, strict=False)
    return any(large.base_name == "split" and uneven(large) and not uneven(small) for small, large in pairs)


def may_loop(first: StepTrace, second: StepTrace) -> bool:
    """Tells whether the second step may do more only because it has another sample."""
    return all(len(small) <= len(large) for small, large in zip(_parts(first)[::2], _parts(second)[::2], strict=True))


def _is_same(small: list[Operation], large: list[Operation]) -> bool:
    return list(map(_form, small)) == list(map(_form, large))


def _aligned(steps: Sequence[list[Operation]]) -> list[Aligned] | None:
    """Returns parts of two steps side by side, or of three; ``None`` if they differ in more than a loop."""
    if _is_same(steps[0], steps[1]):
        return [Aligned(large, small) for small, large in zip(steps[0], steps[1], strict=True)]
    return aligned(*steps) if len(steps) == 3 else None


def _freeing_all(growth: Growth, own: set[int], copies: int) -> Growth:
    """Returns an operation after a loop, which frees what each sample left, if it frees what the last one left."""
    left = [number for number in growth.operation.freed if number in own]
    if not left:
        return growth
    freed = tuple(copy_number(number, copy) for copy in range(1, copies) for number in left)
    smaller = replace(growth.operation, freed=growth.operation.freed + freed)
    return replace(growth, operation=smaller)


def _marks(operations: list[Growth], marks: list[tuple[Phase, int]]) -> list[tuple[Phase, int]]:
    """Returns a step's marks, after operations of further samples were added."""
    if not marks or len(operations) == marks[-1][1]:
        return marks
    ends = [place for place, growth in enumerate(operations, 1) if growth.operation.name == PHASE_END]
    return [(phase, end) for (phase, _), end in zip(marks, ends, strict=True)]


def _parts(trace: StepTrace) -> list[list[Operation]]:
    places = [0, *(place for update in trace.updates for place in update)]
    if not trace.is_own:
        ends = dict(trace.marks)  # of several phases of a kind, the last one's
        places += [ends["backward"], ends["optimizer"]]
    places.append(len(trace.operations))
    return [trace.operations[start:stop] for start, stop in pairwise(places)]


def _form(op: Operation) -> tuple[object, ...]:
    """Returns what must be equal for an operation at two batch sizes."""
    ranks = [[len(tensor.shape) for tensor in tensors] for tensors in (op.inputs, op.outputs)]
    return op.name, ranks, len(op.made)


# The same shapes grow in every layer.
@lru_cache(maxsize=4096)
def _further(shape: tuple[int, ...], larger: tuple[int, ...], itemsize: int, batch: int) -> list[int]:
    """Returns the higher differences of a tensor's bytes, in steps of a sample."""

    def at(steps: int) -> int:
        return prod(_dimension(x, y, batch, steps) for x, y in zip(shape, larger, strict=True)) * itemsize

    then = prod(larger) * itemsize
    if at(2) - then == then - prod(shape) * itemsize:  # a line, as nearly always
        return []
    return _differences([at(steps) for steps in range(DEGREE + 1)])


def _dimension(size: int, larger: int, batch: int, steps: int) -> int:
    """Returns a dimension for a batch that is larger by so many samples.

    If its growth is quadratic, it counts all pairs of samples, or all pairs of different ones: no linear dimension
    grows as fast.
    """
    then = batch + steps
    if size and size * (batch + 1) ** 2 == larger * batch**2:
        return size * then**2 // batch**2
    if size and size * (batch + 1) == larger * (batch - 1):
        return size * then * (then - 1) // (batch * (batch - 1))
    return max(size + (larger - size) * steps, 0)


def _differences(values: list[int]) -> list[int]:
    """Returns the differences of a series of values, from the second order on."""
    found = []
    for _ in range(len(values) - 1):
        values = [later - earlier for earlier, later in pairwise(values)]
        found.append(values[0])
    return found[1:]


def _higher(differences: list[int], steps: int) -> int:
    """Returns what the differences from the second order on add after some steps (Newton's series)."""
    return sum(difference * _choose(steps, order) for order, difference in enumerate(differences, start=2))


def _choose(steps: int, order: int) -> int:
    """Returns a binomial coefficient, also for negative steps."""
    return prod(range(steps - order + 1, steps + 1)) // factorial(order)

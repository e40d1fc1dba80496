"""What a program frees and asks for, worked out once: a search replays it at dozens of batch sizes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from memorymark.devices.allocations import Phase
from memorymark.prediction.memory.scratch import RULES
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, MODEL_RETURNS, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program


class Request(NamedTuple):
    """What an operation frees, and the numbers of the storages that it makes.

    Their bytes are those of ``Plan.sizes_at`` from ``first`` on. ``kind`` is the place of its like among ``kinds``. A
    ``plain`` operation does no more than that, unless it takes scratch space or is a matrix ``product``, which needs a
    workspace.
    """

    freed: tuple[int, ...]
    numbers: tuple[int, ...]
    first: int
    kind: int
    plain: bool
    product: bool
    growth: Growth


class Plan:
    """The requests of a program, phase by phase; what follows the last phase is under ``None``.

    ``kinds`` are operations that stand for all that take the same scratch space.
    """

    def __init__(self, program: Program) -> None:
        self.returned = program.returned
        self.kinds: list[Growth] = []
        self._places: dict[Hashable, int] = {}
        self._lines: list[tuple[int, int]] = []
        self._others: list[tuple[int, Growth]] = []
        self.phases: list[tuple[Phase | None, list[Request]]] = []
        start = 0
        ends = {end: phase for phase, end in program.marks if end}
        for end, phase in (*ends.items(), (len(program.operations), None)):
            self.phases.append((phase, self._requests(program.operations[start:end])))
            start = end

    def sizes_at(self, batch_size: int) -> list[int]:
        """Returns the bytes of all new storages at a batch size."""
        sizes = [max(base + slope * batch_size, 0) for base, slope in self._lines]
        for first, growth in self._others:
            made = growth.made_at(batch_size)
            sizes[first : first + len(made)] = [size for _, size in made]
        return sizes

    def _requests(self, operations: Sequence[Growth]) -> list[Request]:
        requests = []
        for growth in operations:
            op = growth.operation
            takes_scratch = op.name in RULES
            product = op.base_name in MATRIX_PRODUCTS
            plain = not (takes_scratch or op.on_host or op.name == MODEL_RETURNS)
            if plain and not (product or op.made or op.freed):
                continue  # half of all operations, such as views
            numbers = tuple(number for number, _ in op.made)
            kind = self._place_of(_kind(growth) if takes_scratch else op.name, growth)
            requests.append(Request(op.freed, numbers, len(self._lines), kind, plain, product, growth))
            self._add_sizes(growth)
        return requests

    def _add_sizes(self, growth: Growth) -> None:
        line = growth.line
        if line is None:
            self._others.append((len(self._lines), growth))
            line = [(0, 0)] * len(growth.operation.made)
        self._lines += line

    def _place_of(self, kind: Hashable, growth: Growth) -> int:
        place = self._places.setdefault(kind, len(self.kinds))
        if place == len(self.kinds):
            self.kinds.append(growth)
        return place


_plans: WeakKeyDictionary[Program, Plan] = WeakKeyDictionary()


def plan_of(program: Program, batch_size: int) -> Plan:
    """Returns the plan of a program at a batch size, which matters only if the program loops over the samples."""
    if program.loops:
        return _unrolled(program, batch_size)
    if program not in _plans:
        _plans[program] = Plan(program)
    return _plans[program]


# A trial runs a first step and later ones.
@lru_cache(maxsize=2)
def _unrolled(program: Program, batch_size: int) -> Plan:
    return Plan(program.unrolled(batch_size))


def _kind(growth: Growth) -> Hashable:
    """Returns what operations have in common that take the same scratch space at every batch size."""
    op, larger = growth.operation, growth.larger
    tensors = (op.inputs, op.outputs, larger.inputs, larger.outputs)
    return op.name, op.arguments, growth.batch_size, growth.stride, *(tuple(map(_form, each)) for each in tensors)


def _form(tensor: TensorFacts) -> Hashable:
    return tensor.shape, tensor.dtype, tensor.contiguous, tensor.channels_last

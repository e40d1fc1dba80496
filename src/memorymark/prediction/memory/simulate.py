"""Runs a program through the model of the caching allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memorymark.devices.allocations import Phase
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import Block, OutOfMemory
from memorymark.prediction.memory.allocator_for import allocator_for
from memorymark.prediction.memory.host import HostMemory
from memorymark.prediction.memory.plan import Request, plan_of
from memorymark.prediction.memory.scratch_space import NOTHING, Scratch
from memorymark.prediction.tracing import recurrent
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, MODEL_RETURNS, TO_HOST, Operation, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.units import MIB

WORKSPACES, BIAS_WORKSPACES, DROPOUT_STATE = (-1, -2), (-3, -4), -5
# A product that adds a bias goes through cuBLASLt, which has another workspace.
ADDS_A_BIAS = "addmm"
BIAS_WORKSPACE_BYTES = MIB
ScratchOf = Callable[[Growth, int], Scratch]


class Memory:
    """The allocator, and which block holds which storage; ``capped`` as for ``allocator_for``.

    With ``keep_outputs``, what the model returns stays until its next forward pass has returned. ``follow``, if set,
    is told of each operation that takes or frees memory before it runs.
    """

    def __init__(
        self,
        capacity_bytes: int | None,
        workspace_bytes: int,
        dropout_state_bytes: int = 0,
        *,
        allocator: AllocatorKind = "default",
        capped: bool = False,
        keep_outputs: bool = False,
    ) -> None:
        self.allocator = allocator_for(allocator, capacity_bytes, capped=capped)
        self._keep_outputs = keep_outputs
        self._outputs: list[Block] = []
        self._workspace_bytes = workspace_bytes
        self._dropout_state_bytes = dropout_state_bytes
        self.blocks: dict[int, Block] = {}
        self.host = HostMemory()
        self.lasting: set[int] = set()
        self.follow: Callable[[Growth], None] | None = None

    def hold(self, storages: Iterable[tuple[int, int]]) -> None:
        """Allocates storages that stay."""
        for number, size in storages:
            self._allocate(number, size)

    def found(self, segments: Iterable[Segment], held: Iterable[int]) -> None:
        """Starts from another allocator's segments, which hold these storages; they stay."""
        for segment in segments:
            self.allocator.add_segment(segment)
        self.lasting = set(held)

    def run(self, program: Program, batch_size: int, scratch: ScratchOf) -> Iterator[tuple[Phase, int]]:
        """Runs one step; yields the peak of allocated bytes in each phase as it ends."""
        plan, allocator = plan_of(program, batch_size), self.allocator
        sizes, taken = plan.sizes_at(batch_size), [scratch(growth, batch_size) for growth in plan.kinds]
        phase_before: Phase | None = "optimizer"
        overall_peak = allocator.peak_allocated_bytes
        allocator.peak_allocated_bytes = allocator.allocated_bytes
        kept = plan.returned if self._keep_outputs else frozenset()
        for phase, requests in plan.phases:
            self._run_phase(requests, sizes, taken, kept, in_backward=phase_before == "forward")
            if phase is not None:
                phase_before = phase
                yield phase, allocator.peak_allocated_bytes
                overall_peak = max(overall_peak, allocator.peak_allocated_bytes)
                allocator.peak_allocated_bytes = allocator.allocated_bytes
        allocator.peak_allocated_bytes = max(overall_peak, allocator.peak_allocated_bytes)
        for left, place in program.carried.items():
            if left in self.blocks:
                self.blocks[place] = self.blocks.pop(left)

    def visit(self, sizes: Iterable[int]) -> int:
        """Allocates blocks of these sizes and frees them again; returns the peak."""
        self.allocator.peak_allocated_bytes = self.allocator.allocated_bytes
        blocks = [self.allocator.allocate(size) for size in sizes]
        for block in blocks:
            self.allocator.free(block)
        return self.allocator.peak_allocated_bytes

    def drop_outputs(self) -> None:
        """Frees the outputs that are kept."""
        for block in self._outputs:
            self.allocator.free(block)
        self._outputs = []

    def _taken(self, outputs: Iterable[TensorFacts], kept: frozenset[int]) -> list[Block]:
        numbers = dict.fromkeys(tensor.storage for tensor in outputs if tensor.storage in kept)
        return [self.blocks.pop(number) for number in numbers if number in self.blocks]

    def _run_phase(
        self,
        requests: Sequence[Request],
        sizes: Sequence[int],
        taken: Sequence[Scratch],
        kept: frozenset[int],
        *,
        in_backward: bool,
    ) -> None:
        blocks, allocate, free, on_host = self.blocks, self.allocator.allocate, self.allocator.free, self.host.sizes
        for freed, numbers, first, kind, plain, product, growth in requests:
            for number in freed:
                if number in blocks and number not in kept:
                    free(blocks.pop(number))
                if number in on_host:
                    self.host.free(number)
            if self.follow is not None:
                self.follow(growth)
            if plain and taken[kind] is NOTHING:  # nearly all
                for at, number in enumerate(numbers, first):
                    if number in blocks:
                        free(blocks[number])
                    if sizes[at]:
                        blocks[number] = allocate(sizes[at], growth.operation.stream)
                if product:
                    self._keep_workspaces(growth.operation.base_name, in_backward=in_backward)
                continue
            if kept and growth.operation.name == MODEL_RETURNS:
                self.drop_outputs()
                self._outputs = self._taken(growth.operation.inputs, kept)
            made = list(zip(numbers, sizes[first : first + len(numbers)], strict=True))
            self._run_operation(growth.operation, made, taken[kind], in_backward=in_backward)

    def _run_operation(
        self, operation: Operation, made: Sequence[tuple[int, int]], taken: Scratch, *, in_backward: bool
    ) -> None:
        if operation.on_host:
            self.host.allocate(made, pinned=operation.base_name == TO_HOST)
            return
        if operation.name == recurrent.FORWARD:
            self._run_recurrent(operation, made, taken.peak_bytes)
            return
        copies = [self.allocator.allocate(size) for size in taken.copies]
        for index, (number, size) in enumerate(made):
            self._allocate(number, size, operation.stream)
            if taken.each_result:
                self._take_briefly(taken, index, index + 1)
        if operation.base_name in MATRIX_PRODUCTS:
            self._keep_workspaces(operation.base_name, in_backward=in_backward)
        if taken.after:
            self._take_briefly(taken, len(made) if taken.each_result else 0, len(taken.after))
        for block in copies:
            self.allocator.free(block)

    def _take_briefly(self, scratch: Scratch, start: int, end: int) -> None:
        for requests in scratch.after[start:end]:
            blocks: list[Block] = []
            try:
                for request in (requests, -1) if isinstance(requests, int) else requests:
                    if request < 0:
                        self.allocator.free(blocks[-1 - request])
                    else:
                        blocks.append(self.allocator.allocate(request))
            except OutOfMemory:
                if not scratch.optional or blocks:
                    raise

    def _keep_workspaces(self, base_name: str, *, in_backward: bool) -> None:
        """Keeps those of a matrix product. Autograd runs in its own thread, which has its own."""
        self._keep(WORKSPACES[in_backward], self._workspace_bytes)
        if base_name == ADDS_A_BIAS:
            self._keep(BIAS_WORKSPACES[in_backward], BIAS_WORKSPACE_BYTES)

    def _keep(self, workspace: int, size: int) -> None:
        """Allocates a library's workspace when a thread first needs it, and keeps it."""
        if workspace not in self.blocks and workspace not in self.lasting:
            self._allocate(workspace, size)

    def _run_recurrent(self, operation: Operation, made: Sequence[tuple[int, int]], workspace_bytes: int) -> None:
        """Allocates the workspace before the last result, which stays until the backward pass."""
        if recurrent.drops_out(operation):
            self._keep(DROPOUT_STATE, self._dropout_state_bytes)
        for number, size in made[:-1]:
            self._allocate(number, size)
        workspace = self.allocator.allocate(workspace_bytes) if workspace_bytes else None
        self._allocate(*made[-1])
        if workspace is not None:
            self.allocator.free(workspace)

    def _allocate(self, number: int, size: int, stream: int = 0) -> None:
        if number in self.blocks:
            self.allocator.free(self.blocks[number])
        if size > 0:
            self.blocks[number] = self.allocator.allocate(size, stream)

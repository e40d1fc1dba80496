"""Runs a program through the model of the caching allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memorymark.devices.allocations import Phase
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import Block, OutOfMemory
from memorymark.prediction.memory.allocator_for import allocator_for
from memorymark.prediction.memory.host import HostMemory
from memorymark.prediction.memory.scratch_space import NOTHING, Scratch
from memorymark.prediction.tracing import recurrent
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, MODEL_RETURNS, TO_HOST, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.units import MIB

WORKSPACES, BIAS_WORKSPACES, DROPOUT_STATE = (-1, -2), (-3, -4), -5
# A product that adds a bias goes through cuBLASLt, which has another workspace.
ADDS_A_BIAS = "addmm"
BIAS_WORKSPACE_BYTES = MIB
ScratchOf = Callable[[Growth, int], Scratch]


class Memory:
    """The allocator, and which block holds which storage; ``capped`` as for ``allocator_for``.

    With ``keep_outputs``, what the model returns stays until its next forward pass has returned.
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
        program = program.unrolled(batch_size)
        ends = {end: phase for phase, end in program.marks}
        phase_before: Phase = "optimizer"
        overall_peak = self.allocator.peak_allocated_bytes
        self.allocator.peak_allocated_bytes = self.allocator.allocated_bytes
        kept = program.returned if self._keep_outputs else frozenset()
        for index, growth in enumerate(program.operations, 1):
            if growth.operation.freed:
                self._free(growth.operation.freed, kept)
            if kept and growth.operation.name == MODEL_RETURNS:
                self.drop_outputs()
                self._outputs = self._taken(growth.operation.inputs, kept)
            self._run_operation(growth, batch_size, scratch, in_backward=phase_before == "forward")
            if index in ends:
                phase_before = ends[index]
                yield phase_before, self.allocator.peak_allocated_bytes
                overall_peak = max(overall_peak, self.allocator.peak_allocated_bytes)
                self.allocator.peak_allocated_bytes = self.allocator.allocated_bytes
        self.allocator.peak_allocated_bytes = max(overall_peak, self.allocator.peak_allocated_bytes)
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

    def _free(self, numbers: Iterable[int], kept: frozenset[int]) -> None:
        for number in numbers:
            block = self.blocks.pop(number, None) if number not in kept else None
            if block is not None:
                self.allocator.free(block)
            self.host.free(number)

    def _run_operation(self, growth: Growth, batch_size: int, scratch: ScratchOf, *, in_backward: bool) -> None:
        if growth.operation.on_host:
            self.host.allocate(growth.made_at(batch_size), pinned=growth.operation.base_name == TO_HOST)
            return
        made, taken = growth.made_at(batch_size), scratch(growth, batch_size)
        if growth.operation.name == recurrent.FORWARD:
            self._run_recurrent(growth, made, taken.peak_bytes)
            return
        base_name = growth.operation.base_name
        if not made and taken is NOTHING and base_name not in MATRIX_PRODUCTS:
            return  # half of all operations, such as views
        copies = [self.allocator.allocate(size) for size in taken.copies]
        for index, (number, size) in enumerate(made):
            self._allocate(number, size, growth.operation.stream)
            if taken.each_result:
                self._take_briefly(taken, index, index + 1)
        # Autograd runs in its own thread, which has its own workspaces.
        if base_name in MATRIX_PRODUCTS:
            self._keep(WORKSPACES[in_backward], self._workspace_bytes)
        if base_name == ADDS_A_BIAS:
            self._keep(BIAS_WORKSPACES[in_backward], BIAS_WORKSPACE_BYTES)
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

    def _keep(self, workspace: int, size: int) -> None:
        """Allocates a library's workspace when a thread first needs it, and keeps it."""
        if workspace not in self.blocks and workspace not in self.lasting:
            self._allocate(workspace, size)

    def _run_recurrent(self, growth: Growth, made: Sequence[tuple[int, int]], workspace_bytes: int) -> None:
        """Allocates the workspace before the last result, which stays until the backward pass."""
        if recurrent.drops_out(growth.operation):
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

"""Decides which step to record, and makes the recording from the allocator's history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from memorymark.devices.allocations import Owner, Phase, Trace
from memorymark.watch.batches import SeenBatch
from memorymark.watch.modules import optimizer_state, parameters_of
from memorymark.watch.recording import StepRecording

if TYPE_CHECKING:
    from memorymark.watch.gpu import GpuWatch

RECORD_AFTER_STEPS = 4
MAX_RECORDINGS = 4
MAX_ABANDONED = 8
# A batch larger than the recorded one by this factor is recorded instead, if it comes soon.
WORTH_RECORDING_AGAIN = 1.1
LAST_RECORDED_STEP = 1000
LOW_PRECISIONS = ("bfloat16", "float16")


class StepRecorder:
    """Records a step soon after the start, and again when a longer batch comes."""

    def __init__(self, gpu: GpuWatch) -> None:
        self.recording: StepRecording | None = None
        self._gpu = gpu
        self._size = SeenBatch(0, 0)
        self._recorded_elements = 0
        self._recordings = self._abandoned = 0
        self._owners: dict[int, Owner] = {}
        self._forward_ended = False
        self._marks = 0
        self._kept_outputs: list[tuple[int, int]] = []

    def wants_more(self, steps: int) -> bool:
        """Tells whether another recording may follow."""
        return self._gpu.recording or (self._recordings < MAX_RECORDINGS and steps <= LAST_RECORDED_STEP)

    def step_begins(
        self, size: SeenBatch, steps: int, optimizers: Iterable[torch.optim.Optimizer], autocast: str | None
    ) -> None:
        """Ends or begins a recording at the first batch of a step; ``autocast`` is the type that fp32 is cast to."""
        if steps < RECORD_AFTER_STEPS:
            return
        if self._gpu.recording:
            self.finish(optimizers, autocast)
        elif self.wants_more(steps) and size.elements >= WORTH_RECORDING_AGAIN * self._recorded_elements:
            if self._gpu.start_recording():
                self._recordings += 1
                self._size, self._owners, self._forward_ended = size, {}, False
                self._marks, self._kept_outputs = 0, []
            else:
                self._recordings = MAX_RECORDINGS

    def abandon(self) -> None:
        """Discards the recording because something else runs; another step is recorded, but only a few times."""
        self._gpu.abandon_recording()
        self._abandoned += 1
        self._recordings = self._recordings - 1 if self._abandoned < MAX_ABANDONED else MAX_RECORDINGS

    def compared_with_recorded(self, elements: int) -> float:
        """Returns the size of a batch as a multiple of the recorded one, at least 1."""
        return max(elements / self._recorded_elements, 1.0) if self._recorded_elements else 1.0

    def forward_begins(self) -> None:
        """A forward pass begins; if it is not the first of the step, the backward pass before it is over."""
        if self._gpu.recording and self._forward_ended:
            self._mark("backward")
            self._forward_ended = False

    def forward_ended(self) -> None:
        """A forward pass has ended."""
        if self._gpu.recording:
            self._mark("forward")
            self._forward_ended = True

    def backward_begins(self, idle_outputs: Iterable[Tensor]) -> None:
        """A backward pass begins while the script holds these outputs, which the pass does not need."""
        if self._gpu.recording and self._forward_ended:
            self._kept_outputs += [(key, self._marks - 1) for key in self._gpu.keys_of(idle_outputs)]

    def backward_ended(self, optimizers: Iterable[torch.optim.Optimizer], modules: Iterable[nn.Module]) -> None:
        """Records the owners of memory, now that gradients and optimizer state exist."""
        if not self._gpu.recording:
            return
        self._mark("backward")
        self._forward_ended = False
        parameters = parameters_of(optimizers)
        held = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
        gradients = [p.grad for p in parameters if p.grad is not None]
        self._own((*held, *parameters), "weights")
        self._own(gradients, "gradients")
        self._own(optimizer_state(optimizers), "optimizer_state")

    def finish(self, optimizers: Iterable[torch.optim.Optimizer], autocast: str | None) -> None:
        """Ends a recording, if there is one."""
        trace = self._gpu.finish_recording()
        if trace is not None and self._owners:
            parameters = [p for p in parameters_of(optimizers) if p.requires_grad]
            self.recording = self._made(trace, parameters, autocast)
            self._recorded_elements = self._size.elements

    def _mark(self, phase: Phase) -> None:
        self._gpu.mark(phase)
        self._marks += 1

    def _own(self, tensors: Iterable[Tensor], owner: Owner) -> None:
        self._owners |= dict.fromkeys(self._gpu.keys_of(tensors), owner)

    def _made(self, trace: Trace, parameters: Sequence[Tensor], autocast: str | None) -> StepRecording:
        before = dict(sorted((int(str(key)), size) for key, size in trace.before.items()))
        events = [(int(str(key)), size) for key, size in trace.events]
        item_bytes = max((p.element_size() for p in parameters), default=4)
        return StepRecording(
            batch_size=self._size.samples,
            before=before,
            events=events,
            marks=list(trace.marks),
            owners_before={key: owner for key, owner in self._owners.items() if key in before},
            owners_made=self._made_in_step(events, [end for phase, end in trace.marks if phase == "backward"]),
            parameters=dict(Counter(p.numel() for p in parameters)),
            item_bytes=item_bytes,
            cast_bytes=2 if autocast in LOW_PRECISIONS and item_bytes > 2 else None,
            scratch_limit_bytes=None if _convolves(parameters) else self._gpu.scratch_limit_bytes(),
            kept_outputs=list(self._kept_in(trace)),
        )

    def _kept_in(self, trace: Trace) -> Iterator[tuple[int, int]]:
        """Yields the event that made each kept output, and the end of its forward pass."""
        for key, mark in self._kept_outputs:
            end = trace.marks[mark][1]
            made = next((i for i in reversed(range(end)) if trace.events[i][0] == key and trace.events[i][1] > 0), None)
            if made is not None:
                yield made, end

    def _made_in_step(self, events: list[tuple[int, int]], ends_of_backward: list[int]) -> dict[int, Owner]:
        """Returns owners by event, for blocks that were alive at the end of the last backward pass."""
        alive: dict[int, int] = {}
        for index, (key, size) in enumerate(events[: ends_of_backward[-1] if ends_of_backward else None]):
            if size > 0:
                alive[key] = index
            else:
                alive.pop(key, None)
        return {index: self._owners[key] for key, index in alive.items() if key in self._owners}


def _convolves(parameters: Sequence[Tensor]) -> bool:
    """Tells whether most of the model is convolutions, whose scratch space is not limited like that of reductions."""
    return sum(p.numel() for p in parameters if p.dim() > 2) > sum(p.numel() for p in parameters) / 2

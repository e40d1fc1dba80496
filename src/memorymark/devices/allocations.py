"""The allocations and frees of one step, and what was alive at the peak. Pure: any device can write a trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from memorymark.results.trial import Breakdown

Phase = str
"""``generation``, ``forward``, ``backward``, ``optimizer``, or the name of what runs between the steps."""
PHASES_OF_STEP = ("generation", "forward", "backward", "optimizer")
PARTS_ALLOCATED = (
    "weights_bytes",
    "gradients_bytes",
    "gradient_buckets_bytes",
    "optimizer_state_bytes",
    "gathered_parameters_bytes",
    "kv_cache_bytes",
    "activations_bytes",
    "temporaries_bytes",
)
"""The parts of a breakdown that the allocator has handed out."""
Owner = Literal["weights", "gradients", "gradient_buckets", "optimizer_state", "gathered_parameters"]


class Source(NamedTuple):
    """What ran when a block was allocated or freed: an operation, its module, and the shape of the tensor it made."""

    operation: str = ""
    module: str = ""
    shape: tuple[int, ...] = ()


@dataclass
class Trace:
    """The allocations and frees of one step.

    ``before`` holds the blocks alive when it began, ``events`` the blocks allocated (positive bytes) and freed
    (negative), and ``marks`` the number of events at the end of each phase. A key names a block while it lives.
    ``parts`` are those of the blocks that do not live on, but are known by what makes them. ``sources`` says for each
    event, if that is known, what ran, ``origins`` for blocks from before the step what made them.
    """

    before: dict[Hashable, int] = field(default_factory=dict)
    events: list[tuple[Hashable, int]] = field(default_factory=list)
    marks: list[tuple[Phase, int]] = field(default_factory=list)
    parts: dict[Hashable, Owner] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    origins: dict[Hashable, Source] = field(default_factory=dict)


def peak_breakdown(trace: Trace, owners: Mapping[Hashable, Owner], peak_allocated_bytes: int) -> Breakdown:
    """Splits the memory at the peak into weights, gradients, optimizer state, cache, activations and temporaries.

    ``owners`` maps each lasting block to its owner at the end of the last backward pass. What generation made is its
    cache. A block that a forward pass made and left alive for the backward pass is an activation. Everything else is a
    temporary, as are the bytes by which the allocator's count exceeds the trace's, because it rounds up.
    """
    part_of = parts_of_blocks(trace, owners)
    sizes = dict.fromkeys(PARTS_ALLOCATED, 0)
    for block, size in alive_after(trace, events_until_peak(trace)).items():
        sizes[part_of(block)] += size
    sizes["temporaries_bytes"] += peak_allocated_bytes - sum(sizes.values())
    return Breakdown(**sizes)


Block = tuple[Hashable, int]
"""A key and the index of the event that made it (-1: before the step): keys are reused, blocks are not."""


def parts_of_blocks(trace: Trace, owners: Mapping[Hashable, Owner]) -> Callable[[Block], str]:
    """Returns a function that says to which part of a breakdown a block belongs, with the arguments of that."""
    kept, generated = _kept_by_forward(trace), _end_of_generation(trace)
    owned = {block: owners[block[0]] for block in alive_after(trace, _end_of_backward(trace)) if block[0] in owners}

    def part_of(block: Block) -> str:
        part = "activations" if block in kept else "kv_cache" if 0 <= block[1] < generated else "temporaries"
        return f"{owned.get(block) or trace.parts.get(block[0]) or part}_bytes"

    return part_of


def alive_after(trace: Trace, num_events: int) -> dict[Block, int]:
    """Returns the blocks that are alive after so many events, with their bytes."""
    alive = {key: (-1, size) for key, size in trace.before.items()}
    for index, (key, size) in enumerate(trace.events[:num_events]):
        if size > 0:
            alive[key] = (index, size)
        else:
            alive.pop(key, None)
    return {(key, born): size for key, (born, size) in alive.items()}


def events_until_peak(trace: Trace) -> int:
    """Returns after how many events the most is alive, the first time."""
    running = list(accumulate((size for _, size in trace.events), initial=0))
    return max(range(len(running)), key=running.__getitem__)


def _end_of_generation(trace: Trace) -> int:
    return max((end for phase, end in trace.marks if phase == "generation"), default=0)


def _end_of_backward(trace: Trace) -> int:
    return max((end for phase, end in trace.marks if phase == "backward"), default=len(trace.events))


def _kept_by_forward(trace: Trace) -> set[Block]:
    """Blocks that a forward pass made and that were still alive when it ended."""
    kept: set[Block] = set()
    start = 0
    for phase, end in trace.marks:
        if phase == "forward":
            kept |= {block for block in alive_after(trace, end) if start <= block[1]}
        start = end
    return kept

"""The time that GPUs take to talk to each other, and how much of it their computing hides.

Nothing here was measured by us: links come from datasheets, and the part of their bandwidth that NCCL reaches is what
its users report for large messages. The intervals are as wide as that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from memorymark.catalog import GpuEntry
from memorymark.catalog.links import Link, link_between, link_within
from memorymark.devices.allocations import Phase
from memorymark.prediction.timing.roofline import step_seconds
from memorymark.prediction.tracing.operation import SENT, SENT_IN_LAYERS
from memorymark.prediction.tracing.program import Program
from memorymark.question.recipe import Recipe
from memorymark.results.uncertainty import Interval

# The part of a link's bandwidth that collectives of large messages reach: usual, at worst, at best.
REACHED, LEAST_REACHED, MOST_REACHED = 0.75, 0.4, 0.95
GATHER, REDUCE_SCATTER, ALL_REDUCE, BROADCAST = "_allgather_base_", "_reduce_scatter_base_", "allreduce_", "broadcast_"
# Waiting for what was sent.
WAIT = "wait_tensor"
# How often each byte of the largest tensor of a collective crosses a GPU's link, but for one GPU's share.
CROSSINGS = {GATHER: 1, REDUCE_SCATTER: 1, ALL_REDUCE: 2, BROADCAST: 1, "all_reduce": 2}


@dataclass(frozen=True)
class Message:
    """A collective: what it does, the bytes of its largest tensor, and how often it occurs in its phase of a step.

    Those ``in_layers`` are between GPUs that share layers, which wait for it.
    """

    kind: str
    nbytes: int
    times: int = 1
    in_layers: bool = False


@dataclass(frozen=True)
class SharedTime:
    """The seconds of a step: computing, talking, and both with what overlaps counted once."""

    phases: Mapping[Phase, float]
    talking: float
    together: float

    @property
    def computing(self) -> float:
        """What it takes without any talking."""
        return sum(self.phases.values())


@dataclass(frozen=True)
class Sharing:
    """What the GPUs of a training send each other in each phase of a step; nothing if there is one."""

    messages: Mapping[Phase, Sequence[Message]]
    recipe: Recipe
    gpu: GpuEntry

    def time(self, phases: Mapping[Phase, float], *, reached: float = REACHED, overlaps: bool = True) -> SharedTime:
        """Returns the time of a step whose phases compute that long.

        A phase computes and talks at once, but its longest message has nothing to hide behind; an optimizer waits. So
        do layers that are shared.
        """
        if self.recipe.gpus == 1:
            return SharedTime(phases, 0.0, sum(phases.values()))
        talking = together = 0.0
        for phase in dict.fromkeys([*phases, *self.messages]):
            sent = self.messages.get(phase, [])
            awaited, _ = self._talk([one for one in sent if one.in_layers], reached)
            talk, alone = self._talk([one for one in sent if not one.in_layers], reached)
            work = phases.get(phase, 0.0) + awaited
            hides = overlaps and phase != "optimizer"
            together += max(work, talk - alone) + alone if hides else work + talk
            talking += talk + awaited
        return SharedTime(phases, talking, together)

    def _talk(self, sent: Sequence[Message], reached: float) -> tuple[float, float]:
        """Returns how long messages take one after the other, and the longest of them."""
        each = [seconds_of(message, self.recipe, self.gpu, reached) for message in sent]
        return sum(seconds * one.times for seconds, one in zip(each, sent, strict=True)), max(each, default=0.0)

    def extremes(self, time: SharedTime, host: float, factors: Interval) -> Interval:
        """Returns the shortest and the longest time that a step may take.

        ``factors`` are those to the shortest and the longest time of computing. The longest step is that of slow links
        with nothing hidden.
        """
        low, high = factors
        fast = self.time({phase: low * work for phase, work in time.phases.items()}, reached=MOST_REACHED)
        slow = self.time(
            {phase: high * work for phase, work in time.phases.items()}, reached=LEAST_REACHED, overlaps=False
        )
        return step_seconds(fast.together, low * host), step_seconds(slow.together, high * host)


def seconds_of(message: Message, recipe: Recipe, gpu: GpuEntry, reached: float = REACHED) -> float:
    """Returns the time of a collective over the slowest link that its ranks talk over."""
    link, ranks = link_and_ranks(message, recipe, gpu)
    if ranks < 2:
        return 0.0
    crossing = CROSSINGS.get(message.kind, 1) * message.nbytes * (ranks - 1) / ranks
    return link.latency_seconds * max(log2(ranks), 1.0) + crossing / (link.bytes_per_second * reached)


def link_and_ranks(message: Message, recipe: Recipe, gpu: GpuEntry) -> tuple[Link, int]:
    """Returns the slowest link of a collective and how many ranks take part."""
    within, between = link_within(gpu), link_between(gpu, recipe.gpus_per_node)
    if message.in_layers:
        return within, recipe.tensor_parallel
    if recipe.strategy == "hsdp":
        return (between, recipe.nodes) if message.kind == ALL_REDUCE else (within, recipe.data_parallel // recipe.nodes)
    return (within if recipe.nodes == 1 else between), recipe.data_parallel


def links_of(recipe: Recipe, gpu: GpuEntry) -> tuple[str, ...]:
    """Names the links that a training is assumed to use."""
    within, between = link_within(gpu), link_between(gpu, recipe.gpus_per_node)
    links = [*([within] if recipe.gpus_per_node > 1 else []), *([between] if recipe.nodes > 1 else [])]
    return tuple(link.name for link in links)


def messages_of(program: Program, bucket_bytes: Iterable[int], accumulation_steps: int) -> dict[Phase, list[Message]]:
    """Returns what a step sends in each phase; DDP reduces each bucket of gradients once, in the last batch."""
    messages: dict[Phase, list[Message]] = defaultdict(list)
    for phase, growth, times in program.counted(accumulation_steps):
        operation = growth.operation
        if operation.name.startswith(SENT) and operation.base_name != WAIT:
            tensors = (*operation.inputs, *operation.outputs)
            largest = max((tensor.nbytes for tensor in tensors), default=0)
            in_layers = operation.name.startswith(SENT_IN_LAYERS)
            messages[phase].append(Message(operation.base_name, largest, times, in_layers))
    messages["backward"] += [Message(ALL_REDUCE, size) for size in bucket_bytes]
    return messages

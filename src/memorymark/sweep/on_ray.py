"""The engine of a Ray cluster: each set of cases is a task on a node that has what it needs."""

from __future__ import annotations

import json
import time
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from memorymark.cluster.connecting import connected
from memorymark.cluster.nodes import GPU, ClusterGpu, alive, cluster_gpus, on_node, processors
from memorymark.devices.machine import foundation, versions
from memorymark.errors import MemoryMarkError, UsageError
from memorymark.question.question import Question
from memorymark.sweep.cases import PREDICTED, Case, Place
from memorymark.sweep.work import Happened, Lost, Outcome, Work, outcomes
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.worker.supervisor import FreshWorkers, KeptWorkers

# Tasks handed to Ray for each CPU: one that runs, and one that begins when it ends.
TASKS_FOR_CPU = 2
LOOK_AT_NODES_SECONDS = 5.0
STOP_SECONDS = 10.0
# Compresses a result to a tenth; small ones travel with Ray's messages and outlive their node.
COMPRESSION = 6


@dataclass
class Task:
    """A set of cases that a node works on."""

    work: Work
    node: str | None
    done: list[int] = field(default_factory=list)


class RayEngine:
    """Runs sets of cases on the nodes of a cluster."""

    def __init__(self, address: str | None = None, *, time_limit_seconds: float = DEFAULT_TIME_LIMIT_SECONDS) -> None:
        self._time_limit_seconds = time_limit_seconds
        self._ray = connected(address)
        self._waiting: deque[Work] = deque()
        self._tasks: dict[Any, Task] = {}
        self._gpus: list[ClusterGpu] | None = None
        self._looked_at, self._cpus = 0.0, 1
        self._basis = basis()

    @property
    def measures_by_default(self) -> bool:
        """Never: a cluster's GPUs differ, so a case names the one to measure on."""
        return False

    @property
    def width(self) -> int:
        """How many CPUs the cluster has."""
        return processors(self._ray)

    @property
    def gpus(self) -> list[ClusterGpu]:
        """The cluster's GPUs, as of the first look."""
        if self._gpus is None:
            self._gpus = cluster_gpus(self._ray)
        return self._gpus

    def require(self, cases: Sequence[Case]) -> None:
        """Raises if the cluster has no node for one of the cases."""
        for place in dict.fromkeys(case.place for case in cases if case.place.measures):
            if place.gpu is None:
                raise UsageError(
                    "a sweep over Ray measures on GPUs that are named; give gpu and measure, and drop device.",
                    code="not_applicable",
                    field="device",
                    given=place.device,
                )
            if not self._nodes_of(place):
                here = sorted({one.gpu or one.name for one in self.gpus})
                raise UsageError(
                    f"no node of the cluster has the GPU {place.gpu}; it has {', '.join(here) or 'none'}. Leave "
                    "measure out to predict for it.",
                    code="no_device",
                    field="gpu",
                    given=place.gpu,
                    allowed=here,
                )

    def submit(self, work: Work) -> None:
        """Takes a set of cases; Ray gets it when there may be room."""
        self._waiting.append(work)

    def next(self, seconds: float) -> list[Happened]:
        """Waits for something to happen; a task tells of each case as it ends."""
        lost = self._hand_over()
        if lost or not self._tasks:
            if not lost:
                time.sleep(seconds)  # no node has room: wait for one
            return lost
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [happened for stream in ready if (happened := self._read(stream)) is not None]

    def close(self) -> None:
        """Ends all tasks and their workers."""
        streams, self._tasks = list(self._tasks), {}
        self._waiting.clear()
        for stream in streams:
            self._ray.cancel(stream, force=True)
        self._ray.wait(streams, num_returns=len(streams), timeout=STOP_SECONDS) if streams else None

    def _hand_over(self) -> list[Happened]:
        """Gives Ray the sets that there is room for; returns those that no node is left for."""
        self._look_at_nodes()
        room = TASKS_FOR_CPU * self._cpus - sum(task.node is None for task in self._tasks.values())
        kept: deque[Work] = deque()
        lost: list[Happened] = []
        while self._waiting:
            work = self._waiting.popleft()
            if not work.place.measures:
                if room > 0:
                    room -= 1
                    self._start(work, None)
                else:
                    kept.append(work)
                continue
            nodes = self._nodes_of(work.place)
            free = next((node for node, gpus in nodes.items() if gpus > self._measuring_on(node)), None)
            if free is not None:
                self._start(work, free)
            elif nodes:
                kept.append(work)
            else:
                lost.append(Lost(work.cases, f"no node with the GPU {work.place.gpu} is left"))
        self._waiting = kept
        return lost

    def _start(self, work: Work, node: str | None) -> None:
        task = self._ray.remote(num_returns="streaming", max_retries=0)(answers)
        task = task.options(num_cpus=1) if node is None else on_node(self._ray, node, task, num_gpus=1)
        device = "cuda" if work.place.measures else None
        asked = [(case.number, case.on(device).to_dict()) for case in work.cases]
        stream = task.remote(asked, asdict(work.place), self._time_limit_seconds, self._basis)
        self._tasks[stream] = Task(work, node)

    def _read(self, stream: Any) -> Happened | None:
        """Returns what a task has told; ``None`` if that was the last of it."""
        task = self._tasks[stream]
        try:
            outcome = unpacked(self._ray.get(next(stream)))
        except StopIteration:
            left = task.work.without(task.done)
            del self._tasks[stream]
            return Lost(left, "a task ended early") if left else None
        except self._ray.exceptions.RayError as error:
            del self._tasks[stream]
            self._looked_at = 0.0  # the node may be gone
            return Lost(task.work.without(task.done), _why(error))
        task.done.append(outcome.number)
        return outcome

    def _look_at_nodes(self) -> None:
        if time.monotonic() - self._looked_at > LOOK_AT_NODES_SECONDS:
            self._looked_at, self._cpus = time.monotonic(), max(processors(self._ray), 1)

    def _nodes_of(self, place: Place) -> dict[str, int]:
        """Returns the nodes that are alive and have a GPU, and how many of them."""
        running = alive(self._ray)
        nodes = [one.node for one in self.gpus if one.gpu == place.gpu and one.node in running]
        return {node: nodes.count(node) for node in nodes if running[node].get(GPU, 0) >= 1}

    def _measuring_on(self, node: str) -> int:
        return sum(task.node == node for task in self._tasks.values())


_kept: KeptWorkers | None = None


def answers(
    asked: Sequence[tuple[int, dict[str, Any]]], place: dict[str, Any], time_limit_seconds: float, wanted: str
) -> Iterator[bytes]:
    """Answers a set of cases on a node. A worker that predicts is kept for the next set."""
    global _kept
    if basis() != wanted:
        raise MemoryMarkError(
            "a node has another version of MemoryMark, torch, transformers or Python than the machine that asks; "
            "install the same there."
        )
    if _kept is None:
        _kept = KeptWorkers(FreshWorkers())
    predicts = Place(**place) == PREDICTED
    questions = [(number, Question.from_dict(question)) for number, question in asked]
    workers = _kept if predicts else FreshWorkers()
    for outcome in outcomes(questions, workers, time_limit_seconds=time_limit_seconds):
        yield packed(outcome)


def basis() -> str:
    """Returns what answers depend on besides the question: two machines that differ in it may answer differently."""
    return json.dumps([versions(), foundation()], sort_keys=True)


def packed(outcome: Outcome) -> bytes:
    """Returns an outcome as few bytes."""
    return zlib.compress(json.dumps(asdict(outcome)).encode(), COMPRESSION)


def unpacked(content: bytes) -> Outcome:
    """Returns the outcome that ``packed`` wrote."""
    return Outcome(**json.loads(zlib.decompress(content)))


def _why(error: Exception) -> str:
    """Returns what Ray says, in one line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, MemoryMarkError):
        return cause.said_in("command_line").rstrip(".")
    kind = type(error).__name__
    return f"a node or its worker was lost ({kind})"

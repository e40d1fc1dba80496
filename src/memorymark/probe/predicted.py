"""The probe that runs no step: it replays a traced one in models of the allocator and the GPU's speed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from memorymark.catalog import GpuEntry
from memorymark.devices.allocations import PHASES_OF_STEP, Trace, alive_after, events_until_peak, peak_breakdown
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.segments import Segment
from memorymark.largest_batch import FIRST_BATCH, MAX_BATCH, largest_that, size_within
from memorymark.prediction.calibration.correction import Correction
from memorymark.prediction.memory.allocator import OutOfMemory
from memorymark.prediction.memory.nccl import SOURCE, nccl_bytes
from memorymark.prediction.memory.scratch import RULES, cublas_workspace_bytes, dropout_state_bytes, scratch_of
from memorymark.prediction.memory.scratch_space import NOTHING, Scratch
from memorymark.prediction.memory.simulate import Memory
from memorymark.prediction.memory.snapshot import phases_of, recording_allocator, snapshot_of
from memorymark.prediction.memory.step_trace import trace_of
from memorymark.prediction.timing.communication import Sharing, links_of, messages_of
from memorymark.prediction.timing.known import split_unknown
from memorymark.prediction.timing.roofline import step_seconds
from memorymark.prediction.timing.step_time import StepTimes
from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.probe.explaining import anatomy_of
from memorymark.question.recipe import Recipe
from memorymark.results.explanation import Anatomy
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.results.uncertainty import (
    Interval,
    knowledge_of,
    trial_intervals,
    unchecked_options,
    untimed_options,
)
from memorymark.units import format_bytes

# Of a step that loops over its samples; simulating as many takes four seconds.
MOST_OPERATIONS = 2**18
STEPS = 2
# How many batches of an accumulating step are simulated; by then the memory's fragmentation is clear.
SIMULATED_BATCHES = 4
FIRST_GUESS = 8
Resting = tuple[list[Segment], set[int], dict[int, int]]
"""The segments that an earlier step left, the storages in them, and those on the host with their bytes."""


class PredictedProbe:
    """Predicts complete training steps on a GPU that need not be in this machine.

    ``step`` was traced for a GPU of the same generation. ``memory_cap_bytes`` limits the allocator and ``allocator``
    says how it works, as for a measuring probe. ``correction`` corrects times by a profile of the GPU.
    """

    def __init__(
        self,
        step: TracedStep,
        recipe: Recipe,
        gpu: GpuEntry,
        *,
        memory_cap_bytes: int | None = None,
        allocator: AllocatorKind = "default",
        correction: Correction | None = None,
    ) -> None:
        self.clean = True
        self._allocator = allocator
        self._step, self._recipe, self._correction = step, recipe, correction
        self._gpu = gpu if correction is None else correction.gpu  # with the link as it was measured
        self._context_bytes = gpu.context_bytes[1]
        self._nccl_bytes = nccl_bytes(recipe)
        usable_bytes = gpu.usable_bytes - self._nccl_bytes[1]
        self._capacity_bytes = min(usable_bytes, memory_cap_bytes or usable_bytes)
        self._capped = self._capacity_bytes < usable_bytes
        batches = min(recipe.accumulation_steps, SIMULATED_BATCHES)
        self._first, self._later = step.first.accumulating(batches), step.later.accumulating(batches)
        unknown, untimed = split_unknown(step.later)
        self._times = StepTimes(step, recipe, self._gpu, frozenset((*unknown, *untimed)), correction)
        self._tried: dict[int, Trial] = {}
        self._started: dict[int, Trial] = {}
        self._scratch_at: tuple[int, dict[int, tuple[Growth, Scratch]]] = (0, {})
        self.info = ProbeInfo(
            device_kind="cuda",
            device_name=gpu.name,
            gpu_id=gpu.id,
            gpu_facts=gpu.own,
            memory_only=gpu.memory_only,
            total_bytes=gpu.torch_memory_bytes,
            capacity_bytes=self._capacity_bytes,
            capped=memory_cap_bytes is not None,
            source="predicted",
            gpu_knowledge=knowledge_of(gpu, calibrated=correction is not None),
            gpu_profile=correction.profile.described if correction is not None else "",
            unknown_operations=unknown,
            unchecked_options=unchecked_options(recipe, step.facts.trainer),
            untimed_operations=untimed,
            untimed_options=untimed_options(recipe, step.facts.trainer),
            nccl_bytes=self._nccl_bytes,
            nccl_source=SOURCE if recipe.gpus > 1 else "",
            links=links_of(recipe, gpu),
            **asdict(step.facts),
        )

    @property
    def step(self) -> TracedStep:
        """The traced step, from which probes for other GPUs and caps can be made."""
        return self._step

    def try_batch(self, batch_size: int) -> Trial:
        """Simulates two steps in the allocator's model."""
        if batch_size not in self._tried:
            trial = self._simulate(batch_size, self._resting)
            self._tried[batch_size] = self._with_need(trial) if batch_size == 1 else trial
        return self._tried[batch_size]

    def forecast(self) -> int | None:
        """Returns the largest batch that fits, found by doubling and bisection from a guess by the smallest size."""
        start, smallest = FIRST_GUESS, self.try_batch(FIRST_GUESS)
        promised = size_within([smallest], self._capacity_bytes) if smallest.fits else 0
        while 4 * start <= promised:
            start *= 2
        most = min(MAX_BATCH, self._later.largest_batch(MOST_OPERATIONS) or MAX_BATCH)
        return largest_that(lambda batch_size: self.try_batch(batch_size).fits, min(start, most), most) or None

    def second_batch(self) -> None:
        """Returns ``None``: the forecast needs no trial."""

    def try_from_start(self, batch_size: int) -> Trial:
        """Simulates three steps of a training that starts with this size."""
        if batch_size not in self._started:
            self._started[batch_size] = self._simulate(batch_size, None)
        return self._started[batch_size]

    def measure(self, batch_size: int) -> Trial:
        """Simulates three steps, and adds the breakdown of their peak and their time."""
        trial = self.try_from_start(batch_size)
        time = None if self._gpu.memory_only else self._times.at(batch_size, trial.peak_allocated_bytes)
        shared = self._sharing.time(time.phases) if time is not None else None
        seconds = step_seconds(shared.together, time.host) if time is not None and shared is not None else None
        if not trial.fits:
            return replace(self._with_need(trial), step_seconds=seconds)
        samples = batch_size * self._recipe.accumulation_steps * self._recipe.data_parallel
        trial = replace(
            trial,
            breakdown=replace(
                peak_breakdown(self._trace(batch_size), self._step.owners, trial.peak_allocated_bytes),
                allocator_slack_bytes=trial.peak_reserved_bytes - trial.peak_allocated_bytes,
                context_bytes=self._context_bytes,
                nccl_bytes=self._nccl_bytes[1],
            ),
            step_seconds=seconds,
            samples_per_second=samples / seconds if seconds else None,
        )
        # With expandable segments the last page may reach beyond a cap.
        info, capacity = self.info, max(self._capacity_bytes, trial.peak_reserved_bytes)
        intervals = trial_intervals(
            trial,
            self._gpu,
            certain=info.certain,
            timed=info.options_timed,
            capacity_bytes=capacity,
            shares=time.shares() if time is not None else None,
            never_timed=time.never_timed_share if time is not None else 0.0,
            calibrated=info.gpu_knowledge == "calibrated",
            nccl_bytes=self._nccl_bytes,
        )
        if self._recipe.gpus > 1 and time is not None and shared is not None and seconds is not None:
            factors = (intervals["step_seconds"][0] / seconds, intervals["step_seconds"][1] / seconds)
            fastest, slowest = self._sharing.extremes(shared, time.host, factors)
            intervals |= {
                "step_seconds": (fastest, slowest),
                "samples_per_second": (samples / slowest, samples / fastest),
            }
            computing = step_seconds(shared.computing, time.host)
            trial = replace(trial, computing_seconds=computing, communicating_seconds=shared.talking)
        return replace(trial, intervals=self._with_worst_routing(intervals, batch_size, capacity))

    def explain(self, batch_size: int) -> Anatomy:
        """Returns the trial, and where its memory goes; if it does not fit, where that of the step would go."""
        trial, trace = self.measure(batch_size), self._trace(batch_size, labelled=True)
        if not trial.fits:
            held = sum(alive_after(trace, events_until_peak(trace)).values())
            trial = replace(trial, peak_allocated_bytes=max(self._needed(batch_size), held))
            trial = replace(trial, breakdown=peak_breakdown(trace, self._step.owners, trial.peak_allocated_bytes))
        return anatomy_of(trial, trace, self._step.owners, self._step.modules, self.info.vocabulary)

    def snapshot(self, batch_size: int) -> dict[str, Any]:
        """Returns the allocator's history of three steps; if they do not fit, as with more memory."""
        capacity = self._capacity_bytes if self.try_from_start(batch_size).fits else None
        memory = self._memory(capacity)
        memory.allocator, history = recording_allocator(self._allocator, capacity, capped=self._capped)
        for number, size in self._step.weights.items():
            history.runs("", self._step.homes.get(number, ""), "weights")
            memory.hold([(number, size)])
        phase = "forward"

        def follow(growth: Growth) -> None:
            history.runs(growth.operation.name, growth.operation.module, phase)

        memory.follow = follow
        for program in (self._first, *[self._later] * STEPS):
            history.runs("generation", "", "generation")
            memory.visit(self._held_by_generation(batch_size))
            phases = phases_of(program.unrolled(batch_size).marks)
            phase = next(phases)
            for _ in memory.run(program, batch_size, self._scratch):
                phase = next(phases)
        memory.drop_outputs()
        return snapshot_of(history, memory.allocator.layout(), self._allocator)

    def _with_worst_routing(
        self, intervals: dict[str, Interval], batch_size: int, capacity_bytes: int
    ) -> dict[str, Interval]:
        """Returns the intervals with memory that may be as high as with the worst routing of tokens to experts."""
        if self._step.worst is None:
            return intervals
        others = replace(self._step.worst, worst=None)
        worst = PredictedProbe(
            others,
            self._recipe,
            self._gpu,
            memory_cap_bytes=self._capacity_bytes,
            allocator=self._allocator,
            correction=self._correction,
        ).measure(batch_size)
        if worst.intervals is None:  # it does not fit
            context = self._gpu.context_bytes[2]
            most: dict[str, float] = {"peak_allocated_bytes": capacity_bytes, "peak_reserved_bytes": capacity_bytes}
            most["device_bytes"] = min(capacity_bytes + context, self._gpu.torch_memory_bytes)
        else:
            most = {name: high for name, (_, high) in worst.intervals.items() if name.endswith("_bytes")}
        return {name: (low, max(high, most.get(name, high))) for name, (low, high) in intervals.items()}

    def keep_outputs(self, keep: bool) -> None:
        """Continues with the loop that keeps the model's outputs, or that drops them."""
        self._recipe = replace(self._recipe, keep_outputs=keep)
        self._tried.clear()
        self._started.clear()
        vars(self).pop("_resting", None)

    def _scratch(self, growth: Growth, batch_size: int) -> Scratch:
        if growth.operation.name not in RULES:
            return NOTHING
        if self._scratch_at[0] != batch_size:  # every trial runs several steps of one size
            self._scratch_at = (batch_size, {})
        known = self._scratch_at[1]
        if id(growth) not in known:  # the operation stays with its id, which could be another's otherwise
            known[id(growth)] = growth, scratch_of(growth.at(batch_size), self._gpu)
        return known[id(growth)][1]

    def _memory(self, capacity_bytes: int | None) -> Memory:
        return Memory(
            capacity_bytes,
            cublas_workspace_bytes(self._gpu),
            dropout_state_bytes(self._gpu),
            allocator=self._allocator,
            capped=self._capped,
            keep_outputs=self._recipe.keep_outputs,
        )

    @cached_property
    def _resting(self) -> Resting | None:
        """Returns the memory layout after a small first step, where a search begins; ``None`` if not even that fits."""
        memory = self._memory(self._capacity_bytes)
        if self._later.carried:  # the next step frees what this one leaves
            return None
        try:
            memory.hold(self._step.weights.items())
            list(memory.run(self._first, FIRST_BATCH, self._scratch))
        except OutOfMemory:
            return None
        memory.drop_outputs()  # trials begin with the loop
        memory.allocator.empty_cache()
        return memory.allocator.layout(), set(memory.blocks), memory.host.sizes

    def _simulate(self, batch_size: int, resting: Resting | None) -> Trial:
        """Simulates steps from the memory layout that an earlier one left, or from the first step."""
        memory, generated = self._memory(self._capacity_bytes), self._held_by_generation(batch_size)
        peaks: Counter[str] = Counter()
        retries = steps = 0
        failure = _too_long(self._later.length(batch_size))
        try:
            for program in () if failure else self._begin(memory, resting):
                retries = memory.allocator.retries
                if generated:
                    peaks["generation"] = max(peaks["generation"], memory.visit(generated))
                for phase, peak in memory.run(program, batch_size, self._scratch):
                    peaks[phase] = max(peaks[phase], peak)
                steps += 1
        except OutOfMemory as error:
            failure = _out_of_memory(error)
        allocator = memory.allocator
        allocated = max(allocator.peak_allocated_bytes, *peaks.values(), 0)
        memory.drop_outputs()
        return Trial(
            batch_size=batch_size,
            fits=failure is None,
            source="predicted",
            steps=steps,
            peak_allocated_bytes=allocated,
            peak_reserved_bytes=allocator.peak_reserved_bytes,
            forward_peak_bytes=peaks["forward"],
            backward_peak_bytes=peaks["backward"],
            optimizer_peak_bytes=peaks["optimizer"],
            between_peak_bytes={name: peak for name, peak in peaks.items() if name not in PHASES_OF_STEP},
            resting_bytes=allocator.allocated_bytes,
            device_bytes=allocator.peak_reserved_bytes + self._context_bytes + self._nccl_bytes[1],
            gpus=self._recipe.gpus,
            strategy=self._recipe.used_strategy,
            tensor_parallel=self._recipe.tensor_parallel,
            allocator_retries=allocator.retries - retries,
            failure=failure,
            peak_host_bytes=memory.host.peak_bytes,
            tokens_per_sample=self.info.tokens_per_sample,
            kv_cache_bytes=self.info.cached_bytes(batch_size * self._recipe.accumulation_steps),
            generation_peak_bytes=peaks["generation"],
        )

    def _begin(self, memory: Memory, resting: Resting | None) -> list[Program]:
        """Prepares the memory for a trial and returns the steps to run."""
        later = [self._later] * STEPS
        if resting is None:
            memory.hold(self._step.weights.items())
            return [self._first, *later]
        segments, held, on_host = resting
        memory.found(segments, held)
        memory.host.found(on_host)
        return later

    def _held_by_generation(self, batch_size: int) -> list[int]:
        generation = self._step.generation
        return [] if generation is None else generation.held(batch_size * self._recipe.accumulation_steps)

    def _with_need(self, trial: Trial) -> Trial:
        """Replaces the failed request of a trial that ran out of memory by what the whole step needs."""
        if trial.failure is None or trial.failure.kind == "limit":
            return trial
        needed, there = self._needed(trial.batch_size), self._capacity_bytes
        if needed <= there:  # it fails because the free memory is fragmented
            return trial
        said = f"out of memory: the step needs {format_bytes(needed)} and the allocator can have {format_bytes(there)}"
        return replace(trial, failure=Failure("memory", said, needed, there))

    def _needed(self, batch_size: int) -> int:
        """Returns the peak of allocated bytes with as much memory as the step needs."""
        memory = self._memory(None)
        memory.hold(self._step.weights.items())
        for program in (self._step.first, self._step.later):
            memory.visit(self._held_by_generation(batch_size))
            list(memory.run(program, batch_size, self._needed_scratch))
        return memory.allocator.peak_allocated_bytes

    def _needed_scratch(self, growth: Growth, batch_size: int) -> Scratch:
        scratch = self._scratch(growth, batch_size)
        return NOTHING if scratch.optional else scratch

    def _trace(self, batch_size: int, *, labelled: bool = False) -> Trace:
        """Returns the trace of a later step at this size, as a recording would show it."""
        return trace_of(
            self._step,
            batch_size,
            keep_outputs=self._recipe.keep_outputs,
            generated=self._held_by_generation(batch_size),
            spread=self._recipe.gpus > 1,
            scratch=self._scratch,
            labelled=labelled,
        )

    @cached_property
    def _sharing(self) -> Sharing:
        """What the GPUs send each other in a step."""
        owners, weights = self._step.owners, self._step.weights
        buckets = [size for number, size in weights.items() if owners.get(number) == "gradient_buckets"]
        messages = messages_of(self._step.later, buckets, self._recipe.accumulation_steps)
        return Sharing(messages, self._recipe, self._gpu)


def _too_long(operations: int) -> Failure | None:
    """Returns why a step is not simulated that loops over more samples than anybody waits for."""
    if operations <= MOST_OPERATIONS:
        return None
    said = f"the model loops over its samples: a step of {operations:,} operations is longer than any that is predicted"
    return Failure("limit", said)


def _out_of_memory(error: OutOfMemory) -> Failure:
    requested, free = error.requested_bytes, error.free_bytes
    said = f"out of memory: a tensor needs {format_bytes(requested)} and {format_bytes(free)} are left"
    return Failure("memory", said, requested, free)

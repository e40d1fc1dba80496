"""The outcome of running, or predicting, training steps at one batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal

from memorymark.documents import ADDED_LATER, Record, in_document
from memorymark.results.shown import Shown

Source = Literal["measured", "predicted"]
FailureKind = Literal["memory", "limit"]
Counted = Literal["tokens", "samples"]


@dataclass(frozen=True)
class Breakdown(Record):
    """What the device held when the step was at its peak. The parts add up to the trial's ``device_bytes``."""

    weights_bytes: int = 0
    """Parameters and buffers."""
    gradients_bytes: int = 0
    """Gradients of parameters that are alive at the peak."""
    gradient_buckets_bytes: int = field(default=0, metadata=ADDED_LATER)
    """What several GPUs add up their gradients in: DDP's buckets, or what FSDP sends."""
    optimizer_state_bytes: int = 0
    """The optimizer's tensors on the device."""
    gathered_parameters_bytes: int = field(default=0, metadata=ADDED_LATER)
    """Weights gathered from all GPUs for the time they are used, and what they arrive in."""
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    """Keys and values of completions that are being generated, if the peak is then."""
    activations_bytes: int = 0
    """What the forward pass made and kept for the backward pass, the batch itself included."""
    temporaries_bytes: int = 0
    """Everything else that is allocated: intermediate results, workspaces, rounding."""
    allocator_slack_bytes: int = 0
    """Peak reserved less peak allocated."""
    context_bytes: int = 0
    """Memory outside the allocator that belongs to no other process."""
    nccl_bytes: int = field(default=0, metadata=ADDED_LATER)
    """What NCCL takes outside the allocator to talk to other GPUs, if that is known apart from the context."""
    other_processes_bytes: int = 0
    """What the GPU held before this process started CUDA."""

    @property
    def total_bytes(self) -> int:
        """The sum of the parts."""
        return sum(getattr(self, part.name) for part in fields(self))

    def on_device(self, *, reserved_bytes: int, device_bytes: int, other_processes_bytes: int) -> Breakdown:
        """Returns the breakdown with what the device held besides tensors: slack, the context, other processes."""
        outside_bytes = max(device_bytes - reserved_bytes, 0)
        others_bytes = min(other_processes_bytes, outside_bytes)
        return replace(
            self,
            allocator_slack_bytes=reserved_bytes - self.total_bytes,
            context_bytes=outside_bytes - others_bytes,
            other_processes_bytes=others_bytes,
        )


@dataclass(frozen=True)
class PerGpu(Record):
    """One of several GPUs that train together: the first, which holds as much as any."""

    batch_size: int
    """Samples in one of its forward passes."""
    peak_allocated_bytes: int
    """The most that its tensors held at one moment."""
    peak_reserved_bytes: int
    """The most that its allocator had taken from the device."""
    device_bytes: int
    """That, and everything outside the allocator: the CUDA context and NCCL."""
    breakdown: Breakdown | None
    """What it held at the peak; null for quick and failed trials."""
    samples_per_second: float | None
    """Its part of the throughput; null if the trial was not timed."""


@dataclass(frozen=True)
class Failure(Record):
    """Why a batch size does not train."""

    kind: FailureKind
    """Whether ``memory`` ran out, or a kernel reached a launch ``limit``."""
    message: str
    """The reason in a sentence."""
    requested_bytes: int | None = None
    """What the allocation that failed asked for, or what the step needs if it is known to need more than there is."""
    free_bytes: int | None = None
    """What was free then, or what is available to the step."""

    @property
    def shortfall_bytes(self) -> int | None:
        """The least memory that was missing, or ``None`` if unknown."""
        if self.requested_bytes is None or self.free_bytes is None:
            return None
        return max(self.requested_bytes - self.free_bytes, 0)


def why_nothing_fits(trials: Sequence[Trial]) -> Trial:
    """Returns the smallest of the failed trials that ran out of memory, or else the last trial."""
    return next((t for t in reversed(trials) if t.failure and t.failure.kind == "memory"), trials[-1])


@dataclass(frozen=True, kw_only=True)
class Trial(Record, Shown):
    """One trial of one batch size.

    Peaks are also kept by phase, because at small batches the overall peak is the optimizer's and says nothing about
    larger batches.
    """

    kind: ClassVar[Literal["trial"]] = "trial"

    batch_size: int
    """Samples in one forward pass."""
    fits: bool
    """Whether all steps completed."""
    source: Source = "measured"
    """Whether the numbers were measured or predicted."""
    steps: int = 0
    """Steps that completed, not counting timed ones."""
    peak_allocated_bytes: int = 0
    """The most that tensors held at one moment."""
    peak_reserved_bytes: int = 0
    """The most that the allocator had taken from the device, free blocks in its cache included."""
    forward_peak_bytes: int = 0
    """The peak of allocated bytes in the forward pass."""
    backward_peak_bytes: int = 0
    """The peak of allocated bytes in the backward pass."""
    optimizer_peak_bytes: int = field(default=0, metadata=ADDED_LATER)
    """The peak of allocated bytes in the optimizer's step."""
    between_peak_bytes: dict[str, int] = field(default_factory=dict, metadata=ADDED_LATER, hash=False)
    """The peaks of allocated bytes of what a caller runs between steps, by name."""
    resting_bytes: int = 0
    """What stays allocated between steps; for a failed trial, what it held when it failed."""
    device_bytes: int = 0
    """Peak reserved, and everything outside the allocator: the CUDA context and other processes."""
    allocator_retries: int = 0
    """How often the allocator freed its cache and tried again. Retries of the first step do not count, since only later
    ones recur for the whole training.
    """
    breakdown: Breakdown | None = None
    """What the device held at the peak; null for quick and failed trials."""
    samples_per_second: float | None = None
    """Throughput; null if the trial was not timed."""
    step_seconds: float | None = None
    """Seconds of a step; null if it was not timed. If a predicted trial does not fit, what the step would take with
    more memory.
    """
    step_seconds_spread: float | None = None
    """The interquartile range of the timed steps over their median; null if predicted or not timed."""
    failure: Failure | None = None
    """Why it does not fit; null if it does."""
    intervals: dict[str, tuple[float, float]] | None = field(default=None, metadata=ADDED_LATER, hash=False)
    """The ranges that should contain the true numbers, by name; null if they were measured."""
    peak_host_bytes: int = field(default=0, metadata=ADDED_LATER)
    """What offloaded tensors take in the host's memory at their peak; torch rounds pinned ones up to a power of two."""
    tokens_per_sample: int | None = field(default=None, metadata=ADDED_LATER)
    """Tokens of a sample of text; null for other samples."""
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    """What generating the completions of a step keeps for all of their tokens, before training frees it; 0 if a step
    generates nothing.
    """
    generation_peak_bytes: int = field(default=0, metadata=ADDED_LATER)
    """The peak of allocated bytes while completions are generated; 0 if none are."""
    gpus: int = field(default=1, metadata=ADDED_LATER)
    """How many GPUs train together. Memory is then that of each, and so is the batch, which those that share
    layers have together; throughput is of all.
    """
    strategy: str | None = field(default=None, metadata=ADDED_LATER)
    """How they share the work; null for one GPU, and if all of them share each layer."""
    tensor_parallel: int = field(default=1, metadata=ADDED_LATER)
    """How many GPUs share each layer, and with it each batch."""
    computing_seconds: float | None = field(default=None, metadata=ADDED_LATER)
    """Seconds of a step that a GPU computes, if several train together; null otherwise, or if not timed."""
    communicating_seconds: float | None = field(default=None, metadata=ADDED_LATER)
    """Seconds of a step that GPUs talk to each other, most of them while they compute; null for one GPU."""

    @property
    @in_document(older=None)
    def scaling_efficiency(self) -> float | None:
        """Throughput over that of as many GPUs that need not talk to each other; null for one GPU."""
        if not self.computing_seconds or not self.step_seconds:
            return None
        return min(self.computing_seconds / self.step_seconds, 1.0)

    @property
    @in_document(older=None)
    def per_gpu(self) -> PerGpu | None:
        """What each of several GPUs holds and does; null for one GPU."""
        if self.gpus == 1:
            return None
        return PerGpu(
            batch_size=self.batch_size,
            peak_allocated_bytes=self.peak_allocated_bytes,
            peak_reserved_bytes=self.peak_reserved_bytes,
            device_bytes=self.device_bytes,
            breakdown=self.breakdown,
            samples_per_second=self.samples_per_second / self.gpus if self.samples_per_second else None,
        )

    @property
    def step_peak_bytes(self) -> int:
        """The peak of allocated bytes in the step itself, without what runs between steps; 0 if it was not kept."""
        return max(self.forward_peak_bytes, self.backward_peak_bytes, self.optimizer_peak_bytes)

    @property
    def rate_counts(self) -> Counted:
        """What people count in its throughput."""
        return "tokens" if self.tokens_per_sample else "samples"

    @property
    def rate_unit(self) -> str:
        """The unit in which people read its throughput."""
        return f"{self.rate_counts}/s"

    @property
    def rate(self) -> float:
        """Its throughput in that unit; 0 if it was not timed."""
        return (self.samples_per_second or 0.0) * (self.tokens_per_sample or 1)

    @property
    @in_document(older=None)
    def tokens_per_batch(self) -> int | None:
        """Tokens in one forward pass; null if the samples are not text."""
        return self.batch_size * self.tokens_per_sample if self.tokens_per_sample else None

    @property
    @in_document(older=None)
    def tokens_per_second(self) -> float | None:
        """Throughput in tokens; null if the samples are not text, or nothing was timed."""
        if not self.tokens_per_sample or self.samples_per_second is None:
            return None
        return self.samples_per_second * self.tokens_per_sample

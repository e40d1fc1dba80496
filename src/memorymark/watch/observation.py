"""What a detector has learned about a training: plain facts that travel from the script's process to the report."""

from __future__ import annotations

from dataclasses import dataclass, field

from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.documents import LEFT_OUT, Record, in_document
from memorymark.watch.batch_sizes import BatchBasis
from memorymark.watch.operations import StepOperations
from memorymark.watch.recording import StepRecording

# Up to this factor, rounding explains why the measured peak exceeds the recorded step's.
SAME_PEAK = 1.02


@dataclass(frozen=True, kw_only=True)
class LoaderFacts:
    """The settings of the data loader."""

    num_workers: int
    pin_memory: bool
    persistent_workers: bool = False
    prefetch_factor: int | None = None


@dataclass(frozen=True, kw_only=True)
class OptimizerFacts:
    """An optimizer, and how it runs its kernels; ``can_fuse`` says whether torch has a fused version of it."""

    name: str
    fused: bool
    can_fuse: bool


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """The trained module, as seen through its optimizers."""

    name: str
    parameters: int
    trainable_parameters: int
    precision: str
    """The type of most parameters: ``float32``, ``bfloat16`` or ``float16``."""
    has_convolutions: bool = False
    channels_last: bool = False
    compiled: bool = False
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """The device of the training. ``capacity_bytes`` is the most that the caching allocator could take.

    ``gpu_id`` is the GPU's id in the catalog, if it is there.
    """

    kind: str
    name: str
    gpu_id: str | None = None
    total_bytes: int = 0
    capacity_bytes: int = 0
    capped: bool = False
    other_processes_bytes: int = 0
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryFacts:
    """The allocator's own counters, and how it works.

    ``retries`` counts those since the first steps. If not ``modelled``, the allocator has settings that the model does
    not cover.
    """

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    device_bytes: int
    retries: int = 0
    allocator: AllocatorKind = "default"
    modelled: bool = True


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The exception that ended the script."""

    kind: str
    message: str
    out_of_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Observation(Record):
    """Everything learned about a training.

    ``batch_size`` is what goes through the model at once, ``micro_batches`` how many of these make one optimizer step.
    Seconds are averages of one optimizer step after the first ones: ``waiting_seconds`` inside the data loader,
    ``gpu_idle_seconds`` of these with an idle GPU, ``between_seconds`` from an optimizer step to the next forward pass
    if no data loader was seen. ``busy`` and ``power`` are fractions, as the driver reports them.
    """

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    batch_size: int | None = None
    batch_dimension: int = 0
    """Which dimension of the inputs is the batch: 1 where time comes first."""
    batch_basis: BatchBasis = "leading"
    """What tells so: layers whose layout is known, labels, or nothing but that it is the first one."""
    batch_is_uncertain: bool = False
    """Whether the batch may be another dimension: the first one varies, as lengths do, and nothing tells."""
    micro_batches: int = 1
    timed_steps: int = 0
    step_seconds: float | None = None
    median_step_seconds: float | None = None
    waiting_seconds: float | None = None
    between_seconds: float | None = None
    gpu_idle_seconds: float | None = None
    busy: float | None = None
    power: float | None = None
    autocast: str | None = None
    tf32: bool = False
    device: DeviceFacts | None = None
    model: ModelFacts | None = None
    optimizers: list[OptimizerFacts] = field(default_factory=list)
    loader: LoaderFacts | None = None
    keeps_outputs: bool | None = None
    """Whether the script holds outputs of the model that the backward pass does not need; ``None`` if unknown."""
    memory: MemoryFacts | None = None
    recording: StepRecording | None = field(default=None, metadata=LEFT_OUT)
    """Thousands of events, so it is stored in a separate file."""
    operations: StepOperations | None = field(default=None, metadata=LEFT_OUT)
    """Those of one step, stored in a separate file too."""
    longest_batch: float = 1.0
    """The largest batch in elements, as a multiple of the recorded one."""
    torch_imported: bool = False
    framework: str | None = None
    """Whose training loop it is: ``transformers``, ``lightning``, or ``None`` for the script's own."""
    processors: int = 1
    ending: Ending | None = None
    problem: str | None = None
    """Why watching stopped early, if it did."""

    @property
    @in_document
    def training_peak_allocated_bytes(self) -> int | None:
        """The most that a training step allocated; an evaluation, or what ran before, may have taken more."""
        if self.memory is None or self.recording is None:
            return None
        # Attention grows at most with the square of a longer batch.
        most = round(self.recording.peak_allocated_bytes * self.longest_batch**2)
        peak = self.memory.peak_allocated_bytes
        return peak if peak <= SAME_PEAK * most else most

    @property
    def peaked_outside_steps(self) -> bool:
        """Whether the peak was no training step's."""
        peak = self.training_peak_allocated_bytes
        return peak is not None and self.memory is not None and peak < self.memory.peak_allocated_bytes

    @property
    @in_document
    def effective_batch_size(self) -> int | None:
        """The samples of one optimizer step."""
        return None if self.batch_size is None else self.batch_size * self.micro_batches

    @property
    @in_document
    def samples_per_second(self) -> float | None:
        """How fast it trains, waiting included."""
        if not self.step_seconds or self.effective_batch_size is None:
            return None
        return self.effective_batch_size / self.step_seconds

    @property
    def lost_seconds(self) -> float | None:
        """The seconds that a step loses to waiting for data: the GPU's idle time if known, else the host's."""
        if self.device is not None and self.device.kind == "cuda":
            return self.gpu_idle_seconds
        return self.waiting_seconds if self.waiting_seconds is not None else self.between_seconds

    @property
    @in_document
    def lost(self) -> float | None:
        """``lost_seconds`` as a fraction of the step."""
        if not self.step_seconds or self.lost_seconds is None:
            return None
        return min(self.lost_seconds / self.step_seconds, 1.0)

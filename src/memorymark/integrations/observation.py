"""What a detector has learned of a training: plain facts, as they travel from the script's process to the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from memorymark.integrations.recording import StepRecording


@dataclass(frozen=True, kw_only=True)
class LoaderFacts:
    """How the data loader was made."""

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
    """The module that is trained, as far as its optimizers and a look at it show."""

    name: str
    parameters: int
    trainable_parameters: int
    precision: str
    """What most parameters are stored in: ``float32``, ``bfloat16``, ``float16``."""
    has_convolutions: bool = False
    channels_last: bool = False
    compiled: bool = False
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """Where it trains. ``capacity_bytes`` is what the caching allocator could take at most."""

    kind: str
    name: str
    total_bytes: int = 0
    capacity_bytes: int = 0
    capped: bool = False
    other_processes_bytes: int = 0
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryFacts:
    """The allocator's own counters; ``retries`` are those since the first steps, ``modelled`` its default way."""

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    device_bytes: int
    retries: int = 0
    modelled: bool = True


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How the script ended, where it was an exception."""

    kind: str
    message: str
    out_of_memory: bool = False


@dataclass(frozen=True, kw_only=True)
class Observation:
    """All that was learned.

    ``batch_size`` is what goes through the model at once, ``micro_batches`` how many of these make one optimizer step.
    Seconds are of one optimizer step, on average after the first ones: ``waiting_seconds`` inside the data loader,
    ``gpu_idle_seconds`` those of them in which the GPU had nothing to do, ``between_seconds`` from an optimizer step to
    the next forward pass where no data loader was seen. ``busy`` and ``power`` are parts of 1, as the driver says.
    """

    steps: int = 0
    samples: int = 0
    seconds: float = 0.0
    batch_size: int | None = None
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
    memory: MemoryFacts | None = None
    recording: StepRecording | None = None
    longest_batch: float = 1.0
    """How many times larger than the recorded batch the largest one was, by the numbers in it."""
    torch_imported: bool = False
    framework: str | None = None
    """Whose loop it is: ``transformers``, ``lightning``, or the script's own."""
    processors: int = 1
    ending: Ending | None = None
    problem: str | None = None
    """Why watching stopped early, if it did."""

    @property
    def effective_batch_size(self) -> int | None:
        """The samples of one optimizer step."""
        return None if self.batch_size is None else self.batch_size * self.micro_batches

    @property
    def samples_per_second(self) -> float | None:
        """How fast it trains, waiting included."""
        if not self.step_seconds or self.effective_batch_size is None:
            return None
        return self.effective_batch_size / self.step_seconds

    @property
    def lost_seconds(self) -> float | None:
        """What a step loses to waiting for data: the GPU's idle time where there is one, else the host's."""
        if self.device is not None and self.device.kind == "cuda":
            return self.gpu_idle_seconds
        return self.waiting_seconds if self.waiting_seconds is not None else self.between_seconds

    @property
    def lost(self) -> float | None:
        """The same as a part of the step."""
        if not self.step_seconds or self.lost_seconds is None:
            return None
        return min(self.lost_seconds / self.step_seconds, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types; ``from_dict`` reads it back, but for the recording, which travels by itself."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Observation:
        """What ``to_dict`` wrote."""
        kinds = {"device": DeviceFacts, "model": ModelFacts, "loader": LoaderFacts, "memory": MemoryFacts}
        parts: dict[str, Any] = {name: kind(**document[name]) for name, kind in kinds.items() if document.get(name)}
        if "device" in parts and parts["device"].capability is not None:
            facts = {**document["device"], "capability": tuple(document["device"]["capability"])}
            parts["device"] = DeviceFacts(**facts)
        if document.get("ending"):
            parts["ending"] = Ending(**document["ending"])
        parts["optimizers"] = [OptimizerFacts(**facts) for facts in document.get("optimizers", [])]
        return cls(**{**document, **parts})

"""What the search and the analysis need of a probe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from memorymark.catalog import GpuEntry, all_gpus, match_gpu
from memorymark.search import Guide
from memorymark.trial import Source, Trial


@dataclass(frozen=True, kw_only=True)
class ProbeInfo:
    """The device behind a probe, and the model on it.

    ``capacity_bytes`` is the most the allocator can hold.
    ``trainable_parameters`` are those of ``parameters`` that are not frozen; ``None`` in documents that do not say.
    ``sample`` is the shape of one sample in words, ``small`` that the model is a stand-in for the real one.
    ``weights_dtype`` is the type of the model's weights, of most of them where they differ: ``fp32``, ``bf16``.
    ``optimizer`` is the name of the workload's own optimizer, if it has one.
    ``seconds`` says how long the probe took to get ready, by stage. ``unknown_operations`` are those of a predicted
    step that no measurement has shown yet.
    """

    device_kind: str
    device_name: str
    total_bytes: int
    capacity_bytes: int
    capped: bool
    parameters: int
    trainable_parameters: int | None = None
    source: Source = "measured"
    unknown_operations: tuple[str, ...] = ()
    weights_dtype: str = ""
    optimizer: str = ""
    sample: str = ""
    small: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def target_bytes(self) -> int:
        """The memory that all shares are shares of: the whole device, or the cap on what the allocator may take."""
        return self.capacity_bytes if self.capped else self.total_bytes

    def held_bytes(self, trial: Trial) -> int:
        """What a trial takes of the target at its peak: all that the device holds; under a cap, what is reserved."""
        return trial.peak_reserved_bytes if self.capped else trial.device_bytes

    @property
    def gpu(self) -> GpuEntry | None:
        """The catalog's entry, by its own name or the driver's."""
        by_name = {gpu.name: gpu for gpu in all_gpus()}
        return by_name.get(self.device_name) or match_gpu(self.device_name)

    def to_dict(self) -> dict[str, Any]:
        """The facts as JSON types; ``from_dict`` reads them back."""
        return {**asdict(self), "unknown_operations": list(self.unknown_operations)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ProbeInfo:
        """The facts that ``to_dict`` wrote."""
        return cls(**{**data, "unknown_operations": tuple(data["unknown_operations"])})


class Probe(Guide, Protocol):
    """Runs, or predicts, steps at a batch size, and guides the search by what they show."""

    info: ProbeInfo

    def try_batch(self, batch_size: int) -> Trial:
        """The quick question: does it fit, and at what peak? No timing, no breakdown."""

    def try_from_start(self, batch_size: int) -> Trial:
        """The quick question for a training that starts with this size: what it leaves behind lies elsewhere."""

    def measure(self, batch_size: int) -> Trial:
        """The whole answer, with breakdown and time, for a training that starts with this size."""

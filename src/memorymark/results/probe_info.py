"""The device behind a result, and the model on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memorymark.catalog import GpuEntry, all_gpus, gpu_with_id, match_gpu, own_gpu
from memorymark.catalog.tasks import TEXT
from memorymark.documents import ADDED_LATER, Record
from memorymark.question.completions import generated_completions
from memorymark.results.knowledge import GpuKnowledge
from memorymark.results.trial import Source, Trial


@dataclass(frozen=True, kw_only=True)
class ProbeInfo(Record):
    """The device behind a probe, and the model on it."""

    device_kind: str
    """The kind of device: ``cuda``, ``mps`` or ``cpu``."""
    device_name: str
    """The device's name."""
    gpu_id: str | None = field(default=None, metadata=ADDED_LATER)
    """The device's id in the catalog; null if it is not there."""
    gpu_facts: dict[str, Any] | None = field(default=None, metadata=ADDED_LATER)
    """What the caller said of a GPU that is not in the catalog; null for others."""
    memory_only: bool = field(default=False, metadata=ADDED_LATER)
    """Whether only memory is predicted, because the speed of such GPUs is not modelled."""
    total_bytes: int
    """The memory of the device."""
    capacity_bytes: int
    """The most that the allocator can hold."""
    capped: bool
    """Whether the caller limits the allocator."""
    parameters: int
    """How many parameters the model has."""
    trainable_parameters: int | None = field(default=None, metadata=ADDED_LATER)
    """How many of them are not frozen; null in older documents."""
    source: Source = "measured"
    """Whether the numbers are measured or predicted."""
    gpu_knowledge: GpuKnowledge | None = field(default=None, metadata=ADDED_LATER)
    """What predicted times rest on: ``measured`` if the rules were fitted to this GPU, ``calibrated`` if a profile of
    it corrects them, ``public`` for public data, ``datasheet`` for no more than that; null if nothing is predicted."""
    gpu_profile: str = field(default="", metadata=ADDED_LATER)
    """The profile that corrects predicted times: its GPU, torch and date; empty if there is none."""
    unknown_operations: tuple[str, ...] = ()
    """Operations of a predicted step that were never measured."""
    unchecked_options: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """Options of a predicted step whose prediction no GPU has confirmed."""
    untimed_operations: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """Operations of a predicted step whose memory was measured, but not their time."""
    untimed_options: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """Options of a predicted step whose memory was measured, but not their time."""
    weights_dtype: str = field(default="", metadata=ADDED_LATER)
    """The type of most of the model's weights: ``fp32``, ``bf16``."""
    experts: int = field(default=0, metadata=ADDED_LATER)
    """How many experts a layer routes tokens to; 0 if the model is no mixture of experts."""
    experts_dtype: str = field(default="", metadata=ADDED_LATER)
    """The type of the experts' weights, which bitsandbytes does not quantize."""
    routing_matters: bool = field(default=False, metadata=ADDED_LATER)
    """Whether the predicted memory depends on how many tokens each expert gets."""
    optimizer: str = ""
    """The name of the workload's own optimizer; empty if it has none."""
    optimizer_is_sgd: bool = field(default=False, metadata=ADDED_LATER)
    """Whether that optimizer is SGD."""
    paged_state_bytes: int = field(default=0, metadata=ADDED_LATER)
    """The optimizer's state in paged memory, outside torch's allocator."""
    sample: str = ""
    """The shape of one sample in words."""
    sample_sizes: dict[str, int] = field(default_factory=dict, metadata=ADDED_LATER)
    """The sizes of a sample by unit (``tokens``, ``pixels``, ``seconds``), if callers can choose them."""
    sequences: int = field(default=1, metadata=ADDED_LATER)
    """How many sequences of that size a sample has: two if it is a pair of texts."""
    mean_tokens: int = field(default=0, metadata=ADDED_LATER)
    """The mean length of the samples that are packed into rows of that size; 0 if they are not packed."""
    trainer: str = field(default="", metadata=ADDED_LATER)
    """The trainer of TRL whose step this is, such as ``DPOTrainer``; empty for other steps."""
    reference_bytes: int = field(default=0, metadata=ADDED_LATER)
    """The frozen copy that the model is compared with, which counts as weights; 0 if there is none."""
    completions: int = field(default=0, metadata=ADDED_LATER)
    """How many completions of a prompt the model generates before it is trained on them; 0 if none."""
    completion_tokens: int = field(default=0, metadata=ADDED_LATER)
    """The tokens of one completion; 0 if none is generated."""
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    """What generation keeps for one completion and its prompt; 0 if none is generated."""
    language_model: bool = field(default=False, metadata=ADDED_LATER)
    """Whether a model that writes text is fine-tuned."""
    vocabulary: int = field(default=0, metadata=ADDED_LATER)
    """The logits of a token if the loss can be computed in chunks, else 0."""
    nccl_bytes: tuple[int, int, int] = field(default=(0, 0, 0), metadata=ADDED_LATER)
    """What NCCL takes of each of several GPUs, outside the allocator: the least, the usual, the most."""
    nccl_source: str = field(default="", metadata=ADDED_LATER)
    """Where that comes from; empty if one GPU trains alone."""
    links: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    """What several GPUs are assumed to talk over: within a machine, and between machines."""
    convolves_images: bool = field(default=False, metadata=ADDED_LATER)
    """Whether the model applies 2-D convolutions to images, so that channels_last can help."""
    small: bool = False
    """Whether the model is a stand-in for the real one."""
    versions: dict[str, str] = field(default_factory=dict)
    """The versions of the libraries behind the numbers."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long the probe took to get ready, by stage."""

    @property
    def certain(self) -> bool:
        """Whether the memory of everything in a predicted step was checked on a GPU."""
        return not (self.unknown_operations or self.unchecked_options)

    @property
    def timed(self) -> bool:
        """Whether the time of everything in a predicted step was checked on a GPU."""
        return self.certain and not (self.untimed_operations or self.untimed_options)

    @property
    def options_timed(self) -> bool:
        """Whether the time of steps with these options was checked, though perhaps not that of each operation."""
        return not (self.untimed_options or self.unchecked_options)

    @property
    def target_bytes(self) -> int:
        """The memory of the target: the whole device, or the cap on the allocator."""
        return self.capacity_bytes if self.capped else self.total_bytes

    @property
    def tokens_per_sample(self) -> int | None:
        """The tokens of a sample of text, in all of its sequences; ``None`` for other samples."""
        return self.sample_sizes["tokens"] * self.sequences if tuple(self.sample_sizes) == TEXT else None

    def cached_bytes(self, samples: int) -> int:
        """Returns what generation keeps for the completions of a step with so many samples."""
        return generated_completions(samples, self.completions) * self.kv_cache_bytes if self.completions else 0

    def held_bytes(self, trial: Trial) -> int:
        """Returns a trial's memory at its peak: all that the device holds or, under a cap, what is reserved."""
        return trial.peak_reserved_bytes if self.capped else trial.device_bytes

    @property
    def gpu(self) -> GpuEntry | None:
        """The device's entry in the catalog, or as the caller described it; ``None`` if unknown."""
        return own_gpu(self.gpu_facts) if self.gpu_facts is not None else gpu_with_id(self.gpu_id)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ProbeInfo:
        """Reads what ``to_dict`` wrote; older documents had only names for some of the facts."""
        return super().from_dict(data if "gpu_id" in data else {**data, **_facts_by_names(data)})


def _facts_by_names(data: dict[str, Any]) -> dict[str, Any]:
    """Derives facts that older documents lack from the names in them."""
    name, by_name = data["device_name"], {gpu.name: gpu for gpu in all_gpus()}
    gpu = by_name.get(name) or match_gpu(name)
    return {"gpu_id": gpu.id if gpu is not None else None, "optimizer_is_sgd": data.get("optimizer") == "SGD"}

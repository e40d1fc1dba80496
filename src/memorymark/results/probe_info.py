"""The device behind a result, and the model on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memorymark.catalog import GpuEntry, all_gpus, gpu_with_id, match_gpu
from memorymark.catalog.tasks import TEXT
from memorymark.documents import ADDED_LATER, Record
from memorymark.question.completions import generated_completions
from memorymark.results.trial import Source, Trial


@dataclass(frozen=True, kw_only=True)
class ProbeInfo(Record):
    """The device behind a probe, and the model on it.

    ``capacity_bytes`` is the most the allocator can hold.
    ``trainable_parameters`` are those of ``parameters`` that are not frozen; ``None`` in older documents.
    ``gpu_id`` is the device's id in the catalog, ``None`` if it is not there.
    ``sample`` is the shape of one sample in words, for people; ``sample_sizes`` are its sizes by unit (``tokens``,
    ``pixels``, ``seconds``) if callers can choose them, and ``sequences`` how many of that size it has: two if it is a
    pair of texts. ``mean_tokens`` is the mean length of samples that are packed into rows of that size, 0 if they are
    not. ``trainer`` is the trainer of TRL whose step it is, if it is one's; ``reference_bytes`` is the size
    of the frozen copy that the model is compared with, which is part of the weights. ``completions`` is how many
    completions of a prompt a model generates before it is trained on them, 0 if it generates none, and
    ``completion_tokens`` the length of one; ``kv_cache_bytes`` is what generation keeps for one of them and its prompt.
    ``language_model`` says that a
    model that writes text is fine-tuned; ``vocabulary`` is the number of logits of a token if its loss can be computed
    in chunks, and 0 otherwise. ``convolves_images`` says that the model applies 2-D convolutions to images, which
    channels_last is for. ``small`` says that the model is a stand-in.
    ``weights_dtype`` is the type of most of the model's weights: ``fp32``, ``bf16``.
    ``experts`` is how many experts a layer routes tokens to, 0 if the model is no mixture of experts; ``experts_dtype``
    is the type of their weights, which bitsandbytes does not quantize. ``routing_matters`` says that the predicted
    memory depends on which experts get how many tokens.
    ``optimizer`` is the name of the workload's own optimizer, if it has one; ``optimizer_is_sgd`` says that it is SGD.
    ``paged_state_bytes`` is the optimizer's state in paged memory, outside torch's allocator.
    ``seconds`` is how long the probe took to get ready, by stage. ``unknown_operations`` are operations of a predicted
    step that were never measured, ``unchecked_options`` options of it whose prediction no GPU has confirmed.
    ``untimed_operations`` and ``untimed_options`` are those of which only the memory was measured.
    """

    device_kind: str
    device_name: str
    gpu_id: str | None = field(default=None, metadata=ADDED_LATER)
    total_bytes: int
    capacity_bytes: int
    capped: bool
    parameters: int
    trainable_parameters: int | None = field(default=None, metadata=ADDED_LATER)
    source: Source = "measured"
    unknown_operations: tuple[str, ...] = ()
    unchecked_options: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    untimed_operations: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    untimed_options: tuple[str, ...] = field(default=(), metadata=ADDED_LATER)
    weights_dtype: str = field(default="", metadata=ADDED_LATER)
    experts: int = field(default=0, metadata=ADDED_LATER)
    experts_dtype: str = field(default="", metadata=ADDED_LATER)
    routing_matters: bool = field(default=False, metadata=ADDED_LATER)
    optimizer: str = ""
    optimizer_is_sgd: bool = field(default=False, metadata=ADDED_LATER)
    paged_state_bytes: int = field(default=0, metadata=ADDED_LATER)
    sample: str = ""
    sample_sizes: dict[str, int] = field(default_factory=dict, metadata=ADDED_LATER)
    sequences: int = field(default=1, metadata=ADDED_LATER)
    mean_tokens: int = field(default=0, metadata=ADDED_LATER)
    trainer: str = field(default="", metadata=ADDED_LATER)
    reference_bytes: int = field(default=0, metadata=ADDED_LATER)
    completions: int = field(default=0, metadata=ADDED_LATER)
    completion_tokens: int = field(default=0, metadata=ADDED_LATER)
    kv_cache_bytes: int = field(default=0, metadata=ADDED_LATER)
    language_model: bool = field(default=False, metadata=ADDED_LATER)
    vocabulary: int = field(default=0, metadata=ADDED_LATER)
    convolves_images: bool = field(default=False, metadata=ADDED_LATER)
    small: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def certain(self) -> bool:
        """Whether the memory of everything in a predicted step was checked on a GPU."""
        return not (self.unknown_operations or self.unchecked_options)

    @property
    def timed(self) -> bool:
        """Whether the time of everything in a predicted step was checked on a GPU."""
        return self.certain and not (self.untimed_operations or self.untimed_options)

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
        """The device's entry in the catalog, or ``None``."""
        return gpu_with_id(self.gpu_id)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ProbeInfo:
        """Reads what ``to_dict`` wrote; older documents had only names for some of the facts."""
        return super().from_dict(data if "gpu_id" in data else {**data, **_facts_by_names(data)})


def _facts_by_names(data: dict[str, Any]) -> dict[str, Any]:
    """Derives facts that older documents lack from the names in them."""
    name, by_name = data["device_name"], {gpu.name: gpu for gpu in all_gpus()}
    gpu = by_name.get(name) or match_gpu(name)
    return {"gpu_id": gpu.id if gpu is not None else None, "optimizer_is_sgd": data.get("optimizer") == "SGD"}

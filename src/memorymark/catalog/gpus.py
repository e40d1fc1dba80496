"""The GPU catalog: memory, speed, and prices with provider and date."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from memorymark.checks.nearest import MOST_NAMED, did_you_mean, letters, nearest
from memorymark.checks.types import shown
from memorymark.documents import LEFT_OUT, Document, Record, in_document
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import meant
from memorymark.units import GIGA, MIB, TERA

# The GPU of the published table: the one to predict for if the machine has no GPU and none is named.
DEFAULT_GPU = "a10"


@dataclass(frozen=True)
class Price(Record):
    """The price of one GPU for an hour."""

    usd_per_hour: float
    """US dollars."""
    provider: str
    """Who charges it; ``as given`` if the caller named the price."""
    as_of: str | None = None
    """Its date, as in 2026-08-03; null if it has none."""
    note: str = ""
    """What else there is to know, such as the provider's name of the machine."""

    def of(self, gpus: int) -> Price:
        """Returns the price of several GPUs for an hour."""
        return replace(self, usd_per_hour=gpus * self.usd_per_hour, note=f"{gpus} GPUs")

    def describe(self) -> str:
        """``$1.29/h, lambda, 2026-08-03``."""
        return ", ".join(part for part in (f"${self.usd_per_hour:.2f}/h", self.provider, self.as_of) if part)


@dataclass(frozen=True)
class GpuEntry(Document):
    """One GPU model.

    ``memory_bytes`` is the total that the driver reports, ``torch_memory_bytes`` what torch sees of it,
    ``context_bytes`` what the CUDA context takes of that: the least, the usual and the most. Rates are from the
    datasheet, without sparsity, in operations and bytes per second, except ``host_link_bytes_per_second``: what copies
    from and to pinned memory of the host reach. ``prices`` are oldest first.
    """

    id: str
    """What it is called in questions."""
    name: str
    """What the driver calls it."""
    matches: tuple[str, ...] = field(metadata=LEFT_OUT)
    memory_bytes: int = field(metadata=LEFT_OUT)
    torch_memory_bytes: int = field(metadata=LEFT_OUT)
    context_bytes: tuple[int, int, int] = field(metadata=LEFT_OUT)
    compute_capability: str
    """CUDA compute capability, such as ``8.6``."""
    multiprocessors: int = field(metadata=LEFT_OUT)
    fp32_flops: float = field(metadata=LEFT_OUT)
    tf32_flops: float = field(metadata=LEFT_OUT)
    half_flops: float = field(metadata=LEFT_OUT)
    bytes_per_second: float = field(metadata=LEFT_OUT)
    host_link_bytes_per_second: float = field(metadata=LEFT_OUT)
    prices: tuple[Price, ...]
    """Its prices, the oldest first."""

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @property
    def has_bf16(self) -> bool:
        """Whether it supports bf16 and TF32, as GPUs since Ampere do."""
        return self.capability >= (8, 0)

    @property
    def usable_bytes(self) -> int:
        """The memory that the caching allocator can use: what torch sees, less the usual context."""
        return self.torch_memory_bytes - self.context_bytes[1]

    @property
    @in_document(name="memory_bytes")
    def listed_memory_bytes(self) -> int:
        """The memory that programs see, as in all results."""
        return self.torch_memory_bytes

    @property
    @in_document
    def price(self) -> Price | None:
        """The price for computing savings: the cheapest provider's latest, so that savings are not overstated."""
        latest = {price.provider: price for price in self.prices}
        return min(latest.values(), key=lambda price: price.usd_per_hour, default=None)


@cache
def all_gpus() -> tuple[GpuEntry, ...]:
    """Returns every GPU of the catalog."""
    folder = Path(__file__).parent
    prices: dict[str, list[Price]] = {}
    rows = csv.DictReader((folder / "prices.csv").read_text(encoding="utf-8").splitlines())
    for row in sorted(rows, key=lambda row: row["as_of"]):
        price = Price(float(row["usd_per_gpu_hour"]), row["provider"], row["as_of"], row["note"])
        prices.setdefault(row["gpu"], []).append(price)
    return tuple(
        GpuEntry(
            id=facts["id"],
            name=facts["name"],
            matches=tuple(facts["matches"]),
            memory_bytes=facts["memory_mib"] * MIB,
            torch_memory_bytes=facts["torch_memory_mib"] * MIB,
            context_bytes=tuple(mib * MIB for mib in facts["context_mib"]),
            compute_capability=facts["compute_capability"],
            multiprocessors=facts["multiprocessors"],
            fp32_flops=facts["fp32_tflops"] * TERA,
            tf32_flops=facts["tf32_tflops"] * TERA,
            half_flops=facts["half_tflops"] * TERA,
            bytes_per_second=facts["bandwidth_gb_per_second"] * GIGA,
            host_link_bytes_per_second=facts["host_link_gb_per_second"] * GIGA,
            prices=tuple(prices.get(facts["id"], ())),
        )
        for facts in json.loads((folder / "gpus.json").read_text(encoding="utf-8"))
    )


def gpu_with_id(gpu_id: str | None) -> GpuEntry | None:
    """Returns the GPU with this id, or ``None``."""
    return next((gpu for gpu in all_gpus() if gpu.id == gpu_id), None)


def match_gpu(device_name: str) -> GpuEntry | None:
    """Returns the catalog's entry for a name from the driver, such as ``NVIDIA A100-SXM4-40GB``, or ``None``.

    Slices of a GPU (MIG, vGPU) and variants (laptop, export) do not match: their memory and prices differ.
    """
    if any(word in device_name.split() for word in ("MIG", "Laptop", "D")):
        return None
    for gpu in all_gpus():
        if any(re.search(rf"(?<!\w){re.escape(part)}(?![\w-])", device_name) for part in gpu.matches):
            return gpu
    return None


def find_gpu(name: str) -> GpuEntry:
    """Returns the GPU with this id or name, as drivers and shops write it; raises with suggestions if unknown."""
    wanted = name.strip().lower()
    by_name = {key.lower(): gpu for gpu in all_gpus() for key in (gpu.id, gpu.name, gpu.name.removeprefix("NVIDIA "))}
    found = (
        by_name.get(wanted)
        or match_gpu(name)
        or {letters(key): gpu for key, gpu in by_name.items()}.get(letters(wanted))
    )
    if found is not None:
        return found
    bare = wanted.removeprefix("nvidia").strip()
    more, less = bare.replace(" ", ""), bare.replace(" ", "-")
    near = [gpu.id for gpu in all_gpus() if (more and gpu.id.startswith(more)) or less.startswith(f"{gpu.id}-")]
    near = (near or nearest(bare, {key: gpu.id for key, gpu in by_name.items()}))[:MOST_NAMED]
    hint = did_you_mean(near) or "try a10, h100 or rtx4090. "
    raise UsageError(
        Message("unknown GPU {name}: {hint}{list.gpus} lists all.", name=shown(name), hint=hint),
        code="unknown_gpu",
        field="gpu",
        given=name,
        allowed=[gpu.id for gpu in all_gpus()],
        proposals=meant("gpu", near),
    )

"""The GPU catalog: memory, speed, and prices with provider and date."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from memorymark.checks.nearest import MOST_NAMED, did_you_mean, letters, nearest
from memorymark.checks.types import shown
from memorymark.documents import LEFT_OUT, Document, Record, in_document
from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import meant
from memorymark.units import GIGA, MIB, TERA

# The GPU of the published table: the one to predict for if the machine has no GPU and none is named.
DEFAULT_GPU = "a10"

# What is not given of GPUs whose speed is not predicted.
SPEEDS = (
    "fp32_tflops",
    "tf32_tflops",
    "half_tflops",
    "bandwidth_gb_per_second",
    "host_link_gb_per_second",
    "nvlink_gb_per_second",
    "boost_clock_mhz",
    "l2_cache_mib",
)
# Words of a driver's name that make it another GPU: slices, laptop and export variants, faster and slower versions.
VARIANTS = frozenset({"MIG", "Laptop", "D", "Ti", "SUPER", "Super", "Max-Q", "SFF"})

# The driver and torch differ by less than this about a GPU's memory.
SAME_MEMORY = 0.1


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
    datasheet, without sparsity and with sums in fp32, in operations and bytes per second, except
    ``host_link_bytes_per_second``: what copies from and to pinned memory of the host reach. They are 0 if only memory
    is predicted. ``power_watts`` is the board's limit; ``None`` if it is taken not to matter. ``inline_ecc`` says that
    its memory corrects errors by default and keeps what it needs for that beside the data. ``prices`` are oldest first.
    ``own`` is what a caller said of a GPU that is not in the catalog.
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
    boost_clock_mhz: float = field(metadata=LEFT_OUT)
    l2_cache_mib: float = field(metadata=LEFT_OUT)
    power_watts: float | None = field(metadata=LEFT_OUT)
    inline_ecc: bool = field(metadata=LEFT_OUT)
    fp32_flops: float = field(metadata=LEFT_OUT)
    tf32_flops: float = field(metadata=LEFT_OUT)
    half_flops: float = field(metadata=LEFT_OUT)
    bytes_per_second: float = field(metadata=LEFT_OUT)
    host_link_bytes_per_second: float = field(metadata=LEFT_OUT)
    nvlink_bytes_per_second: float = field(metadata=LEFT_OUT)
    segment: Literal["datacenter", "workstation", "desktop"]
    """Where such GPUs are used; groups lists."""
    memory_estimated: bool
    """Whether nobody published what torch sees of its memory, so that this is an estimate."""
    memory_only: bool
    """Whether only memory is predicted for it, not speed or cost."""
    prices: tuple[Price, ...]
    """Its prices, the oldest first."""
    own: dict[str, Any] | None = field(default=None, metadata=LEFT_OUT, compare=False)

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
    listed = json.loads((folder / "gpus.json").read_text(encoding="utf-8"))
    return tuple(entry_of(facts, tuple(prices.get(facts["id"], ()))) for facts in listed)


def entry_of(facts: dict[str, Any], prices: tuple[Price, ...], own: dict[str, Any] | None = None) -> GpuEntry:
    """Returns the entry that the fields of a GPU in the data file describe; ``own`` is what its owner gave of them."""
    memory_only = facts.get("memory_only", False)
    speeds = {name: 0 if memory_only else facts[name] for name in SPEEDS}
    return GpuEntry(
        id=facts["id"],
        name=facts["name"],
        matches=tuple(facts["matches"]),
        memory_bytes=facts["memory_mib"] * MIB,
        torch_memory_bytes=round(facts["torch_memory_mib"] * MIB),
        context_bytes=tuple(round(mib * MIB) for mib in facts["context_mib"]),
        compute_capability=facts["compute_capability"],
        multiprocessors=facts["multiprocessors"],
        boost_clock_mhz=speeds["boost_clock_mhz"],
        l2_cache_mib=speeds["l2_cache_mib"],
        power_watts=facts.get("power_watts"),
        inline_ecc=facts.get("inline_ecc", False),
        fp32_flops=speeds["fp32_tflops"] * TERA,
        tf32_flops=speeds["tf32_tflops"] * TERA,
        half_flops=speeds["half_tflops"] * TERA,
        bytes_per_second=speeds["bandwidth_gb_per_second"] * GIGA,
        host_link_bytes_per_second=speeds["host_link_gb_per_second"] * GIGA,
        nvlink_bytes_per_second=speeds["nvlink_gb_per_second"] * GIGA,
        segment=facts.get("segment", "desktop"),
        memory_estimated=facts.get("memory_estimated", False),
        memory_only=memory_only,
        prices=prices,
        own=own,
    )


def gpu_with_id(gpu_id: str | None) -> GpuEntry | None:
    """Returns the GPU with this id, or ``None``."""
    return next((gpu for gpu in all_gpus() if gpu.id == gpu_id), None)


def match_gpu(device_name: str, memory_bytes: int | None = None) -> GpuEntry | None:
    """Returns the catalog's entry for a name from the driver, such as ``NVIDIA A100-SXM4-40GB``, or ``None``.

    Of GPUs that share a name, it is the one with that memory; without ``memory_bytes``, none of them.
    Slices of a GPU (MIG, vGPU) and variants (laptop, export) do not match: their memory and prices differ.
    """
    named = [(part, gpu) for gpu in all_gpus() for part in gpu.matches if _names(part, device_name)]
    longest = max((len(part) for part, _ in named), default=0)
    found = [gpu for part, gpu in named if len(part) == longest]
    if len(found) > 1 and memory_bytes is not None:
        found = [gpu for gpu in found if abs(memory_bytes / gpu.memory_bytes - 1) < SAME_MEMORY]
    return found[0] if len(found) == 1 else None


def _names(part: str, device_name: str) -> bool:
    others = set(device_name.split()) - set(part.split())
    return not others & VARIANTS and re.search(rf"(?<!\w){re.escape(part)}(?![\w-])", device_name) is not None


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

"""The GPU catalog: memory, speed, and prices with provider and date."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.errors import UsageError
from memorymark.nearest import MOST_NAMED, did_you_mean, letters, nearest
from memorymark.type_checks import shown
from memorymark.units import GIGA, MIB, TERA


@dataclass(frozen=True)
class Price:
    """What one GPU costs for an hour, from whom and as of when."""

    usd_per_hour: float
    provider: str
    as_of: str | None = None
    note: str = ""

    def describe(self) -> str:
        """``$1.29/h, lambda, 2026-08-03``."""
        return ", ".join(part for part in (f"${self.usd_per_hour:.2f}/h", self.provider, self.as_of) if part)

    def to_dict(self) -> dict[str, Any]:
        """The price as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class GpuEntry:
    """One GPU model.

    ``memory_bytes`` is the total its driver reports, ``torch_memory_bytes`` what torch sees of it, ``context_bytes``
    what the CUDA context takes of that: the least, the usual and the most. Rates are those of the datasheet without
    sparsity, in operations and bytes a second; ``prices`` are oldest first.
    """

    id: str
    name: str
    matches: tuple[str, ...]
    memory_bytes: int
    torch_memory_bytes: int
    context_bytes: tuple[int, int, int]
    compute_capability: str
    multiprocessors: int
    fp32_flops: float
    tf32_flops: float
    half_flops: float
    bytes_per_second: float
    prices: tuple[Price, ...]

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability as numbers."""
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)

    @property
    def has_bf16(self) -> bool:
        """Whether it has units for bf16 and TF32, as from Ampere on."""
        return self.capability >= (8, 0)

    @property
    def usable_bytes(self) -> int:
        """What the caching allocator can take: what torch sees, less the usual context."""
        return self.torch_memory_bytes - self.context_bytes[1]

    @property
    def price(self) -> Price | None:
        """The price savings are computed with: the cheapest provider's latest, so that they err on the low side."""
        latest = {price.provider: price for price in self.prices}
        return min(latest.values(), key=lambda price: price.usd_per_hour, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON types; its memory is what programs see of it, as in every answer."""
        return {
            "id": self.id,
            "name": self.name,
            "memory_bytes": self.torch_memory_bytes,
            "compute_capability": self.compute_capability,
            "price": self.price.to_dict() if self.price else None,
            "prices": [price.to_dict() for price in self.prices],
        }


@cache
def all_gpus() -> tuple[GpuEntry, ...]:
    """Every GPU of the catalog."""
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
            prices=tuple(prices.get(facts["id"], ())),
        )
        for facts in json.loads((folder / "gpus.json").read_text(encoding="utf-8"))
    )


def match_gpu(device_name: str) -> GpuEntry | None:
    """The catalog's entry for a name as the driver gives it, such as ``NVIDIA A100-SXM4-40GB``.

    A slice of a GPU (MIG, vGPU) or a namesake (for laptops, for export) has another memory and another price.
    """
    if any(word in device_name.split() for word in ("MIG", "Laptop", "D")):
        return None
    for gpu in all_gpus():
        if any(re.search(rf"(?<!\w){re.escape(part)}(?![\w-])", device_name) for part in gpu.matches):
            return gpu
    return None


def find_gpu(name: str) -> GpuEntry:
    """The GPU called ``name``: its id, or its name as the driver or a shop gives it."""
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
    near = near or nearest(bare, {key: gpu.id for key, gpu in by_name.items()})
    hint = did_you_mean(near[:MOST_NAMED]) or "try a10, h100 or rtx4090. "
    raise UsageError(f"unknown GPU {shown(name)}: {hint}`memorymark gpus` lists all.")

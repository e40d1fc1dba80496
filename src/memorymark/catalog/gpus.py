"""The GPU catalog: memory, compute capability, and prices with provider and date."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from memorymark.units import MIB


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
    """One GPU model. ``memory_bytes`` is the total its driver reports; ``prices`` are oldest first."""

    id: str
    name: str
    matches: tuple[str, ...]
    memory_bytes: int
    compute_capability: str
    prices: tuple[Price, ...]

    @property
    def price(self) -> Price | None:
        """The price savings are computed with: the cheapest provider's latest, so that they err on the low side."""
        latest = {price.provider: price for price in self.prices}
        return min(latest.values(), key=lambda price: price.usd_per_hour, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON types."""
        return {
            "id": self.id,
            "name": self.name,
            "memory_bytes": self.memory_bytes,
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
            compute_capability=facts["compute_capability"],
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

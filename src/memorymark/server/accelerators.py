"""The GPUs that the service's jobs can be measured on: those of its machine, or of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memorymark.catalog import match_gpu
from memorymark.cluster.nodes import ClusterGpu
from memorymark.devices import nvml
from memorymark.units import gib


@dataclass(frozen=True)
class ServedGpu:
    """A GPU: its name, its id in the catalog if it is in it, its memory, and the host of a cluster that has it."""

    name: str
    gpu: str | None
    total_bytes: int | None
    host: str | None = None


@dataclass(frozen=True)
class Accelerators:
    """What torch can use where the workers run: ``cuda``, ``mps`` or ``cpu``; and the GPUs, if they are CUDA's."""

    kind: str
    gpus: tuple[ServedGpu, ...] = ()

    @classmethod
    def of_this_machine(cls, kind: str) -> Accelerators:
        """Asks this machine's driver."""
        states = nvml.gpus() if kind == "cuda" else []
        found = [(state, match_gpu(state.name)) for state in states]
        return cls(kind, tuple(ServedGpu(s.name, entry.id if entry else None, s.total_bytes) for s, entry in found))

    @classmethod
    def of_cluster(cls, gpus: Sequence[ClusterGpu]) -> Accelerators:
        """Takes what the nodes of a cluster have told."""
        served = tuple(ServedGpu(one.name, one.gpu, one.total_bytes, one.host) for one in gpus)
        return cls("cuda" if gpus else "cpu", served)

    @property
    def ids(self) -> set[str]:
        """Their ids in the catalog."""
        return {one.gpu for one in self.gpus if one.gpu is not None}

    def facts(self) -> dict[str, Any]:
        """Returns what GET /health tells of them."""
        first = self.gpus[0] if self.gpus else None
        return {
            "gpu_available": self.kind != "cpu",
            "gpu_name": first.name if first else None,
            "gpu_memory_total_gb": gib(first.total_bytes) if first and first.total_bytes else None,
            "device": self.kind,
            "gpus": [
                {
                    "device": f"cuda:{index}",
                    "name": one.name,
                    "gpu": one.gpu,
                    "host": one.host,
                    "memory_total_gb": gib(one.total_bytes) if one.total_bytes else None,
                }
                for index, one in enumerate(self.gpus)
            ],
        }


NO_GPU = Accelerators("cpu")

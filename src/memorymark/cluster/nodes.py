"""The nodes of a Ray cluster and the GPUs in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memorymark.catalog import GpuEntry, all_gpus, match_gpu
from memorymark.devices import nvml

ASK_SECONDS = 60.0
ACCELERATOR = "accelerator_type:"
GPU, CPU = "GPU", "CPU"


@dataclass(frozen=True)
class ClusterGpu:
    """One GPU of a cluster: its node, its name, and its id in the catalog, if it is in it."""

    node: str
    host: str
    name: str
    gpu: str | None
    total_bytes: int | None = None


def alive(ray: Any) -> dict[str, dict[str, float]]:
    """Returns the resources of each node that is alive, by its id."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def processors(ray: Any) -> int:
    """Returns how many CPUs the nodes offer together."""
    return int(sum(resources.get(CPU, 0) for resources in alive(ray).values()))


def cluster_gpus(ray: Any) -> list[ClusterGpu]:
    """Asks every node with GPUs which ones it has; takes Ray's word where the driver does not tell."""
    hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
    with_gpus = {node: resources for node, resources in alive(ray).items() if resources.get(GPU, 0) >= 1}
    asked = {node: _names_on(ray, node) for node in with_gpus}
    answered, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=ASK_SECONDS) if asked else ([], [])
    found: list[ClusterGpu] = []
    for node, resources in with_gpus.items():
        told = _told(ray, asked[node]) if asked[node] in answered else []
        count = int(resources[GPU])
        told = told[:count] or [(_ray_name(resources), None)] * count
        found += [ClusterGpu(node, hosts[node], name, _catalog_id(name), size) for name, size in told]
    return found


def _told(ray: Any, asked: Any) -> list[tuple[str, int | None]]:
    try:
        told: list[tuple[str, int | None]] = ray.get(asked)
    except ray.exceptions.RayError:  # the node went, or has no MemoryMark
        return []
    return told


def _names_on(ray: Any, node: str) -> Any:
    return on_node(ray, node, ray.remote(num_cpus=0, max_retries=0)(gpus_of_node)).remote()


def gpus_of_node() -> list[tuple[str, int | None]]:
    """Returns the names and sizes of the GPUs of the machine that this runs on."""
    return [(state.name, state.total_bytes) for state in nvml.gpus()]


def on_node(ray: Any, node: str, function: Any, **options: Any) -> Any:
    """Binds a remote function or actor to a node."""
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return function.options(scheduling_strategy=strategy, **options)


def _ray_name(resources: dict[str, float]) -> str:
    """Returns the kind of GPU that Ray found on a node, or was told of."""
    kinds = [name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR)]
    return kinds[0] if kinds else "GPU"


def _catalog_id(name: str) -> str | None:
    """Returns the catalog's id for a driver's name, or for the short one of Ray if that means one GPU only."""
    entry = match_gpu(name)
    if entry is not None:
        return entry.id
    meant = _called(name.lower(), all_gpus())
    return meant[0].id if len(meant) == 1 else None


def _called(short: str, entries: Sequence[GpuEntry]) -> list[GpuEntry]:
    return [entry for entry in entries if entry.id == short or entry.id.startswith(f"{short}-")]

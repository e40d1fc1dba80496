"""Lanes whose workers run on the nodes of a Ray cluster, each job on a node that has what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from memorymark.cluster.connecting import connected
from memorymark.cluster.nodes import ClusterGpu, cluster_gpus
from memorymark.cluster.workers import ClusterWorker
from memorymark.server.lane import Lane
from memorymark.server.settings import Settings
from memorymark.server.warm_workers import WarmWorkers
from memorymark.worker.confinement import Confinement

# What the only GPU that Ray shows to a worker is called there.
ITS_GPU = "cuda:0"


@dataclass(frozen=True)
class Cluster:
    """A connected cluster, and its GPUs when the service started."""

    ray: Any
    gpus: tuple[ClusterGpu, ...]

    @classmethod
    def at(cls, address: str | None) -> Cluster:
        """Connects, and asks the nodes for their GPUs."""
        ray = connected(address)
        return cls(ray, tuple(cluster_gpus(ray)))

    def on_cpu(self, confinement: Confinement | None) -> ClusterWorker:
        """Starts a worker on any node."""
        return ClusterWorker(self.ray, confinement)

    def on_node(self, node: str, confinement: Confinement | None) -> ClusterWorker:
        """Starts a worker with a GPU of a node."""
        return ClusterWorker(self.ray, confinement, node=node)


def cluster_lanes(settings: Settings, first: WarmWorkers, cluster: Cluster) -> Iterator[Lane]:
    """Yields the lanes that predict, and one for each GPU of the cluster."""
    for number in range(settings.prediction_workers):
        predicting = WarmWorkers(reuse=True, confinement=settings.confinement(), new=cluster.on_cpu)
        yield Lane(f"prediction-{number}", first if number == 0 else predicting)
    for index, gpu in enumerate(cluster.gpus):
        device, start = f"cuda:{index}", partial(cluster.on_node, gpu.node)
        workers = WarmWorkers(reuse=False, confinement=settings.confinement(device), new=start)
        yield Lane(f"gpu-{index}", workers, device, called=ITS_GPU)

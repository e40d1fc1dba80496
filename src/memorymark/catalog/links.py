"""What GPUs talk to each other over: the links that machines with a kind of GPU usually have.

Bandwidths are those of one GPU in one direction, from datasheets. A GPU is sold in machines with other links too, so
these are assumptions, named wherever they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.catalog.gpus import GpuEntry
from memorymark.units import GIGA

BITS = 8
PCI_EXPRESS = {12: "PCI Express 3", 24: "PCI Express 4", 50: "PCI Express 5"}


@dataclass(frozen=True)
class Link:
    """A link by name; ``bytes_per_second`` are those of one GPU in one direction, ``latency_seconds`` of a message."""

    name: str
    bytes_per_second: float
    latency_seconds: float


NVLINK = {
    "v100-16gb": Link("NVLink 2", 150 * GIGA, 10e-6),
    "v100-32gb": Link("NVLink 2", 150 * GIGA, 10e-6),
    "a100-40gb": Link("NVLink 3", 300 * GIGA, 10e-6),
    "a100-80gb": Link("NVLink 3", 300 * GIGA, 10e-6),
    "h100": Link("NVLink 4", 450 * GIGA, 10e-6),
    "h200": Link("NVLink 4", 450 * GIGA, 10e-6),
    "b200": Link("NVLink 5", 900 * GIGA, 10e-6),
}
# One adapter for each GPU, as in the makers' own machines.
INFINIBAND = {
    "a100-40gb": Link("InfiniBand 200 Gb/s", 200 / BITS * GIGA, 25e-6),
    "a100-80gb": Link("InfiniBand 200 Gb/s", 200 / BITS * GIGA, 25e-6),
    "h100": Link("InfiniBand 400 Gb/s", 400 / BITS * GIGA, 25e-6),
    "h200": Link("InfiniBand 400 Gb/s", 400 / BITS * GIGA, 25e-6),
    "b200": Link("InfiniBand 400 Gb/s", 400 / BITS * GIGA, 25e-6),
}
ETHERNET_BITS_PER_SECOND = 100 * GIGA
ETHERNET_SECONDS = 50e-6


def link_within(gpu: GpuEntry) -> Link:
    """Returns the link between GPUs of this kind in one machine: NVLink, or through the host."""
    gigabytes = gpu.host_link_bytes_per_second / GIGA
    through_host = Link(PCI_EXPRESS.get(round(gigabytes), "PCI Express"), gpu.host_link_bytes_per_second / 2, 20e-6)
    return NVLINK.get(gpu.id, through_host)


def link_between(gpu: GpuEntry, gpus_per_node: int) -> Link:
    """Returns the link between machines: an adapter for each GPU, or Ethernet that the GPUs of a machine share."""
    shared = ETHERNET_BITS_PER_SECOND / BITS / gpus_per_node
    return INFINIBAND.get(gpu.id, Link("Ethernet 100 Gb/s for each machine", shared, ETHERNET_SECONDS))

"""``memorymark gpus``: lists the GPU catalog."""

from __future__ import annotations

from memorymark.catalog import all_gpus
from memorymark.catalog.listings import gpu_catalog
from memorymark.cli import options as o
from memorymark.devices.machine import gpus_here


def gpus(as_json: o.Json = False) -> None:
    """List the GPUs known by name, with memory and prices, and mark those in this machine."""
    from memorymark.render.json import print_json
    from memorymark.render.terminal import print_gpus

    here = gpus_here()
    if as_json:
        print_json(gpu_catalog(here).to_dict())
    else:
        print_gpus(all_gpus(), here)

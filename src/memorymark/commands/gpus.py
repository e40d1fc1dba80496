"""``memorymark gpus``: the GPU catalog, and which are here."""

from __future__ import annotations

from memorymark.catalog import all_gpus
from memorymark.commands import options as o
from memorymark.machine import gpus_here


def gpus(as_json: o.Json = False) -> None:
    """List the GPUs known by name, with memory and prices, and mark those in this machine."""
    from memorymark.render.json import print_json
    from memorymark.render.terminal import print_gpus

    here = gpus_here()
    if as_json:
        print_json({"gpus": [{**entry.to_dict(), "here": entry.id in here} for entry in all_gpus()]})
    else:
        print_gpus(all_gpus(), here)

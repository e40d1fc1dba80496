"""Records the allocator's history of whole trainings: requests, frees, and what its counters said on the way.

What is written has the form of tests/data/h200_histories.json.gz, which the models of the allocator are held against.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch

import memorymark as mm
from cases import CAP_GIB, fresh
from memorymark.devices import open_device
from memorymark.devices.allocator_settings import AllocatorKind
from memorymark.devices.cuda import CudaDevice
from memorymark.largest_batch import find_maximum
from memorymark.probe.measured import MeasuredProbe
from memorymark.units import GIB
from zoo import WORKLOADS, recipe

PAIRS = [
    ("bert", "fp32"),
    ("bert", "bf16"),
    ("gpt2", "fp32"),
    ("resnet", "fp32"),
    ("resnet", "bf16"),
    ("bart", "bf16"),
    ("llama", "bf16"),
    ("unet", "fp32"),
]
SIZES = (16, 64)
"""Besides the largest batch that fits under the cap and the one after it."""


class History:
    """What an allocator was asked for: a size for a request, ``-1 - n`` for the free of request n.

    ``["failed", size]`` is a request that ran out of memory, and somebody lived with that.
    """

    def __init__(self) -> None:
        self.actions: list[Any] = []
        self.segment_addresses: list[int] = []
        self._numbers: dict[int, int] = {}
        self._requests = self._read = 0

    def catch_up(self, entries: list[dict[str, Any]]) -> None:
        """Adds what the allocator's own history has more than the last time."""
        for entry in entries[self._read :]:
            action, address, size = entry["action"], entry.get("addr", 0), entry["size"]
            if action == "alloc":
                self._numbers[address] = self._requests
                self._requests += 1
                self.actions.append(size)
            elif action == "free_requested" and address in self._numbers:
                self.actions.append(-1 - self._numbers.pop(address))
            elif action == "segment_alloc":
                self.segment_addresses.append(address)
            elif action == "oom":
                self.actions.append(["failed", size])
        self._read = len(entries)


class HistoryDevice(CudaDevice):
    """A GPU that writes its allocator's history, from before the first request on.

    Whenever the peaks are reset, at the end of each phase of a step, it notes what the counters said until then.
    """

    def __init__(self, index: int, cap_bytes: int | None) -> None:
        super().__init__(index)
        if cap_bytes is not None:
            self.cap(cap_bytes)
        self.history, self.batch_size = History(), 0
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=sys.maxsize)

    def reset(self) -> None:
        self._catch_up()
        torch.cuda.empty_cache()
        self.history.actions.append(["empty"])
        self.reset_peaks()

    def reset_peaks(self) -> None:
        self._catch_up()
        now = self.reading()
        facts = {
            "batch": self.batch_size,
            "peak_allocated": now.peak_allocated_bytes,
            "peak_reserved": now.peak_reserved_bytes,
            "allocated": now.allocated_bytes,
            "reserved": now.reserved_bytes,
            "retries": now.allocator_retries,
        }
        super().reset_peaks()
        self.history.actions += [["mark", facts], ["reset"]]

    def _catch_up(self) -> None:
        traces = torch.cuda.memory._snapshot(self.torch_device)["device_traces"]
        self.history.catch_up(traces[self.torch_device.index])


def record(kind: AllocatorKind, workload: str, recipe_name: str, cap_bytes: int | None, sizes: list[int]) -> Any:
    """The history of a training that runs two steps at each of these sizes."""
    device = HistoryDevice(0, cap_bytes)
    probe = MeasuredProbe(WORKLOADS[workload](), recipe(recipe_name), device, allocator=kind)
    probe._recording = False  # the probe's own recording would end this one
    for device.batch_size in sizes:
        probe.try_batch(device.batch_size)
    history = device.history
    return {
        "model": workload,
        "recipe": recipe_name,
        "capacity_bytes": cap_bytes,
        "segment_addresses": history.segment_addresses,
        "actions": history.actions,
    }


def largest(kind: AllocatorKind, workload: str, recipe_name: str, cap_bytes: int) -> dict[str, int]:
    device = open_device(mm.Target(device="cuda", memory_cap_bytes=cap_bytes))
    probe = MeasuredProbe(WORKLOADS[workload](), recipe(recipe_name), device, allocator=kind)
    return {"maximum": find_maximum(probe.try_batch, probe.info.capacity_bytes, guide=probe).maximum}


def record_all(folder: Path, kind: AllocatorKind, pairs: list[tuple[str, str]]) -> None:
    """Each pair in processes of its own: up to the largest batch under the cap and the one that fails, and uncapped."""
    histories, cap_bytes = [], int(CAP_GIB * GIB)
    for workload, recipe_name in pairs:
        found = fresh(largest, kind, workload, recipe_name, cap_bytes)
        if "error" in found:
            print(workload, recipe_name, found["error"], flush=True)
            continue
        maximum = found["maximum"]
        sizes = [size for size in SIZES if size < maximum]
        for cap, tried in ((cap_bytes, [*sizes, maximum, maximum + 1]), (None, sizes)):
            answer = fresh(record, kind, workload, recipe_name, cap, tried)
            print(workload, recipe_name, cap, tried, answer.get("error", ""), flush=True)
            histories += [answer] if "error" not in answer else []
        name = "h200_histories.json.gz" if kind == "default" else f"h200_histories_{kind}.json.gz"
        (folder / name).write_bytes(gzip.compress(json.dumps(histories).encode(), mtime=0))

"""The allocator histories recorded on a GPU, how to run them through the model, and the maxima found there."""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from memorymark.devices.allocations import Trace
from memorymark.devices.segments import Segment
from memorymark.prediction.memory.allocator import CachingAllocator, OutOfMemory
from memorymark.prediction.memory.growing_step import RecordedStep
from memorymark.units import GIB

# Reductions on an H200 take no more scratch space than this: 132 multiprocessors of 2048 threads.
SCRATCH_LIMIT_BYTES = 132 * 2048 * 512
CONVOLVING = {"resnet", "unet", "efficientnet", "wav2vec2", "vit"}
DATA = Path(__file__).parents[1] / "data"
CAP_BYTES = int(21.7 * GIB)
# What other searches found on the same GPU under that cap, and how far apart they were; ResNet's edge moves with the
# scratch space of cuDNN.
TRUE_MAXIMA = {
    ("bert", "fp32"): (266, 1),
    ("bert", "bf16"): (410, 0),
    ("gpt2", "fp32"): (144, 0),
    ("resnet", "fp32"): (261, 1),
    ("resnet", "bf16"): (509, 2),
}


@dataclass(frozen=True)
class History:
    model: str
    recipe: str
    capacity_bytes: int | None
    segment_addresses: list[int]
    actions: list

    def __str__(self):
        return f"{self.model}-{self.recipe}-{'capped' if self.capacity_bytes else 'uncapped'}"


@cache
def histories(name="h200_histories"):
    text = gzip.decompress((DATA / f"{name}.json.gz").read_bytes())
    return [History(**facts) for facts in json.loads(text)]


def expandable_histories():
    """Those with expandable segments, once ``benchmarks/record_truth.py histories`` has run on a GPU."""
    name = "h200_histories_expandable"
    return histories(name) if (DATA / f"{name}.json.gz").exists() else []


def replay(history, on_mark, allocator=None):
    """Runs a history through the model; ``on_mark(allocator, recorded, blocks)`` sees each comparison point."""
    allocator = allocator or CachingAllocator(history.capacity_bytes, history.segment_addresses)
    blocks, number = {}, 0
    for action in history.actions:
        if isinstance(action, int):
            if action > 0:
                blocks[number] = allocator.allocate(action)
                number += 1
            else:
                allocator.free(blocks.pop(-1 - action))
        elif action[0] == "empty":
            allocator.empty_cache()
        elif action[0] == "reset":
            allocator.reset_peaks()
        elif action[0] == "failed":
            with pytest.raises(OutOfMemory):
                allocator.allocate(action[1])
        else:
            on_mark(allocator, action[1], blocks)
    return allocator


def last_steps(history):
    """For each batch size after the first, the second of its two steps."""
    numbered, number, trials = [], 0, [[]]
    for action in history.actions:
        if not isinstance(action, int):
            trials += [[]] if action[0] == "mark" else []
            continue
        trials[-1].append((number, action) if action > 0 else (-1 - action, None))
        numbered += [action] if action > 0 else []
        number += action > 0
    sizes = [action[1]["batch"] for action in history.actions if isinstance(action, list) and action[0] == "mark"]
    recordings = []
    for batch_size, events in list(zip(sizes, trials, strict=False))[1:]:
        events = events[2:]  # the mark itself
        second = events[len(events) // 2 :]
        trace = Trace(events=[(key, size if size else -numbered[key]) for key, size in second])
        recordings.append(RecordedStep(batch_size, trace, history.model in CONVOLVING, SCRATCH_LIMIT_BYTES))
    return recordings


def resting_segments(history):
    """The allocator's layout between the trials: weights and optimizer state, and the holes beside them."""
    found = []

    def look(allocator, _, blocks):
        if found:
            return
        heads = {}
        for block in blocks.values():
            while block.before is not None:
                block = block.before
            heads[block.address] = block
        for head in heads.values():
            parts, block = [], head
            while block is not None:
                parts.append((block.size, not block.free))
                block = block.after
            found.append(Segment(head.address, head.small, tuple(parts)))

    replay(history, look)
    return found


@dataclass(frozen=True)
class Search:
    """The first two trials of a search, the allocator's layout before the second, and the largest batch it found."""

    workload: str
    recipe: str
    smaller: RecordedStep
    larger: RecordedStep
    segments: list[Segment]
    maximum: int

    def __str__(self):
        return f"{self.workload}-{self.recipe}"


@cache
def searches():
    text = gzip.decompress((DATA / "h200_forecasts.json.gz").read_bytes())
    return [
        Search(
            facts["workload"],
            facts["recipe"],
            *(recording(**recorded, convolves=facts["workload"] in CONVOLVING) for recorded in facts["recordings"]),
            [Segment(address, small, tuple(map(tuple, blocks))) for address, small, blocks in facts["segments"]],
            facts["maximum"],
        )
        for facts in json.loads(text)
    ]


def recording(batch_size, actions, convolves):
    """Requests as sizes, frees as -1 - the number of the request."""
    sizes = [action for action in actions if action > 0]
    number, events = 0, []
    for action in actions:
        events.append((number, action) if action > 0 else (-1 - action, -sizes[-1 - action]))
        number += action > 0
    return RecordedStep(batch_size, Trace(events=events), convolves, SCRATCH_LIMIT_BYTES)

"""The allocator histories recorded on a GPU, and how to run them through the model."""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from memorymark.prediction.allocator import CachingAllocator, Segment
from memorymark.prediction.growing_step import Recording
from memorymark.trace import Trace

# Reductions on an H200 take no more scratch space than this: 132 multiprocessors of 2048 threads.
SCRATCH_LIMIT_BYTES = 132 * 2048 * 512
CONVOLVING = {"resnet", "unet", "efficientnet", "wav2vec2", "vit"}
DATA = Path(__file__).parent / "data"


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
def histories():
    text = gzip.decompress((DATA / "h200_histories.json.gz").read_bytes())
    return [History(**facts) for facts in json.loads(text)]


def replay(history, on_mark):
    """Runs a history through the model; ``on_mark(allocator, recorded, blocks)`` sees each comparison point."""
    allocator = CachingAllocator(history.capacity_bytes, history.segment_addresses)
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
        recordings.append(Recording(batch_size, trace, history.model in CONVOLVING, SCRATCH_LIMIT_BYTES))
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
    smaller: Recording
    larger: Recording
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
    return Recording(batch_size, Trace(events=events), convolves, SCRATCH_LIMIT_BYTES)

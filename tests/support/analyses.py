"""Analyses made by hand, to look at what is said of odd results."""

from dataclasses import replace

from memorymark.catalog import find_gpu
from memorymark.question.request import Request
from memorymark.question.usage import Usage
from memorymark.results.analysis import Analysis
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.results.uncertainty import trial_intervals
from memorymark.units import GIB

REQUEST = Request(model="bert")


def analysis(
    gpu,
    speeds,
    *,
    today=16,
    base=0.3,
    top=0.98,
    source="predicted",
    limited_by="memory",
    unknown=(),
    margin=0.05,
    weights_dtype="fp32",
):
    """Speeds by batch size, the largest of which takes the ``top`` of a GPU's memory, and none at all the ``base``."""
    entry, largest = find_gpu(gpu), max(speeds)
    capacity = entry.usable_bytes
    failing = {largest + 1, *({today} if today > largest else ())} if limited_by != "caller" else set()
    trials = [Trial(batch_size=n, fits=False, source=source, failure=Failure(limited_by, "no")) for n in failing]
    for size, speed in speeds.items():
        peak = int(capacity * (base + (top - base) * size / largest))
        trial = Trial(
            batch_size=size,
            fits=True,
            source=source,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            resting_bytes=int(capacity * base),
            device_bytes=peak + GIB,
            samples_per_second=speed,
            step_seconds=size / speed,
            step_seconds_spread=0.01 if source == "measured" else None,
        )
        if source == "predicted":
            about = trial_intervals(trial, entry, certain=not unknown, timed=not unknown, capacity_bytes=capacity)
            trial = replace(trial, intervals=about)
        trials.append(trial)
    return Analysis(
        request=REQUEST,
        info=ProbeInfo(
            device_kind="cuda",
            device_name=entry.name,
            gpu_id=entry.id,
            total_bytes=entry.torch_memory_bytes,
            capacity_bytes=capacity,
            capped=False,
            parameters=1,
            source=source,
            unknown_operations=unknown,
            weights_dtype=weights_dtype,
        ),
        trials=trials,
        max_batch_size=largest,
        current_batch_size=today,
        margin=margin,
        usage=Usage(),
        price=entry.price,
    )

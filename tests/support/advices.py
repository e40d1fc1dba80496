"""Advice made by hand, to look at what it says of its numbers."""

import memorymark as mm
from memorymark.catalog import Price
from memorymark.question.usage import Usage
from memorymark.results.advice import Advice
from memorymark.results.option import TrainingOption
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Trial
from memorymark.units import GIB

INFO = ProbeInfo(
    device_kind="cuda", device_name="NVIDIA H200", gpu_id="h200", total_bytes=140 * GIB, capacity_bytes=139 * GIB,
    capped=False, parameters=1000, source="predicted", sample="128 tokens", sample_sizes={"tokens": 128},
)  # fmt: skip
FP32, BF16 = mm.Recipe(), mm.Recipe(precision="bf16")


def trial(speed, batch_size=16, source="predicted"):
    return Trial(
        batch_size=batch_size, fits=True, source=source, peak_allocated_bytes=GIB, device_bytes=2 * GIB,
        samples_per_second=speed,
    )  # fmt: skip


def option(changes, speed, batch_size=64, *, measured=None, recipe=BF16, steps=1):
    return TrainingOption(
        changes=changes,
        recipe=recipe,
        batch_size=batch_size,
        accumulation_steps=steps,
        max_batch_size=100,
        predicted=trial(speed, batch_size) if speed else None,
        measured=trial(measured, batch_size, "measured") if measured else None,
    )


def advice(*options, predicted=100.0, measured=None, **fields):
    given = {
        "request": mm.Request(model="bert"),
        "info": INFO,
        "current_batch_size": 16,
        "margin": 0.05,
        "usage": Usage(),
        "price": Price(3.6, "somebody"),
    }
    return Advice(
        **{**given, **fields},
        options=options,
        predicted=trial(predicted) if predicted else None,
        measured=trial(measured, source="measured") if measured else None,
    )

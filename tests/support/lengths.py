"""A training at three lengths."""

from dataclasses import replace

import memorymark as mm
from memorymark.question.usage import Usage
from memorymark.results.analysis import Analysis
from memorymark.results.lengths import Sweep
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.units import GIB

REQUEST = mm.Request(model="bert")


def analysis(seq_len, speeds, maximum):
    """An analysis with a speed by batch size; the largest batch of them keeps the margin."""
    timed = [
        Trial(batch_size=size, fits=True, peak_reserved_bytes=GIB, samples_per_second=speed)
        for size, speed in speeds.items()
    ]
    failed = Trial(batch_size=maximum + 1, fits=False, failure=Failure("memory", "no", GIB, 0))
    return Analysis(
        request=replace(REQUEST, seq_len=seq_len),
        info=ProbeInfo(
            device_kind="cuda", device_name="NVIDIA Z9000", total_bytes=24 * GIB, capacity_bytes=23 * GIB, capped=False,
            parameters=1, sample=f"{seq_len} tokens",
        ),
        trials=[failed, *timed],
        max_batch_size=maximum,
        current_batch_size=16,
        margin=0.05,
        usage=Usage(),
        price=None,
    )  # fmt: skip


SHORT = analysis(128, {8: 100.0, 64: 400.0}, 64)


MIDDLE = analysis(256, {8: 90.0, 32: 180.0}, 32)


LONG = analysis(512, {8: 50.0}, 8)


SWEEP = Sweep(REQUEST, (128, 256, 512), {128: SHORT, 256: MIDDLE, 512: LONG})

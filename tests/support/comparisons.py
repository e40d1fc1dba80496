"""Comparisons of GPUs by their speeds."""

from memorymark.catalog import find_gpu
from memorymark.question.request import Request
from memorymark.question.usage import Usage
from memorymark.results.analysis import Analysis
from memorymark.results.comparison import Comparison
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.trial import Failure, Trial
from memorymark.units import GIB

REQUEST = Request(model="bert")


def analysis(gpu, speed, maximum=64, margin=0.05):
    """A prediction for a GPU on which half of the maximum is as fast as the maximum, and so recommended."""
    entry = find_gpu(gpu)
    capacity = entry.torch_memory_bytes - entry.context_bytes[1]
    timed = [
        Trial(
            batch_size=size,
            fits=True,
            source="predicted",
            peak_allocated_bytes=capacity * size // (2 * maximum),
            peak_reserved_bytes=capacity * size // (2 * maximum),
            samples_per_second=speed,
        )
        for size in (maximum, maximum // 2)
    ]
    failed = Trial(batch_size=maximum + 1, fits=False, source="predicted", failure=Failure("memory", "no", GIB, 0))
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
            source="predicted",
        ),
        trials=[failed, *timed],
        max_batch_size=maximum,
        current_batch_size=16,
        margin=margin,
        usage=Usage(),
        price=entry.price,
    )


def comparison(**speeds):
    """Predicted speeds by GPU, with _ for a hyphen; on the others it does not fit."""
    ids = {name.replace("_", "-"): speed for name, speed in speeds.items()}
    return Comparison(REQUEST, {gpu: analysis(gpu, speed) for gpu, speed in ids.items()})

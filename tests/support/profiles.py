"""Profiles of GPUs that do not exist: what is timed takes as long as the rules say, times a known factor."""

from dataclasses import replace

from memorymark.catalog import find_gpu
from memorymark.prediction.calibration.correction import by_rules
from memorymark.prediction.calibration.likeness import traits_of
from memorymark.prediction.calibration.written import read_operation
from memorymark.prediction.timing.roofline import KERNEL_GAP_SECONDS
from memorymark.profiles.profile import Profile, TimedOperation
from memorymark.profiles.stored import find_profile

SHIPPED = find_profile("h200")
HOST_SECONDS = 1e-6


def invented(gpu_id, factor, *, operations=None, rules=by_rules, **facts):
    """A profile whose operations take ``factor(traits)`` times as long as the rules say."""
    gpu = find_gpu(gpu_id)
    timed = [_timed(one, gpu, factor, rules) for one in operations or SHIPPED.operations]
    known = {"gpu_id": gpu.id, "gpu_name": gpu.name, "driver": "1", "torch": "2.13.0", "cuda": "13.0"}
    return Profile(**{**known, "date": "2026-01-01", "operations": timed, **facts})


def _timed(one, gpu, factor, rules):
    tf32, runs = one.case.get("type") == "tf32", [read_operation(run) for run in one.runs]
    seconds = sum(KERNEL_GAP_SECONDS + _work(op, gpu, factor, rules, tf32) for op in runs)
    return TimedOperation(one.case, one.runs, seconds, HOST_SECONDS)


def _work(op, gpu, factor, rules, tf32):
    work = rules(op, gpu, tf32) - KERNEL_GAP_SECONDS
    return work * factor(traits_of(op, gpu, work, tf32=tf32))


def without_host_waits(profile):
    """The operations of a profile that count."""
    return [one for one in profile.operations if not one.waited_for_host]


def renamed(profile, gpu_id):
    """The same profile, as if it were another GPU's."""
    return replace(profile, gpu_id=gpu_id, gpu_name=find_gpu(gpu_id).name)

"""This host's GPUs, by a driver that says what it is told to."""

import os
import sys
from types import SimpleNamespace

import pytest

from memorymark.errors import UsageError
from memorymark.fleet.ranking import rank
from memorymark.fleet.sources import nvml
from memorymark.units import GIB


class DriverError(Exception):
    """What the driver raises."""


def refuses(*_):
    raise DriverError


@pytest.fixture
def driver(monkeypatch):
    """One GPU that this process holds and does nothing on, one busy with a process that cannot be seen, one free."""
    running = [[SimpleNamespace(pid=os.getpid(), usedGpuMemory=3 * GIB)], [], []]
    made = SimpleNamespace(
        NVMLError=DriverError,
        nvmlInit=int,
        nvmlShutdown=int,
        nvmlDeviceGetCount=lambda: 3,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda _: "NVIDIA A100-SXM4-80GB",
        nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(total=80 * GIB, used=(4, 60, 0)[index] * GIB),
        nvmlDeviceGetUtilizationRates=lambda index: SimpleNamespace(gpu=(0, 95, 0)[index]),
        nvmlDeviceGetComputeRunningProcesses=lambda index: running[index],
    )
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def sampled():
    return nvml.sampled(interval_seconds=0)


def test_who_holds_a_gpu_is_seen_without_slurm(driver):
    holds, gpus, free_seconds = sampled()
    mine, hidden = holds

    assert (gpus, free_seconds) == (3, pytest.approx(10.0))
    assert (mine.holder.kind, mine.holder.id) == ("process", str(os.getpid()))
    assert mine.holder.name
    assert mine.used_bytes == 3 * GIB
    assert 0 < mine.age_seconds < 7 * 86_400
    assert (hidden.holder.kind, hidden.used_bytes, hidden.age_seconds) == ("gpu", 60 * GIB, None)


def test_a_process_that_does_nothing_is_idle_once_it_is_old_enough(driver, monkeypatch):
    from memorymark.fleet import judging

    monkeypatch.setattr(judging, "YOUNG_SECONDS", 0.0)
    found = {job.holder: job for job in rank(sampled()[0])}

    assert (found["process"].verdict, found["gpu"].verdict) == ("idle", "fine")
    assert found["process"].wasted_gpu_hours_a_day == pytest.approx(24)


def test_a_gpu_that_tells_nothing_is_left_out(driver):
    driver.nvmlDeviceGetUtilizationRates = refuses

    assert sampled()[:2] == ([], 0)


def test_without_a_driver_it_says_what_to_do(driver):
    driver.nvmlInit = refuses

    with pytest.raises(UsageError, match="no NVIDIA driver answers") as refused:
        sampled()
    assert refused.value.code == "no_device"

"""Which findings what one GPU did leads to, and how much of it is wasted."""

from dataclasses import replace

import pytest

from memorymark.catalog import gpu_with_id
from memorymark.fleet.judging import findings
from memorymark.fleet.smaller import known_gpu
from memorymark.units import GIB, MIB
from support.fleet_holds import A100, H100, HOUR, hold


def kinds(seen):
    return [found.kind for found in findings(seen)]


def test_a_busy_gpu_with_its_memory_in_use_is_fine():
    assert kinds(hold(0.95, 0.93, 0.97)) == []


def test_a_gpu_that_does_nothing_is_idle_for_all_its_time():
    [found] = findings(hold(0.0, 0.01, 0.0))

    assert (found.kind, found.wasted_seconds) == ("idle", pytest.approx(3 * HOUR, rel=0.01))


def test_a_job_that_stopped_working_is_idle_from_then_on():
    [found] = findings(hold(0.9, 0.9, 0.0, 0.0, 0.0))

    assert (found.kind, found.wasted_seconds) == ("idle", 3 * HOUR)


def test_a_pause_shorter_than_the_work_is_not_idleness():
    assert kinds(hold(0.9, 0.9, 0.9, 0.0)) == []


def test_bursts_with_the_memory_held_are_waiting_for_data():
    [found] = findings(hold(0.4, 0.4, deviation=0.45))

    assert (found.kind, found.wasted_seconds) == ("data_bound", pytest.approx(1.2 * HOUR))


def test_phases_of_hours_are_not_bursts():
    assert kinds(hold(0.9, 0.9, 0.1, 0.1, 0.1, deviation=0.03)) == ["underused"]


def test_bursts_between_samples_of_seconds_are_waiting_for_data_and_not_idleness():
    assert kinds(hold(1.0, 0.0, 0.0, 1.0, 0.0, 0.0, seconds=0.5)) == ["data_bound"]


def test_bursts_without_memory_held_between_them_are_not():
    seen = hold(0.4, 0.4, deviation=0.45)
    released = replace(seen, windows=(*seen.windows, replace(seen.windows[0], used_bytes=MIB)))

    assert kinds(released) == ["underused"]


def test_low_utilization_without_bursts_says_no_cause():
    assert kinds(hold(0.3, 0.3, deviation=0.02)) == ["underused"]


def test_little_memory_and_little_work_would_do_on_a_smaller_gpu():
    [found] = findings(hold(0.33, 0.33, deviation=0.02, used_gib=9, tensor=0.04, dram=0.06))

    prices = gpu_with_id("l4").price.usd_per_hour, gpu_with_id("a100-80gb").price.usd_per_hour
    assert (found.kind, found.smaller.id) == ("oversized", "l4")
    assert found.wasted_seconds == pytest.approx(2 * HOUR * (1 - prices[0] / prices[1]))


@pytest.mark.parametrize(
    ("what", "facts"),
    [
        ("memory that a smaller GPU lacks", {"used_gib": 45}),
        ("arithmetic that a smaller GPU lacks", {"tensor": 0.9, "dram": 0.9}),
        ("bandwidth that a smaller GPU lacks", {"tensor": 0.01, "dram": 0.9}),
    ],
)
def test_a_smaller_gpu_has_to_keep_up(what, facts):
    assert "oversized" not in kinds(hold(0.9, 0.9, **{"used_gib": 9, "tensor": 0.04, "dram": 0.06, **facts})), what


def test_without_counters_the_time_with_a_kernel_running_stands_for_them():
    little = {"used_gib": 9, "tensor": None, "dram": None}

    assert kinds(hold(0.12, 0.12, **little)) == ["oversized"]
    assert kinds(hold(0.9, 0.9, **little)) == []


def test_a_busy_gpu_whose_tensor_cores_are_idle_wastes_what_monitoring_cannot_tell():
    [found] = findings(hold(0.97, 0.98, tensor=0.0, dram=0.8))

    assert (found.kind, found.wasted_seconds) == ("tensor_idle", None)
    assert kinds(hold(0.97, 0.98, tensor=None, dram=0.8)) == []


def test_a_job_of_some_minutes_is_not_judged():
    assert kinds(hold(0.0, age=540)) == []
    assert kinds(hold(0.0, age=660)) == ["idle"]
    assert kinds(hold(0.0, age=None)) == ["idle"]


def test_a_slice_of_a_gpu_is_never_oversized():
    little = {"used_gib": 9, "tensor": 0.01, "dram": 0.01}

    assert kinds(hold(0.3, device=replace(A100, slice="7"), **little)) == ["underused"]
    assert kinds(hold(0.3, device=H100, **little)) == ["oversized"]


@pytest.mark.parametrize(
    ("name", "memory", "found"),
    [
        ("NVIDIA A100-SXM4-80GB", None, "a100-80gb"),
        ("a100", 81920 * MIB, "a100-80gb"),
        ("a100", 40960 * MIB, "a100-40gb"),
        ("nvidia_h100", 81559 * MIB, "h100"),
        ("l40s", None, "l40s"),
        ("", 81920 * MIB, "a100-80gb"),
        # An A10 and an A10G have as much, of a type alone there are two, and others are in no catalog.
        ("", 23028 * MIB, None),
        ("a100", None, None),
        ("p100", 16281 * MIB, None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10 * GIB, None),
    ],
)
def test_gpus_are_known_by_the_drivers_name_the_schedulers_type_or_their_memory(name, memory, found):
    known = known_gpu(name, memory)

    assert (known.id if known else None) == found

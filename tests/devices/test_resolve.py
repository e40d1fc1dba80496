"""What a target means on this machine: a run on a device, or a prediction for a GPU."""

import pytest

from memorymark.catalog import all_gpus, find_gpu
from memorymark.catalog.gpus import DEFAULT_GPU
from memorymark.devices import nvml
from memorymark.devices.nvml import GpuState
from memorymark.devices.resolve import (
    can_run_on,
    default_gpu_target,
    device_here,
    for_prediction,
    gpu_here,
    on_device,
    where_no_gpu_is,
)
from memorymark.errors import UsageError
from memorymark.question.target import Target
from memorymark.units import GIB


@pytest.fixture
def driver_shows(monkeypatch):
    """Makes the driver show GPUs with these names."""

    def show(*names):
        monkeypatch.setattr(nvml, "gpus", lambda: [GpuState(name, 80 * GIB, 0, "570.1") for name in names])

    return show


@pytest.mark.parametrize("here", [(), ("NVIDIA H200",)], ids=["nothing here", "an H200 here"])
def test_a_gpu_that_is_named_is_predicted_for_whatever_is_here(here, driver_shows):
    driver_shows(*here)

    assert for_prediction(Target(gpu="l4")) == Target(gpu="l4")


@pytest.mark.parametrize(
    ("device", "gpu"),
    [("auto", "l4"), ("cuda", "l4"), ("cuda:0", "l4"), ("cuda:1", "a10"), ("cuda:2", "h200")],
)
def test_without_a_name_it_is_predicted_for_the_gpu_here_that_the_device_names(device, gpu, driver_shows):
    driver_shows("NVIDIA L4", "NVIDIA Z9000", "NVIDIA H200")

    assert for_prediction(Target(device=device, memory_cap_bytes=GIB)) == Target(gpu=gpu, memory_cap_bytes=GIB)


@pytest.mark.parametrize("here", [(), ("NVIDIA Z9000",)], ids=["nothing here", "something unknown here"])
@pytest.mark.parametrize(("cap_gib", "gpu"), [(None, "a10"), (6, "a10"), (78, "h100")])
def test_without_a_name_and_a_known_gpu_it_is_predicted_for_the_default(here, cap_gib, gpu, driver_shows):
    driver_shows(*here)
    cap_bytes = cap_gib and cap_gib * GIB

    assert for_prediction(Target(memory_cap_bytes=cap_bytes)) == Target(gpu=gpu, memory_cap_bytes=cap_bytes)


@pytest.mark.parametrize("cap_bytes", [None, 1, 16 * GIB, find_gpu("a10").usable_bytes])
def test_without_a_gpu_it_is_predicted_for_the_one_of_the_published_table(cap_bytes):
    target = default_gpu_target(Target(memory_cap_bytes=cap_bytes))

    assert target == Target(gpu="a10", memory_cap_bytes=cap_bytes)
    assert DEFAULT_GPU == "a10"


@pytest.mark.parametrize(
    ("cap_gib", "gpu"), [(22.5, "rtx4090"), (30, "a100-40gb"), (42, "l40s"), (78, "h100"), (130, "h200")]
)
def test_for_a_larger_cap_it_is_the_smallest_gpu_for_rent_that_has_it(cap_gib, gpu):
    cap_bytes = int(cap_gib * GIB)

    target = default_gpu_target(Target(memory_cap_bytes=cap_bytes))

    roomy = [entry.usable_bytes for entry in all_gpus() if entry.price and entry.usable_bytes >= cap_bytes]
    assert target == Target(gpu=gpu, memory_cap_bytes=cap_bytes)
    assert find_gpu(gpu).usable_bytes == min(roomy)


def test_a_cap_that_no_gpu_has_is_refused():
    largest = max(gpu.usable_bytes for gpu in all_gpus())

    assert default_gpu_target(Target(memory_cap_bytes=largest)).gpu == "b300"
    for cap_bytes in (largest + 1, 9999 * GIB):
        with pytest.raises(UsageError, match=r"no GPU in the catalog has the .* GiB of memory_gib=; lower it"):
            default_gpu_target(Target(memory_cap_bytes=cap_bytes))


OPEN = Target(memory_cap_bytes=GIB)
NAMED = [Target(gpu="l4"), Target(device="cpu"), Target(device="cuda:1"), Target(device="mps")]


def test_a_target_that_names_nothing_is_open_and_predicted_for_the_default_where_there_is_no_gpu():
    assert OPEN.is_open
    assert where_no_gpu_is(OPEN) == Target(gpu=DEFAULT_GPU, memory_cap_bytes=GIB)
    assert on_device(OPEN, "cuda:1") == Target(device="cuda:1", memory_cap_bytes=GIB)


@pytest.mark.parametrize("target", NAMED)
def test_a_target_that_names_something_stays_as_it_is(target):
    assert not target.is_open
    assert where_no_gpu_is(target) == target
    assert on_device(target, "cuda:0") == target


@pytest.mark.parametrize(
    ("target", "devices"),
    [
        (OPEN, {"cuda:0", "cuda:1", "mps"}),
        (Target(device="cuda"), {"cuda:0"}),
        (Target(device="cuda:1"), {"cuda:1"}),
        (Target(device="mps"), {"mps"}),
        (Target(device="cpu"), {"cpu"}),
        (Target(gpu="l4"), set()),
    ],
)
def test_which_devices_may_measure_a_target(target, devices):
    assert {device for device in ("cuda:0", "cuda:1", "mps", "cpu") if can_run_on(target, device)} == devices


@pytest.mark.parametrize(
    ("target", "accelerator", "device"),
    [
        (OPEN, "cuda", ("cuda", 0)),
        (OPEN, "mps", ("mps", 0)),
        (OPEN, None, ("cpu", 0)),
        (Target(device="cpu"), "cuda", ("cpu", 0)),
        (Target(device="cuda:2"), None, ("cuda", 2)),
    ],
)
def test_the_device_that_measures_a_target(target, accelerator, device):
    assert device_here(target, accelerator) == device


@pytest.mark.parametrize("target", [Target(gpu="l4"), Target(device="cpu"), Target(device="cuda:1")])
def test_a_target_that_means_no_gpu_of_this_machine(target, driver_shows):
    driver_shows("NVIDIA L4")

    assert gpu_here(target) is None
    assert gpu_here(Target()) == find_gpu("l4")

"""Which GPU is which: as CUDA counts them, by a driver that says what it is told to."""

import sys
from types import SimpleNamespace

import pytest

from memorymark.devices import nvml

# By their place on the bus: name, cores, clock in MHz, UUID.
CARDS = [
    ("NVIDIA T4", 2560, 1590, "GPU-11aa"),
    ("NVIDIA A10", 9216, 1695, "GPU-22bb"),
    ("NVIDIA A10", 9216, 1695, "GPU-33cc"),
]


class DriverError(Exception):
    """What the driver raises."""


def unknown(*_):
    raise DriverError


@pytest.fixture
def driver(monkeypatch):
    made = SimpleNamespace(
        NVMLError=DriverError,
        NVML_CLOCK_SM=1,
        nvmlMemory_v2=2,
        nvmlInit=int,
        nvmlShutdown=int,
        nvmlDeviceGetCount=lambda: len(CARDS),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetHandleByUUID=unknown,
        nvmlDeviceGetUUID=lambda handle: CARDS[handle][3],
        nvmlDeviceGetNumGpuCores=lambda handle: CARDS[handle][1],
        nvmlDeviceGetMaxClockInfo=lambda handle, _: CARDS[handle][2],
        nvmlDeviceGetName=lambda handle: CARDS[handle][0],
        nvmlSystemGetDriverVersion=lambda: "570.1",
        nvmlDeviceGetMemoryInfo=lambda handle, **_: SimpleNamespace(total=100, used=handle),
    )
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    return made


def on_the_bus():
    """The places on the bus of the GPUs that CUDA shows, which the driver gives as what they use."""
    return [gpu.used_bytes for gpu in nvml.gpus()]


@pytest.mark.usefixtures("driver")
def test_the_fastest_gpus_come_first():
    assert on_the_bus() == [1, 2, 0]
    assert [gpu.name for gpu in nvml.gpus()] == ["NVIDIA A10", "NVIDIA A10", "NVIDIA T4"]
    assert nvml.used_bytes(2) == 0


@pytest.mark.usefixtures("driver")
def test_the_environment_can_ask_for_the_order_of_the_bus(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    assert on_the_bus() == [0, 1, 2]


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        ("2,0", [0, 1]),
        ("GPU-33cc", [2]),
        ("GPU-1,GPU-33", [0, 2]),
        ("1,7,0", [2]),
        ("GPU-99,0", []),
        ("", []),
        ("-1", []),
    ],
)
def test_gpus_are_shown_as_far_as_cuda_shows_them(monkeypatch, visible, shown):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert on_the_bus() == shown


def test_a_driver_that_does_not_know_how_fast_gpus_are_leaves_them_as_they_are(driver):
    driver.nvmlDeviceGetNumGpuCores = unknown

    assert on_the_bus() == [0, 1, 2]

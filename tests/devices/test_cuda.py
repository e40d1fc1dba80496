from types import SimpleNamespace

import pytest
import torch

from memorymark.devices.allocator_settings import use_allocator
from memorymark.devices.cuda import CudaDevice, scratch_limit_bytes
from memorymark.devices.segments import Segment
from memorymark.errors import UsageError
from memorymark.units import MIB
from support.torch_versions import needs_allocator_settings


@pytest.mark.parametrize(
    ("properties", "limit_bytes"),
    [({"multi_processor_count": 132, "max_threads_per_multi_processor": 2048}, 138_412_032), ({}, None)],
)
def test_the_scratch_space_of_reductions_is_limited_by_the_threads_of_the_gpu(monkeypatch, properties, limit_bytes):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**properties))
    assert scratch_limit_bytes(torch.device("cuda", 0)) == limit_bytes


class Driver:
    """As much of torch.cuda as a device needs to be opened and to show its segments."""

    def __init__(self, monkeypatch, *, expands=True, backend="native"):
        self.segments = []
        self.expands, self.backend = expands, backend
        for name in ("get_device_name", "mem_get_info", "memory_snapshot", "get_allocator_backend"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self.snapshot)

    def get_device_name(self, index):
        return "NVIDIA A10"

    def mem_get_info(self, index):
        return 20 * 1024 * MIB, 22 * 1024 * MIB

    def get_allocator_backend(self):
        return self.backend

    def snapshot(self):
        expandable = "expandable_segments:True" in torch._C._accelerator_getAllocatorSettings()
        return {"allocator_settings": {"expandable_segments": self.expands and expandable}}

    def memory_snapshot(self):
        return self.segments

    def hold(self, address, *, expandable):
        blocks = [{"size": 12 * MIB, "state": "active_allocated"}, {"size": 8 * MIB, "state": "inactive"}]
        segment = {"address": address, "device": 0, "segment_type": "large", "blocks": blocks}
        self.segments.append({**segment, "is_expandable": expandable})


@pytest.fixture(autouse=True)
def allocator_as_it_was():
    yield
    use_allocator("default")


@needs_allocator_settings
def test_segments_are_shown_if_all_are_of_the_kind_that_the_allocator_makes(monkeypatch):
    driver = Driver(monkeypatch)
    device = CudaDevice(0)
    found = [Segment(4096, small=False, blocks=((12 * MIB, True), (8 * MIB, False)))]
    driver.hold(4096, expandable=False)
    assert (device.allocator, device.layout()) == ("default", found)
    device.use_allocator("expandable")
    assert (device.allocator, device.layout()) == ("expandable", None)
    driver.segments[0]["is_expandable"] = True
    assert device.layout() == found
    device.use_allocator("default")
    assert device.layout() is None


@needs_allocator_settings
def test_segments_are_not_shown_under_settings_that_are_not_modelled(monkeypatch):
    Driver(monkeypatch)
    torch._C._accelerator_setAllocatorSettings("max_split_size_mb:100")
    try:
        assert CudaDevice(0).layout() is None
    finally:
        torch._C._accelerator_setAllocatorSettings("")


@needs_allocator_settings
@pytest.mark.parametrize("cannot", [{"expands": False}, {"backend": "cudaMallocAsync"}])
def test_a_platform_that_cannot_expand_segments_refuses_to(monkeypatch, cannot):
    Driver(monkeypatch, **cannot)
    device = CudaDevice(0)
    with pytest.raises(UsageError) as refused:
        device.use_allocator("expandable")
    assert refused.value.said_in("command_line") == "torch cannot expand segments on this platform; drop --allocator."
    assert (refused.value.field, device.allocator) == ("allocator", "default")

"""What watching asks of a GPU, as far as it can be seen without one."""

import sys
from types import SimpleNamespace

import pytest
import torch

from memorymark.devices import nvml
from memorymark.devices.cuda import MARK_BYTES, CudaRecorder
from memorymark.watch.gpu import GpuWatch

GPU = torch.device("cuda", 0)


def entry(action, address, size):
    return {"action": action, "addr": address, "size": size}


@pytest.fixture
def allocator(monkeypatch):
    """What torch tells of a GPU's allocator, with nothing alive before; its ``history`` is what the test makes it."""
    told = SimpleNamespace(history=[], is_on=False)
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "native")
    monkeypatch.setattr(torch.cuda, "memory_snapshot", list)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda _: {"device_traces": [told.history]})
    monkeypatch.setattr(
        torch.cuda.memory, "_record_memory_history", lambda enabled, **_: setattr(told, "is_on", enabled is not None)
    )
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: told.is_on, raising=False)
    return told


@pytest.fixture
def watch():
    watch = GpuWatch(GPU, 0)
    yield watch
    watch.sampler.stop()


def leave_mark(monkeypatch, recorder, phase, address):
    with monkeypatch.context() as placed:
        placed.setattr(torch, "empty", lambda *_, **__: SimpleNamespace(data_ptr=lambda: address))
        recorder.mark(phase)


def test_what_is_as_large_as_a_mark_is_none_unless_it_is_where_the_mark_was(monkeypatch, allocator):
    allocator.history = [
        entry("alloc", 100, 4096),
        entry("alloc", 700, MARK_BYTES),  # the script's own
        entry("alloc", 900, MARK_BYTES),
        entry("free_requested", 900, MARK_BYTES),
        entry("alloc", 900, 512),
        entry("free_requested", 700, MARK_BYTES),
        entry("alloc", 300, MARK_BYTES),
        entry("free_requested", 300, MARK_BYTES),
        entry("alloc", 300, MARK_BYTES),  # the script's own again, where a mark has been
    ]
    recorder = CudaRecorder(GPU)
    leave_mark(monkeypatch, recorder, "forward", 900)
    leave_mark(monkeypatch, recorder, "backward", 300)

    trace = recorder.finish()

    assert trace.marks == [("forward", 2), ("backward", 4)]
    assert trace.events == [(100, 4096), (700, MARK_BYTES), (900, 512), (700, -MARK_BYTES), (300, MARK_BYTES)]
    assert not allocator.is_on


@pytest.mark.parametrize(("entries", "is_whole"), [(3, True), (4, False)])
def test_a_history_that_lost_its_beginning_is_no_recording(monkeypatch, allocator, watch, entries, is_whole):
    monkeypatch.setattr("memorymark.watch.gpu.MAX_ENTRIES", 4)
    allocator.history = [entry("alloc", 100 + n, 512) for n in range(entries)]

    assert watch.start_recording()
    assert watch.recording
    assert (watch.finish_recording() is not None) == is_whole
    assert not watch.recording


def test_sparse_tensors_have_no_address_of_their_own(watch):
    plain = torch.ones(3)
    sparse = torch.eye(3).to_sparse()

    assert watch.keys_of([plain, sparse]) == [plain.untyped_storage().data_ptr()]


class UnwillingError(Exception):
    """What a driver says that is there and tells nothing."""


def refuse(*_):
    raise UnwillingError("Not Supported")


def test_a_driver_that_tells_nothing_is_as_good_as_none(monkeypatch):
    driver = SimpleNamespace(
        NVMLError=UnwillingError,
        nvmlInit=int,
        nvmlShutdown=int,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=refuse,
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    assert nvml.gpus() == []
    assert nvml.used_bytes(0) is None
    with nvml.UtilizationMeter(0) as meter:
        assert meter.sample() is None


@pytest.mark.parametrize(("backend", "history_is_on"), [("cudaMallocAsync", False), ("native", True)])
def test_nothing_is_recorded_where_the_script_has_its_own_way_of_allocating_or_recording(
    monkeypatch, allocator, watch, backend, history_is_on
):
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend)
    allocator.is_on = history_is_on

    assert watch.start_recording() is False
    assert not watch.recording

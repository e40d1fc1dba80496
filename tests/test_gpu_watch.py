"""What watching asks of a GPU, as far as it can be seen without one."""

import sys
from collections import deque
from types import SimpleNamespace

import pytest
import torch

from memorymark.devices import nvml
from memorymark.devices.cuda import MARK_BYTES, CudaRecorder
from memorymark.integrations.gpu import GpuWatch


def entry(action, address, size):
    return {"action": action, "addr": address, "size": size}


def recorder(*marks):
    """A recorder that has left marks at these addresses, with nothing alive before."""
    made = CudaRecorder.__new__(CudaRecorder)
    made._before, made._marks = {}, deque(marks)
    return made


def test_what_is_as_large_as_a_mark_is_none_unless_it_is_where_the_mark_was():
    history = [
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
    trace = recorder(("forward", 900), ("backward", 300))._trace_of(history)

    assert trace.marks == [("forward", 2), ("backward", 4)]
    assert trace.events == [(100, 4096), (700, MARK_BYTES), (900, 512), (700, -MARK_BYTES), (300, MARK_BYTES)]


@pytest.mark.parametrize(("entries", "is_whole"), [(3, True), (4, False)])
def test_a_history_that_lost_its_beginning_is_no_recording(monkeypatch, entries, is_whole):
    history = [entry("alloc", 100 + n, 512) for n in range(entries)]
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda _: {"device_traces": [history]})
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **_: None)
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: True, raising=False)
    watch, made = GpuWatch.__new__(GpuWatch), recorder()
    made._device, made._max_entries, watch._recorder = torch.device("cuda", 0), 4, made

    assert (watch.finish_recording() is not None) == is_whole


def test_sparse_tensors_have_no_address_of_their_own():
    plain = torch.ones(3)
    sparse = torch.eye(3).to_sparse()

    assert GpuWatch.keys_of(None, [plain, sparse], "gradients") == {plain.untyped_storage().data_ptr(): "gradients"}


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


@pytest.mark.parametrize(("allocator", "history_is_on"), [("cudaMallocAsync", False), ("native", True)])
def test_nothing_is_recorded_where_the_script_has_its_own_way_of_allocating_or_recording(
    monkeypatch, allocator, history_is_on
):
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: allocator)
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: history_is_on, raising=False)

    assert GpuWatch.start_recording(GpuWatch.__new__(GpuWatch)) is False

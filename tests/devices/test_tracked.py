import gc

import numpy as np
import pytest
import torch
from torch import nn

import memorymark as mm
from memorymark.devices import open_device
from memorymark.devices.tracked import CpuDevice
from memorymark.training.failures import classify
from memorymark.units import GIB, MIB


@pytest.fixture
def device():
    device = CpuDevice()
    with device.counting():
        yield device


def allocated(device):
    return device.reading().allocated_bytes


@pytest.mark.parametrize(
    ("make", "size_bytes"),
    [
        pytest.param(lambda: torch.empty(1000), 4000, id="fp32"),
        pytest.param(lambda: torch.zeros(10, 10, dtype=torch.bfloat16), 200, id="bf16"),
        pytest.param(lambda: torch.rand(7, dtype=torch.float64), 56, id="fp64"),
        pytest.param(lambda: torch.ones(8, dtype=torch.bool), 8, id="bool"),
        pytest.param(lambda: torch.tensor([1, 2, 3]), 24, id="from a list"),
        pytest.param(lambda: torch.from_numpy(np.zeros(5)), 40, id="from numpy"),
        pytest.param(lambda: torch.empty(0), 0, id="empty"),
        pytest.param(lambda: torch.ones(4) + torch.ones(4), 16, id="a result, not its inputs"),
        pytest.param(lambda: torch.rand(100).sort(), 400 + 800, id="two results"),
        pytest.param(lambda: torch.ones(6).expand(100, 6), 24, id="expanded"),
        pytest.param(lambda: torch.ones(4, 4).t(), 64, id="transposed"),
        pytest.param(lambda: torch.ones(4, 4)[:, 1:2], 64, id="a slice of a larger storage"),
        pytest.param(lambda: nn.Linear(3, 4), 4 * (3 * 4 + 4), id="a module"),
        pytest.param(
            lambda: torch.empty(0).resize_(100),
            400,
            id="grown in place",
        ),
    ],
)
def test_a_living_tensor_counts_the_bytes_of_its_storage_and_a_dead_one_none(device, make, size_bytes):
    alive = make()
    assert allocated(device) == size_bytes

    del alive
    assert allocated(device) == 0


def test_views_and_changes_in_place_are_not_counted_again(device):
    base = torch.ones(10, 10)
    others = [base.view(100), base.t(), base[3], base.detach(), base.add_(1), base.unsqueeze(0).squeeze(0)]

    assert allocated(device) == 400
    assert len({device.block_of(tensor) for tensor in (base, *others)}) == 1


def test_a_storage_lives_as_long_as_its_last_view(device):
    view = torch.ones(10, 10)[0]
    assert allocated(device) == 400

    del view
    assert allocated(device) == 0


def test_what_the_backward_pass_needs_counts_until_it_has_run(device):
    weight = torch.ones(100, requires_grad=True)
    loss = (weight * 2).exp().sum()
    # exp keeps its result; the constant 2 is no tensor and the product is not needed.
    assert allocated(device) == 400 + 400 + 4

    loss.backward()
    # The graph is gone, the gradient is here.
    assert allocated(device) == 400 + 400 + 4


def test_tensors_of_other_devices_do_not_count(device):
    kept = torch.empty(1000, device="meta")

    assert kept.device.type == "meta"
    assert allocated(device) == 0


def test_what_was_made_before_the_counting_counts_once_it_is_adopted():
    device, before = CpuDevice(), torch.ones(100)

    with device.counting():
        before.add_(1)
        view = before[:10]
        assert allocated(device) == 0
        for _ in range(2):
            device.adopt([before, view])
            assert allocated(device) == 400

    del before, view
    assert allocated(device) == 0


def test_what_is_adopted_has_to_keep_within_the_cap():
    device, before = CpuDevice(), torch.ones(100)
    device.cap(399)

    with pytest.raises(torch.OutOfMemoryError):
        device.adopt([before])


def test_a_part_of_what_was_there_before_arrives_as_a_copy():
    device, data = CpuDevice(), torch.rand(100, 10)

    with device.counting():
        batch = device.arrived(data[:3])

    assert allocated(device) == 3 * 10 * 4
    assert torch.equal(batch, data[:3])


def test_what_is_made_on_the_device_arrives_as_it_is(device):
    tokens = torch.ones(4, 11)[:, 1:]

    assert device.arrived(tokens) is tokens


def test_a_tensor_that_grows_beyond_the_cap_can_still_be_used_where_there_is_room(device):
    device.cap(1000)
    grown = torch.ones(100)
    with pytest.raises(torch.OutOfMemoryError):
        grown.resize_(200)
    assert allocated(device) == 400

    device.cap(4000)
    grown.add_(1)

    assert allocated(device) == grown.untyped_storage().nbytes() == 800


def test_frees_are_seen_after_the_counting_has_ended():
    device = CpuDevice()
    with device.counting():
        kept = torch.ones(100)

    assert allocated(device) == kept.nbytes == 400
    del kept
    assert allocated(device) == 0


def test_a_cycle_counts_until_the_collector_finds_it(device):
    gc.disable()
    try:
        cycle = [torch.ones(100)]
        cycle.append(cycle)
        del cycle
        assert allocated(device) == 400
    finally:
        gc.enable()

    gc.collect()
    assert allocated(device) == 0


def test_the_peak_is_the_most_that_was_alive_at_once(device):
    kept = torch.ones(100)
    large = torch.ones(1000)
    del large
    later = torch.ones(500)

    reading = device.reading()
    assert reading.allocated_bytes == reading.reserved_bytes == kept.nbytes + later.nbytes == 2400
    assert reading.peak_allocated_bytes == reading.peak_reserved_bytes == 4400
    assert device.held_bytes() == 2400
    assert reading.allocator_retries == 0


@pytest.mark.parametrize("reset", [CpuDevice.reset, CpuDevice.reset_peaks])
def test_after_a_reset_the_peak_starts_from_what_is_alive(device, reset):
    kept = torch.ones(100)
    torch.ones(1000)
    reset(device)
    assert device.reading().peak_allocated_bytes == kept.nbytes

    torch.ones(50)
    assert device.reading().peak_allocated_bytes == kept.nbytes + 200


def test_the_cap_can_be_filled_to_the_last_byte_and_not_beyond(device):
    device.cap(4000)
    kept = torch.ones(900)

    torch.ones(100)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(101)

    assert allocated(device) == kept.nbytes
    assert device.reading().peak_allocated_bytes == 4000


def test_out_of_memory_says_what_was_asked_for_and_what_was_left(device):
    device.cap(4000)
    kept = torch.ones(900)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.ones(200)

    failure = classify(caught.value)

    assert failure.kind == "memory"
    assert (failure.requested_bytes, failure.free_bytes) == (800, 4000 - kept.nbytes)
    assert failure.shortfall_bytes == 400


def test_after_out_of_memory_there_is_room_again_for_what_fits(device):
    device.cap(4000)
    with pytest.raises(torch.OutOfMemoryError):
        torch.ones(1001)

    fits = torch.ones(1000)

    assert allocated(device) == fits.nbytes == 4000


def test_a_cap_below_what_is_alive_leaves_nothing(device):
    kept = torch.ones(1000)
    device.cap(100)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.ones(1)

    assert allocated(device) == kept.nbytes
    assert classify(caught.value).free_bytes == 0


def test_the_record_has_what_came_and_went_between_the_marks(device):
    before = torch.ones(100)
    recorder = device.record()
    made = torch.ones(10)
    recorder.mark("forward")
    del made, before
    later = torch.ones(20)
    recorder.mark("backward")
    trace = recorder.finish()
    unrecorded = torch.ones(30)

    assert list(trace.before.values()) == [400]
    assert [size for _, size in trace.events] == [40, -40, -400, 80]
    assert trace.marks == [("forward", 1), ("backward", 4)]
    assert trace.events[3][0] == device.block_of(later) != device.block_of(unrecorded)


def test_blocks_are_told_apart_even_if_one_gets_the_memory_of_the_other(device):
    first = torch.ones(100)
    block = device.block_of(first)
    del first

    assert device.block_of(torch.ones(100)) != block


def test_time_steps_gives_the_seconds_of_each_step(device):
    ran = []

    seconds = device.time_steps(lambda: ran.append(1), 3)

    assert len(ran) == len(seconds) == 3
    assert min(seconds) >= 0


def test_the_cpu_is_capped_unless_told_otherwise():
    assert open_device(mm.Target(device="cpu")).capacity_bytes() == GIB // 4
    assert open_device(mm.Target(device="cpu", memory_cap_bytes=MIB)).capacity_bytes() == MIB


def test_expandable_segments_are_refused_where_no_allocator_has_segments(device):
    device.use_allocator("default")
    with pytest.raises(mm.UsageError) as refused:
        device.use_allocator("expandable")
    said = "expandable segments need a CUDA GPU; use one, or drop --allocator."
    assert (refused.value.said_in("command_line"), refused.value.field) == (said, "allocator")


def test_a_cap_above_the_memory_is_a_usage_error():
    with pytest.raises(mm.UsageError, match=r"memory_gib= asks for 1,024\.00 GiB, but CPU has .* lower it"):
        open_device(mm.Target(device="cpu", memory_cap_bytes=1024 * GIB))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_where_there_is_none_is_a_usage_error():
    with pytest.raises(mm.UsageError, match=r'there is no CUDA device here .* use device="cpu"'):
        open_device(mm.Target(device="cuda"))


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an MPS device here")
def test_mps_where_there_is_none_is_a_usage_error():
    with pytest.raises(mm.UsageError, match="there is no MPS device here"):
        open_device(mm.Target(device="mps"))

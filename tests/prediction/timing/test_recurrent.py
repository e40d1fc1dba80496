from statistics import median

import pytest

from memorymark.catalog import find_gpu
from memorymark.prediction.timing.recurrent import device_seconds, host_seconds
from memorymark.prediction.timing.roofline import step_seconds
from support.recurrent_layers import RECORDED, passes

H200 = find_gpu("h200")


def milliseconds(seconds_of, operations):
    return 1000 * sum(seconds_of(op, H200) for op in operations)


def test_passes_take_about_as_long_as_they_took_on_a_gpu():
    errors = []
    for recorded in RECORDED["histories"]:
        ran = passes(*recorded["layer"][:10])
        for operations, took in zip(ran, recorded["milliseconds"], strict=True):
            if operations is ran[0] or recorded["backward"]:
                device, host = (milliseconds(seconds_of, operations) for seconds_of in (device_seconds, host_seconds))
                errors.append(abs(step_seconds(device, host) / took - 1))
    assert len(errors) == 161
    assert median(errors) < 0.13


@pytest.mark.parametrize(("seconds_of", "first"), [(device_seconds, 8), (host_seconds, 10)], ids=["device", "host"])
def test_device_and_host_are_each_about_as_fast_as_they_were(seconds_of, first):
    errors = [
        abs(milliseconds(seconds_of, operations) / took - 1)
        for row in RECORDED["times"]
        for operations, took in zip(passes(*row[:8]), row[first : first + 2], strict=True)
    ]
    assert median(errors) < 0.16


def took(
    seconds_of=device_seconds, gpu=H200, batch=64, length=64, layers=2, directions=1, precision="fp32", kind="LSTM"
):
    ran = passes(kind, batch, length, 512, 512, layers, directions == 2, precision)
    return [sum(seconds_of(op, gpu) for op in operations) for operations in ran]


@pytest.mark.parametrize("more", [{"batch": 512}, {"length": 128}, {"layers": 3}, {"directions": 2}], ids=str)
def test_more_work_takes_longer_in_both_passes(more):
    assert all(longer > shorter for longer, shorter in zip(took(**more), took(), strict=True))


def test_half_precision_and_a_faster_gpu_take_less_time():
    large = {"batch": 2048}
    assert all(a < b for a, b in zip(took(**large, precision="bf16"), took(**large), strict=True))
    assert all(a < b for a, b in zip(took(**large), took(**large, gpu=find_gpu("a10")), strict=True))


def test_the_host_takes_as_long_for_any_batch_and_longer_for_more_steps():
    assert took(host_seconds, batch=8) == took(host_seconds, batch=512)
    assert took(host_seconds, length=128) > took(host_seconds, length=64)


def test_a_kernel_that_runs_all_steps_asks_less_of_the_host():
    single = {"layers": 1, "precision": "bf16"}
    assert all(
        a < b / 1.5 for a, b in zip(took(host_seconds, **single), took(host_seconds, **single, kind="GRU"), strict=True)
    )

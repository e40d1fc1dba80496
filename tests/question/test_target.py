import math

import pytest

from memorymark.catalog import all_gpus, find_gpu
from memorymark.errors import UsageError
from memorymark.question.flat import fields_of
from memorymark.question.target import Target, memory_cap
from memorymark.units import GIB


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:1"])
def test_a_gpu_to_predict_for_and_a_device_to_run_on_exclude_each_other(device):
    with pytest.raises(UsageError, match=f'gpu="a10" asks for a prediction, device="{device}" for a local run; drop'):
        Target(gpu="a10", device=device)


@pytest.mark.parametrize(("gib", "cap"), [(1.5, 3 * GIB // 2), (1e-12, 1)])
def test_a_cap_in_gibibytes_is_one_in_bytes(gib, cap):
    assert memory_cap(gib) == cap


@pytest.mark.parametrize("gib", [0, -1, math.nan, math.inf, 1e308])
def test_a_cap_is_a_number_above_0(gib):
    with pytest.raises(UsageError, match="memory_gib= must be a number above 0"):
        Target(**fields_of(Target, {"memory_gib": gib}))


def test_an_unknown_gpu_is_refused():
    with pytest.raises(UsageError, match="unknown GPU 'a1000'"):
        Target(gpu="a1000")


@pytest.mark.parametrize("gpu", [gpu.id for gpu in all_gpus()])
def test_a_cap_is_at_most_what_torch_sees_of_the_gpu(gpu):
    torch_sees = find_gpu(gpu).torch_memory_bytes

    assert Target(gpu=gpu, memory_cap_bytes=torch_sees).memory_cap_bytes == torch_sees
    with pytest.raises(UsageError, match=rf"memory_gib= asks for .* but {find_gpu(gpu).name} has .*; lower it"):
        Target(gpu=gpu, memory_cap_bytes=torch_sees + 1)

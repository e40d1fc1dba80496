import math

import pytest

from memorymark.catalog import all_gpus, find_gpu
from memorymark.errors import UsageError
from memorymark.target import DEFAULT_GPU, Target, default_gpu_target, memory_cap
from memorymark.units import GIB


@pytest.mark.parametrize("device", ["cpu", "mps", "cuda", "cuda:1"])
def test_a_gpu_to_predict_for_and_a_device_to_run_on_exclude_each_other(device):
    with pytest.raises(UsageError, match=f"--gpu a10 asks for a prediction, --device {device} for a run here; drop"):
        Target(gpu="a10", device=device)


@pytest.mark.parametrize(("gib", "cap"), [(None, None), (1.5, 3 * GIB // 2), (1e-12, 1)])
def test_a_cap_in_gibibytes_is_one_in_bytes(gib, cap):
    assert memory_cap(gib) == cap


@pytest.mark.parametrize("gib", [0, -1, math.nan, math.inf, 1e308])
def test_a_cap_is_a_number_above_0(gib):
    with pytest.raises(UsageError, match="--memory-gib must be a number above 0, not "):
        memory_cap(gib)


def test_an_unknown_gpu_is_refused():
    with pytest.raises(UsageError, match="unknown GPU 'a1000'"):
        Target(gpu="a1000")


@pytest.mark.parametrize("gpu", [gpu.id for gpu in all_gpus()])
def test_a_cap_is_at_most_what_torch_sees_of_the_gpu(gpu):
    torch_sees = find_gpu(gpu).torch_memory_bytes

    assert Target(gpu=gpu, memory_cap_bytes=torch_sees).memory_cap_bytes == torch_sees
    with pytest.raises(UsageError, match=rf"--memory-gib asks for .* but {find_gpu(gpu).name} has .*; lower it"):
        Target(gpu=gpu, memory_cap_bytes=torch_sees + 1)


@pytest.mark.parametrize("cap_bytes", [None, 1, 16 * GIB, find_gpu("a10").usable_bytes])
def test_without_a_gpu_it_is_predicted_for_the_one_of_the_published_table(cap_bytes):
    target = default_gpu_target(Target(memory_cap_bytes=cap_bytes))

    assert target == Target(gpu="a10", memory_cap_bytes=cap_bytes)
    assert DEFAULT_GPU == "a10"


@pytest.mark.parametrize(
    ("cap_gib", "gpu"), [(22.5, "rtx4090"), (30, "rtx5090"), (35, "a100-40gb"), (78, "h100"), (130, "h200")]
)
def test_for_a_larger_cap_it_is_the_smallest_gpu_that_has_it(cap_gib, gpu):
    cap_bytes = int(cap_gib * GIB)

    target = default_gpu_target(Target(memory_cap_bytes=cap_bytes))

    roomy = [entry.usable_bytes for entry in all_gpus() if entry.usable_bytes >= cap_bytes]
    assert target == Target(gpu=gpu, memory_cap_bytes=cap_bytes)
    assert find_gpu(gpu).usable_bytes == min(roomy)


def test_a_cap_that_no_gpu_has_is_refused():
    largest = max(gpu.usable_bytes for gpu in all_gpus())

    assert default_gpu_target(Target(memory_cap_bytes=largest)).gpu == "b200"
    for cap_bytes in (largest + 1, 9999 * GIB):
        with pytest.raises(UsageError, match=r"no GPU of the catalog has the .* GiB of --memory-gib; lower it"):
            default_gpu_target(Target(memory_cap_bytes=cap_bytes))

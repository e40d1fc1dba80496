"""What other GPUs reach of the rates on their datasheets, and what bounds kernels there."""

from dataclasses import replace

import pytest
import torch

from memorymark.catalog import all_gpus, find_gpu
from memorymark.prediction.timing.reached import fp32_sustained, reached
from memorymark.prediction.timing.roofline import device_seconds
from memorymark.prediction.timing.work import issued_flops
from memorymark.prediction.tracing.operation import Operation, TensorFacts

H200, A100, L4, T4, V100 = (find_gpu(name) for name in ("h200", "a100-40gb", "l4", "t4", "v100-32gb"))


def tensor(*shape, dtype=torch.float32, channels_last=False):
    return TensorFacts(shape, dtype, 0, contiguous=not channels_last, channels_last=channels_last)


def product(rows, depth, columns, batches=0):
    if batches:
        left, right, result = (batches, rows, depth), (batches, depth, columns), (batches, rows, columns)
    else:
        left, right, result = (rows, depth), (depth, columns), (rows, columns)
    name = "aten.bmm.default" if batches else "aten.mm.default"
    return Operation(name, (tensor(*left), tensor(*right)), (tensor(*result),), (), (), ())


def rate(gpu, *sizes, **batched):
    rows, depth, columns = sizes
    flops = 2.0 * rows * depth * columns * max(batched.get("batches", 0), 1)
    return flops / device_seconds(product(*sizes, **batched), gpu, tf32=False)


# The median share of the peak that the linear layers of more than 5 ms at full rate reached in NeuSight's data.
@pytest.mark.parametrize(("gpu", "share"), [(T4, 0.49), (V100, 0.96), (L4, 0.29)])
def test_large_fp32_products_reach_what_others_measured(gpu, share):
    assert rate(gpu, 8192, 4096, 4096) / gpu.fp32_flops == pytest.approx(share, rel=0.1)


def test_a_board_with_more_power_is_faster_where_power_is_what_bounds_it():
    stronger = replace(L4, power_watts=144)

    assert fp32_sustained(L4) < fp32_sustained(stronger) < stronger.fp32_flops
    assert rate(L4, 4096, 4096, 4096) < rate(stronger, 4096, 4096, 4096)


def test_a_gpu_whose_power_is_not_known_keeps_its_clock():
    assert fp32_sustained(replace(L4, power_watts=None)) == L4.fp32_flops


@pytest.mark.parametrize("gpu", [gpu for gpu in all_gpus() if not gpu.memory_only], ids=lambda gpu: gpu.id)
def test_no_gpu_reaches_more_than_its_datasheet_promises(gpu):
    real = reached(gpu)

    for name in ("fp32_flops", "tf32_flops", "half_flops", "bytes_per_second"):
        assert 0 < getattr(real, name) <= getattr(gpu, name)


def test_memory_that_keeps_its_error_correction_beside_the_data_is_slower():
    without = replace(L4, inline_ecc=False)
    copy = Operation("aten.relu.default", (tensor(2**26),), (tensor(2**26),), (), (), ())

    assert device_seconds(copy, L4, tf32=False) > 1.1 * device_seconds(copy, without, tf32=False)


def test_batched_fp32_products_on_ampere_waste_half_of_the_only_tile_on_narrow_results():
    """Attention's product of weights and values, 64 columns wide: half as fast on an A100, but not on a V100."""
    narrow, wide = ((1024, 1024, columns) for columns in (64, 128))

    assert rate(A100, *narrow, batches=256) < 0.6 * rate(A100, *wide, batches=256)
    assert rate(V100, *narrow, batches=256) > 0.8 * rate(V100, *wide, batches=256)


def test_kernels_that_process_elements_one_by_one_follow_multiprocessors_and_clock_not_cores():
    """An A100 has half as many cores in a multiprocessor as an RTX 3090 with about the same issue rate."""
    mixed = (tensor(2**24, dtype=torch.bfloat16), tensor(2**24))
    operation = Operation("aten.add.Tensor", mixed, (tensor(2**24),), (), (), ())
    ampere, desktop = find_gpu("a100-80gb"), find_gpu("rtx3090")
    times = [device_seconds(operation, replace(gpu, bytes_per_second=1e14), tf32=False) for gpu in (ampere, desktop)]

    assert times[0] / times[1] == pytest.approx(issued_flops(desktop) / issued_flops(ampere), rel=0.1)


def test_what_was_measured_on_the_h200_is_not_scaled_there():
    assert reached(H200) == H200
    assert issued_flops(H200) == pytest.approx(H200.fp32_flops, rel=0.01)


def convolution(image, weight, stride):
    result = (image[0], weight[0], image[2] // stride, image[3] // stride)
    arguments = (None, stride, stride, 0, 0, 1, 1, False, 0, 0, 1)
    inputs = tensor(*image), tensor(*weight)
    return Operation("aten.convolution.default", inputs, (tensor(*result),), arguments, (), ())


def test_cutting_an_image_into_patches_takes_no_longer_than_the_product_that_it_is():
    patches = convolution((64, 3, 224, 224), (768, 3, 16, 16), 16)
    flops = 2.0 * 64 * 14 * 14 * 768 * 3 * 256

    assert device_seconds(patches, A100, tf32=False) < 3 * flops / A100.tf32_flops + 1e-3


def test_before_ampere_a_small_window_in_fp32_takes_less_than_its_arithmetic():
    """Winograd's transformation: 3 x 3 windows are faster, for their arithmetic, than those of one place."""
    per_flop = [
        device_seconds(convolution((64, 256, 56, 56), (256, 256, side, side), 1), V100, tf32=False) / side**2
        for side in (1, 3)
    ]

    assert per_flop[1] < 0.75 * per_flop[0]

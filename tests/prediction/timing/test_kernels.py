"""Single operations that no rule was fitted to, against what they took on an NVIDIA H200, and why they took it."""

from statistics import median

import pytest
import torch

from kernels import compared, held_out, kept_held_out
from memorymark.catalog import find_gpu
from memorymark.prediction.timing.roofline import device_seconds
from support.operations import operation, tensor

H200 = find_gpu("h200")
BF16, FP32 = torch.bfloat16, torch.float32
# How far half of the held-out operations of a kind may be off.
WITHIN = {
    "attention": 0.22,
    "convolution": 0.26,
    "lookup": 0.1,
    "norm": 0.2,
    "pointwise": 0.07,
    "product": 0.14,
    "resize": 0.11,
    "update": 0.12,
}


@pytest.fixture(scope="module")
def held_out_results():
    return [compared(row, operations) for row, operations in kept_held_out()]


@pytest.mark.parametrize("kind", WITHIN)
def test_operations_that_were_held_out_take_about_as_long_as_on_a_gpu(kind, held_out_results):
    ratios = [result.time_ratio for result in held_out_results if result.family.split()[0] == kind]
    errors = [abs(ratio - 1) for ratio in ratios if ratio is not None]
    assert len(errors) > 2
    assert median(errors) < WITHIN[kind]


@pytest.mark.parametrize("kind", ["resize", "norm", "lookup", "product", "pointwise"])
def test_operations_that_were_held_out_take_the_scratch_space_that_they_took(kind, held_out_results):
    off = [result.scratch_error != 0 for result in held_out_results if result.family.split()[0] == kind]
    assert sum(off) <= 0.03 * len(off)


def test_what_was_kept_was_held_out():
    assert all(held_out(row) for row, _ in kept_held_out())


def seconds_of(op):
    return device_seconds(op, H200, tf32=False)


def resized(name, *shape, factor=2, dtype=FP32):
    image = tensor(*shape, dtype=dtype)
    result = tensor(*shape[:2], *(factor * side for side in shape[2:]), dtype=dtype)
    return operation(f"aten.{name}.default", [image], [result])


def spread(name, *shape, dtype=FP32):
    forward = resized(name, *shape, dtype=dtype)
    return operation(f"aten.{name}_backward.default", forward.outputs, forward.inputs)


@pytest.mark.parametrize("name", ["upsample_bilinear2d", "upsample_bicubic2d"])
def test_small_images_with_many_channels_are_interpolated_slowly(name):
    small, large = seconds_of(resized(name, 32, 512, 16, 16)), seconds_of(resized(name, 1, 16, 512, 512))
    assert small > 5 * large


def test_more_neighbours_and_atomic_additions_take_longer():
    nearest, bilinear, bicubic = (
        seconds_of(resized(f"upsample_{name}2d", 16, 64, 64, 64)) for name in ("nearest", "bilinear", "bicubic")
    )
    assert nearest < bilinear < bicubic
    for name in ("upsample_bilinear2d", "upsample_bicubic2d"):
        in_full, in_half = (seconds_of(spread(name, 16, 64, 64, 64, dtype=dtype)) for dtype in (FP32, BF16))
        assert in_half > 2 * in_full


def test_an_interpolation_in_channels_last_does_not_walk():
    plain = resized("upsample_bilinear2d", 32, 512, 16, 16)
    image, result = (one._replace(contiguous=False, channels_last=True) for one in (*plain.inputs, *plain.outputs))
    assert seconds_of(operation(plain.name, [image], [result])) < seconds_of(plain) / 5


def test_a_group_norm_of_few_groups_leaves_most_of_the_gpu_idle():
    def normed(samples, groups):
        image, sums = tensor(samples, 256, 64, 64), tensor(samples, groups)
        return seconds_of(operation("aten.native_group_norm.default", [image], [image, sums, sums]))

    assert normed(2, 8) > 2 * normed(2, 64)


def test_a_large_window_of_adaptive_pooling_is_read_value_by_value():
    def pooled(side):
        image, result = tensor(1, 16, side, side), tensor(1, 16, 4, 4)
        return seconds_of(operation("aten._adaptive_avg_pool2d.default", [image], [result]))

    assert pooled(256) > 3 * pooled(128)


def test_an_embedding_reads_rows_and_not_the_table():
    def looked_up(words):
        table, result = tensor(words, 768), tensor(4096, 768)
        return seconds_of(operation("aten.embedding.default", [table, tensor(4096, dtype=torch.int64)], [result]))

    assert looked_up(200_000) == looked_up(20_000)


def test_a_causal_mask_spares_almost_half_of_long_attention():
    def attended(tokens, is_causal, dtype=FP32, kernel="efficient"):
        heads = tensor(16, 16, tokens, 64, dtype=dtype)
        arguments = [None, False, 0.0, is_causal]
        return seconds_of(
            operation(f"aten._scaled_dot_product_{kernel}_attention.default", 3 * [heads], [heads], arguments)
        )

    assert attended(4096, is_causal=True) < 0.6 * attended(4096, is_causal=False)
    assert attended(64, is_causal=True) == attended(64, is_causal=False)
    in_half = [attended(4096, is_causal=is_causal, dtype=BF16, kernel="cudnn") for is_causal in (True, False)]
    assert in_half[0] < 0.7 * in_half[1]


def convolved(mask=(), groups=1, channels=256):
    image, weight = tensor(32, channels, 28, 28), tensor(channels, channels // groups, 3, 3)
    how = [1, 1, 1, 1, 1, 1, False, 0, 0, groups]
    if not mask:
        return seconds_of(operation("aten.convolution.default", [image, weight], [image], [None, *how]))
    return seconds_of(
        operation("aten.convolution_backward.default", [image, image, weight], [], [channels, *how, *mask])
    )


@pytest.mark.parametrize("groups", [1, 4, 256])
def test_each_gradient_of_a_convolution_takes_its_time(groups):
    of_image, of_weight, of_both = (
        convolved(mask, groups) for mask in ((True, False, False), (False, True, False), (True, True, False))
    )
    assert of_both == pytest.approx(of_image + of_weight, rel=0.1)


def test_a_few_channels_take_as_long_as_a_block_of_them():
    assert convolved(channels=40) > 0.6 * convolved(channels=64)


def test_half_precision_rows_of_even_length_are_twice_as_fast_as_odd_ones():
    def multiplied(width):
        left, right = tensor(8192, 768, dtype=BF16), tensor(768, width, dtype=BF16)
        return seconds_of(operation("aten.mm.default", [left, right], [tensor(8192, width, dtype=BF16)]))

    assert multiplied(50264) < multiplied(50260) < multiplied(50257)


def test_an_update_takes_as_long_in_half_precision():
    def updated(dtype, name="_foreach_mul_.Scalar"):
        return seconds_of(operation(f"aten.{name}", [tensor(10**7, dtype=dtype)] * 4))

    assert updated(BF16) == updated(FP32)
    assert updated(FP32, "_foreach_addcdiv_.Scalar") > updated(BF16, "_foreach_addcdiv_.Scalar")

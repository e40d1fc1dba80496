import gzip
import json
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memorymark.catalog import all_gpus, find_gpu
from memorymark.prediction.timing.roofline import COSTS, KINDS, device_seconds, host_seconds, launches, step_seconds
from memorymark.prediction.tracing.fake_step import trace_training
from memorymark.question.recipe import Recipe
from support.operations import operation, program, tensor
from support.tiny import tiny

TIMED = [gpu for gpu in all_gpus() if not gpu.memory_only]

A100, T4, H200 = find_gpu("a100-40gb"), find_gpu("t4"), find_gpu("h200")
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def product(rows=4096, depth=4096, columns=4096, dtype=FP32):
    tensors = [tensor(*shape, dtype=dtype) for shape in ((rows, depth), (depth, columns), (rows, columns))]
    return operation("aten.mm.default", tensors[:2], tensors[2:])


def batched_product(batch, dtype=FP32):
    left, right, result = (tensor(batch, 512, 512, dtype=dtype) for _ in range(3))
    return operation("aten.bmm.default", [left, right], [result])


def grouped_product(rows=4096, experts=1, dtype=BF16):
    left, right = tensor(rows, 4096, dtype=dtype), tensor(experts, 4096, 4096, dtype=dtype)
    offsets = tensor(experts, dtype=torch.int32)
    return operation("aten._grouped_mm.default", [left, right, offsets], [tensor(rows, 4096, dtype=dtype)])


def elementwise(rows, **facts):
    return operation("aten.mul.Tensor", [tensor(rows, 1024, **facts)] * 2, [tensor(rows, 1024, **facts)])


def attention(batch, dtype=FP32, kernel="efficient", tokens=128, numbers=()):
    heads = tensor(batch, 12, tokens, 64, dtype=dtype)
    return operation(f"aten._scaled_dot_product_{kernel}_attention.default", [heads] * 3, [heads], [None, *numbers])


def convolution(batch, channels=64, window=3, groups=1, bias=False, **facts):
    image, result = (tensor(batch, channels, 56, 56, **facts) for _ in range(2))
    weight = tensor(channels, channels // groups, window, window)
    edge = window // 2
    biases = [tensor(channels)] if bias else []
    arguments = [*([] if bias else [None]), 1, 1, edge, edge, 1, 1, False, 0, 0, groups]
    return operation("aten.convolution.default", [image, weight, *biases], [result], arguments)


def norm(name):
    return lambda batch: operation(f"aten.{name}.default", [tensor(batch, 64, 56, 56)], [tensor(batch, 64, 56, 56)])


GROWING = {
    "product": lambda batch: product(rows=128 * batch),
    "bf16 product": lambda batch: product(rows=128 * batch, dtype=BF16),
    "batched product": batched_product,
    "grouped product": lambda batch: grouped_product(rows=128 * batch, experts=8),
    "elementwise": lambda batch: elementwise(1024 * batch),
    "attention": attention,
    "bf16 attention": lambda batch: attention(batch, BF16, "flash"),
    "convolution": convolution,
    "pointwise convolution": lambda batch: convolution(batch, window=1),
    "depthwise convolution": lambda batch: convolution(batch, groups=64),
    "convolution of colours": lambda batch: convolution(batch, channels=3),
    "channels-last convolution": lambda batch: convolution(batch, contiguous=False, channels_last=True),
    "batch norm": norm("native_batch_norm"),
    "layer norm": norm("native_layer_norm"),
    "softmax": norm("_softmax"),
    "sum": norm("sum"),
}


@pytest.mark.parametrize("gpu", [T4, A100, H200], ids=lambda gpu: gpu.id)
@pytest.mark.parametrize("kind", GROWING)
def test_an_operation_takes_longer_on_twice_the_batch(kind, gpu):
    seconds = [device_seconds(GROWING[kind](2**power), gpu, tf32=False) for power in range(3, 11)]
    assert seconds == sorted(seconds)
    assert 1.9 < seconds[-1] / seconds[-2] < 2.1


@pytest.mark.parametrize("gpu", [T4, A100, H200], ids=lambda gpu: gpu.id)
def test_one_more_row_never_makes_a_product_faster(gpu):
    seconds = [device_seconds(product(rows, 768, 768), gpu, tf32=False) for rows in range(100, 500)]
    assert seconds == sorted(seconds)


@pytest.fixture(scope="module")
def step():
    return trace_training(tiny(), Recipe(), (8, 0)).later


def test_a_step_takes_the_device_longer_the_larger_its_batch(step):
    def seconds(batch_size):
        operations = [growth.at(batch_size) for growth in step.operations]
        return sum(device_seconds(op, A100, tf32=False) for op in operations if launches(op))

    times = [seconds(2**power) for power in range(3, 20)]
    assert times == sorted(times)
    assert times[-1] > 1.5 * times[-2]


def test_a_product_in_bf16_is_faster_than_in_fp32_on_an_a100():
    in_bf16, in_fp32 = (device_seconds(product(dtype=dtype), A100, tf32=False) for dtype in (BF16, FP32))
    assert in_bf16 < in_fp32 / 4


def test_a_product_in_fp16_is_not_slower_than_in_fp32_on_a_t4():
    in_fp16, in_fp32 = (device_seconds(product(dtype=dtype), T4, tf32=False) for dtype in (FP16, FP32))
    assert in_fp16 < in_fp32


def test_tensor_cores_before_ampere_do_not_know_bf16():
    in_bf16, in_fp16 = (device_seconds(product(dtype=dtype), T4, tf32=False) for dtype in (BF16, FP16))
    assert in_bf16 > 4 * in_fp16
    assert device_seconds(product(dtype=BF16), A100, tf32=False) == device_seconds(
        product(dtype=FP16), A100, tf32=False
    )


@pytest.mark.parametrize("gpu", TIMED, ids=lambda gpu: gpu.id)
def test_tf32_helps_where_tensor_cores_know_it_and_nowhere_else(gpu):
    plain, with_tf32 = (device_seconds(product(), gpu, tf32=tf32) for tf32 in (False, True))
    if gpu.tf32_flops > gpu.fp32_flops:
        assert with_tf32 < plain
    else:
        assert with_tf32 == plain


@pytest.mark.parametrize("op", [product(dtype=BF16), elementwise(64), attention(8)], ids=lambda op: op.name)
def test_tf32_changes_only_products_of_fp32(op):
    assert device_seconds(op, A100, tf32=True) == device_seconds(op, A100, tf32=False)


def test_a_gpu_with_more_bandwidth_moves_numbers_faster():
    slow, fast = find_gpu("a100-40gb"), find_gpu("a100-80gb")
    assert device_seconds(elementwise(10**5), fast, tf32=False) < device_seconds(elementwise(10**5), slow, tf32=False)


def test_numbers_that_do_not_lie_side_by_side_take_longer():
    plain, strided = elementwise(10**5), elementwise(10**5, contiguous=False)
    images = elementwise(10**5, contiguous=False, channels_last=True)
    assert device_seconds(strided, A100, tf32=False) > device_seconds(plain, A100, tf32=False)
    assert device_seconds(images, A100, tf32=False) == device_seconds(plain, A100, tf32=False)


def seconds_of(op, gpu=H200):
    return device_seconds(op, gpu, tf32=False)


def test_half_precision_rows_that_are_no_whole_words_are_slow():
    """As with a vocabulary of 50,257 words."""
    odd, even = seconds_of(product(8192, 768, 50257, BF16)), seconds_of(product(8192, 768, 50264, BF16))
    assert odd > 4 * even
    assert seconds_of(product(8192, 768, 50257)) < 1.1 * seconds_of(product(8192, 768, 50264))
    for gpu in TIMED:
        assert seconds_of(product(8192, 768, 50257, FP16), gpu) > 0.95 * seconds_of(
            product(8192, 768, 50264, FP16), gpu
        )


def test_how_a_matrix_lies_decides_which_rows_are_odd():
    weights = tensor(4096, 768, dtype=BF16)
    lying, transposed = (tensor(768, 4096, dtype=BF16, contiguous=contiguous) for contiguous in (True, False))
    for left in (lying, transposed):
        many = left._replace(shape=(left.shape[0] + 1, left.shape[1]))
        op = operation("aten.mm.default", [many, weights], [tensor(many.shape[0], 768, dtype=BF16)])
        is_odd = seconds_of(op) > 3 * seconds_of(operation("aten.mm.default", [left, weights], [weights]))
        assert is_odd == (not left.contiguous)


def test_a_longer_sample_takes_attention_longer_by_whole_tiles():
    def seconds(tokens):
        return seconds_of(attention(64, BF16, "cudnn", tokens))

    assert seconds(200) == pytest.approx(seconds(256), rel=0.25)
    assert 3 < seconds(4096) / seconds(2048) < 4.1


@pytest.mark.parametrize(("dtype", "kernel"), [(FP32, "efficient"), (BF16, "cudnn")])
def test_dropout_of_attention_takes_time(dtype, kernel):
    def seconds(*numbers):
        return seconds_of(attention(256, dtype, kernel, numbers=numbers))

    assert seconds(0.0) == seconds() < seconds(0.1)


def test_attention_of_another_shape_is_no_error():
    rows = tensor(8, 128, 64)
    assert seconds_of(operation("aten._native_multi_head_attention.default", [rows] * 3, [rows])) > 0


def test_a_copy_into_a_tensor_takes_as_long_as_one_into_a_new_one():
    full, half = tensor(10**5, 1024), tensor(10**5, 1024, dtype=BF16)
    new, there = (
        seconds_of(operation(f"aten.{name}.default", inputs, [half]))
        for name, inputs in (("_to_copy", [full]), ("copy_", [half, full]))
    )
    assert new <= there < 1.5 * new


def test_a_transposed_convolution_counts_the_places_of_its_image():
    image, weight, result = tensor(64, 512, 28, 28), tensor(512, 64, 3, 3), tensor(64, 64, 28, 28)
    arguments = [None, 1, 1, 1, 1, 1, 1, True, 0, 0, 1]
    narrowing = operation("aten.convolution.default", [image, weight], [result], arguments)
    weight = tensor(64, 512, 3, 3)
    the_same = operation("aten.convolution.default", [image, weight], [result], [*arguments[:7], False, *arguments[8:]])
    assert seconds_of(narrowing) == pytest.approx(seconds_of(the_same), rel=0.01)


def test_types_that_are_mixed_and_tensors_that_are_stretched_take_longer():
    def sum_of(first, second):
        return seconds_of(operation("aten.add.Tensor", [first, second], [tensor(10**5, 1024)]))

    full, half, row = tensor(10**5, 1024), tensor(10**5, 1024, dtype=BF16), tensor(1024)
    assert sum_of(full, half) > 1.2 * sum_of(full, full)
    assert sum_of(full, row) > 1.3 * sum_of(full, full) * 8 / 12


def test_a_copy_to_a_wider_type_takes_longer_than_one_to_a_narrower_one():
    full, half = tensor(10**5, 1024), tensor(10**5, 1024, dtype=BF16)
    wider, narrower = (
        seconds_of(operation("aten._to_copy.default", [a], [b])) for a, b in ((half, full), (full, half))
    )
    assert wider > 1.8 * narrower


def test_a_bias_costs_a_convolution_a_pass_over_its_result():
    assert seconds_of(convolution(64, bias=True)) > 1.05 * seconds_of(convolution(64))


@pytest.mark.parametrize("name", ["view.default", "t.default", "transpose.int", "detach.default", "slice.Tensor"])
def test_views_run_nothing_on_the_device_and_little_on_the_host(name):
    view = operation(f"aten.{name}", [tensor(8, 8)], [tensor(8, 8)], eager=True)
    kernel = operation("aten.relu.default", [tensor(8, 8)], [tensor(8, 8)], eager=True)
    assert not launches(view)
    assert launches(kernel)
    assert asked(view) < asked(kernel)


def test_the_end_of_a_phase_runs_nothing():
    assert not launches(operation("phase end"))


def asked(*operations, updated=4, phase="forward", **options):
    """The host's time for a step of these operations."""
    return host_seconds(program((phase, operations)), updated, **options)


def test_the_host_takes_as_long_for_large_tensors_as_for_small_ones():
    assert asked(elementwise(8)) == asked(elementwise(40_000)) > 0


def test_the_host_takes_longer_for_more_calls_more_parameters_and_calls_from_python():
    by_autograd, called = elementwise(8), replace(elementwise(8), eager=True)
    assert asked(called, called) > asked(called)
    assert asked(called, updated=5) > asked(called)
    assert asked(called, updated=5, fused=True) < asked(called, updated=5)
    assert asked(called) > asked(by_autograd)


def test_a_call_that_checkpointing_repeats_takes_the_host_longer_than_the_first():
    called, by_autograd = replace(elementwise(8), eager=True), elementwise(8)
    assert asked(called, phase="backward") > asked(called)
    assert asked(by_autograd, phase="backward") == asked(by_autograd)


seconds = st.floats(1e-5, 1e3)


@settings(deadline=None)
@given(device=seconds, host=seconds)
def test_a_step_takes_at_least_as_long_as_the_slower_of_host_and_device(device, host):
    slower = max(device, host)
    assert slower * (1 - 1e-9) <= step_seconds(device, host) <= 1.2 * slower


def test_every_kind_of_work_has_its_costs():
    assert set(KINDS.values()) <= set(COSTS)


@pytest.mark.parametrize("gpu", TIMED, ids=lambda gpu: gpu.id)
def test_what_may_use_tf32_is_never_slower_for_it_and_never_faster_than_the_memory(gpu):
    for rows, depth, columns in ((64, 512, 32000), (4096, 512, 1376), (4096, 32000, 512), (16, 16, 16)):
        operation = product(rows, depth, columns)
        plain, with_tf32 = (device_seconds(operation, gpu, tf32=tf32) for tf32 in (False, True))
        moved = sum(tensor.nbytes for tensor in (*operation.inputs, *operation.outputs))
        assert moved / gpu.bytes_per_second < with_tf32 <= plain


KERNELS = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "h200_kernels.json.gz").read_bytes()))


def recorded(facts):
    dtype, shape, layout = facts
    return tensor(
        *shape, dtype=getattr(torch, dtype), contiguous=layout == "contiguous", channels_last=layout == "channels last"
    )


def test_kernels_take_about_as_long_as_an_h200_took():
    errors = []
    for kernel in KERNELS:
        inputs, outputs = (map(recorded, kernel[side]) for side in ("inputs", "outputs"))
        op = operation(kernel["name"], inputs, outputs, kernel["arguments"])
        errors.append(abs(1e3 * device_seconds(op, H200, tf32=kernel["tf32"]) / kernel["milliseconds"] - 1))

    assert len(errors) > 500
    middle, most = quantiles(errors, n=20)[9], quantiles(errors, n=20)[17]
    assert middle < 0.15
    assert most < 0.6


def test_a_grouped_product_of_one_group_takes_as_long_as_a_plain_one():
    plain = device_seconds(product(dtype=BF16), H200, tf32=False)

    assert device_seconds(grouped_product(), H200, tf32=False) == pytest.approx(plain, rel=1e-6)


def test_the_gradient_of_grouped_weights_takes_as_long_as_the_product():
    rows, experts = 8192, 8
    left, right = tensor(4096, rows, dtype=BF16, contiguous=False), tensor(rows, 4096, dtype=BF16)
    result = tensor(experts, 4096, 4096, dtype=BF16)
    gradient = operation("aten._grouped_mm.default", [left, right, tensor(experts, dtype=torch.int32)], [result])

    forward = device_seconds(grouped_product(rows, experts), H200, tf32=False)
    assert device_seconds(gradient, H200, tf32=False) == pytest.approx(forward, rel=0.1)

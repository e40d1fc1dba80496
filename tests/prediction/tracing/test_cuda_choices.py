import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from memorymark.errors import UsageError
from memorymark.prediction.tracing.cuda_choices import cuda_choices
from memorymark.prediction.tracing.sharing import generation
from support.operations import tracing, tracing_for

HOPPER, AMPERE, TURING = (9, 0), (8, 6), (7, 5)
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def names(trace):
    return [op.name for op in trace.operations]


RUN_LOWER = {
    "linear": lambda x: functional.linear(x, torch.rand(8, 8)),
    "linear with a bias": lambda x: functional.linear(x, torch.rand(8, 8), torch.rand(8)),
    "matmul": lambda x: x @ x.transpose(-1, -2),
    "bmm": lambda x: torch.bmm(x[0], x[0]),
    "einsum": lambda x: torch.einsum("bcij,bcjk->bcik", x, x),
    "conv1d": lambda x: functional.conv1d(x[0], torch.rand(2, 8, 3)),
    "conv2d": lambda x: functional.conv2d(x, torch.rand(2, 4, 3, 3), torch.rand(2)),
    "conv_transpose2d": lambda x: functional.conv_transpose2d(x, torch.rand(4, 2, 3, 3)),
    "attention": lambda x: scaled_dot_product_attention(x, x, x),
}
RUN_IN_FP32 = {
    "layer norm": lambda x: functional.layer_norm(x, (8,), torch.ones(8), torch.zeros(8)),
    "group norm": lambda x: functional.group_norm(x, 2),
    "softmax": lambda x: x.softmax(-1),
    "log softmax": lambda x: functional.log_softmax(x, -1),
    "exp": torch.exp,
    "log": torch.log,
    "power": lambda x: x.pow(2),
    "rsqrt": torch.rsqrt,
    "sum": torch.sum,
    "sum of rows": lambda x: x.sum(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "squared error": lambda x: functional.mse_loss(x, torch.zeros_like(x)),
}
LEFT_ALONE = {
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "sum with a dtype": lambda x: x.sum(-1, dtype=BF16),
    "softmax with a dtype": lambda x: x.softmax(-1, dtype=BF16),
    "mean": torch.mean,
    "add": lambda x: x + x,
    "gelu": functional.gelu,
    "relu": torch.relu,
    "average pooling": lambda x: functional.adaptive_avg_pool2d(x, 1),
    "max pooling": lambda x: functional.max_pool2d(x, 2),
    "batch norm": lambda x: functional.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
}
CASTS = [
    *[(name, function, given, BF16) for name, function in RUN_LOWER.items() for given in (FP32, BF16)],
    *[(name, function, given, FP32) for name, function in RUN_IN_FP32.items() for given in (FP32, BF16)],
    *[(name, function, BF16, BF16) for name, function in LEFT_ALONE.items()],
    *[(name, function, FP32, FP32) for name, function in LEFT_ALONE.items() if "dtype" not in name],
]


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [pytest.param(*case, id=f"{name}-{case[1]}") for name, *case in CASTS],
)
def test_autocast_gives_the_types_it_gives_on_cuda(function, given, expected):
    with tracing_for(HOPPER):
        x = torch.rand(2, 4, 8, 8, dtype=given)
        with torch.autocast("cpu", BF16):
            assert function(x).dtype == expected


def test_autocast_to_fp16_is_known_too():
    with tracing_for(TURING), torch.autocast("cpu", FP16):
        x = torch.rand(4, 8)
        assert (x @ x.t()).dtype == FP16
        assert (x @ x.t()).softmax(-1).dtype == FP32


def test_autocast_refuses_the_loss_of_probabilities_that_it_refuses_on_cuda():
    with tracing_for(HOPPER):
        probabilities, labels = torch.rand(4, 8, dtype=FP32), torch.rand(4, 8)
        with (
            torch.autocast("cpu", BF16),
            pytest.raises(UsageError, match="use binary_cross_entropy_with_logits"),
        ):
            functional.binary_cross_entropy(probabilities, labels)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_loss_of_probabilities_is_let_be_where_autocast_is_off(device):
    with tracing_for(HOPPER):
        probabilities, labels = torch.rand(4, 8), torch.rand(4, 8)
        assert functional.binary_cross_entropy(probabilities, labels).dtype == FP32
        with torch.autocast("cpu", BF16), torch.autocast(device, enabled=False):
            assert functional.binary_cross_entropy(probabilities, labels).dtype == FP32


def test_double_precision_is_not_cast():
    with tracing_for(HOPPER), torch.autocast("cpu", BF16):
        x = torch.rand(8, 8, dtype=torch.float64)
        assert (x @ x).dtype == torch.float64


@pytest.mark.parametrize(("other", "expected"), [(BF16, BF16), (FP32, FP32)])
def test_where_types_mix_the_widest_wins(other, expected):
    with tracing_for(HOPPER), torch.autocast("cpu", BF16):
        x = torch.rand(4, 8, dtype=BF16)
        assert torch.addcmul(x, x, torch.rand(4, 8, dtype=other)).dtype == expected


def test_without_autocast_nothing_is_cast():
    with tracing_for(HOPPER):
        x = torch.rand(8, 8)
        assert (x @ x).dtype == FP32
        assert (x.bfloat16() @ x.bfloat16()).softmax(-1).dtype == BF16


def test_cross_entropy_of_half_precision_takes_the_softmax_in_half_and_the_loss_in_fp32():
    with tracing_for(HOPPER) as tracer:
        logits, labels = torch.rand(4, 8, dtype=BF16), torch.randint(0, 8, (4,))
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            loss = functional.cross_entropy(logits, labels)
    softmax = next(op for op in trace.operations if op.name == "aten._log_softmax.default")
    assert [t.dtype for t in (*softmax.inputs, *softmax.outputs)] == [BF16, BF16]
    assert loss.dtype == FP32


@pytest.mark.parametrize("function", [functional.softmax, functional.log_softmax])
def test_a_softmax_reads_half_precision_and_writes_fp32_without_a_copy(function):
    with tracing_for(HOPPER) as tracer:
        x = torch.rand(4, 8, dtype=BF16)
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            function(x, -1)
    (op,) = trace.operations
    assert (op.inputs[0].dtype, op.outputs[0].dtype) == (BF16, FP32)


def casts_of(trace, shape):
    return [op for op in trace.operations if op.name == "aten._to_copy.default" and op.inputs[0].shape == shape]


def test_a_weight_is_cast_once_in_a_forward_pass_and_again_in_the_next():
    layer = nn.Linear(8, 8)
    with tracing_for(HOPPER, layer) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            layer(layer(layer(x)))
            assert len(casts_of(trace, (8, 8))) == len(casts_of(trace, (8,))) == 1
        with torch.autocast("cpu", BF16):
            layer(layer(x))
    assert len(casts_of(trace, (8, 8))) == len(casts_of(trace, (8,))) == 2


def test_the_cast_weights_are_given_back_when_autocast_ends():
    layer = nn.Linear(8, 8, bias=False)
    with tracing_for(HOPPER, layer) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        with torch.no_grad(), torch.autocast("cpu", BF16):
            layer(x)
        tracer.mark("forward")
    (cast,) = casts_of(trace, (8, 8))
    assert cast.made[0][0] in trace.operations[-1].freed


def test_without_its_cache_autocast_casts_a_weight_whenever_it_is_used():
    layer = nn.Linear(8, 8)
    with tracing_for(HOPPER, layer) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        with torch.autocast("cpu", BF16, cache_enabled=False):
            layer(layer(x))
    assert len(casts_of(trace, (8, 8))) == 2


def test_what_is_not_a_weight_is_cast_whenever_it_is_used():
    layer = nn.Linear(8, 8)
    with tracing_for(HOPPER, layer) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            layer(x)
            layer(x)
    assert len(casts_of(trace, (4, 8))) == 2


def test_the_last_argument_is_cast_first():
    layer = nn.Linear(8, 6)
    with tracing_for(HOPPER, layer) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            layer(x)
    casts = [op.inputs[0].shape for op in trace.operations if op.name == "aten._to_copy.default"]
    assert casts == [(6,), (6, 8), (4, 8)]


def test_dropout_keeps_a_mask_of_one_byte_an_element():
    with tracing_for(HOPPER) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        nn.Dropout(0.1)(x)
    (op,) = trace.operations
    assert op.name == "aten.native_dropout.default"
    assert [t.dtype for t in op.outputs] == [FP32, torch.bool]


@pytest.mark.parametrize("dropout", [nn.Dropout(0.1).eval(), nn.Dropout(0.0)])
def test_dropout_that_drops_nothing_is_no_operation(dropout):
    with tracing_for(HOPPER) as tracer:
        x = torch.rand(4, 8)
        trace = tracer.start()
        assert dropout(x) is x
    assert trace.operations == []


def attended(capability, dtype, mask=None, *, width=64, heads=4, key_heads=4, causal=False):
    """The names of the operations of an attention and of its backward pass."""
    with tracing_for(capability) as tracer:
        query = torch.rand(2, heads, 16, width, dtype=dtype, requires_grad=True)
        key, value = (torch.rand(2, key_heads, 16, width, dtype=dtype, requires_grad=True) for _ in range(2))
        trace = tracer.start()
        result = scaled_dot_product_attention(
            query, key, value, mask(dtype) if mask else None, is_causal=causal, enable_gqa=key_heads != heads
        )
        assert (result.shape, result.dtype) == (query.shape, dtype)
        result.sum().backward()
        assert (query.grad.shape, key.grad.shape, value.grad.shape) == (query.shape, key.shape, value.shape)
    return names(trace)


def kernels(operations):
    """The kernel of the forward and that of the backward pass."""
    fused = [name.split(".")[1] for name in operations if "attention" in name]
    if fused:
        return [name.removeprefix("_scaled_dot_product_").replace("_attention", "") for name in fused]
    return ["math"] if {"aten.bmm.default", "aten._safe_softmax.default"} & set(operations) else []


def additive(dtype):
    return torch.zeros(2, 1, 16, 16, dtype=dtype)


def boolean(dtype):
    return torch.ones(2, 1, 16, 16, dtype=torch.bool)


def permuted(dtype):
    return torch.zeros(1, 16, 16, 4, dtype=dtype).permute(0, 3, 1, 2)


def trained(dtype):
    return torch.zeros(1, 4, 16, 16, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    ("capability", "dtype", "options", "kernel"),
    [
        (HOPPER, BF16, {}, "cudnn"),
        (HOPPER, FP16, {"causal": True}, "cudnn"),
        ((10, 0), BF16, {}, "cudnn"),
        (HOPPER, BF16, {"mask": additive}, "cudnn"),
        (HOPPER, BF16, {"mask": boolean}, "cudnn"),
        (HOPPER, BF16, {"width": 128}, "cudnn"),
        (HOPPER, BF16, {"width": 256}, "flash"),
        (HOPPER, BF16, {"width": 20}, "flash"),
        (HOPPER, BF16, {"mask": trained}, "efficient"),
        (AMPERE, BF16, {}, "flash"),
        (AMPERE, FP16, {"causal": True}, "flash"),
        ((8, 0), BF16, {}, "flash"),
        ((8, 9), BF16, {}, "flash"),
        ((12, 0), BF16, {}, "flash"),
        (AMPERE, BF16, {"key_heads": 2}, "flash"),
        (AMPERE, BF16, {"mask": additive}, "efficient"),
        (AMPERE, BF16, {"mask": boolean}, "efficient"),
        (HOPPER, FP32, {}, "efficient"),
        (AMPERE, FP32, {"mask": additive}, "efficient"),
        (TURING, FP32, {}, "efficient"),
        (TURING, FP16, {}, "efficient"),
        (TURING, FP16, {"causal": True}, "efficient"),
    ],
)
def test_attention_takes_the_kernel_it_takes_on_the_gpu_and_its_backward_pass_too(capability, dtype, options, kernel):
    assert kernels(attended(capability, dtype, **options)) == [kernel, f"{kernel}_backward"]


@pytest.mark.parametrize(
    ("capability", "dtype", "options"),
    [
        (HOPPER, FP32, {"mask": permuted}),
        (HOPPER, BF16, {"mask": permuted}),
        (AMPERE, BF16, {"mask": permuted}),
        (HOPPER, FP32, {"key_heads": 2}),
        (TURING, FP16, {"key_heads": 2}),
        (TURING, BF16, {}),
        (HOPPER, FP32, {"width": 18}),
    ],
)
def test_attention_that_no_fused_kernel_takes_is_computed_step_by_step(capability, dtype, options):
    assert kernels(attended(capability, dtype, **options)) == ["math"]


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((7, 0), "before Ampere"),
        ((7, 5), "before Ampere"),
        ((8, 0), "flash attention"),
        ((8, 9), "flash attention"),
        ((9, 0), "cuDNN attention"),
        ((10, 0), "cuDNN attention"),
        ((12, 0), "flash attention"),
    ],
)
def test_generations_are_told_apart_by_their_attention(capability, name):
    assert generation(capability) == name


def choices():
    """What torch makes of tensors that are labelled CPU."""
    in_half = [*(RUN_IN_FP32 | LEFT_ALONE).values()]
    with tracing() as tracer:
        x = torch.rand(2, 4, 8, 8, requires_grad=True)
        trace = tracer.start()
        with torch.autocast("cpu", BF16):
            dtypes = [function(x).dtype for function in (*RUN_LOWER.values(), *RUN_IN_FP32.values())]
            dtypes += [function(x.bfloat16()).dtype for function in in_half]
            functional.dropout(x, 0.1)
        scaled_dot_product_attention(x, x, x)
    return dtypes, names(trace), torch.clear_autocast_cache


def test_everything_is_as_before_when_the_choices_are_taken_back():
    before = choices()
    with cuda_choices(HOPPER):
        inside = choices()
    assert all(there != here for there, here in zip(inside, before, strict=True))
    assert choices() == before


def test_everything_is_as_before_when_something_failed_inside():
    before = choices()
    with pytest.raises(KeyError), cuda_choices(HOPPER):
        raise KeyError
    assert choices() == before


def test_the_choices_can_be_made_again_for_another_gpu():
    assert kernels(attended(HOPPER, BF16))[0] == "cudnn"
    assert kernels(attended(AMPERE, BF16))[0] == "flash"
    assert kernels(attended(HOPPER, BF16))[0] == "cudnn"


def test_recurrent_layers_work_again_afterwards():
    with cuda_choices(HOPPER):
        pass
    assert nn.LSTM(8, 8)(torch.rand(4, 2, 8))[0].shape == (4, 2, 8)

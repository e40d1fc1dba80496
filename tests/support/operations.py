"""Operations, and traces of them, as the tests of the prediction need them."""

from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from memorymark.prediction.tracing.cuda_choices import cuda_choices
from memorymark.prediction.tracing.fake_step import fake_copy
from memorymark.prediction.tracing.operation import Operation, TensorFacts
from memorymark.prediction.tracing.program import Growth, Program
from memorymark.prediction.tracing.tracer import Tracer


@contextmanager
def tracing(*models):
    """Tensors are fake inside, and a tracer looks on; the values of these models' weights are not known."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    for model in models:
        fake_copy(model, fake_mode)
    tracer = Tracer(fake_mode)
    with fake_mode, tracer:
        yield tracer


@contextmanager
def tracing_for(capability, *models):
    """As on a GPU of this compute capability."""
    with cuda_choices(capability), tracing(*models) as tracer:
        yield tracer


def tensor(*shape, dtype=torch.float32, contiguous=True, channels_last=False):
    return TensorFacts(shape, dtype, 0, contiguous, channels_last)


def operation(name, inputs=(), outputs=(), arguments=(), freed=(), made=(), eager=False):
    return Operation(name, tuple(inputs), tuple(outputs), tuple(arguments), tuple(freed), tuple(made), eager)


def program(*phases):
    """A step that is the same at any batch size: for each phase its name and its operations."""
    operations, marks = [], []
    for phase, done in phases:
        operations += [Growth(op, op, 1) for op in done]
        marks.append((phase, len(operations)))
    return Program(operations, marks)


def flash_operations(case):
    """The forward and the backward pass of flash-attn's kernels in a recorded case."""
    tokens, texts = case["tokens"], case["tokens"] // case["texts_of"] if case["texts_of"] else 0
    leading = (tokens,) if texts else (case["batch"], tokens)
    heads, shared = (
        tensor(*leading, case[count], case["width"], dtype=torch.bfloat16) for count in ("heads", "key_heads")
    )
    sums = tensor(*leading[:-1], case["heads"], tokens)
    bounds = 2 * [tensor(texts + 1, dtype=torch.int32)] if texts else []
    given, name = (0.0, case["causal"], False), "aten._flash_attention_{}.default"
    forward = operation(name.format("forward"), [heads, shared, shared, *bounds], [heads, sums], given)
    saved = [heads, heads, shared, shared, heads, sums, *bounds]
    return forward, operation(name.format("backward"), saved, [heads, shared, shared], given)

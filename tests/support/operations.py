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

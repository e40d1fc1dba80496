"""The time of a step whose operations were counted, as it is and as a change would make it. Needs torch for types only.

Rates and costs are those of the prediction (``prediction/timing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod

import torch

from memorymark.catalog import GpuEntry
from memorymark.prediction.timing import roofline
from memorymark.prediction.tracing.operation import MATRIX_PRODUCTS, Operation, TensorFacts
from memorymark.watch.operations import StepOperation, StepOperations

# What autocast leaves in 32 bits.
STAY_WIDE = ("layer_norm", "softmax", "nll_loss", "sum", "mean", "norm", "pow", "exp", "log", "cumsum", "dist")
CONVOLUTIONS = ("convolution", "convolution_backward")
BATCH_NORMS = ("native_batch_norm", "native_batch_norm_backward")
# Kinds of work that torch.compile fuses with their neighbours.
FUSED_KINDS = ("elementwise", "norm", "softmax", "reduction")
UPDATES = ("_foreach", "_fused")
# Autocast casts the weight and often the input.
CASTS_PER_PRODUCT = 2
# A fused Adam reads four tensors as large as the parameters and writes three.
FUSED_PASSES = 7
# Operations of whose time the prediction knows nothing.
UNTIMED = ("_cudnn_rnn", "_thnn_fused", "_sparse", "_ctc_loss")


@dataclass(frozen=True)
class StepTime:
    """The seconds of the GPU and of the host; ``fused_seconds`` of the GPU's are what torch.compile fuses."""

    device_seconds: float
    host_seconds: float
    fused_seconds: float = 0.0
    forward_seconds: float = 0.0
    update_seconds: float = 0.0


class TimedStep:
    """A step that can be timed as it was, larger, in half precision, in channels_last."""

    def __init__(self, step: StepOperations, gpu: GpuEntry, *, tf32: bool) -> None:
        self._step, self._gpu, self._tf32 = step, gpu, tf32
        self._shapes = set(step.parameters) | {shape[::-1] for shape in step.parameters}
        self._sizes = {length for shape in step.parameters for length in shape}
        self._updated = sum(map(prod, step.parameters))

    @property
    def is_known(self) -> bool:
        """Tells whether the prediction knows what the time goes into."""
        unknown = sum(one.times for one in self._step.operations if one.operation.base_name.startswith(UNTIMED))
        launched = sum(one.times for one in self._step.operations if roofline.launches(one.operation))
        return bool(launched) and not unknown

    def as_it_is(self) -> StepTime:
        """Returns the time of the step as it ran."""
        return self._time(lambda operation: operation)

    def larger(self, factor: float, fewer: float = 1.0) -> StepTime:
        """Returns the time with a batch larger by a factor, if ``fewer`` times fewer batches make a step."""
        return self._time(lambda operation: self._grown(operation, factor), fewer=fewer)

    def in_half(self, dtype: torch.dtype) -> StepTime:
        """Returns the time under autocast, with its casts of the weights."""
        plain = self._time(lambda operation: _narrow(operation, dtype))
        weights = self._updated * (4 + 2) / self._gpu.bytes_per_second
        products = [one for one in self._step.operations if _runs_in_half(one.operation)]
        calls = CASTS_PER_PRODUCT * sum(one.times * _host_seconds(one) for one in products)
        return replace(plain, device_seconds=plain.device_seconds + weights, host_seconds=plain.host_seconds + calls)

    def in_channels_last(self) -> StepTime:
        """Returns the time with convolutions and batch norms in the other layout."""
        return self._time(_channels_last)

    def with_fused_updates(self) -> StepTime:
        """Returns the time with an optimizer that updates everything in one pass."""
        now = self.as_it_is()
        fused = FUSED_PASSES * 4 * self._updated * roofline.COSTS["optimizer"][1] / self._gpu.bytes_per_second
        saved = max(now.update_seconds - fused, 0.0)
        calls = len(self._step.parameters) * (roofline.UPDATE_SECONDS - roofline.FUSED_UPDATE_SECONDS)
        return replace(now, device_seconds=now.device_seconds - saved, host_seconds=now.host_seconds - calls)

    def _time(self, change: Callable[[Operation], Operation], *, fewer: float = 1.0) -> StepTime:
        device = fused = forward = update = 0.0
        is_fused = any(one.operation.base_name.startswith("_fused") for one in self._step.operations)
        update_seconds = roofline.FUSED_UPDATE_SECONDS if is_fused else roofline.UPDATE_SECONDS
        host = roofline.STEP_SECONDS + update_seconds * len(self._step.parameters)
        for one in self._step.operations:
            times = one.times if one.phase == "optimizer" else one.times / fewer
            host += times * _host_seconds(one) if one.phase != "optimizer" else 0.0
            if not roofline.launches(one.operation):
                continue
            operation = change(one.operation) if one.phase != "optimizer" else one.operation
            seconds = times * roofline.device_seconds(operation, self._gpu, tf32=self._tf32)
            device += seconds
            if one.operation.base_name.startswith(UPDATES):
                update += seconds
            elif roofline.kind_of(operation, self._gpu).endswith(FUSED_KINDS) or "norm" in operation.base_name:
                fused += seconds
            forward += seconds if one.phase == "forward" else 0.0
        return StepTime(device, host, fused, forward, update)

    def _grown(self, operation: Operation, factor: float) -> Operation:
        return replace(
            operation,
            inputs=tuple(self._larger(tensor, factor) for tensor in operation.inputs),
            outputs=tuple(self._larger(tensor, factor) for tensor in operation.outputs),
        )

    def _larger(self, tensor: TensorFacts, factor: float) -> TensorFacts:
        """Returns a tensor with its batch grown: the first dimension as large, or a multiple that is no parameter's."""
        batch = self._step.batch_size
        if tensor.shape in self._shapes or batch < 1:
            return tensor
        places = [place for place, length in enumerate(tensor.shape) if length and length % batch == 0]
        likely = [place for place in places if tensor.shape[place] not in self._sizes]
        exact = [place for place in likely if tensor.shape[place] == batch]
        grows = next(iter(exact or likely or places), None)
        if grows is None:
            return tensor
        shape = list(tensor.shape)
        shape[grows] = max(round(shape[grows] * factor), 1)
        return tensor._replace(shape=tuple(shape))


def _host_seconds(one: StepOperation) -> float:
    if not roofline.launches(one.operation):
        return roofline.VIEW_SECONDS
    return roofline.EAGER_CALL_SECONDS if one.operation.eager else roofline.AUTOGRAD_CALL_SECONDS


def _runs_in_half(operation: Operation) -> bool:
    name = operation.base_name
    return name in MATRIX_PRODUCTS or name in CONVOLUTIONS or "attention" in name


def _narrow(operation: Operation, dtype: torch.dtype) -> Operation:
    if not _runs_in_half(operation) and any(wide in operation.base_name for wide in STAY_WIDE):
        return operation
    return replace(operation, inputs=_cast(operation.inputs, dtype), outputs=_cast(operation.outputs, dtype))


def _cast(tensors: Iterable[TensorFacts], dtype: torch.dtype) -> tuple[TensorFacts, ...]:
    return tuple(t._replace(dtype=dtype) if t.dtype == torch.float32 else t for t in tensors)


def _channels_last(operation: Operation) -> Operation:
    if operation.base_name not in CONVOLUTIONS and operation.base_name not in BATCH_NORMS:
        return operation

    def other(tensors: Iterable[TensorFacts]) -> tuple[TensorFacts, ...]:
        return tuple(t._replace(contiguous=False, channels_last=True) if len(t.shape) == 4 else t for t in tensors)

    return replace(operation, inputs=other(operation.inputs), outputs=other(operation.outputs))

"""Recurrent layers on fake tensors as torch runs them on CUDA: cuDNN's operators and torch's code around them.

The order of requests is that of torch's source (ATen/native/cudnn/RNN.cpp and ATen/cudnn/AutocastRNN.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from memorymark.errors import CannotPredictError
from memorymark.prediction.tracing.recurrent import GRU_MODE, LSTM_MODE, Recurrent

aten = torch.ops.aten
_AUTOCAST_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": LSTM_MODE, "gru": GRU_MODE}


def register(library: torch.library.Library) -> None:
    """Makes recurrent layers use cuDNN's operators for as long as the library lives."""
    library.impl("_pack_padded_sequence", _refuse_packed, "AutogradCPU")
    for name, mode in _MODES.items():
        library.impl(f"{name}.input", _lstm if mode == LSTM_MODE else _one_state(mode), "AutogradCPU")
        library.impl(f"{name}.data", _refuse_packed, "AutogradCPU")


def flatten_weights(model: nn.Module, empty: Callable[..., Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the weights of each recurrent layer and their places in one flat buffer, as ``.to("cuda")`` lays them out.

    ``empty`` makes the buffer. Weights that are shared, incomplete or of different types stay where they are.
    """
    seen: set[int] = set()
    for module in model.modules():
        if not isinstance(module, nn.RNNBase) or module.proj_size:
            continue
        weights = [module._parameters.get(name) for name in module._flat_weights_names]
        present = [weight for weight in weights if weight is not None]
        if len(present) != len(weights) or len({weight.dtype for weight in present}) != 1:
            continue
        if seen & {id(weight) for weight in present}:
            continue
        seen |= {id(weight) for weight in present}
        layer = _layer(
            _MODES[module.mode.lower()], present, module.hidden_size, module.num_layers, module.bidirectional
        )
        flat = empty(layer.weight_elements, dtype=present[0].dtype)
        yield from zip(present, _places(flat, present), strict=True)


def _layer(mode: int, weights: Sequence[Tensor], hidden: int, layers: int, bidirectional: bool) -> Recurrent:
    """Returns the layer as far as its weights determine it."""
    directions = 2 if bidirectional else 1
    return Recurrent(mode, weights[0].dtype, 0, 0, weights[0].shape[1], hidden, layers, directions, False, False)


def _places(flat: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """Returns tensors on one flat buffer, in cuDNN's order: matrices of all layers, then biases.

    They are not views of it: autograd would take a write to one for a change of the others.
    """
    places: dict[int, Tensor] = {}
    end = 0
    for index in sorted(range(len(weights)), key=lambda index: weights[index].dim() == 1):
        shape = weights[index].shape
        places[index] = flat.new_empty(0)
        places[index].data = flat[end : end + shape.numel()].view(shape)
        end += shape.numel()
    return [places[index] for index in range(len(weights))]


@dataclass(frozen=True)
class _Call:
    """The arguments of a call that are not tensors."""

    mode: int
    hidden: int
    layers: int
    batch_first: bool
    dropout: float
    train: bool
    bidirectional: bool
    weights_per_layer: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Returns them as cuDNN's operators take them: time first, all samples of one length."""
        return self.mode, self.hidden, 0, self.layers, False, self.dropout, self.train, self.bidirectional, [], None

    def time_first(self, tensor: Tensor) -> Tensor:
        """Returns the tensor with time first, as cuDNN reads it: a copy if the samples come first."""
        return (tensor.transpose(0, 1) if self.batch_first else tensor).contiguous()

    def give(self, tensor: Tensor) -> Tensor:
        """Returns the tensor as the caller wants it, in the same memory."""
        return tensor.transpose_(0, 1) if self.batch_first else tensor


def _lstm(
    tensor: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    hidden = states[1].shape[2]
    if states[0].shape[2] != hidden:
        raise CannotPredictError("cuDNN's LSTM with a projection was never measured, so it cannot be predicted.")
    call = _Call(LSTM_MODE, hidden, layers, batch_first, dropout, train, bidirectional, 4 if has_biases else 2)
    return _run(call, tensor, states[0], states[1], weights)


def _one_state(mode: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def run(
        tensor: Tensor,
        state: Tensor,
        weights: Sequence[Tensor],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor]:
        hidden, count = state.shape[2], 4 if has_biases else 2
        call = _Call(mode, hidden, layers, batch_first, dropout, train, bidirectional, count)
        return _run(call, tensor, state, None, weights)[:2]

    return run


def _refuse_packed(*_: Any, **__: Any) -> NoReturn:
    raise CannotPredictError(
        "only a run knows the lengths of packed sequences, and so the memory that cuDNN needs; measure on a GPU."
    )


def _run(
    call: _Call, tensor: Tensor, hidden: Tensor, cell: Tensor | None, weights: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    layer = _layer(call.mode, weights, call.hidden, call.layers, call.bidirectional)
    casts = torch.is_autocast_enabled("cpu") and weights[0].dtype in (torch.float32, torch.bfloat16)
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_KEY):
        if casts:
            # Under autocast of any type, recurrent layers run in fp16, and every call copies all weights.
            flat = torch.zeros(layer.weight_elements, dtype=torch.float16)
            places = _places(flat, weights)
            weights = [_Copy.apply(weight, [place]) for weight, place in zip(weights, places, strict=True)]  # type: ignore[no-untyped-call]
            cell = None if cell is None else cell.half()
            hidden = hidden.half()
            tensor = tensor.half()
        else:
            flat = _flat(weights, layer)
        result: tuple[Tensor, Tensor, Tensor] = _Cudnn.apply(call, flat, tensor, hidden, cell, *weights)  # type: ignore[no-untyped-call]
        return result


def _flat(weights: Sequence[Tensor], layer: Recurrent) -> Tensor:
    """Returns the flat buffer of all weights; if they are not in one, a copy that each call makes."""
    with torch.no_grad():
        first = weights[0]
        together = all(a.untyped_storage() is b.untyped_storage() for a, b in pairwise(weights))
        if together and first.untyped_storage().nbytes() >= layer.weight_elements * first.element_size():
            return first.as_strided((layer.weight_elements,), (1,), 0)
        return torch.zeros(layer.weight_elements, dtype=first.dtype)


class _Copy(torch.autograd.Function):
    """Copies a weight to its place in another type. The place is in a list, so that autograd treats it as new."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, place: list[Tensor]) -> Tensor:
        ctx.dtype = weight.dtype
        return place[0].copy_(weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.to(ctx.dtype), None


class _Cudnn(torch.autograd.Function):
    """Both passes. Copies and zeros that torch's kernels make internally are operations here, to be traced."""

    @staticmethod
    def forward(
        ctx: Any, call: _Call, flat: Tensor, tensor: Tensor, hidden: Tensor, cell: Tensor | None, *weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = call.weights_per_layer
        output, last_hidden, last_cell, reserve, _ = aten._cudnn_rnn(
            call.time_first(tensor), weights, count, flat, hidden, cell, *call.arguments
        )
        output = call.give(output)
        ctx.call = call
        ctx.save_for_backward(flat, tensor, hidden, cell, output, reserve, *weights)
        ctx.set_materialize_grads(False)
        return output, last_hidden, last_cell

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        call: _Call = ctx.call
        if not call.train:
            raise CannotPredictError("cuDNN's recurrent layers have no backward pass in evaluation mode.")
        flat, tensor, hidden, cell, output, reserve, *weights = ctx.saved_tensors
        of_output, of_hidden, of_cell = gradients
        of_output = torch.zeros_like(output, memory_format=torch.contiguous_format) if of_output is None else of_output
        of_hidden = torch.zeros_like(hidden) if of_hidden is None else of_hidden
        if cell is not None and of_cell is None:
            of_cell = torch.zeros_like(cell)

        def run(time_first: Tensor, wanted: list[bool], of_result: Tensor | None) -> Any:
            given = (output, of_result, of_hidden, of_cell if cell is not None else None)
            first = (time_first, weights, call.weights_per_layer, flat, hidden, cell)
            return aten._cudnn_rnn_backward(*first, *given, *call.arguments, reserve, wanted)

        inputs = run(call.time_first(tensor), [True, True, cell is not None, False], call.time_first(of_output))
        of_input = call.give(inputs[0])
        of_weights: list[Tensor | None] = [None] * len(weights)
        if any(ctx.needs_input_grad[5:]):
            of_weights = run(call.time_first(tensor), [False, False, False, True], None)[3]
            if call.weights_per_layer == 2:  # cuDNN returns gradients even of missing biases
                of_weights = [torch.clone(gradient) for gradient in of_weights if gradient is not None]
        found = [None, None, of_input, inputs[1], inputs[2] if cell is not None else None, *of_weights]
        return tuple(grad if need else None for grad, need in zip(found, ctx.needs_input_grad, strict=True))


def _forward_shapes(
    tensor: Tensor, _: Any, __: int, flat: Tensor, hidden: Tensor, cell: Tensor | None, *numbers: Any
) -> tuple[Tensor, ...]:
    mode, size, _, layers, _, dropout, train, bidirectional, *_ = numbers
    length, batch, inputs = tensor.shape
    directions, drops = 2 if bidirectional else 1, train and dropout > 0
    layer = Recurrent(mode, tensor.dtype, length, batch, inputs, size, layers, directions, drops, train)
    output = tensor.new_empty(length, batch, directions * size)
    last_cell = torch.empty_like(cell) if cell is not None else hidden.new_empty(0)
    reserve = tensor.new_empty(layer.reserve_bytes, dtype=torch.uint8)
    return output, torch.empty_like(hidden), last_cell, reserve, flat


def _backward_shapes(
    tensor: Tensor, weights: Sequence[Tensor], _: int, flat: Tensor, hidden: Tensor, cell: Tensor | None, *others: Any
) -> tuple[Any, ...]:
    wanted, nothing = others[-1], tensor.new_empty(0)
    if wanted[3]:
        return nothing, nothing, nothing, _places(torch.empty_like(flat), weights)
    of_cell = torch.empty_like(cell) if cell is not None else nothing
    return torch.empty_like(tensor), torch.empty_like(hidden), of_cell, []


SHAPE_RULES: dict[Any, Callable[..., tuple[Any, ...]]] = {
    aten._cudnn_rnn.default: _forward_shapes,
    aten._cudnn_rnn_backward.default: _backward_shapes,
}
"""Shape rules of cuDNN's operators. torch's own rule omits the reserve, and the backward pass has none."""

"""Stand-ins for bitsandbytes' quantized linear layers with the same memory but no kernels, for predictions to trace.

They follow bitsandbytes 0.50: ``Linear4bit`` with NF4 and ``Linear8bitLt`` with a threshold for outliers. The same
tensors are allocated in the same order; values are invalid. Its fused 4-bit kernel for few tokens is left out, so every
product dequantizes its weights first.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

# Weights that share a scale, scales that share one, and the sizes of the tables of 4-bit and 8-bit values.
BLOCK, SCALES_BLOCK = 64, 256
LEVELS, SCALES_LEVELS = 16, 256
OUTLIERS = 6.0
NAMESPACE = "memorymark"


class StandInLinear4bit(nn.Linear):
    """Holds the memory of a ``bitsandbytes.nn.Linear4bit``; computes in ``dtype``.

    ``nested`` says that scales are quantized too.
    """

    absmax: Tensor
    offset: Tensor
    nested_absmax: Tensor
    nested_code: Tensor

    def __init__(self, replaced: Any, shape: tuple[int, int], dtype: torch.dtype, *, nested: bool) -> None:
        rows, columns = shape
        super().__init__(columns, rows, bias=False, device="meta")
        device, count = replaced.weight.device, rows * columns
        self.weight = _frozen(torch.empty(-(-count // 2), 1, dtype=torch.uint8, device=device))
        self.bias = replaced.bias
        self.compute_dtype = dtype  # peft reads it
        blocks = -(-count // BLOCK)
        made = {"code": torch.empty(LEVELS, device=device, dtype=torch.float32)}
        if nested:
            made |= {
                "absmax": torch.empty(blocks, dtype=torch.uint8, device=device),
                "offset": torch.empty((), device=device, dtype=torch.float32),
                "nested_absmax": torch.empty(-(-blocks // SCALES_BLOCK), device=device, dtype=torch.float32),
                "nested_code": torch.empty(SCALES_LEVELS, device=device, dtype=torch.float32),
            }
        else:
            made["absmax"] = torch.empty(blocks, device=device, dtype=torch.float32)
        self.nested = nested
        for name, tensor in made.items():
            self.register_buffer(name, tensor, persistent=False)

    @property
    def W_q(self) -> Tensor:  # noqa: N802 - peft asks layers that have it to dequantize themselves, for DoRA
        """The packed weights."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies in the compute type and returns the type of the input."""
        given = x.dtype
        bias = self.bias if self.bias is None else self.bias.to(self.compute_dtype)
        result: Tensor = _Multiply4bit.apply(x.to(self.compute_dtype), bias, self)  # type: ignore[no-untyped-call]
        return result.to(given)

    def dequantize(self) -> Tensor:
        """Returns the weights in the compute type."""
        ops = torch.ops.memorymark
        scales: Tensor = self.absmax
        if self.nested:
            coarse = ops.dequantize_blockwise(self.absmax, self.nested_absmax, self.nested_code)
            scales = coarse.sub(self.offset)  # not a sum, which would be taken for one of gradients
        weight: Tensor = ops.dequantize_4bit(
            self.weight, scales, [self.out_features, self.in_features], self.compute_dtype
        )
        return weight


class StandInLinear8bit(nn.Linear):
    """Holds the memory of a ``bitsandbytes.nn.Linear8bitLt`` whose weights are int8."""

    scales: Tensor

    def __init__(self, replaced: Any, shape: tuple[int, int]) -> None:
        rows, columns = shape
        super().__init__(columns, rows, bias=False, device="meta")
        device = replaced.weight.device
        self.weight = _frozen(torch.empty(rows, columns, dtype=torch.int8, device=device))
        self.bias = replaced.bias
        self.register_buffer("scales", torch.empty(rows, device=device, dtype=torch.float32), persistent=False)

    @property
    def W_q(self) -> Tensor:  # noqa: N802 - as above
        """The quantized weights."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        """Quantizes the input, multiplies in int8 and returns the type of the input."""
        result: Tensor = _Multiply8bit.apply(x, self.bias, self)  # type: ignore[no-untyped-call]
        return result

    def dequantize(self) -> Tensor:
        """Returns the weights in fp32."""
        return self.weight * self.scales.view(-1, 1) * (1 / 127)


class _Multiply4bit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, layer: StandInLinear4bit) -> Tensor:
        ctx.layer = layer
        return functional.linear(x, layer.dequantize(), bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return torch.matmul(gradient, ctx.layer.dequantize().to(gradient.dtype)), None, None


class _Multiply8bit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, layer: StandInLinear8bit) -> Tensor:
        ops = torch.ops.memorymark
        rows = x.reshape(-1, x.shape[-1])
        half = rows.to(torch.float16)
        quantized, row_scales = ops.int8_quantize(half)
        outliers = half.abs() >= OUTLIERS  # assumed to find none
        outliers.any()
        del half, outliers
        product = ops.int8_product(quantized, layer.weight)
        result = ops.int8_rescale(product, row_scales, layer.scales)
        if bias is not None:
            result.add_(bias)
        # Kept with the node as bitsandbytes does, which frees it later than autograd frees saved tensors.
        ctx.layer, ctx.rows, ctx.shape = layer, rows if any(ctx.needs_input_grad) else None, x.shape
        returned: Tensor = result.to(x.dtype).reshape(*x.shape[:-1], layer.out_features)
        return returned

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None, None
        dtype, layer = ctx.rows.dtype, ctx.layer
        gradient = gradient.reshape(-1, gradient.shape[-1]).contiguous()
        weight = layer.weight.to(dtype, copy=True).mul_(layer.scales.unsqueeze(1).mul(1 / 127))
        return torch.matmul(gradient.to(dtype), weight).view(ctx.shape), None, None


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def _dequantize_blockwise(codes: Tensor, scales: Tensor, table: Tensor) -> Tensor:  # noqa: ARG001 - read by the kernel
    return torch.empty_like(codes, dtype=torch.float32)


def _dequantize_4bit(packed: Tensor, scales: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:  # noqa: ARG001
    return torch.empty(shape, dtype=dtype, device=packed.device)


def _int8_quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    scales = torch.empty(prod(rows.shape[:-1]), dtype=torch.float32, device=rows.device)
    return scales.new_empty(rows.shape, dtype=torch.int8), scales


def _int8_product(rows: Tensor, weight: Tensor) -> Tensor:
    return torch.empty((*rows.shape[:-1], weight.shape[0]), dtype=torch.int32, device=rows.device)


def _int8_rescale(product: Tensor, rows: Tensor, columns: Tensor) -> Tensor:  # noqa: ARG001 - read by the kernel
    return torch.empty_like(product, dtype=torch.float16)


_library = torch.library.Library(NAMESPACE, "DEF")
for _schema, _shape_rule in (
    ("dequantize_blockwise(Tensor codes, Tensor scales, Tensor table) -> Tensor", _dequantize_blockwise),
    ("dequantize_4bit(Tensor packed, Tensor scales, int[] shape, ScalarType dtype) -> Tensor", _dequantize_4bit),
    ("int8_quantize(Tensor rows) -> (Tensor, Tensor)", _int8_quantize),
    ("int8_product(Tensor rows, Tensor weight) -> Tensor", _int8_product),
    ("int8_rescale(Tensor product, Tensor rows, Tensor columns) -> Tensor", _int8_rescale),
):
    _name = _library.define(_schema)
    _library.impl(_name, _shape_rule, "CPU")  # for models that cannot be built on the meta device
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _shape_rule, lib=_library)

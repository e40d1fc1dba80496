"""Stand-ins for flash-attn's functions, so that a trace needs neither the package nor a GPU.

They follow flash-attn 2.8: torch's own operators of the same kernels, which take and return the same tensors, inside
an autograd function that pads heads and keeps what flash-attn's does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.suggestions import without

aten = torch.ops.aten
# The kernels take heads whose width is a multiple of this, up to the widest.
ALIGNED, WIDEST = 8, 256
EVERYTHING = (-1, -1)
Window = tuple[int, int]


@contextmanager
def flash_attention(capability: tuple[int, int]) -> Iterator[None]:
    """Makes transformers call the stand-ins inside the context, as on a GPU of this compute capability."""
    utils: Any = sys.modules.get("transformers.modeling_flash_attention_utils")  # too slow to import
    if utils is None:
        yield
        return
    functions = (flash_attn_func, flash_attn_varlen_func, None, utils._pad_input, utils._unpad_input)
    settings = utils._lazy_define_process_function(flash_attn_varlen_func)

    def imported(*_: Any, **__: Any) -> Any:
        if capability < (8, 0):
            raise _no_flash("flash attention needs an Ampere GPU or a newer one; use another, or drop {attention}.")
        return functions, settings

    real = utils.lazy_import_flash_attention
    utils.lazy_import_flash_attention = imported
    try:
        yield
    finally:
        utils.lazy_import_flash_attention = real


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = EVERYTHING,
) -> Tensor:
    """Attends within each text of a batch; tensors are [texts, tokens, heads, width]."""
    lengths = (None, None, q.shape[1], k.shape[1])
    result: Tensor = _Attention.apply(q, k, v, lengths, dropout_p, softmax_scale, causal, window_size)  # type: ignore[no-untyped-call]
    return result


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = EVERYTHING,
) -> Tensor:
    """Attends within each of several texts in one row; tensors are [tokens, heads, width].

    ``cu_seqlens_q`` and ``cu_seqlens_k`` are where each text begins, and the end of the last.
    """
    lengths = (cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    result: Tensor = _Attention.apply(q, k, v, lengths, dropout_p, softmax_scale, causal, window_size)  # type: ignore[no-untyped-call]
    return result


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lengths: tuple[Any, ...],
        dropout: float,
        scale: float | None,
        causal: bool,
        window: Window,
    ) -> Tensor:
        width = q.shape[-1]
        if width > WIDEST:
            raise _no_flash("flash attention takes heads that are at most 256 wide; drop {attention}.")
        scale = width**-0.5 if scale is None else scale
        q, k, v = (_aligned(tensor) for tensor in (q, k, v))
        named = {"scale": scale, "window_size_left": window[0], "window_size_right": window[1]}
        out, logsumexp, random, unused, _ = aten._flash_attention_forward(
            q, k, v, *lengths, dropout, causal, False, **named
        )
        ctx.save_for_backward(q, k, v, out, logsumexp, random, unused)
        ctx.lengths, ctx.dropout, ctx.causal, ctx.named = lengths, dropout, causal, named
        returned: Tensor = out[..., :width]
        return returned

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, logsumexp, random, unused = ctx.saved_tensors
        width = gradient.shape[-1]
        gradients = aten._flash_attention_backward(
            _aligned(gradient),
            q,
            k,
            v,
            out,
            logsumexp,
            *ctx.lengths,
            ctx.dropout,
            ctx.causal,
            random,
            unused,
            **ctx.named,
        )
        return (*(one[..., :width] for one in gradients), None, None, None, None, None)


def _aligned(tensor: Tensor) -> Tensor:
    """Pads heads to a width that the kernels take, and copies those that are not contiguous."""
    padded = pad(tensor, (0, -tensor.shape[-1] % ALIGNED)) if tensor.shape[-1] % ALIGNED else tensor
    return padded if padded.stride(-1) == 1 else padded.contiguous()


def _no_flash(sentence: str) -> UsageError:
    return UsageError(
        Message(sentence),
        code="not_applicable",
        field="attention",
        given="flash",
        proposals=[without("attention", usual="auto")],
    )

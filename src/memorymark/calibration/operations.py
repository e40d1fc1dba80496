"""Single operations of training steps, made from a kind and its numbers: what calibrating times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

Numbers = dict[str, Any]
Run = Callable[[], Any]
aten = torch.ops.aten
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32}


def _convolution(n: Numbers, device: Any) -> Run:
    dtype, dims = TYPES[n["type"]], len(n["shape"]) - 2
    into, out, groups = n["shape"][1], n["out"], n["groups"]
    window = [n["window"]] * dims
    weight_shape = [into, out // groups, *window] if n["transposed"] else [out, into // groups, *window]
    layout = torch.channels_last if n["channels_last"] else torch.contiguous_format
    image = torch.randn(n["shape"], device=device, dtype=dtype).contiguous(memory_format=layout)
    weight = torch.randn(weight_shape, device=device, dtype=dtype).contiguous(memory_format=layout)
    how = ([n["stride"]] * dims, [n["padding"]] * dims, [n["dilation"]] * dims, n["transposed"], [0] * dims, groups)
    if n["pass"] == "forward":  # noqa: S105 - of training
        return lambda: aten.convolution(image, weight, None, *how)
    gradient = torch.randn_like(aten.convolution(image, weight, None, *how))
    mask = [n["pass"] in ("image", "both"), n["pass"] in ("weight", "both"), False]
    return lambda: aten.convolution_backward(gradient, image, weight, None, *how, mask)


def _product(n: Numbers, device: Any) -> Run:
    dtype = TYPES[n["type"]]
    lead = [n["batch"]] if n["batch"] > 1 else []
    first = [*lead, n["k"], n["m"]] if n["layout"][0] == "t" else [*lead, n["m"], n["k"]]
    second = [*lead, n["n"], n["k"]] if n["layout"][1] == "t" else [*lead, n["k"], n["n"]]
    a, b = (torch.randn(shape, device=device, dtype=dtype) for shape in (first, second))
    a = a.transpose(-1, -2) if n["layout"][0] == "t" else a
    b = b.transpose(-1, -2) if n["layout"][1] == "t" else b
    run = aten.bmm if lead else aten.mm
    return lambda: run(a, b)


def _attention(n: Numbers, device: Any) -> Run:
    shape = [n["batch"], n["heads"], n["length"], n["width"]]
    q, k, v = (torch.randn(shape, device=device, dtype=TYPES[n["type"]], requires_grad=n["backward"]) for _ in range(3))

    def forward() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=n["dropout"], is_causal=n["causal"])

    if not n["backward"]:
        return forward
    result = forward()
    gradient = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, (q, k, v), gradient, retain_graph=True)


def _pointwise(n: Numbers, device: Any) -> Run:
    width = 1024
    rows = max(n["elements"] // width, 1)
    x, y = (torch.randn(rows, width, device=device, dtype=TYPES[n["type"]]) for _ in range(2))
    row, mask = torch.randn(width, device=device, dtype=x.dtype), torch.rand(rows, width, device=device) > 0.5
    calls: dict[str, Run] = {
        "add": lambda: aten.add(x, y),
        "mul": lambda: aten.mul(x, y),
        "gelu": lambda: aten.gelu(x),
        "relu": lambda: aten.relu(x),
        "silu": lambda: aten.silu(x),
        "sigmoid": lambda: aten.sigmoid(x),
        "exp": lambda: aten.exp(x),
        "tanh": lambda: aten.tanh(x),
        "copy": lambda: aten.clone(x),
        "to_half": lambda: aten._to_copy(x, dtype=torch.bfloat16 if x.dtype == torch.float32 else torch.float16),
        "to_full": lambda: aten._to_copy(x, dtype=torch.float64 if x.dtype == torch.float32 else torch.float32),
        "gelu_backward": lambda: aten.gelu_backward(x, y),
        "dropout": lambda: aten.native_dropout(x, 0.1, True),
        "where": lambda: aten.where(mask, x, y),
        "add_broadcast": lambda: aten.add(x, row),
        "mul_broadcast": lambda: aten.mul(x, row),
        "masked_fill": lambda: aten.masked_fill(x, mask, 0.0),
        "threshold_backward": lambda: aten.threshold_backward(x, y, 0),
        "sum": lambda: aten.sum(x, [0]),
        "transpose_copy": lambda: aten.clone(x.t(), memory_format=torch.contiguous_format),
    }
    return calls[n["name"]]


def _norm(n: Numbers, device: Any) -> Run:
    x = torch.randn(n["shape"], device=device, dtype=TYPES[n["type"]])
    if n["channels_last"]:
        x = x.contiguous(memory_format=torch.channels_last)
    x.requires_grad_(n["backward"])
    channels = n["shape"][1]
    w, b = (torch.ones(channels, device=device, requires_grad=n["backward"]) for _ in range(2))
    if n["type"] != "fp32" and n["name"] in ("layer", "group"):
        w, b = (one.detach().to(x.dtype).requires_grad_(n["backward"]) for one in (w, b))
    mean, var = torch.zeros(channels, device=device), torch.ones(channels, device=device)
    calls: dict[str, Callable[[], Tensor]] = {
        "layer": lambda: F.layer_norm(x, [channels], w, b),
        "group": lambda: F.group_norm(x, 8, w, b),
        "batch": lambda: F.batch_norm(x, mean, var, w, b, training=True),
        "softmax": lambda: F.softmax(x, -1),
        "log_softmax": lambda: F.log_softmax(x, -1),
    }
    forward = calls[n["name"]]
    if not n["backward"]:
        return forward
    result = forward()
    gradient = torch.randn_like(result)
    wanted = (x, w, b) if n["name"] in ("layer", "group", "batch") else (x,)
    return lambda: torch.autograd.grad(result, wanted, gradient, retain_graph=True)


def _resize(n: Numbers, device: Any) -> Run:
    x = torch.randn(n["shape"], device=device, dtype=TYPES[n["type"]], requires_grad=n["backward"])
    calls: dict[str, Callable[[], Tensor]] = {
        "nearest": lambda: F.interpolate(x, scale_factor=2, mode="nearest"),
        "bilinear": lambda: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
        "bicubic": lambda: F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False),
        "max_pool": lambda: F.max_pool2d(x, 2),
        "avg_pool": lambda: F.avg_pool2d(x, 2),
        "adaptive_avg": lambda: F.adaptive_avg_pool2d(x, 4),
        "pixel_shuffle": lambda: F.pixel_shuffle(x, 2),
    }
    forward = calls[n["name"]]
    if not n["backward"]:
        return forward
    result = forward()
    gradient = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, (x,), gradient, retain_graph=True)


def _lookup(n: Numbers, device: Any) -> Run:
    dtype = TYPES[n["type"]]
    ids = torch.randint(0, n["words"], (n["places"],), device=device)
    if n["name"] in ("embedding", "embedding_backward", "index"):
        table = torch.randn(n["words"], n["width"], device=device, dtype=dtype)
        if n["name"] == "embedding":
            return lambda: aten.embedding(table, ids)
        if n["name"] == "index":
            return lambda: aten.index(table, [ids])
        gradient = torch.randn(n["places"], n["width"], device=device, dtype=dtype)
        return lambda: aten.embedding_dense_backward(gradient, ids, n["words"], -1, False)
    logits = torch.randn(n["places"], n["words"], device=device, dtype=dtype, requires_grad=True)
    if n["name"] == "gather":
        return lambda: aten.gather(logits.detach(), 1, ids[:, None])
    if n["name"] == "cross_entropy":
        return lambda: F.cross_entropy(logits.detach(), ids)
    loss = F.cross_entropy(logits, ids)
    return lambda: torch.autograd.grad(loss, (logits,), retain_graph=True)


def _update(n: Numbers, device: Any) -> Run:
    weights = [torch.nn.Parameter(torch.randn(size, device=device, dtype=TYPES[n["type"]])) for size in n["sizes"]]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    optim = torch.optim
    made: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "adamw": lambda: optim.AdamW(weights, foreach=True),
        "adamw_fused": lambda: optim.AdamW(weights, fused=True),
        "sgd": lambda: optim.SGD(weights, lr=0.1, momentum=0.9, foreach=True),
        "adam": lambda: optim.Adam(weights, foreach=True),
    }
    optimizer = made[n["name"]]()
    optimizer.step()
    return optimizer.step


CALL: dict[str, Callable[[Numbers, Any], Run]] = {
    "convolution": _convolution,
    "product": _product,
    "attention": _attention,
    "pointwise": _pointwise,
    "norm": _norm,
    "resize": _resize,
    "lookup": _lookup,
    "update": _update,
}
"""By kind, what makes the tensors of a case on a device, or fake ones, and returns the function that runs it."""

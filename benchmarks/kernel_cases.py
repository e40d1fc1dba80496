"""Single operations of training steps over a wide range of sizes: what is timed and what its scratch space is.

A case is a kind and its numbers, drawn from a fixed seed; ``call`` makes its tensors on a device, or on fake ones, and
returns the function that runs it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from memorymark.calibration.operations import CALL as CALL

Numbers = dict[str, Any]
CHANNELS = (3, 8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 2048)
MOST_ELEMENTS = 3 * 2**26
SEED = 20261118


def cases(kind: str, count: int) -> Iterator[Numbers]:
    """The first cases of a kind, always the same."""
    chance = random.Random(f"{SEED} {kind}")
    made = 0
    while made < count:
        numbers = DRAW[kind](chance)
        if numbers is not None:
            made += 1
            yield {"kind": kind, **numbers}


def _sides(chance: random.Random, dims: int) -> list[int]:
    if dims == 1:
        return [chance.choice((49, 99, 128, 250, 400, 512, 1000, 1024, 2048, 4000, 8000, 16000, 32000))]
    if dims == 3:
        side = chance.choice((4, 7, 8, 14, 16, 28, 32, 56, 64, 112))
        return [chance.choice((1, 2, 4, 8, 16, 32)), side, side]
    side = chance.choice((4, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 192, 224, 256, 384, 512))
    return [side, side if chance.random() < 0.85 else chance.choice((7, 14, 28, 40, 80, 100))]


def convolution(chance: random.Random) -> Numbers | None:
    dims = chance.choices((1, 2, 3), (3, 8, 2))[0]
    groups_kind = chance.choices(("one", "depthwise", "some"), (7, 2, 1))[0]
    into, out = chance.choice(CHANNELS), chance.choice(CHANNELS)
    groups = 1
    if groups_kind == "depthwise":
        groups = out = into
    elif groups_kind == "some":
        groups = chance.choice((2, 4, 8, 16, 32))
        into, out = max(into // groups, 1) * groups, max(out // groups, 1) * groups
    window = chance.choices((1, 2, 3, 4, 5, 7, 9, 16), (6, 2, 10, 2, 3, 2, 1, 1))[0]
    transposed = groups == 1 and window > 1 and chance.random() < 0.12
    stride = 2 if transposed else chance.choices((1, 2, 4), (8, 3, 1))[0]
    if chance.random() < 0.04 and not transposed:
        stride = window = chance.choice((2, 4, 8, 14, 16))
    dilation = chance.choices((1, 2, 4, 8, 16), (10, 2, 1, 1, 1))[0] if window > 1 and stride == 1 else 1
    sides = _sides(chance, dims)
    padding = 0 if stride == window or transposed else dilation * (window - 1) // 2
    batch = chance.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 200, 256))
    reach = dilation * (window - 1) + 1
    if any(side + 2 * padding < reach for side in sides):
        return None
    if transposed:
        results = [(side - 1) * stride + window for side in sides]
    else:
        results = [(side + 2 * padding - reach) // stride + 1 for side in sides]
    volume, result = batch * into, batch * out
    for side, made in zip(sides, results, strict=True):
        volume, result = volume * side, result * made
    if not 2**12 <= max(volume, result) <= MOST_ELEMENTS:
        return None
    arithmetic = 2 * (result if not transposed else volume) * (into if not transposed else out) // groups * window**dims
    if arithmetic > 2e12:
        return None
    return {
        "shape": [batch, into, *sides],
        "out": out,
        "window": window,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "transposed": transposed,
        "type": chance.choices(("fp32", "bf16", "fp16"), (4, 5, 1))[0],
        "channels_last": dims == 2 and chance.random() < 0.2,
        "pass": chance.choices(("forward", "image", "weight", "both"), (4, 1, 1, 4))[0],
    }


def product(chance: random.Random) -> Numbers | None:
    batch = chance.choices((1, chance.choice((8, 12, 16, 48, 96, 192, 384))), (3, 1))[0]
    sizes = (1, 8, 16, 32, 64, 80, 96, 128, 192, 197, 256, 320, 384, 512, 768, 1000, 1024, 1500, 1536, 2048, 2304, 3072)
    large = (4096, 5120, 8192, 11008, 14336, 16384, 30522, 32000, 50257, 50264, 128256, 151936)
    m, n, k = (chance.choice(sizes if chance.random() < 0.75 else large) for _ in range(3))
    if batch * max(m * n, m * k, n * k) > MOST_ELEMENTS or 2 * batch * m * n * k > 3e12:
        return None
    kind = chance.choices(("fp32", "tf32", "bf16", "fp16"), (4, 2, 5, 1))[0]
    layout = chance.choice(("nn", "nt", "tn"))
    return {"batch": batch, "m": m, "n": n, "k": k, "type": kind, "layout": layout}


def attention(chance: random.Random) -> Numbers | None:
    heads, length = chance.choice((4, 6, 8, 12, 16, 32)), chance.choice((64, 128, 197, 256, 512, 577, 1024, 2048, 4096))
    width, batch = chance.choice((32, 64, 80, 96, 128)), chance.choice((1, 2, 4, 8, 16, 32, 64, 128))
    if batch * heads * length * max(width, 1) > MOST_ELEMENTS or batch * heads * length**2 * width > 1e12:
        return None
    return {
        "batch": batch,
        "heads": heads,
        "length": length,
        "width": width,
        "type": chance.choices(("fp32", "bf16"), (1, 2))[0],
        "causal": chance.random() < 0.4,
        "dropout": chance.choice((0.0, 0.0, 0.1)),
        "backward": chance.random() < 0.5,
    }


def pointwise(chance: random.Random) -> Numbers | None:
    elements = int(2 ** chance.uniform(12, 27.5))
    names = (
        "add",
        "mul",
        "gelu",
        "relu",
        "silu",
        "sigmoid",
        "exp",
        "tanh",
        "copy",
        "to_half",
        "to_full",
        "gelu_backward",
    )
    more = (
        "dropout",
        "where",
        "add_broadcast",
        "mul_broadcast",
        "masked_fill",
        "threshold_backward",
        "sum",
        "transpose_copy",
    )
    return {"name": chance.choice((*names, *more)), "elements": elements, "type": chance.choice(("fp32", "bf16"))}


def norm(chance: random.Random) -> Numbers | None:
    name = chance.choice(("layer", "group", "batch", "softmax", "log_softmax"))
    shape: list[int]
    if name in ("group", "batch"):
        channels = chance.choice([c for c in CHANNELS if c % 8 == 0])
        shape = [chance.choice((2, 8, 16, 32, 64, 128)), channels, *_sides(chance, chance.choice((1, 2, 2, 3)))]
    else:
        shape = [
            int(2 ** chance.uniform(6, 16)),
            chance.choice((64, 128, 256, 512, 768, 1024, 2048, 4096, 30522, 50257)),
        ]
    elements = 1
    for side in shape:
        elements *= side
    if not 2**12 <= elements <= MOST_ELEMENTS:
        return None
    half = chance.choice(("fp32", "bf16"))
    last = name == "batch" and len(shape) == 4 and chance.random() < 0.3
    return {"name": name, "shape": shape, "type": half, "channels_last": last, "backward": chance.random() < 0.5}


def resize(chance: random.Random) -> Numbers | None:
    name = chance.choice(("nearest", "bilinear", "bicubic", "max_pool", "avg_pool", "adaptive_avg", "pixel_shuffle"))
    shape = [chance.choice((1, 4, 16, 32, 64)), 4 * chance.choice((4, 8, 16, 32, 64, 128)), *_sides(chance, 2)]
    elements = 4 * shape[0] * shape[1] * shape[2] * shape[3]
    if not 2**14 <= elements <= MOST_ELEMENTS:
        return None
    return {"name": name, "shape": shape, "type": chance.choice(("fp32", "bf16")), "backward": chance.random() < 0.5}


def lookup(chance: random.Random) -> Numbers | None:
    name = chance.choice(
        ("embedding", "embedding_backward", "cross_entropy", "cross_entropy_backward", "gather", "index")
    )
    words, width = chance.choice((1000, 30522, 50257, 128256)), chance.choice((256, 768, 1024, 2048, 4096))
    places = chance.choice((128, 512, 2048, 4096, 8192, 16384, 32768))
    if (
        words * width > MOST_ELEMENTS
        or places * (words if "cross" in name or name == "gather" else width) > MOST_ELEMENTS
    ):
        return None
    return {"name": name, "words": words, "width": width, "places": places, "type": chance.choice(("fp32", "bf16"))}


def update(chance: random.Random) -> Numbers | None:
    sizes = [int(2 ** chance.uniform(8, 23)) for _ in range(chance.choice((4, 16, 64, 200)))]
    if sum(sizes) > MOST_ELEMENTS:
        return None
    name = chance.choice(("adamw", "adamw_fused", "sgd", "adam"))
    return {"name": name, "sizes": sizes, "type": chance.choices(("fp32", "bf16"), (3, 1))[0]}


DRAW: dict[str, Callable[[random.Random], Numbers | None]] = {
    "convolution": convolution,
    "product": product,
    "attention": attention,
    "pointwise": pointwise,
    "norm": norm,
    "resize": resize,
    "lookup": lookup,
    "update": update,
}
COUNTS = {
    "convolution": 3000,
    "product": 700,
    "attention": 250,
    "pointwise": 500,
    "norm": 400,
    "resize": 250,
    "lookup": 150,
    "update": 40,
}

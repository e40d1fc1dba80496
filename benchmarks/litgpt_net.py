"""Decoders that take the memory of litgpt's own, for the runs that litgpt published.

litgpt has one configurable model whose step differs from that of transformers: queries, keys and values come from one
layer with one adapter, input and output embeddings are never shared, and the loss takes 128 tokens at a time. What is
here makes the same tensors in the same order as litgpt did at the time of a run, and nothing else of it: no
tokenizer, no weights, no text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from memorymark import Workload
from memorymark.training.quantized_layers import StandInLinear4bit

# As of the commits 0cc02afa, 5895df10 and 00af8b0d.
Era = Literal["2023-10", "2024-04", "2024-07"]
CHUNK = 128
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Shape:
    """What litgpt's config says of a model; the defaults are those of a GPT-NeoX."""

    layers: int
    width: int
    heads: int
    words: int
    hidden: int
    groups: int = 0
    head: int = 0
    rotary: float = 1.0
    rms: bool = False
    gate: Literal["", "silu", "gelu"] = ""
    bias: bool = False
    head_bias: bool = False
    parallel: bool = False
    shared_norm: bool = False
    scales_embeddings: bool = False
    unit_offset: bool = False
    caps: bool = False  # of scores and logits, with a norm after each part and a window in every other layer

    @property
    def head_size(self) -> int:
        """The width of a head."""
        return self.head or self.width // self.heads

    @property
    def key_heads(self) -> int:
        """The heads of keys and of values."""
        return self.groups or self.heads


@dataclass(frozen=True)
class Adapters:
    """The rank of adapters and which layers get one, by litgpt's names; rank 0 trains everything."""

    rank: int = 0
    targets: frozenset[str] = frozenset()
    dropout: float = 0.05

    def of(self, target: str) -> int:
        """The rank for a layer."""
        return self.rank if target in self.targets else 0


@dataclass(frozen=True)
class Run:
    """A fine-tuning by litgpt."""

    shape: Shape
    tokens: int
    era: Era
    adapters: Adapters = Adapters()
    weights: Literal["bf16", "nf4", "nf4-dq"] = "bf16"
    first_longest: bool = False
    batch: int = 1

    def workload(self) -> Workload:
        """The model, its batches and its loss."""

        def batch(size: int, device: torch.device) -> dict[str, Tensor]:
            words = torch.randint(0, self.shape.words, (size, self.tokens), device=device)
            return {"words": words, "targets": words.clone()}

        def loss(model: Any, given: dict[str, Tensor]) -> Tensor:
            # As many parts as 128 tokens make at the batch of the run, so that all batches go the same way.
            count = self.batch * self.tokens // CHUNK
            found = cross_entropy(model(given["words"]), given["targets"][..., 1:], self.era, count)
            if not self.first_longest:  # a variable of the loop, whose graph lasts until the next is computed
                model.last_loss = [found]
            return found

        return Workload(build=self.build, batch=batch, loss=loss, name="litgpt's model")

    def build(self) -> nn.Module:
        """The model in bf16, with its adapters and quantized layers."""
        model = Decoder(self).to(BF16)
        if self.adapters.rank:
            for name, parameter in model.named_parameters():
                parameter.requires_grad = name.endswith((".down", ".up"))
        if self.weights != "bf16":
            for name, layer in list(model.named_modules()):
                if type(layer) is nn.Linear:
                    model.set_submodule(name, Early4bit(layer, nested=self.weights == "nf4-dq"))
        # Made last: they are in 32 bits whatever the type of the weights, and so is what they are multiplied with.
        sizes = self.tokens, int(self.shape.rotary * self.shape.head_size)
        for name in ("cos", "sin"):
            model.register_buffer(name, torch.empty(sizes, dtype=torch.float32), persistent=False)
        return model


def cross_entropy(logits: Tensor | list[Tensor], targets: Tensor, era: Era, count: int) -> Tensor:
    """The loss in so many parts; of logits that are in chunks, one for each."""
    if isinstance(logits, list):
        logits[-1] = logits[-1][..., :-1, :]
        parts, wanted = [one.reshape(-1, one.size(-1)) for one in logits], targets.split(CHUNK, dim=1)
        labels = [one.reshape(-1) for one in wanted]
    else:
        together = logits[..., :-1, :]
        size = -(-targets.numel() // count)
        parts = list(together.reshape(-1, together.size(-1)).split(size))
        labels = list(targets.reshape(-1).split(size))
    losses = torch.cat([F.cross_entropy(*pair, reduction="none") for pair in zip(parts, labels, strict=True)])
    return losses.mean() if era == "2023-10" else losses.sum() / (targets != -100).sum()


class _KeepInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, result: Tensor, given: Tensor) -> Tensor:
        ctx.given = given  # not saved for the backward pass, which would let go of it: it stays as long as the loss
        return result.view_as(result)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class Early4bit(StandInLinear4bit):
    """A 4-bit layer of early versions of bitsandbytes: they keep its input, and unpack its weights in half first."""

    def __init__(self, layer: nn.Linear, *, nested: bool) -> None:
        super().__init__(layer, (layer.out_features, layer.in_features), BF16, nested=nested)

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies."""
        y = super().forward(x)
        return _KeepInput.apply(y, x.detach()) if y.requires_grad else y

    def dequantize(self) -> Tensor:
        """Returns the weights in bf16."""
        self.compute_dtype = torch.float16
        half = super().dequantize()
        self.compute_dtype = BF16
        return half.to(BF16)


class RMSNorm(nn.Module):
    """Computed in 32 bits; in April 2024 its weight was applied in 16."""

    def __init__(self, shape: Shape, era: Era) -> None:
        super().__init__()
        self.weight, self.era, self.offset = nn.Parameter(torch.ones(shape.width)), era, shape.unit_offset

    def forward(self, x: Tensor) -> Tensor:
        """Normalizes the last dimension."""
        wide = x.float()
        normal = wide * torch.rsqrt(torch.mean(wide * wide, dim=-1, keepdim=True) + 1e-5)
        weight = 1 + self.weight if self.offset else self.weight
        if self.era == "2024-04":
            return normal.to(x.dtype) * weight
        return (normal * weight.float()).to(x.dtype)


class Adapted(nn.Module):
    """A linear layer, with an adapter beside it if it has a rank."""

    def __init__(self, inputs: int, outputs: int, bias: bool, rank: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.rank = nn.Linear(inputs, outputs, bias=bias), rank
        if rank:
            self.drop = nn.Dropout(dropout)
            self.down, self.up = nn.Parameter(torch.empty(rank, inputs)), nn.Parameter(torch.empty(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies, and adds what the adapter says."""
        y = self.linear(x)
        if not self.rank:
            return y
        return y + (self.drop(x) @ self.down.transpose(0, 1) @ self.up.transpose(0, 1)) * 0.5


class AdaptedQkv(nn.Module):
    """One layer for queries, keys and values; its adapter is for some of the three, and padded with zeros to all."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        shape, adapters, self.era = run.shape, run.adapters, run.era
        sizes = {
            "query": shape.heads * shape.head_size,
            "key": shape.key_heads * shape.head_size,
            "value": shape.key_heads * shape.head_size,
        }
        self.sizes = [size for name, size in sizes.items() if adapters.of(name)]
        self.outputs, self.alike = sum(sizes.values()), shape.heads == shape.key_heads
        self.linear = nn.Linear(shape.width, self.outputs, bias=shape.bias)
        if self.sizes:
            self.drop = nn.Dropout(adapters.dropout)
            self.down = nn.Parameter(torch.empty(adapters.rank * len(self.sizes), shape.width))
            self.up = nn.Parameter(torch.empty(sum(self.sizes), adapters.rank))

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies, and adds what the adapter says."""
        y = self.linear(x)
        if not self.sizes:
            return y
        inner = F.linear(self.drop(x), self.down).transpose(-2, -1)
        outer = self._grouped(inner, self.up.unsqueeze(-1)).transpose(-2, -1)
        return y + self._padded(outer) * 0.5

    def _grouped(self, inner: Tensor, weight: Tensor) -> Tensor:
        if self.alike:
            return F.conv1d(inner, weight, groups=len(self.sizes))
        pairs = zip(inner.chunk(len(self.sizes), dim=1), weight.split(self.sizes), strict=True)
        return torch.cat([F.conv1d(*pair) for pair in pairs], dim=1)

    def _padded(self, x: Tensor) -> Tensor:
        count = sum(self.sizes)
        if count == self.outputs:
            return x
        places = torch.arange(count, device=x.device)
        if self.era == "2024-07":
            return x.new_zeros(*x.shape[:-1], self.outputs).index_copy_(-1, places, x)
        x = x.transpose(0, 1)
        whole = x.new_zeros(*x.shape[:-1], self.outputs).view(-1, self.outputs)
        whole = whole.index_copy(1, places, x.reshape(-1, count))
        return whole.view(*x.shape[:-1], self.outputs).transpose(0, 1)


class Attention(nn.Module):
    """Causal attention over all that came before."""

    def __init__(self, run: Run, index: int) -> None:
        super().__init__()
        shape = self.shape = run.shape
        self.qkv = AdaptedQkv(run)
        rank, dropout = run.adapters.of("projection"), run.adapters.dropout
        self.proj = Adapted(shape.heads * shape.head_size, shape.width, shape.bias, rank, dropout)
        self.era, self.window = run.era, shape.caps and index % 2 == 0

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attends."""
        shape, (size, tokens, _) = self.shape, x.shape
        each = shape.heads // shape.key_heads
        qkv = self.qkv(x).view(size, tokens, shape.key_heads, each + 2, shape.head_size).permute(0, 2, 3, 1, 4)
        q, k, v = qkv.split((each, 1, 1), dim=2)
        if self.era == "2023-10" or each > 1:
            k, v = (one.expand(size, shape.key_heads, each, tokens, shape.head_size) for one in (k, v))
        q, k, v = (one.reshape(size, -1, tokens, shape.head_size) for one in (q, k, v))
        q, k = self._turned(q, cos, sin), self._turned(k, cos, sin)
        y = self._capped(q, k, v) if shape.caps else F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(size, tokens, -1))

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        count = cos.size(-1)
        part = x[..., :count]
        rotated = torch.cat((-part[..., count // 2 :], part[..., : count // 2]), dim=-1)
        turned = (part * cos + rotated * sin).to(x.dtype)
        return torch.cat((turned, x[..., count:]), dim=-1)

    def _capped(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Scores with a soft cap, for which torch has no kernel."""
        mask = torch.ones(q.size(2), q.size(2), dtype=q.dtype, device=q.device).triu(diagonal=1)
        mask = mask.masked_fill(mask.bool(), torch.finfo(q.dtype).min)
        if self.window:
            mask = mask + torch.zeros_like(mask)
        scores = q @ k.mT * (1 / sqrt(self.shape.head_size))
        scores = torch.tanh(scores / 50.0) * 50.0
        scores = F.softmax(scores + mask, dim=-1, dtype=torch.float).to(q.dtype)
        return scores @ v


class Perceptron(nn.Module):
    """Two layers with a GELU between them, or three with a gate."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        shape, rank, dropout = run.shape, run.adapters.of("mlp"), run.adapters.dropout
        self.gate = shape.gate
        self.first = Adapted(shape.width, shape.hidden, shape.bias, rank, dropout)
        if self.gate:
            self.beside = Adapted(shape.width, shape.hidden, shape.bias, rank, dropout)
        self.last = Adapted(shape.hidden, shape.width, shape.bias, rank, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Transforms each token."""
        if not self.gate:
            return self.last(F.gelu(self.first(x)))
        opened, beside = self.first(x), self.beside(x)
        return self.last((F.silu(opened) if self.gate == "silu" else F.gelu(opened, approximate="tanh")) * beside)


class Block(nn.Module):
    """Attention and a perceptron, one after the other or side by side."""

    def __init__(self, run: Run, index: int) -> None:
        super().__init__()
        shape = self.shape = run.shape
        self.norms = nn.ModuleList(norm(run) for _ in range(1 if shape.shared_norm else 2))
        self.after = nn.ModuleList(norm(run) if shape.caps else nn.Identity() for _ in range(2))
        self.attention, self.perceptron = Attention(run, index), Perceptron(run)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Adds both to what comes in."""
        normal = self.norms[0](x)
        seen = self.after[0](self.attention(normal, cos, sin))
        if self.shape.parallel:
            return self.perceptron(normal if self.shape.shared_norm else self.norms[1](x)) + seen + x
        x = seen + x
        return self.after[1](self.perceptron(self.norms[1](x))) + x


def norm(run: Run) -> nn.Module:
    """A norm of the model's kind."""
    return RMSNorm(run.shape, run.era) if run.shape.rms else nn.LayerNorm(run.shape.width)


class Decoder(nn.Module):
    """The whole model; with adapters it returns its logits in chunks."""

    cos: Tensor
    sin: Tensor

    def __init__(self, run: Run) -> None:
        super().__init__()
        shape = self.shape = run.shape
        rank, dropout = run.adapters.of("head"), run.adapters.dropout
        self.chunk = CHUNK if run.adapters.rank else 0
        self.head = Adapted(shape.width, shape.words, shape.head_bias, rank, dropout)
        self.embedding = nn.Embedding(shape.words, shape.width)
        self.blocks = nn.ModuleList(Block(run, index) for index in range(shape.layers))
        self.norm = norm(run)

    def forward(self, words: Tensor) -> Tensor | list[Tensor]:
        """The logits."""
        x = self.embedding(words)
        if self.shape.scales_embeddings:
            x = x * self.shape.width**0.5
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        x = self.norm(x)
        logits = list(self._logits(x))
        # Fabric's wrapper converts what a model returns.
        wide = [part.float() for part in logits]
        return wide if self.chunk else wide[0]

    def _logits(self, x: Tensor) -> Iterator[Tensor]:
        for part in x.split(self.chunk, dim=1) if self.chunk else (x,):
            logits = self.head(part)
            yield torch.tanh(logits / 30.0) * 30.0 if self.shape.caps and not self.chunk else logits


NEOX: dict[str, Any] = {"rotary": 0.25, "bias": True, "parallel": True}
LLAMA: dict[str, Any] = {"rms": True, "gate": "silu"}
GEMMA: dict[str, Any] = {"rms": True, "gate": "gelu", "scales_embeddings": True, "unit_offset": True, "words": 256000}
GEMMA2: dict[str, Any] = {**GEMMA, "head": 256, "caps": True}
PHI: dict[str, Any] = {"words": 51200, "bias": True, "head_bias": True, "parallel": True, "shared_norm": True}
SHAPES = {
    "stablelm-base-alpha-3b": Shape(16, 4096, 32, 50688, 16384, **NEOX),
    "phi-1.5": Shape(24, 2048, 32, hidden=8192, rotary=0.5, **PHI),
    "phi-2": Shape(32, 2560, 32, hidden=10240, rotary=0.4, **PHI),
    "phi-3": Shape(32, 3072, 32, 32064, 8192, **LLAMA),
    "llama-2-7b": Shape(32, 4096, 32, 32000, 11008, **LLAMA),
    "llama-2-13b": Shape(40, 5120, 40, 32000, 13824, **LLAMA),
    "llama-3-8b": Shape(32, 4096, 32, 128256, 14336, groups=8, **LLAMA),
    "llama-3.2-1b": Shape(16, 2048, 32, 128256, 8192, groups=8, **LLAMA),
    "llama-3.2-3b": Shape(28, 3072, 24, 128256, 8192, groups=8, **LLAMA),
    "mistral-7b": Shape(32, 4096, 32, 32000, 14336, groups=8, **LLAMA),
    "tiny-llama": Shape(22, 2048, 32, 32000, 5632, groups=4, **LLAMA),
    "gemma-2b": Shape(18, 2048, 8, hidden=16384, groups=1, **GEMMA),
    "gemma-7b": Shape(28, 3072, 16, hidden=24576, head=256, **GEMMA),
    "gemma-2-2b": Shape(26, 2304, 8, hidden=9216, groups=4, **GEMMA2),
    "gemma-2-9b": Shape(42, 3584, 16, hidden=14336, groups=8, **GEMMA2),
    "falcon-7b": Shape(32, 4544, 71, 65024, 18176, groups=1, parallel=True, shared_norm=True),
    "falcon-40b": Shape(60, 8192, 128, 65024, 32768, groups=8, parallel=True),
}

"""Plain modules of other kinds, as people write them by hand: a part of benchmarks/unseen.py that is in no library."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from memorymark import Workload
from unseen_workloads import classifier, reader


def cells(width: int = 512, words: int = 10_000, length: int = 48) -> Workload:
    """An LSTM written as a loop over its cell."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.cell = nn.Embedding(words, width), nn.LSTMCell(width, width)
            self.head = nn.Linear(width, words)

        def forward(self, ids: Tensor) -> Tensor:
            embedded = self.embed(ids)
            hidden = state = embedded.new_zeros(len(ids), width)
            seen = []
            for step in embedded.unbind(1):
                hidden, state = self.cell(step, (hidden, state))
                seen.append(hidden)
            return self.head(torch.stack(seen, 1))

    return reader("LSTM cell in a loop", Loop, words, length)


def gated(width: int = 512, words: int = 10_000, length: int = 48) -> Workload:
    """A GRU written by hand, its gates one by one."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.gates, self.new = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)
            self.head = nn.Linear(width, words)

        def forward(self, ids: Tensor) -> Tensor:
            embedded = self.embed(ids)
            hidden, seen = embedded.new_zeros(len(ids), width), []
            for step in embedded.unbind(1):
                reset, update = self.gates(torch.cat([step, hidden], 1)).sigmoid().chunk(2, 1)
                hidden = torch.lerp(self.new(torch.cat([step, reset * hidden], 1)).tanh(), hidden, update)
                seen.append(hidden)
            return self.head(torch.stack(seen, 1))

    return reader("GRU by hand", Loop, words, length)


def mixer(width: int = 512, patches: int = 196, depth: int = 8) -> Workload:
    """MLP-Mixer: linear layers over patches and over channels."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.tokens = nn.Sequential(nn.Linear(patches, 256), nn.GELU(), nn.Linear(256, patches))
            self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norms[1](x))

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, width, 16, 16)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.head = nn.Linear(width, 1000)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))

    return classifier("MLP-Mixer", Mixer, (3, 224, 224), 1000)


def points(count: int = 1024, classes: int = 40) -> Workload:
    """PointNet: pointwise 1-d convolutions, and the largest value over all points."""

    class PointNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = []
            for before, after in pairwise([3, 64, 64, 128, 1024]):
                layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
            self.each = nn.Sequential(*layers)
            self.head = nn.Sequential(nn.Linear(1024, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, classes))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.each(x).amax(2))

    return classifier("PointNet", PointNet, (3, count), classes)


def wide_and_deep(fields: int = 26, rows: int = 100_000, width: int = 32) -> Workload:
    """A recommender: a table for each field, products of all pairs, a deep part."""

    class Recommender(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(fields))
            pairs = fields * (fields - 1) // 2
            sizes = [fields * width + pairs, 512, 256, 1]
            self.deep = nn.Sequential(*(layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())))
            self.register_buffer("pairs", torch.triu_indices(fields, fields, 1), persistent=False)

        def forward(self, ids: Tensor) -> Tensor:
            vectors = torch.stack([table(ids[:, index]) for index, table in enumerate(self.tables)], 1)
            products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.deep(torch.cat([vectors.flatten(1), products], 1)).squeeze(1)

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.randint(0, rows, (size, fields), device=device),
            "y": torch.rand(size, device=device).round(),
        }

    def loss(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(given["x"]), given["y"])

    return Workload(build=Recommender, batch=batch, loss=loss, name="recommender")


def variational(width: int = 1024, latent: int = 64) -> Workload:
    """A variational autoencoder over vectors, which draws random numbers."""

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            self.mean, self.spread = nn.Linear(width, latent), nn.Linear(width, latent)
            self.decode = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 784))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            hidden = self.encode(x)
            mean, spread = self.mean(hidden), self.spread(hidden)
            return self.decode(mean + torch.randn_like(mean) * (0.5 * spread).exp()), mean, spread

    def loss(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
        seen, mean, spread = model(given["x"])
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1).mean()
        return F.mse_loss(seen, given["x"]) + divergence

    return Workload(
        build=Variational,
        batch=lambda size, device: {"x": torch.rand(size, 784, device=device)},
        loss=loss,
        name="variational autoencoder",
    )


def graph(nodes: int = 64, width: int = 128, depth: int = 6) -> Workload:
    """Message passing over dense graphs: a product with the neighbours' matrix in every layer."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.others, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.BatchNorm1d(width)

        def forward(self, x: Tensor, near: Tensor) -> Tensor:
            passed = F.relu(self.own(x) + near @ self.others(x))
            return x + self.norm(passed.flatten(0, 1)).view_as(x)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(16, width)
            self.layers = nn.ModuleList(Layer() for _ in range(depth))
            self.head = nn.Linear(width, 1)

        def forward(self, x: Tensor, near: Tensor) -> Tensor:
            x = self.first(x)
            for layer in self.layers:
                x = layer(x, near)
            return self.head(x.mean(1)).squeeze(1)

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.rand(size, nodes, 16, device=device),
            "near": torch.rand(size, nodes, nodes, device=device).softmax(-1),
            "y": torch.rand(size, device=device),
        }

    return Workload(
        build=Net,
        batch=batch,
        loss=lambda m, given: F.smooth_l1_loss(m(given["x"], given["near"]), given["y"]),
        name="graph network",
    )


def recurrent_speech(width: int = 512, frames: int = 400, bands: int = 80, letters: int = 29) -> Workload:
    """DeepSpeech-like: 2-d convolutions over a spectrogram, GRUs in both directions, CTC."""

    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Sequential(
                nn.Conv2d(1, 32, (11, 41), (2, 2), (5, 20)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20)
            )
            self.layers = nn.GRU(32 * (bands // 2), width, 3, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * width, letters)

        def forward(self, x: Tensor) -> Tensor:
            seen = self.front(x[:, None]).permute(0, 2, 1, 3).flatten(2)
            return self.head(self.layers(seen)[0])

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.rand(size, frames, bands, device=device),
            "y": torch.randint(1, letters, (size, 40), device=device),
        }

    def loss(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
        seen = model(given["x"]).log_softmax(-1).transpose(0, 1)
        lengths = torch.full((seen.shape[1],), seen.shape[0], dtype=torch.long)
        return F.ctc_loss(seen, given["y"], lengths, torch.full_like(lengths, given["y"].shape[1]))

    return Workload(build=Speech, batch=batch, loss=loss, name="speech with CTC")


def nano(width: int = 384, depth: int = 6, heads: int = 6, words: int = 65, length: int = 256) -> Workload:
    """A small GPT by hand, as in tutorials."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)])
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width, bias=False),
                nn.GELU(),
                nn.Linear(4 * width, width, bias=False),
                nn.Dropout(0.2),
            )

        def forward(self, x: Tensor) -> Tensor:
            parts = self.qkv(self.norms[0](x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(*parts, dropout_p=0.2, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.mlp(self.norms[1](x))

    class Nano(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))

        def forward(self, ids: Tensor) -> Tensor:
            places = torch.arange(ids.shape[1], device=ids.device)
            return self.head(self.blocks(self.words(ids) + self.places(places)))

    return reader("small GPT by hand", Nano, words, length)

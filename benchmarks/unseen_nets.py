"""Plain modules of many kinds, as people write them by hand: the part of benchmarks/unseen.py that is in no library."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from memorymark import Workload

Shape = tuple[int, ...]


def classifier(name: str, build: Callable[[], nn.Module], shape: Shape, classes: int) -> Workload:
    """A module that tells classes of whatever has this shape."""

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.rand(size, *shape, device=device),
            "y": torch.randint(0, classes, (size,), device=device),
        }

    return Workload(
        build=build, batch=batch, loss=lambda m, given: F.cross_entropy(m(given["x"]), given["y"]), name=name
    )


def painter(name: str, build: Callable[[], nn.Module], shape: Shape) -> Workload:
    """A module that gives back what it is shown."""
    return Workload(
        build=build,
        batch=lambda size, device: {"x": torch.rand(size, *shape, device=device)},
        loss=lambda m, given: F.mse_loss(m(given["x"]), given["x"]),
        name=name,
    )


def labeller(name: str, build: Callable[[], nn.Module], side: int, classes: int) -> Workload:
    """A module that gives every pixel a class."""

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.rand(size, 3, side, side, device=device),
            "y": torch.randint(0, classes, (size, side, side), device=device),
        }

    return Workload(
        build=build, batch=batch, loss=lambda m, given: F.cross_entropy(m(given["x"]), given["y"]), name=name
    )


def reader(name: str, build: Callable[[], nn.Module], words: int, length: int) -> Workload:
    """A module that guesses the next word."""

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        ids = torch.randint(0, words, (size, length + 1), device=device)
        return {"x": ids[:, :-1], "y": ids[:, 1:]}

    return Workload(
        build=build,
        batch=batch,
        loss=lambda m, given: F.cross_entropy(m(given["x"]).flatten(0, 1), given["y"].flatten()),
        name=name,
    )


def vgg(classes: int = 1000) -> Workload:
    """VGG-16: 3 x 3 convolutions, then linear layers of a hundred million weights."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        before = 3
        for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
                before = width
            layers.append(nn.MaxPool2d(2))
        head = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head, nn.Linear(4096, classes))

    return classifier("VGG-16", build, (3, 224, 224), classes)


def waves(classes: int = 35) -> Workload:
    """M5-like: convolutions over a second of sound."""

    def build() -> nn.Module:
        widths, layers = [1, 64, 64, 128, 256], []
        for before, width in pairwise(widths):
            kernel, stride = (80, 4) if before == 1 else (3, 1)
            layers += [nn.Conv1d(before, width, kernel, stride), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(4)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(widths[-1], classes))

    return classifier("1-d convolutions", build, (1, 16_000), classes)


def dilated(channels: int = 128, classes: int = 20) -> Workload:
    """A temporal convolution network: dilated 1-d convolutions with weight norm left out, and skips."""

    class Block(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.first = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
            self.second = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x + self.dropout(F.relu(self.second(self.dropout(F.relu(self.first(x)))))))

    def build() -> nn.Module:
        blocks = [Block(2**depth) for depth in range(8)]
        pooled = [nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, classes)]
        return nn.Sequential(nn.Conv1d(16, channels, 1), *blocks, *pooled)

    return classifier("dilated 1-d convolutions", build, (16, 1024), classes)


def volumes(classes: int = 10) -> Workload:
    """3-d convolutions over short videos."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for before, width in pairwise([3, 32, 64, 128, 256]):
            layers += [
                nn.Conv3d(before, width, 3, padding=1),
                nn.BatchNorm3d(width),
                nn.ReLU(),
                nn.MaxPool3d((1, 2, 2)),
            ]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(256, classes))

    return classifier("3-d convolutions", build, (3, 16, 112, 112), classes)


def autoencoder(width: int = 64) -> Workload:
    """Strided convolutions down, transposed ones up."""

    def build() -> nn.Module:
        sizes = [3, width, 2 * width, 4 * width, 8 * width]
        down = [layer for a, b in pairwise(sizes) for layer in (nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU())]
        up: list[nn.Module] = []
        for a, b in pairwise(sizes[:0:-1]):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
        return nn.Sequential(*down, *up, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Sigmoid())

    return painter("convolutional autoencoder", build, (3, 128, 128))


def segmenter(classes: int = 21) -> Workload:
    """Dilated convolutions, a pyramid of pooled features, bilinear upsampling: DeepLab's head on a small trunk."""

    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(
                *(
                    layer
                    for a, b in pairwise([3, 64, 128, 256])
                    for layer in (nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
                )
            )
            self.branches = nn.ModuleList(
                nn.Conv2d(256, 128, 3, padding=rate, dilation=rate, bias=False) for rate in (6, 12, 18)
            )
            self.pooled = nn.Conv2d(256, 128, 1)
            self.head = nn.Sequential(nn.Conv2d(512, 256, 3, padding=1), nn.GroupNorm(32, 256), nn.ReLU())
            self.classes = nn.Conv2d(256, classes, 1)

        def forward(self, x: Tensor) -> Tensor:
            seen = self.trunk(x)
            pooled = F.interpolate(self.pooled(F.adaptive_avg_pool2d(seen, 1)), seen.shape[-2:])
            joined = torch.cat([*(branch(seen) for branch in self.branches), pooled], 1)
            return F.interpolate(self.classes(self.head(joined)), x.shape[-2:], mode="bilinear", align_corners=False)

    return labeller("dilated segmentation", Pyramid, 256, classes)


def diffusion(width: int = 96) -> Workload:
    """A U-Net with group norm, attention in the middle and the time added in every block."""

    class Block(nn.Module):
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.GroupNorm(32, before), nn.GroupNorm(32, after)])
            self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
            self.time = nn.Linear(4 * width, after)
            self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

        def forward(self, x: Tensor, time: Tensor) -> Tensor:
            hidden = self.first(F.silu(self.norms[0](x))) + self.time(F.silu(time))[:, :, None, None]
            return self.skip(x) + self.second(F.silu(self.norms[1](hidden)))

    class Middle(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(32, channels), nn.Conv2d(channels, 3 * channels, 1)
            self.out = nn.Conv2d(channels, channels, 1)

        def forward(self, x: Tensor) -> Tensor:
            query, key, value = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
            seen = F.scaled_dot_product_attention(query, key, value)
            return x + self.out(seen.squeeze(1).transpose(1, 2).unflatten(2, x.shape[-2:]))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = [width, 2 * width, 4 * width]
            self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
            self.first = nn.Conv2d(3, width, 3, padding=1)
            self.down = nn.ModuleList(Block(a, b) for a, b in pairwise([width, *sizes]))
            self.shrink = nn.ModuleList(nn.Conv2d(size, size, 3, 2, 1) for size in sizes)
            self.middle, self.attention = Block(sizes[-1], sizes[-1]), Middle(sizes[-1])
            self.up = nn.ModuleList(
                Block(a + b, b) for a, b in zip([sizes[-1], *sizes[:0:-1]], sizes[::-1], strict=True)
            )
            self.last = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

        def forward(self, x: Tensor, when: Tensor) -> Tensor:
            angles = when[:, None] * torch.arange(width // 2, device=x.device).neg().exp()[None]
            time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            x, seen = self.first(x), []
            for block, shrink in zip(self.down, self.shrink, strict=True):
                seen.append(block(x, time))
                x = shrink(seen[-1])
            x = self.attention(self.middle(x, time))
            for block, beside in zip(self.up, seen[::-1], strict=True):
                x = block(torch.cat([F.interpolate(x, scale_factor=2.0), beside], 1), time)
            return self.last(x)

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        noisy = torch.rand(size, 3, 64, 64, device=device)
        return {"x": noisy, "noise": torch.randn_like(noisy), "when": torch.rand(size, device=device)}

    def loss(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
        return F.mse_loss(model(given["x"], given["when"]), given["noise"])

    return Workload(build=Net, batch=batch, loss=loss, name="diffusion U-Net")


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


def super_resolution(width: int = 64, blocks: int = 8) -> Workload:
    """Residual blocks at the size of the small image, then pixel shuffle to four times its side."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
            self.activation = nn.PReLU()

        def forward(self, x: Tensor) -> Tensor:
            return x + self.second(self.activation(self.first(x)))

    def build() -> nn.Module:
        layers = [nn.Conv2d(3, width, 9, padding=4), *(Block() for _ in range(blocks))]
        for _ in range(2):
            layers += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
        return nn.Sequential(*layers, nn.Conv2d(width, 3, 9, padding=4))

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "x": torch.rand(size, 3, 48, 48, device=device),
            "y": torch.rand(size, 3, 192, 192, device=device),
        }

    return Workload(
        build=build, batch=batch, loss=lambda m, given: F.l1_loss(m(given["x"]), given["y"]), name="super resolution"
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


def twins(width: int = 64) -> Workload:
    """Two views of each image through one trunk, told apart from all others: SimCLR's loss."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise([3, width, 2 * width, 4 * width]):
            layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 128))

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {name: torch.rand(size, 3, 96, 96, device=device) for name in ("one", "other")}

    def loss(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
        one, other = (F.normalize(model(given[name]), dim=1) for name in ("one", "other"))
        return F.cross_entropy(one @ other.T / 0.1, torch.arange(len(one), device=one.device))

    return Workload(build=build, batch=batch, loss=loss, name="contrastive twins")


def separable(classes: int = 200) -> Workload:
    """Depthwise and pointwise convolutions with squeeze and excitation, as in mobile networks."""

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            wide = 4 * before
            self.expand = nn.Sequential(nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
            self.depthwise = nn.Conv2d(wide, wide, 5, stride, 2, groups=wide, bias=False)
            self.norm = nn.BatchNorm2d(wide)
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(wide, before, 1),
                nn.ReLU(),
                nn.Conv2d(before, wide, 1),
                nn.Hardsigmoid(),
            )
            self.shrink = nn.Sequential(nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after))
            self.keeps = before == after and stride == 1

        def forward(self, x: Tensor) -> Tensor:
            wide = F.hardswish(self.norm(self.depthwise(self.expand(x))))
            out = self.shrink(wide * self.squeeze(wide))
            return x + out if self.keeps else out

    def build() -> nn.Module:
        sizes = [(16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1), (40, 80, 2), (80, 80, 1)]
        stem = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, classes)]
        return nn.Sequential(*stem, *(Block(*size) for size in sizes), *pooled)

    return classifier("separable convolutions", build, (3, 160, 160), classes)


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

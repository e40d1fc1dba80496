"""Models of one's own, as `memorymark analyze "benchmarks/own_nets.py:unet(32)"` takes them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from memorymark import Workload


class Tagger(nn.Module):
    """Words to tags: an embedding, two recurrent layers in both directions, a tag for each word."""

    def __init__(self, width: int, words: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.recurrent(self.embedding(ids))[0])


def tagger(width: int = 256, words: int = 20_000, tags: int = 50, length: int = 128) -> Workload:
    """A recurrent tagger."""

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "ids": torch.randint(0, words, (size, length), device=device),
            "tags": torch.randint(0, tags, (size, length), device=device),
        }

    return Workload(
        build=lambda: Tagger(width, words, tags),
        batch=batch,
        loss=lambda model, given: F.cross_entropy(model(given["ids"]).flatten(0, 1), given["tags"].flatten()),
        name="recurrent tagger",
    )


class Block(nn.Module):
    """Two convolutions that keep the size of the image."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.norm = nn.GroupNorm(8, channels_out)

    def forward(self, image: Tensor) -> Tensor:
        return F.silu(self.norm(self.second(F.silu(self.first(image)))))


class UNet(nn.Module):
    """Down three times and up again, with what was seen on the way down beside it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(Block(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(Block(a + b, b) for a, b in zip(sizes[:0:-1], sizes[-2::-1], strict=True))
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, image: Tensor) -> Tensor:
        seen = []
        for block in self.down:
            image = block(image if not seen else F.max_pool2d(image, 2))
            seen.append(image)
        for block, beside in zip(self.up, seen[-2::-1], strict=True):
            image = block(torch.cat([F.interpolate(image, scale_factor=2.0), beside], dim=1))
        return self.head(image)


def unet(width: int = 32, side: int = 128) -> Workload:
    """A U-Net that learns to give its image back, as those of diffusion learn to give the noise."""
    return Workload(
        build=lambda: UNet(width),
        batch=lambda size, device: {"image": torch.rand(size, 3, side, side, device=device)},
        loss=lambda model, given: F.mse_loss(model(given["image"]), given["image"]),
        name="U-Net",
    )


def encoder(width: int = 512, layers: int = 6, length: int = 256, classes: int = 10) -> Workload:
    """torch's own transformer over vectors, with a class for each sequence."""

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.head = nn.Linear(width, classes)

        def forward(self, vectors: Tensor) -> Tensor:
            return self.head(self.encoder(vectors).mean(dim=1))

    def batch(size: int, device: torch.device) -> dict[str, Tensor]:
        return {
            "vectors": torch.rand(size, length, width, device=device),
            "classes": torch.randint(0, classes, (size,), device=device),
        }

    return Workload(
        build=Classifier,
        batch=batch,
        loss=lambda model, given: F.cross_entropy(model(given["vectors"]), given["classes"]),
        name="torch's transformer",
    )

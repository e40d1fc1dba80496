"""Plain convolutional modules, as people write them by hand: a part of benchmarks/unseen.py that is in no library."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from memorymark import Workload
from unseen_workloads import classifier, labeller, painter


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

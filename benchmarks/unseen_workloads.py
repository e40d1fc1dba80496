"""What the plain modules of benchmarks/unseen.py are trained to do."""

from __future__ import annotations

from collections.abc import Callable

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

"""Finds rows of like layers in a model, and runs a step with only a few of each row.

Most models repeat one layer, or a period of several, dozens of times. What the first few blocks of layers and the last
two do tells what all others do: ``repeating`` puts them in.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from memorymark.prediction.tracing.operation import Block

# Seven blocks of a row run. The first and the last may differ from the others, and blocks use what the two before them
# and the one after them made. So the fifth is the pattern of all that do not run, if it does what the fourth does.
BEFORE, PATTERN, LAST = 3, 4, 6
# Shorter rows are traced as they are.
FEWEST_ALIKE = 7
LONGEST_PERIOD, MOST_BEFORE_PERIODS = 6, 3
# Says where a layer stands, not what it does.
POSITIONS = ("idx", "index", "layer_id", "layer_number")


@dataclass(frozen=True)
class Row:
    """Layers in a row: a first block, ``alike`` equal blocks of ``period`` layers each, and a last block.

    ``paths`` are those of the layers in the model.
    """

    container: nn.Module
    first: int
    period: int
    alike: int
    paths: tuple[str, ...]

    @property
    def blocks(self) -> list[list[nn.Module]]:
        """All blocks."""
        layers = list(self.container.children())
        ends = [self.first + n * self.period for n in range(self.alike + 1)]
        return [layers[start:end] for start, end in pairwise([0, *ends, len(layers)])]

    def place_of(self, block: int) -> int:
        """Returns the place, among the blocks that run, of the one that shows what this block does."""
        return min(block, max(PATTERN, block - self.alike + LAST - 1))

    def path_in(self, block: int, path: str) -> str:
        """Returns the path in a block for that of a module in the pattern; that of any other module as it is."""
        for at, layer in enumerate(self.paths):
            if path == layer or path.startswith(f"{layer}."):
                moved = at + (block - PATTERN) * self.period
                return self.paths[moved] + path[len(layer) :] if 0 <= moved < len(self.paths) else path
        return path

    def block_at(self, place: int) -> int:
        """Returns the block that runs at a place."""
        return place if place <= PATTERN else self.alike + 1 - LAST + place


class Rows:
    """The rows of a model that run with fewer layers; none if nothing repeats often enough."""

    def __init__(self, model: nn.Module) -> None:
        self.found = list(_rows(model))
        self._blocks = [row.blocks for row in self.found]
        self._inside: list[Block] = []
        self._ranges: list[tuple[int, int, Block]] = []
        self._parameters: dict[int, Block] = {}

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Takes the layers that need not run out of the model, and notes which layer runs."""
        with ExitStack() as stack:
            for number, (row, blocks) in enumerate(zip(self.found, self._blocks, strict=True)):
                whole = dict(row.container._modules)
                stack.callback(setattr, row.container, "_modules", whole)
                run = [blocks[row.block_at(place)] for place in range(LAST + 1)]
                layers = [layer for block in run for layer in block]
                row.container._modules = {str(index): layer for index, layer in enumerate(layers)}
                for place, block in enumerate(run):
                    for layer in block:
                        self._note(layer, Block(number, place), stack)
                        self._parameters.update(dict.fromkeys(map(id, layer.parameters()), Block(number, place)))
            yield

    def tensors(self) -> Iterator[tuple[Tensor, int, int, tuple[int, int]]]:
        """Yields the parameters and buffers of all layers, with row, block, and layer and place within the block."""
        for number, blocks in enumerate(self._blocks):
            for block, layers in enumerate(blocks):
                for layer, module in enumerate(layers):
                    for index, tensor in enumerate((*module.parameters(), *module.buffers())):
                        yield tensor, number, block, (layer, index)

    def block_now(self) -> Block | None:
        """Returns the block whose operation runs, forward or backward; ``None`` outside of all rows."""
        if self._inside:
            return self._inside[-1]
        node: Any = torch._C._current_autograd_node()
        if node is None:
            return None
        if (parameter := getattr(node, "variable", None)) is not None:  # its gradient is complete
            return self._parameters.get(id(parameter))
        number = node._sequence_nr()
        place = bisect(self._ranges, number, key=lambda one: one[0]) - 1
        if place >= 0 and number < self._ranges[place][1]:
            return self._ranges[place][2]
        return None

    def _note(self, layer: nn.Module, block: Block, stack: ExitStack) -> None:
        """Notes when a layer runs, and which nodes of the backward pass are its own."""
        began: list[int] = []

        def begins(*_: Any) -> None:
            self._inside.append(block)
            began.append(torch._C._autograd._get_sequence_nr())

        def ends(*_: Any) -> None:
            self._inside.pop()
            self._ranges.append((began.pop(), torch._C._autograd._get_sequence_nr(), block))

        stack.callback(layer.register_forward_pre_hook(begins, prepend=True).remove)
        stack.callback(layer.register_forward_hook(ends, always_call=True).remove)


def _rows(module: nn.Module, path: str = "") -> Iterator[Row]:
    """Yields the outermost rows below a module."""
    row = _row(module, path) if isinstance(module, (nn.ModuleList, nn.Sequential)) else None
    if row is not None:
        yield row
        return
    for name, child in module.named_children():
        yield from _rows(child, f"{path}{name}.")


def _row(container: nn.Module, path: str) -> Row | None:
    layers = list(container.children())
    if len(layers) < FEWEST_ALIKE + 2 or len({id(layer) for layer in layers}) < len(layers):
        return None
    kinds = [_kind(layer) for layer in layers]
    for period in range(1, LONGEST_PERIOD + 1):
        for before in range(MOST_BEFORE_PERIODS + 1):
            first = before + period
            alike = (len(layers) - first) // period - 1
            rest = kinds[before:]
            if alike >= FEWEST_ALIKE and rest[period:] == rest[:-period]:
                paths = tuple(f"{path}{name}" for name, _ in container.named_children())
                return Row(container, first, period, alike, paths)
    return None


def _kind(layer: nn.Module) -> list[object]:
    """Returns what two layers have in common that do the same."""
    return [
        (
            name,
            type(module),
            _settings(module),
            [_form(t) for t in (*module._parameters.values(), *module._buffers.values())],
        )
        for name, module in layer.named_modules()
    ]


def _settings(module: nn.Module) -> list[tuple[str, object]]:
    """Returns a module's own numbers and words; of a float only whether it is zero, as rates of dropout may be."""
    return [
        (name, bool(value) if isinstance(value, float) else value)
        for name, value in vars(module).items()
        if isinstance(value, (bool, int, float, str, type(None))) and not name.endswith(POSITIONS)
    ]


def _form(tensor: Tensor | None) -> object:
    return None if tensor is None else (tensor.shape, tensor.dtype, tensor.requires_grad)

"""The operations of a traced step, with their tensors and the memory that they allocate and free."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch

from memorymark.devices.allocations import Owner, Phase

GRADIENTS_MEET = "autograd.add"
"""The name given to the sum of two gradients of one tensor."""
MODEL_RETURNS = "model returns"
"""The name given to the end of a forward pass; its inputs are what the model returned."""
PHASE_END = "phase end"
"""The name given to the end of a phase of the step."""
GATHERED = "fsdp.gathered.parameters"
"""The name given to making room for parameters that are gathered from all GPUs."""
SENT_IN_LAYERS = "layers."
"""What the names of collectives begin with by which GPUs that share layers talk to each other."""
SENT = (SENT_IN_LAYERS, "c10d.", "_c10d_functional.")
"""What the names of all collectives begin with, and those of waiting for them."""
TO_HOST, TO_DEVICE, ONTO_DEVICE = "to_host", "to_device", "onto_device"
COPIES = frozenset({TO_HOST, TO_DEVICE, ONTO_DEVICE})
"""Copies between the device and the host."""
MATRIX_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "_grouped_mm"})


class TensorFacts(NamedTuple):
    """A tensor as an operation saw it. ``storage`` numbers the memory behind it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    storage: int
    contiguous: bool
    channels_last: bool = False

    @property
    def numel(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.numel * self.dtype.itemsize

    def stored_in(self, number: int) -> TensorFacts:
        """Returns the same tensor in another storage."""
        if number == self.storage:
            return self
        return TensorFacts(self.shape, self.dtype, number, self.contiguous, self.channels_last)


@dataclass(slots=True)
class Operation:
    """One call of one operator.

    ``freed`` are the storages that died since the operation before, ``made`` the new ones with their bytes. ``eager``
    says that Python code called it, as in the forward pass, and not autograd, ``on_host`` that what it made is in the
    host's memory. ``stream`` is the number of the stream whose memory it takes: 0 is the usual one. ``module`` is the
    path of the module that it belongs to, empty for the model itself and for what runs outside of it.
    """

    name: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    arguments: tuple[Any, ...]
    freed: tuple[int, ...]
    made: tuple[tuple[int, int], ...]
    eager: bool = False
    on_host: bool = False
    stream: int = 0
    module: str = field(default="", compare=False)  # where it runs is not what it does

    @property
    def made_on_device(self) -> tuple[tuple[int, int], ...]:
        """The new storages on the device."""
        return () if self.on_host else self.made

    def with_tensors(
        self,
        inputs: tuple[TensorFacts, ...],
        outputs: tuple[TensorFacts, ...],
        freed: tuple[int, ...],
        made: tuple[tuple[int, int], ...],
    ) -> Operation:
        """Returns the same operation on other tensors; ``dataclasses.replace`` takes several times as long."""
        return Operation(
            self.name, inputs, outputs, self.arguments, freed, made, self.eager, self.on_host, self.stream, self.module
        )

    @property
    def base_name(self) -> str:
        """The short name: ``mm`` for ``aten.mm.default``."""
        return _base_name(self.name)


@cache
def _base_name(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else name


class Block(NamedTuple):
    """A block of layers: which row of them it belongs to, and its place among those of the row that run."""

    row: int
    place: int


@dataclass
class StepTrace:
    """All operations of one step, and after how many of them each phase ended.

    ``owners`` maps the lasting storages to their owners after the last backward pass. ``updates`` are the
    operations of optimizers before the optimizer's phase: the places of the first and of the one after the last.
    ``is_own`` says that it is a step of the caller's own, in which all updates are noted so. ``renamed`` maps sums that
    were made in place to the storages that hold them. ``blocks`` says for each operation to which block of layers it
    belongs. ``homes`` maps the lasting storages that a step makes to the modules of their parameters.
    """

    operations: list[Operation] = field(default_factory=list)
    marks: list[tuple[Phase, int]] = field(default_factory=list)
    owners: dict[Hashable, Owner] = field(default_factory=dict)
    updates: list[tuple[int, int]] = field(default_factory=list)
    is_own: bool = False
    renamed: dict[int, int] = field(default_factory=dict)
    blocks: list[Block | None] = field(default_factory=list)
    homes: dict[int, str] = field(default_factory=dict)

"""Where a training fits: the largest batch for each GPU and each recipe. Pure, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memorymark.catalog import GpuEntry, gpu_with_id, own_gpu
from memorymark.documents import Record, in_document
from memorymark.question.recipe import Recipe
from memorymark.results.probe_info import ProbeInfo
from memorymark.results.shown import Shown
from memorymark.results.subject import OfRequest
from memorymark.results.trial import Source


@dataclass(frozen=True, kw_only=True)
class MatrixCell(Record):
    """One recipe on one GPU."""

    gpu: str
    """The GPU's id in the catalog; the name of one that the caller describes."""
    max_batch_size: int
    """The largest batch that trains; 0 if none does."""
    why_not: str = ""
    """Why there is no answer, such as a GPU that cannot run the recipe; empty if there is one."""


@dataclass(frozen=True, kw_only=True)
class MatrixRow(Record):
    """One recipe on all GPUs."""

    changes: tuple[str, ...]
    """The ids of the changes to the recipe as given; empty for that recipe."""
    options: dict[str, Any]
    """The options of the recipe that they set."""
    recipe: Recipe
    """The recipe."""
    title: str
    """The recipe in words."""
    cells: list[MatrixCell]
    """The GPUs, in the order of the matrix; empty if the model does not take the recipe."""
    why_not: str = ""
    """Why the model does not take the recipe; empty if it does."""

    @property
    @in_document
    def max_batch_size(self) -> int:
        """The largest batch on any of the GPUs."""
        return max((cell.max_batch_size for cell in self.cells), default=0)


@dataclass(frozen=True, kw_only=True)
class Matrix(OfRequest, Shown):
    """The largest batch of a training for each recipe and each GPU."""

    kind: ClassVar[Literal["matrix"]] = "matrix"

    gpus: tuple[str, ...]
    """The ids of the GPUs, the one with the least memory first."""
    info: ProbeInfo
    """The first of these GPUs, and the model."""
    rows: list[MatrixRow]
    """The recipes, the one as given first."""

    @property
    @in_document
    def source(self) -> Source:
        """Whether the numbers were measured or predicted: always predicted."""
        return self.info.source

    @property
    def entries(self) -> tuple[GpuEntry, ...]:
        """The GPUs themselves."""
        facts = self.request.target.gpu_facts
        own = own_gpu(facts) if facts is not None else None
        found = (own if own is not None and own.id == gpu else gpu_with_id(gpu) for gpu in self.gpus)
        return tuple(gpu for gpu in found if gpu is not None)

    @property
    def taken(self) -> list[MatrixRow]:
        """The recipes that the model takes."""
        return [row for row in self.rows if row.cells]

    @property
    @in_document
    def max_batch_size(self) -> int:
        """The largest batch of all."""
        return max((row.max_batch_size for row in self.rows), default=0)

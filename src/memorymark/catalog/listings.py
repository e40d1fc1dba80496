"""The catalogs as JSON documents."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from memorymark.catalog.gpus import DEFAULT_GPU, GpuEntry, all_gpus
from memorymark.catalog.models import ModelEntry, all_models
from memorymark.catalog.tasks import TASKS, Task
from memorymark.documents import INLINE, Document


@dataclass(frozen=True)
class ModelCatalog(Document):
    """The models known by name, and the tasks they can be trained for."""

    kind: ClassVar[Literal["models"]] = "models"

    models: tuple[ModelEntry, ...]
    """The models, in the order of listings."""
    tasks: tuple[Task, ...]
    """The tasks."""


@dataclass(frozen=True)
class ListedGpu(Document):
    """A GPU of the catalog."""

    entry: GpuEntry = field(metadata=INLINE)
    here: bool
    """Whether the machine that answers has one."""
    default: bool
    """Whether predictions are for this GPU if the machine that answers has none and the question names none."""


@dataclass(frozen=True)
class GpuCatalog(Document):
    """The GPUs known by name."""

    kind: ClassVar[Literal["gpus"]] = "gpus"

    gpus: tuple[ListedGpu, ...]
    """The GPUs."""


def model_catalog() -> ModelCatalog:
    """Lists every model and every task."""
    return ModelCatalog(all_models(), tuple(TASKS.values()))


def gpu_catalog(here: Container[str]) -> GpuCatalog:
    """Lists every GPU; ``here`` holds the ids of those in this machine."""
    return GpuCatalog(tuple(ListedGpu(entry, entry.id in here, entry.id == DEFAULT_GPU) for entry in all_gpus()))

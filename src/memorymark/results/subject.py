"""What a result is about: the fields at the top of every document."""

from __future__ import annotations

from dataclasses import dataclass

from memorymark.documents import Record, in_document
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.results.probe_info import ProbeInfo


@dataclass(frozen=True)
class OfRequest(Record):
    """A result for one request."""

    request: Request
    """The request as given."""

    @property
    @in_document
    def model_name(self) -> str:
        """The model as the caller named it."""
        return self.request.model

    @property
    @in_document
    def recipe(self) -> Recipe:
        """How the model is trained today."""
        return self.request.recipe


@dataclass(frozen=True)
class OfOneGpu(OfRequest):
    """A result for one request and one device."""

    info: ProbeInfo
    """The device and the model behind the answer."""

    @property
    @in_document
    def gpu_name(self) -> str:
        """The device's name."""
        return self.info.device_name

    @property
    @in_document
    def sample(self) -> str:
        """The shape of one sample in words."""
        return self.info.sample

    @property
    @in_document
    def small(self) -> bool:
        """Whether the model is a stand-in for the real one."""
        return self.info.small

    @property
    @in_document
    def unknown_operations(self) -> tuple[str, ...]:
        """Operations of a predicted step that were never measured."""
        return self.info.unknown_operations

    @property
    @in_document
    def versions(self) -> dict[str, str]:
        """The versions of the libraries behind the numbers."""
        return self.info.versions

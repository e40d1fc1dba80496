"""A request for what is the caller's own: a workload that has a name and no entry in the catalog."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from memorymark.recipe import Recipe
from memorymark.request import OwnModel, Request
from memorymark.target import Target


@dataclass(frozen=True, kw_only=True)
class OwnRequest(Request):
    """What is asked about a workload of this process; its model and its samples are none of the request's business."""

    def __post_init__(self) -> None:
        """There is nothing to check: the catalog does not know the model."""

    @classmethod
    def from_name(cls, name: str, recipe: Recipe, target: Target) -> OwnRequest:
        """The request for a workload of this name."""
        return cls(model=name, small=False, recipe=recipe, target=target)

    @property
    def entry(self) -> OwnModel:
        """What the reports say of the model: its name."""
        return OwnModel(self.model, self.model)

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON types, told apart from one by a model's name."""
        return {**asdict(self), "workload": self.model}

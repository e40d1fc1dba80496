"""What one caller asked for, already valid and ready to cross a process boundary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from memorymark.catalog import ModelEntry, find_model
from memorymark.errors import UsageError
from memorymark.recipe import Recipe
from memorymark.target import Target


@dataclass(frozen=True, kw_only=True)
class Request:
    """A workload by name and shape, a recipe and a target.

    ``small`` swaps the model for a few-layer stand-in of the same family; left open, that is done on the CPU.
    """

    model: str
    seq_len: int | None = None
    image_size: int | None = None
    small: bool | None = None
    recipe: Recipe = field(default_factory=Recipe)
    target: Target = field(default_factory=Target)

    def __post_init__(self) -> None:
        entry = self.entry
        sizes = (("--seq-len", self.seq_len, "nlp"), ("--image-size", self.image_size, "vision"))
        for option, value, owner in sizes:
            if value is None:
                continue
            if entry.type != owner:
                raise UsageError(
                    f"{option} does not apply to {entry.id}, whose samples are counted in {entry.sample_unit}; drop it."
                )
            if not 1 <= value <= entry.max_sample_size:
                limits = f"1 to {entry.max_sample_size} {entry.sample_unit}"
                raise UsageError(f"{entry.id} takes {limits}; {option} {value} is outside of that.")
        if self.recipe.channels_last and entry.type != "vision":
            raise UsageError(f"--channels-last is for image models and {entry.id} is none; drop it.")

    @property
    def entry(self) -> ModelEntry:
        """The catalog's facts about the model."""
        return find_model(self.model)

    def to_dict(self) -> dict[str, Any]:
        """The request as JSON types; ``from_dict`` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Request:
        """The request that ``to_dict`` wrote."""
        if "workload" in data:
            from memorymark.own import OwnRequest

            return OwnRequest.from_name(data["workload"], Recipe(**data["recipe"]), Target(**data["target"]))
        return cls(**{**data, "recipe": Recipe(**data["recipe"]), "target": Target(**data["target"])})

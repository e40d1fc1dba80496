"""What one caller asked for, already valid and ready to cross a process boundary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from memorymark.catalog import ModelEntry
from memorymark.errors import UsageError
from memorymark.models.configs import check_config, read_config
from memorymark.models.names import ModelName, check_revision, read_name
from memorymark.models.tasks import TASKS, check_sample_size, check_sizes, find_task
from memorymark.recipe import Recipe
from memorymark.target import Target
from memorymark.type_checks import settle_types


@dataclass(frozen=True)
class OwnModel:
    """What is known of a model that the catalog does not have, before it is built."""

    id: str
    name: str
    type: str = "own"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A workload by name and shape, a recipe and a target.

    ``model`` is an id of the catalog, a Hugging Face id (``org/name``, at ``revision``), a folder or a config.json, a
    model of timm (``timm:NAME``) or a function that makes a ``Workload`` (``file.py:function(64)``,
    ``package.module:function``). ``config`` is the content of a config.json; ``model`` is then only what to call it.
    Code that comes with a model on Hugging Face runs only with ``trust_remote_code``. ``task`` is the head to train,
    where it is not the usual one.

    ``small`` swaps the model for a few-layer stand-in of the same family; left open, that is done on the CPU.
    """

    model: str = ""
    config: dict[str, Any] | None = None
    task: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    seq_len: int | None = None
    image_size: int | None = None
    audio_seconds: int | None = None
    small: bool | None = None
    recipe: Recipe = field(default_factory=Recipe)
    target: Target = field(default_factory=Target)

    def __post_init__(self) -> None:
        settle_types(self)
        if self.task is not None:
            object.__setattr__(self, "task", find_task(self.task).id)
        if self.revision is not None:
            check_revision(self.revision)
        if self.config is None:
            if not self.model.strip():
                raise UsageError("name a model, or give the config of one.")
            name = self._named()
            if name.kind != "catalog":
                object.__setattr__(self, "model", name.text)
            if name.kind == "path":
                object.__setattr__(self, "config", read_config(name.text))
        if self.config is not None:
            check_config(self.config, self.model or "the config", may_run_code=self.trust_remote_code)
            if not self.model:
                object.__setattr__(self, "model", f"{self.config.get('model_type', 'pasted')} config")
        if self.revision is not None and self.name.kind != "hub":
            raise UsageError(f"--revision is for Hugging Face ids and {self.entry.id} is none; drop it.")
        self._check_sample()

    def _check_sample(self) -> None:
        """Refuses what is known already not to apply; the rest shows when the config is known."""
        entry = self.name.entry
        if entry is None:
            for unit, size in self.sizes.items():
                if size is not None:
                    check_sample_size(unit, size)
            return
        task = TASKS[self.task or entry.task]
        largest = {task.units[0]: entry.max_sample_size} if task.id == entry.task else {}
        check_sizes(entry.id, task, self.sizes, largest)
        if self.recipe.channels_last and "pixels" not in task.units:
            raise UsageError(f"--channels-last is for image models and {entry.id} is none; drop it.")

    @property
    def name(self) -> ModelName:
        """What ``model`` means."""
        if self.config is None:
            return self._named()
        # Beside a config a name is only what to call it: whoever may send one may not thereby name code to run.
        return ModelName("path" if self.model.startswith("/") else "config", self.model)

    def _named(self) -> ModelName:
        return read_name(self.model, prefer_hub=self.revision is not None or self.trust_remote_code)

    @property
    def entry(self) -> ModelEntry | OwnModel:
        """The catalog's facts about the model, or what it is called."""
        name = self.name
        if name.entry is not None:
            return name.entry
        return OwnModel(name.id, f"{name.id}@{self.revision}" if self.revision else name.id)

    @property
    def sizes(self) -> dict[str, int | None]:
        """The sizes of a sample that were asked for, by what they count."""
        return {"tokens": self.seq_len, "pixels": self.image_size, "seconds": self.audio_seconds}

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

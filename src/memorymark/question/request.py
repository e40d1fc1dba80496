"""A caller's request: checked when it is created, and ready to cross a process boundary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from memorymark.catalog import ModelEntry
from memorymark.catalog.tasks import COMPARING, GENERATING, TASKS, check_sample_size, check_sizes, find_task
from memorymark.checks.choices import Choice
from memorymark.errors import Proposal, UsageError
from memorymark.messages import Message, OptionName
from memorymark.question.completions import check_completions
from memorymark.question.configs import LARGEST_CONFIG_BYTES, check_config, read_config
from memorymark.question.limits import LONGEST_NAME, NO_LIMIT
from memorymark.question.model_names import ModelName, check_revision, read_name
from memorymark.question.options import group, option, options_of, settle_options
from memorymark.question.packing import check_packing
from memorymark.question.quantization import quantization_of
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from memorymark.units import KIB

Reference = Literal["auto", "kept", "precomputed", "none"]
REFERENCE = Choice("reference", get_args(Reference), {"default": "auto", "precompute": "precomputed"})


@dataclass(frozen=True)
class OwnModel:
    """What is known about a model outside the catalog before it is built."""

    id: str
    name: str
    type: str = "own"


@group("sample")
@dataclass(frozen=True, kw_only=True)
class Request:
    """A workload by name and shape, a recipe and a target.

    ``model`` is an id of the catalog, a Hugging Face id (``org/name``, at ``revision``), a folder or a config.json, a
    model of timm (``timm:NAME``) or a function that makes a ``Workload`` (``file.py:function(64)``,
    ``package.module:function``). ``config`` is the content of a config.json; ``model`` is then only its label. Code
    that comes with a model on Hugging Face runs only with ``trust_remote_code``. ``task`` is the head to train, if it
    is not the model's usual one.

    ``small`` swaps the model for a few-layer stand-in of the same family; by default, only on the CPU.
    """

    model: str = option(
        "",
        "What to train: a name of the catalog, org/name on Hugging Face, a ./folder with a config.json, timm:NAME, or "
        "file.py:function.",
        group="model",
        metavar="MODEL",
        over_http_as="model_name",
        longest=LONGEST_NAME,
    )
    config: dict[str, Any] | None = option(
        None,
        f"The content of a model's config.json, at most {LARGEST_CONFIG_BYTES // KIB} KiB.",
        group="model",
        longest=LARGEST_CONFIG_BYTES,
    )
    task: str | None = option(
        None,
        "What to train it for, such as causal-lm, sft, dpo or grpo; defaults to the model's usual task.",
        group="model",
        rare=True,
        longest=LONGEST_NAME,
    )
    revision: str | None = option(
        None, "Branch, tag or commit of a Hugging Face model.", group="model", longest=LONGEST_NAME, rare=True
    )
    trust_remote_code: bool = option(
        False,
        "Run the code that comes with a Hugging Face model.",
        group="model",
        title="Code of the model",
        rare=True,
    )
    seq_len: int | None = option(
        None,
        "Tokens per sequence.",
        title="Sequence length",
        unit="tokens",
        metavar="N",
        minimum=1,
        maximum=NO_LIMIT,
        sample_units=("tokens",),
    )
    image_size: int | None = option(
        None,
        "Height and width of an image, in pixels.",
        unit="pixels",
        metavar="N",
        minimum=1,
        maximum=NO_LIMIT,
        sample_units=("pixels",),
    )
    audio_seconds: int | None = option(
        None,
        "Length of a recording, in seconds.",
        title="Recording length",
        unit="seconds",
        metavar="N",
        minimum=1,
        maximum=NO_LIMIT,
        sample_units=("seconds",),
    )
    packed: bool = option(
        False,
        "Fill rows of the sequence length with samples of varying length, which do not see each other.",
        rare=True,
        sample_units=("tokens",),
    )
    mean_tokens: int | None = option(
        None,
        "The mean length of the samples that are packed; defaults to a quarter of a row.",
        title="Mean length of samples",
        unit="tokens",
        metavar="N",
        rare=True,
        minimum=1,
        maximum=NO_LIMIT,
        sample_units=("tokens",),
    )
    completions: int | None = option(
        None,
        "The completions that GRPO generates for each prompt; defaults to 8.",
        title="Completions of a prompt",
        metavar="N",
        rare=True,
        minimum=2,
        maximum=NO_LIMIT,
        sample_units=("tokens",),
        needs={"task": GENERATING},
    )
    completion_tokens: int | None = option(
        None,
        "The tokens of a completion, part of the sequence length; defaults to half of it.",
        title="Length of completions",
        unit="tokens",
        metavar="N",
        rare=True,
        minimum=1,
        maximum=NO_LIMIT,
        sample_units=("tokens",),
        needs={"task": GENERATING},
    )
    reference: Reference = option(
        "auto",
        "The frozen model to compare with: kept beside the model, precomputed, or none; auto keeps one for DPO only.",
        group="recipe",
        title="Reference model",
        choices=REFERENCE,
        labels={"auto": "Default", "kept": "Kept on the GPU", "precomputed": "Precomputed", "none": "None"},
        rare=True,
        needs={"task": ("dpo", "grpo")},
        choice_needs={"precomputed": {"task": ("dpo",)}, "none": {"task": ("grpo",)}},
    )
    small: bool | None = option(
        None,
        "Use a stand-in with a few layers, or the full model; defaults to the stand-in on the CPU.",
        group="model",
        title="Model size",
        labels={"true": "Small stand-in", "false": "Full model"},
        flags=("--small/--full",),
        rare=True,
    )
    recipe: Recipe = field(default_factory=Recipe)
    """How it is trained."""
    target: Target = field(default_factory=Target)
    """Where it is trained."""

    def __post_init__(self) -> None:
        if isinstance(self.task, str):  # before the options that need a task are checked
            object.__setattr__(self, "task", find_task(self.task).id)
        settle_options(self)
        if self.revision is not None:
            check_revision(self.revision)
        self._settle_model()
        if self.revision is not None and self.name.kind != "hub":
            raise UsageError(
                Message("{revision} is for Hugging Face ids, and {id} is not one; drop it.", id=self.entry.id),
                code="not_applicable",
                field="revision",
                given=self.revision,
                proposals=[Proposal("no revision", {"revision": None})],
            )
        self._check_sample()
        check_packing(self)
        check_completions(self)

    def _settle_model(self) -> None:
        """Reads the name or the config; a config at a path becomes part of the request."""
        if self.config is None:
            if not self.model.strip():
                raise UsageError("name a model, or give the config of one.", code="missing", field="model")
            name = self._named()
            if name.kind != "catalog":
                object.__setattr__(self, "model", name.text)
            if name.kind == "path":
                object.__setattr__(self, "config", read_config(name.text))
        if self.config is not None:
            check_config(self.config, self.model or "the config", may_run_code=self.trust_remote_code)
            if not self.model:
                object.__setattr__(self, "model", name_of_config(self.config))
            quantization_of(self.config, self.entry.id, self.recipe)  # raises if it cannot be trained

    def _check_sample(self) -> None:
        """Raises on sizes and options that cannot apply; others are checked once the config is known."""
        entry = self.name.entry
        if entry is None:
            for unit, size in self.sizes.items():
                if size is not None:
                    check_sample_size(unit, size)
            return
        task = TASKS[self.task or entry.task]
        largest = {task.units[0]: entry.max_sample_size} if task.id == entry.task else {}
        check_sizes(entry.id, task, self.sizes, largest)
        for one in options_of(Recipe).values():
            is_set = one.value_of(self.recipe) != one.default
            if is_set and one.sample_units and not set(one.sample_units) & set(task.units):
                raise UsageError(
                    Message(
                        "{option} is for samples in {units}, and those of {id} are in {counted}; drop it.",
                        option=OptionName(one.name),
                        units=" or ".join(one.sample_units),
                        id=entry.id,
                        counted=" and ".join(task.units),
                    ),
                    code="not_applicable",
                    field=one.name,
                    given=one.value_of(self.recipe),
                    proposals=[Proposal(f"without {one.title}", {one.name: one.default})],
                )

    @property
    def name(self) -> ModelName:
        """What ``model`` means."""
        if self.config is None:
            return self._named()
        # With a config, the name is only a label: a caller who may send configs must not be able to name code to run.
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
    def keeps_reference(self) -> bool:
        """Whether a frozen model is kept beside the trained one."""
        return self.reference == "kept" or (self.reference == "auto" and self.task in COMPARING)

    @property
    def runs_code(self) -> bool:
        """Whether building the model runs somebody's code, which may change between runs."""
        return self.name.runs_code or self.trust_remote_code

    @property
    def sizes(self) -> dict[str, int | None]:
        """The requested sizes of a sample, by unit."""
        return {"tokens": self.seq_len, "pixels": self.image_size, "seconds": self.audio_seconds}

    def at_length(self, seq_len: int, mean_tokens: int | None = None) -> Request:
        """Returns the request for samples of another length; ``mean_tokens`` replaces that of packed ones."""
        return replace(self, seq_len=seq_len, mean_tokens=mean_tokens or self.mean_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Returns the request in JSON types; ``from_dict`` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Request:
        """Reads the request that ``to_dict`` wrote."""
        if "workload" in data:
            return OwnRequest.from_name(data["workload"], Recipe(**data["recipe"]), Target(**data["target"]))
        if "completions" not in data and data.get("reference") == "kept":  # the default in documents from before GRPO
            data = {**data, "reference": "auto"}
        return cls(**{**data, "recipe": Recipe(**data["recipe"]), "target": Target(**data["target"])})


@dataclass(frozen=True, kw_only=True)
class OwnRequest(Request):
    """A request about a ``Workload`` object in this process, which makes its own model and samples."""

    def __post_init__(self) -> None:
        """Checks nothing, since the workload is not in the catalog."""

    @classmethod
    def from_name(cls, name: str, recipe: Recipe, target: Target) -> OwnRequest:
        """Makes the request for a workload of this name."""
        return cls(model=name, small=False, recipe=recipe, target=target)

    @property
    def entry(self) -> OwnModel:
        """The model's name, for reports."""
        return OwnModel(self.model, self.model)

    def to_dict(self) -> dict[str, Any]:
        """Returns the request in JSON types, marked as one for a workload."""
        return {**asdict(self), "workload": self.model}


def name_of_config(config: dict[str, Any]) -> str:
    """Returns a name for a config that was given without one."""
    return f"{config.get('model_type', 'pasted')} config"

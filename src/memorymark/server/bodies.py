"""What callers ask over HTTP: bodies, paths and queries, checked before anything else sees them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memorymark.catalog import some_models
from memorymark.cost import Usage
from memorymark.errors import NotAllowedError, UsageError
from memorymark.history.job import State
from memorymark.models.configs import LARGEST_CONFIG_BYTES
from memorymark.models.names import read_name
from memorymark.models.tasks import TASKS
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.recipe import (
    ATTENTION,
    LOSS,
    OPTIMIZER,
    PRECISION,
    Attention,
    Loss,
    Optimizer,
    Precision,
    Recipe,
)
from memorymark.request import Request
from memorymark.search import NO_LIMIT
from memorymark.target import Target, memory_cap
from memorymark.units import KIB

MAX_SECONDS = 86_400.0
LONGEST_NAME = 200
MOST_LENGTHS = 32


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 16.0 is as whole as 16."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, BeforeValidator(_whole)]
Length = Annotated[Count, Field(ge=1, le=NO_LIMIT)]


def refuse_code(model: str | None, *, trust_remote_code: bool, has_config: bool) -> None:
    """Refuses what would open a file or run code of the server's; only the name is looked at."""
    if trust_remote_code:
        raise NotAllowedError("this service runs no code that a model brings; its operator would have to allow code.")
    if model and not has_config and read_name(model).needs_files:  # beside a config it is only what to call it
        raise NotAllowedError(
            "this service opens no files and runs no functions for callers; give the config.json as config, or ask its "
            "operator to allow code."
        )


class AnalyzeBody(BaseModel):
    """A training and what is to be found out about it. All but ``model_name``, or ``config``, may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    model_name: str | None = Field(
        None,
        max_length=LONGEST_NAME,
        description="A model of GET /models by its id, a Hugging Face id, or timm:NAME. With config, what to call it. "
        "A path or a function of the server's (file.py:function) only where its operator allows code.",
    )
    config: dict[str, Any] | None = Field(
        None, description=f"The content of a model's config.json, at most {LARGEST_CONFIG_BYTES // KIB} KiB."
    )
    task: str | None = Field(
        None, max_length=LONGEST_NAME, description=f"The head to train: {', '.join(TASKS)}; else the usual one."
    )
    revision: str | None = Field(
        None, min_length=1, max_length=LONGEST_NAME, description="Branch, tag or commit of a Hugging Face model."
    )
    trust_remote_code: bool = Field(
        False, description="Run the code that a Hugging Face model brings; only where the operator allows code."
    )
    gpu: str | None = Field(None, max_length=LONGEST_NAME, description="Predict for this GPU of GET /gpus.")
    device: str = Field(
        "auto",
        pattern="^(auto|cpu|mps|cuda(:[0-9]{1,3})?)$",
        description="Measure on this device of the server; auto takes a GPU, or predicts where there is none.",
    )
    precision: Annotated[Precision, BeforeValidator(PRECISION.understood)] = "fp32"
    optimizer: Annotated[Optimizer, BeforeValidator(OPTIMIZER.understood)] = "adamw"
    fused: bool = False
    lora: Count = Field(0, ge=0, le=NO_LIMIT, description="Rank of the LoRA adapters that are trained; 0 for none.")
    attention: Annotated[Attention, BeforeValidator(ATTENTION.understood)] = Field(
        "auto", description="How transformers computes it; auto is its own choice."
    )
    gradient_checkpointing: bool = False
    compile: bool = False
    channels_last: bool = False
    tf32: bool = False
    eval_mode: bool = False
    loss: Annotated[Loss, BeforeValidator(LOSS.understood)] = "model"
    accumulate: Count = Field(1, ge=1, le=NO_LIMIT, description="Batches per optimizer step.")
    seq_len: Count | None = Field(None, ge=1, le=NO_LIMIT, description="Tokens of a sequence.")
    image_size: Count | None = Field(None, ge=1, le=NO_LIMIT, description="Pixels of a side.")
    audio_seconds: Count | None = Field(None, ge=1, le=NO_LIMIT, description="Seconds of a sound.")
    small: bool | None = Field(None, description="A few-layer stand-in for the model.")
    batch_size: Count = Field(DEFAULT_CURRENT, ge=1, le=NO_LIMIT, description="The batch size of today.")
    max_batch: Count | None = Field(None, ge=1, le=NO_LIMIT, description="Look no further than this.")
    memory_gib: float | None = Field(None, gt=0, le=1e6, description="Cap what the allocator may use, in GiB.")
    margin: float = Field(DEFAULT_MARGIN, ge=0, lt=1, description="Part of the memory to leave free.")
    price_per_hour: float | None = Field(None, ge=0, le=1e9, description="Dollars; the catalog's if left out.")
    hours_per_run: float = Field(Usage.hours_per_run, gt=0, le=1e9)
    runs_per_year: float = Field(Usage.runs_per_year, gt=0, le=1e9)
    people: Count = Field(Usage.people, ge=1, le=NO_LIMIT)
    fresh: bool = Field(False, description="Work it out again even if the answer is already there.")
    time_limit: float | None = Field(None, gt=0, le=MAX_SECONDS, description="Seconds the work may take.")

    def question(self, *, allow_code: bool = False, **more: Any) -> Question:
        """The question it asks, checked against the catalogs; files and code of the server only with ``allow_code``.

        ``more`` are fields of a ``Question`` that not every body has.
        """
        if not self.model_name and self.config is None:
            raise UsageError(
                f"model_name is missing; name a model such as {some_models()} (`memorymark models` lists all), or give "
                "a config."
            )
        if not allow_code:
            refuse_code(self.model_name, trust_remote_code=self.trust_remote_code, has_config=self.config is not None)
        return Question(
            request=Request(
                model=self.model_name or "",
                config=self.config,
                task=self.task,
                revision=self.revision,
                trust_remote_code=self.trust_remote_code,
                seq_len=self.seq_len,
                image_size=self.image_size,
                audio_seconds=self.audio_seconds,
                small=self.small,
                recipe=Recipe(
                    precision=self.precision,
                    optimizer=self.optimizer,
                    fused=self.fused,
                    gradient_checkpointing=self.gradient_checkpointing,
                    train_mode=not self.eval_mode,
                    loss=self.loss,
                    accumulation_steps=self.accumulate,
                    compile=self.compile,
                    tf32=self.tf32,
                    channels_last=self.channels_last,
                    lora=self.lora,
                    attention=self.attention,
                ),
                target=Target(device=self.device, gpu=self.gpu, memory_cap_bytes=memory_cap(self.memory_gib)),
            ),
            current_batch_size=self.batch_size,
            max_batch=self.max_batch,
            margin=self.margin,
            usage=Usage(hours_per_run=self.hours_per_run, runs_per_year=self.runs_per_year, people=self.people),
            price_per_hour=self.price_per_hour,
            **more,
        )


class AdviseBody(AnalyzeBody):
    """The same, as it is trained today."""

    try_compile: bool = Field(True, description="Also run torch.compile, where there is a GPU: a minute or more.")

    def question(self, *, allow_code: bool = False, **more: Any) -> Question:
        """The question for advice."""
        return super().question(allow_code=allow_code, **{"advise": True, "try_compile": self.try_compile, **more})


class JobBody(AnalyzeBody):
    """The same, with more that may be asked for."""

    all_gpus: bool = Field(False, description="Predict for every GPU of the catalog and compare them.")
    seq_lens: list[Length] = Field(
        default_factory=list, max_length=MOST_LENGTHS, description="Several lengths, each with its largest batch."
    )
    advise: bool = Field(False, description="Ask what to change: recipes ranked by what they gain.")
    try_compile: bool = Field(True, description="With advise: also run torch.compile, where there is a GPU.")

    def question(self, *, allow_code: bool = False, **more: Any) -> Question:
        """The question, whichever it is."""
        asked = {"all_gpus": self.all_gpus, "advise": self.advise, "try_compile": self.try_compile}
        lengths = tuple(dict.fromkeys(self.seq_lens))
        return super().question(allow_code=allow_code, **{**asked, "seq_lens": lengths, **more})


class JobPath(BaseModel):
    """A job by its id."""

    job_id: str = Field(description="The id that POST /jobs gave.")


class JobsQuery(BaseModel):
    """Which jobs to list."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, max_length=LONGEST_NAME, description="Only jobs about this model.")
    state: State | None = Field(None, description="Only jobs in this state.")
    search: str = Field(
        "",
        max_length=LONGEST_NAME,
        description="Only jobs with all these words in their model, GPU, recipe, state, id or error.",
    )
    limit: int = Field(50, ge=1, le=500, description="At most so many.")
    before: str | None = Field(None, pattern="^[0-9a-f]{12}$", description="Only jobs older than the one of this id.")


class ReportQuery(BaseModel):
    """What to report."""

    model_config = ConfigDict(extra="forbid")

    part: str | None = Field(None, max_length=LONGEST_NAME, description="One GPU, or one length, of several.")


class EventsQuery(BaseModel):
    """Which events to send."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=NO_LIMIT, description="Only events with a larger number.")

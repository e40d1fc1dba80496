"""What goes in and out over HTTP. The OpenAPI document, and the types of every client, come from here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memorymark.catalog import all_models
from memorymark.cost import Usage
from memorymark.errors import NotAllowedError, UsageError
from memorymark.history.job import ErrorKind, Kind, Origin, State
from memorymark.models.configs import LARGEST_CONFIG_BYTES
from memorymark.models.names import read_name
from memorymark.models.tasks import TASKS
from memorymark.question import DEFAULT_CURRENT, DEFAULT_MARGIN, Question
from memorymark.recipe import Attention, Loss, Optimizer, Precision, Recipe
from memorymark.request import Request
from memorymark.search import NO_LIMIT
from memorymark.target import Target
from memorymark.trial import FailureKind, Source
from memorymark.units import GIB, KIB

MAX_SECONDS = 86_400.0
LONGEST_NAME = 200
MOST_LENGTHS = 32


def _whole(value: Any) -> Any:
    """JSON knows one kind of number: 16.0 is as whole as 16."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


SampleUnit = Literal["tokens", "pixels", "seconds"]
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
    precision: Precision = "fp32"
    optimizer: Optimizer = "adamw"
    fused: bool = False
    lora: Count = Field(0, ge=0, le=NO_LIMIT, description="Rank of the LoRA adapters that are trained; 0 for none.")
    attention: Attention = Field("auto", description="How transformers computes it; auto is its own choice.")
    gradient_checkpointing: bool = False
    compile: bool = False
    channels_last: bool = False
    tf32: bool = False
    eval_mode: bool = False
    loss: Loss = "model"
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
            names = ", ".join(entry.id for entry in all_models())
            raise UsageError(f"model_name is missing; name one of {names}, or give a config.")
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
                target=Target(
                    device=self.device,
                    gpu=self.gpu,
                    memory_cap_bytes=None if self.memory_gib is None else max(int(self.memory_gib * GIB), 1),
                ),
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
    limit: int = Field(50, ge=1, le=500, description="At most so many.")
    before: str | None = Field(None, pattern="^[0-9a-f]{12}$", description="Only jobs older than the one of this id.")


class EventsQuery(BaseModel):
    """Which events to send."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=NO_LIMIT, description="Only events with a larger number.")


class Error(BaseModel):
    """Something did not work; ``error`` is one sentence that says what to do."""

    status: Literal["error"]
    error: str
    kind: ErrorKind | None = None
    job_id: str | None = None


class Breakdown(BaseModel):
    """What the device held at the peak. The parts add up to ``device_bytes``."""

    weights_bytes: int
    gradients_bytes: int
    optimizer_state_bytes: int
    activations_bytes: int
    temporaries_bytes: int
    allocator_slack_bytes: int
    context_bytes: int
    other_processes_bytes: int


class Failure(BaseModel):
    """Why a batch size does not train."""

    kind: FailureKind
    message: str
    requested_bytes: int | None
    free_bytes: int | None


class Trial(BaseModel):
    """One batch size, tried."""

    batch_size: int
    fits: bool
    source: Source
    steps: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    forward_peak_bytes: int
    backward_peak_bytes: int
    resting_bytes: int
    device_bytes: int
    allocator_retries: int
    breakdown: Breakdown | None
    samples_per_second: float | None
    step_seconds: float | None
    step_seconds_spread: float | None
    failure: Failure | None
    intervals: dict[str, tuple[float, float]] | None


class ResultRow(BaseModel):
    """One batch size as published: megabytes and gigabytes are MiB and GiB."""

    batch_size: int
    memory_mb: float | None
    memory_gb: float | None
    success: bool
    error: str | None
    samples_per_second: float | None


class Price(BaseModel):
    """What an hour costs, from whom and as of when."""

    usd_per_hour: float
    provider: str
    as_of: str | None
    note: str


class UsageView(BaseModel):
    """How much is trained."""

    hours_per_run: float
    runs_per_year: float
    people: int


class RecipeView(BaseModel):
    """How it is trained."""

    precision: Precision
    optimizer: Optimizer
    fused: bool
    gradient_checkpointing: bool
    train_mode: bool
    loss: Loss
    accumulation_steps: int
    compile: bool
    tf32: bool
    channels_last: bool
    lora: int
    attention: Attention = "auto"  # older records have none


class TargetView(BaseModel):
    """Where it is trained."""

    device: str
    gpu: str | None
    memory_cap_bytes: int | None


class RequestView(BaseModel):
    """What is trained, how and where."""

    model: str
    seq_len: int | None
    image_size: int | None
    small: bool | None
    recipe: RecipeView
    target: TargetView
    # Older records have none of these.
    config: dict[str, Any] | None = None
    task: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    audio_seconds: int | None = None


class QuestionView(BaseModel):
    """What was asked."""

    request: RequestView
    current_batch_size: int
    max_batch: int | None
    margin: float
    usage: UsageView
    price_per_hour: float | None
    all_gpus: bool
    seq_lens: list[int]
    advise: bool = False  # older records have none
    try_compile: bool = True


class ProbeInfo(BaseModel):
    """The device, and the model on it."""

    device_kind: str
    device_name: str
    total_bytes: int
    capacity_bytes: int
    capped: bool
    parameters: int
    trainable_parameters: int | None
    source: Source
    unknown_operations: list[str]
    optimizer: str
    sample: str
    small: bool
    versions: dict[str, str]
    seconds: dict[str, float]


class Analysis(BaseModel):
    """The answer. ``*_gb`` are GiB (2^30 bytes); ``optimal_batch_size`` is the maximum."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    device: str
    gpu_name: str
    gpu_total_gb: float
    optimal_batch_size: int
    optimal_memory_gb: float
    current_batch_size: int
    current_memory_gb: float | None
    waste_gb: float
    waste_percent: float
    speedup: float | None
    cost_savings_per_run: float | None
    cost_savings_annual: float | None
    results: list[ResultRow]
    max_batch_size: int
    max_is_exact: bool
    max_batch_interval: tuple[int, int] | None
    limited_by: str
    recommended_batch_size: int | None
    current_waste_gb: float | None
    current_waste_percent: float | None
    batch_ratio: float
    thrashing_batch_sizes: list[int]
    source: Source
    unknown_operations: list[str]
    breakdown: Breakdown | None
    recipe: RecipeView
    small: bool
    sample: str
    margin: float
    price: Price | None
    usage: UsageView
    trials: list[Trial]
    capacity_bytes: int
    versions: dict[str, str]
    seconds: dict[str, float]
    request: RequestView
    info: ProbeInfo


class Contender(BaseModel):
    """One GPU of a comparison."""

    gpu: str
    gpu_name: str
    fits: bool
    max_batch_size: int | None
    max_batch_interval: tuple[int, int] | None
    recommended_batch_size: int | None
    samples_per_second: float | None
    usd_per_million_samples: float | None
    price: Price | None


class Comparison(BaseModel):
    """The same training on every GPU of the catalog, the fastest first."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    source: Source
    recipe: RecipeView
    fastest: str | None
    cheapest: str | None
    gpus: list[Contender]
    request: RequestView
    analyses: dict[str, Analysis]


class LengthView(BaseModel):
    """One length of a sweep. ``lost`` is the part of its throughput that the planned batch costs."""

    seq_len: int
    fits: bool
    max_batch_size: int | None
    max_batch_interval: tuple[int, int] | None
    recommended_batch_size: int | None
    samples_per_second: float | None
    tokens_per_second: float | None
    planned_samples_per_second: float | None
    lost: float | None


class Sweep(BaseModel):
    """The same training at several lengths, the shortest first. The numbers at the top are for ``plan_for``."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    gpu_name: str
    source: Source
    recipe: RecipeView
    seq_lens: list[int]
    plan_for: int
    planned_batch_size: int
    max_batch_size: int
    recommended_batch_size: int | None
    speedup: float | None
    advice: list[str]
    lengths: list[LengthView]
    request: RequestView
    analyses: dict[str, Analysis]


class ChangeCost(BaseModel):
    """What a change costs, in words."""

    change: str
    cost: str


class CodeView(BaseModel):
    """The same recipe as code for three libraries."""

    pytorch: str
    transformers: str
    lightning: str


class OptionView(BaseModel):
    """One way to train. ``gain`` is its throughput over today's, ``at_todays_batch`` its samples per second there."""

    changes: list[str]
    title: str
    recipe: RecipeView
    recipe_in_words: str
    batch_size: int
    accumulation_steps: int
    seq_len: int | None
    max_batch_size: int | None
    predicted: Trial | None
    measured: Trial | None
    source: Source
    gain: float | None
    predicted_gain: float | None
    samples_per_second: float | None
    at_todays_batch: float | None
    memory_gb: float
    usd_per_million_samples: float | None
    cost_savings_per_run: float | None
    cost_savings_annual: float | None
    costs: list[ChangeCost]
    learning_rate: str
    code: CodeView


class RefusedView(BaseModel):
    """Changes that were looked at and lead nowhere."""

    changes: list[str]
    title: str
    why: str


class Today(BaseModel):
    """Today's training; nothing where it does not fit."""

    predicted: Trial | None
    measured: Trial | None
    usd_per_million_samples: float | None


class Advice(BaseModel):
    """What to change, the best first. The numbers at the top are those of the best option."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    gpu_name: str
    source: Source
    verdict: str
    fits_today: bool
    worth_changing: bool
    current_batch_size: int
    recommended_batch_size: int | None
    max_batch_size: int | None
    speedup: float | None
    cost_savings_per_run: float | None
    cost_savings_annual: float | None
    recipe: RecipeView
    today: Today
    options: list[OptionView]
    refused: list[RefusedView]
    margin: float
    usage: UsageView
    price: Price | None
    sample: str
    small: bool
    unknown_operations: list[str]
    versions: dict[str, str]
    seconds: dict[str, float]
    request: RequestView
    info: ProbeInfo


class AdviseAnswer(BaseModel):
    """What POST /advise answers."""

    status: Literal["success"]
    job_id: str
    data: Advice


class AnalyzeAnswer(BaseModel):
    """What POST /analyze answers."""

    status: Literal["success"]
    job_id: str
    data: Analysis


class Headline(BaseModel):
    """The numbers of a result that a list shows."""

    gpu_name: str | None
    source: Source | None
    max_batch_size: int | None
    recommended_batch_size: int | None
    speedup: float | None
    cost_savings_annual: float | None
    fastest: str | None
    cheapest: str | None


class Machine(BaseModel):
    """Where it was worked out."""

    host: str
    system: str
    python: str
    processors: int
    gpus: list[str]
    driver: str | None


class JobSummary(BaseModel):
    """A job as lists show it. Times are in ISO 8601, UTC. ``kind`` is what its result is, or would have been."""

    model_config = ConfigDict(protected_namespaces=())

    id: str
    state: State
    origin: Origin
    model_name: str
    target: str
    kind: Kind
    recipe_words: str
    sample_words: str | None
    current_batch_size: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    error: str | None
    error_kind: ErrorKind | None
    headline: Headline | None


class JobView(JobSummary):
    """A job, whole. ``position`` is its place in line while it waits."""

    position: int | None
    question: QuestionView
    versions: dict[str, str]
    machine: Machine
    result: Analysis | Comparison | Sweep | Advice | None


class JobAnswer(BaseModel):
    """What the calls about one job answer; ``reused`` says that an earlier job had the answer already."""

    status: Literal["success"]
    reused: bool
    job: JobView


class JobsAnswer(BaseModel):
    """Jobs, the latest first; ``next`` is what to pass as ``before`` to see older ones."""

    status: Literal["success"]
    jobs: list[JobSummary]
    next: str | None


class EventView(BaseModel):
    """Something that happened to a job.

    ``event`` is ``state``, ``stage``, ``trial``, and last ``result``, whose data is the result, or ``error``.
    """

    id: int
    event: Literal["state", "stage", "trial", "result", "error"]
    at: str
    data: dict[str, Any]


class EventsAnswer(BaseModel):
    """The events so far."""

    status: Literal["success"]
    state: State
    events: list[EventView]


class Queue(BaseModel):
    """How much waits and runs."""

    waiting: int
    running: int
    limit: int


class WorkerView(BaseModel):
    """One worker process: what it is for and what it does now."""

    name: str
    device: str
    state: Literal["idle", "busy", "starting", "failed"]
    pid: int | None
    job: str | None


class Health(BaseModel):
    """How the service is. ``degraded`` means that it answers, but ``problem`` should be looked at."""

    status: Literal["ok", "degraded"]
    problem: str | None
    version: str
    gpu_available: bool
    gpu_name: str | None
    gpu_memory_total_gb: float | None
    device: Literal["cuda", "mps", "cpu"]
    timestamp: str
    queue: Queue
    workers: list[WorkerView]


class ModelView(BaseModel):
    """A model of the catalog, and the size of a sample that is usual for it and that it takes at the most."""

    id: str
    name: str
    description: str
    type: str
    huggingface_id: str
    parameters: int
    task: str
    sample_unit: SampleUnit
    sample_size: int
    max_sample_size: int


class TaskView(BaseModel):
    """A head that a model can be trained with, and the size of a sample where the model does not say it."""

    id: str
    title: str
    sample_unit: SampleUnit
    sample_size: int


class ModelsAnswer(BaseModel):
    """The model catalog, and what models can be trained for."""

    models: list[ModelView]
    tasks: list[TaskView]


class GpuView(BaseModel):
    """A GPU of the catalog; ``here`` says that the server has one."""

    id: str
    name: str
    memory_bytes: int
    compute_capability: str
    price: Price | None
    prices: list[Price]
    here: bool


class GpusAnswer(BaseModel):
    """The GPU catalog."""

    gpus: list[GpuView]


class Info(BaseModel):
    """What this is, for programs that ask for the front page."""

    name: str
    version: str
    description: str
    documentation: str
    openapi: str
    endpoints: list[str]

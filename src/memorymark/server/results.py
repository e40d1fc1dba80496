"""Results as they go out over HTTP: the documents that ``to_dict`` of each result writes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from memorymark.analysis import WhySmaller
from memorymark.recipe import Attention, Loss, Optimizer, Precision
from memorymark.trial import FailureKind, Source


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


class CodeView(BaseModel):
    """The same recipe as code for three libraries."""

    pytorch: str
    transformers: str
    lightning: str


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


class SuggestionView(BaseModel):
    """A change under which the training was predicted to fit.

    ``change`` holds fields of the body of POST /jobs; the same question with these asks for it. ``max_batch_size`` is
    the largest batch that is predicted to train, ``device_bytes`` what the GPU holds then, of ``total_bytes``.
    """

    label: str
    change: dict[str, Any]
    recipe: str
    gpu_name: str
    without_cap: bool
    max_batch_size: int
    device_bytes: int
    total_bytes: int


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
    weights_dtype: str = ""  # older records have none
    optimizer: str
    sample: str
    small: bool
    versions: dict[str, str]
    seconds: dict[str, float]


class Analysis(BaseModel):
    """The answer. ``*_gb`` are GiB (2^30 bytes); the batch to train with is ``recommended_batch_size``.

    ``*_waste_*`` is what is left of ``gpu_total_gb`` by all that the GPU holds at the peak; ``optimal_memory_gb``,
    ``current_memory_gb`` and the memory of ``results`` are what tensors have allocated, as published.
    """

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    device: str
    gpu_name: str
    gpu_total_gb: float
    recommended_batch_size: int | None = Field(
        description="The batch to train with: the smallest that is about as fast as any and keeps the margin; "
        "null if none keeps it."
    )
    optimal_batch_size: int = Field(
        description="The largest batch that trains, as max_batch_size; to train with, take recommended_batch_size."
    )
    optimal_memory_gb: float
    current_batch_size: int
    current_memory_gb: float | None
    waste_gb: float
    waste_percent: float
    speedup: float | None
    speedup_interval: tuple[float, float] | None = None  # older records have none
    cost_savings_per_run: float | None
    cost_savings_annual: float | None
    results: list[ResultRow]
    max_batch_size: int
    max_is_exact: bool
    max_batch_interval: tuple[int, int] | None
    limited_by: str
    # Older records have none of these.
    smaller_because: WhySmaller | None = None
    recommended_waste_gb: float | None = None
    recommended_waste_percent: float | None = None
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
    code: CodeView | None = None  # older records have none
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
    samples_per_second_interval: tuple[float, float] | None = None  # older records have none
    usd_per_million_samples: float | None
    price: Price | None


class Comparison(BaseModel):
    """The same training on every GPU of the catalog, the fastest first."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    source: Source
    recipe: RecipeView
    fastest: str | None = Field(description="The fastest GPU, if it is so beyond the uncertainty.")
    fastest_candidates: list[str] = Field(  # older records have none of these lists
        default=[], description="The GPUs that may be the fastest, the fastest by its prediction first."
    )
    cheapest: str | None = Field(description="Where a sample costs least, if that is so beyond the uncertainty.")
    cheapest_candidates: list[str] = Field(
        default=[], description="The GPUs on which a sample may cost least, the cheapest by its prediction first."
    )
    unpriced: list[str] = Field(
        default=[], description="GPUs that could train it and are not considered for cheapest: they have no price."
    )
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


class OptionView(BaseModel):
    """One way to train. ``gain`` is its throughput over today's, ``at_todays_batch`` its samples per second there.

    ``memory_gb`` is what tensors have allocated at the peak, ``device_gb`` all that the GPU holds, both in GiB.
    """

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
    device_gb: float | None = None  # older records have none
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


class FaultView(BaseModel):
    """Changes that could not be looked at, or not to the end, because a worker was lost."""

    changes: list[str]
    title: str
    reason: str


class Today(BaseModel):
    """Today's training; nothing where it does not fit."""

    predicted: Trial | None
    measured: Trial | None
    usd_per_million_samples: float | None


class Advice(BaseModel):
    """What to change, the best first. The numbers at the top are those of the best option.

    ``incomplete`` says that ``faults`` kept something from being looked at: asked again, the advice may be another.
    """

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    gpu_name: str
    source: Source
    verdict: str
    fits_today: bool
    worth_changing: bool
    current_batch_size: int
    recommended_batch_size: int | None
    recommended_recipe: str | None = None  # older records have none
    max_batch_size: int | None
    speedup: float | None
    cost_savings_per_run: float | None
    cost_savings_annual: float | None
    recipe: RecipeView
    today: Today
    options: list[OptionView]
    refused: list[RefusedView]
    incomplete: bool = False
    faults: list[FaultView] = []
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

"""What goes out over HTTP. The OpenAPI document, and the types of every client, come from here and from ``bodies``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from memorymark.history.job import ErrorKind, Kind, Origin, State
from memorymark.server.results import Advice, Analysis, Comparison, Price, QuestionView, SuggestionView, Sweep
from memorymark.trial import Source

SampleUnit = Literal["tokens", "pixels", "seconds"]


class Error(BaseModel):
    """Something did not work; ``error`` is one sentence that says what to do.

    Where a training does not fit, ``suggestions`` are changes that were checked to help, the best first.
    """

    status: Literal["error"]
    error: str
    kind: ErrorKind | None = None
    job_id: str | None = None
    suggestions: list[SuggestionView] | None = None


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
    recommended_recipe: str | None = None  # of advice
    speedup: float | None
    cost_savings_annual: float | None
    fastest: str | None
    fastest_candidates: list[str] | None = None  # older records have none
    cheapest: str | None
    cheapest_candidates: list[str] | None = None


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
    """A job, whole. ``position`` is its place in line while it waits.

    ``suggestions`` are changes that were checked to help where the training does not fit, the best first; none if the
    list is empty, and not looked for if it is ``null``.
    """

    position: int | None
    question: QuestionView
    versions: dict[str, str]
    machine: Machine
    suggestions: list[SuggestionView] | None = None  # older records have none
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

    status: Literal["healthy", "degraded"]
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

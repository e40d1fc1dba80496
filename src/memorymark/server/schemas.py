"""The answers over HTTP. The OpenAPI document, and the types of every client, come from here and from ``bodies``.

Results and catalogs are declared by the classes that write them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel

from memorymark.catalog.listings import GpuCatalog, ModelCatalog
from memorymark.errors import Code, ErrorKind
from memorymark.history import ListedJob
from memorymark.history.job import Origin, State
from memorymark.history.recording import RecordingFacts
from memorymark.history.views import JobView
from memorymark.question.options import Group, OptionType
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.server.document_schemas import AsDocument, schema_of
from memorymark.suggestions import Proposal, Suggestion

ModelsAnswer = schema_of(ModelCatalog, "ModelsAnswer")
GpusAnswer = schema_of(GpuCatalog, "GpusAnswer")


class MessageView(BaseModel):
    """A template with placeholders for options, and its values, for clients that have other names for options."""

    template: str
    values: dict[str, Any]


class Problem(BaseModel):
    """What went wrong.

    ``error`` is one sentence that says what to do; ``code`` is for programs. ``field`` is the field of the body at
    fault, ``given`` its value and ``allowed`` what it may be: choices or bounds. ``suggestions`` are changes that may
    help, the best first; if a training does not fit, they were checked to fit, and ``null`` means that none was
    searched for.
    """

    error: str
    code: Code
    field: str | None
    given: Any
    allowed: list[Any] | dict[str, Any] | None
    suggestions: list[Annotated[Suggestion, AsDocument] | Annotated[Proposal, AsDocument]] | None
    message: MessageView
    hint: MessageView | None
    shortfall_bytes: int | None = None  # if a training does not fit


class Error(Problem):
    """An error; ``kind`` and ``job_id`` are those of the failed job, if there is one."""

    status: Literal["error"]
    kind: ErrorKind | None = None
    job_id: str | None = None


class AdviseAnswer(BaseModel):
    """The answer of POST /advise; ``origin`` is that of its job."""

    kind: Literal["answer"]
    status: Literal["success"]
    job_id: str
    origin: Origin
    data: Annotated[Advice, AsDocument]


class AnalyzeAnswer(BaseModel):
    """The answer of POST /analyze; ``origin`` is that of its job."""

    kind: Literal["answer"]
    status: Literal["success"]
    job_id: str
    origin: Origin
    data: Annotated[Analysis, AsDocument]


class JobAnswer(BaseModel):
    """The answer of calls about one job; ``reused`` says that an earlier job already had the answer."""

    kind: Literal["job"]
    status: Literal["success"]
    reused: bool
    job: Annotated[JobView, AsDocument]


class JobsAnswer(BaseModel):
    """Jobs, the latest first; pass ``next`` as ``before`` to get older ones."""

    kind: Literal["jobs"]
    status: Literal["success"]
    jobs: list[Annotated[ListedJob, AsDocument]]
    next: str | None


class EventView(BaseModel):
    """An event of a job.

    ``event`` is ``state``, ``stage``, ``trial``, and last ``result``, whose data is the result, or ``error``.
    """

    id: int
    event: Literal["state", "stage", "trial", "result", "error"]
    at: str
    data: dict[str, Any]


class EventsAnswer(BaseModel):
    """The events so far."""

    kind: Literal["events"]
    status: Literal["success"]
    state: State
    events: list[EventView]


class Queue(BaseModel):
    """How many jobs wait and run."""

    waiting: int
    running: int
    limit: int


class WorkerView(BaseModel):
    """One worker process, its device and its state."""

    name: str
    device: str
    state: Literal["idle", "busy", "starting", "failed"]
    pid: int | None
    job: str | None


class Health(BaseModel):
    """The health of the service. ``degraded`` means that it answers, but has the ``problem`` given.

    ``recording`` is what the service plays if all it answers was recorded, else ``null``.
    """

    kind: Literal["health"]
    status: Literal["healthy", "degraded"]
    problem: str | None
    version: str
    gpu_available: bool
    gpu_name: str | None
    gpu_memory_total_gb: float | None
    device: Literal["cuda", "mps", "cpu"]
    recording: Annotated[RecordingFacts, AsDocument] | None
    timestamp: str
    queue: Queue
    workers: list[WorkerView]


class OptionView(BaseModel):
    """One option of a question, as a field of the bodies of POST /analyze, /advise and /jobs.

    ``title`` is its label in a form, ``labels`` those of its choices. A value is at least ``minimum`` and at most
    ``maximum``, more than ``above`` and less than ``below``. ``sample_units`` are the units of the samples that it
    applies to, ``needs`` the values of other options that it requires; ``measured_only`` says that it cannot be
    predicted. ``rare`` options are seldom set.
    """

    name: str
    group: Group
    type: OptionType
    default: Any
    is_optional: bool
    choices: list[str] | None
    labels: dict[str, str]
    minimum: float | None
    above: float | None
    maximum: float | None
    below: float | None
    title: str
    help: str
    unit: str
    sample_units: list[str] | None
    needs: dict[str, list[str]] | None
    measured_only: bool
    rare: bool
    flag: str


class OptionsAnswer(BaseModel):
    """All options of a question."""

    kind: Literal["options"]
    options: list[OptionView]


class Info(BaseModel):
    """Facts about the service, for programs that request the front page."""

    kind: Literal["service"]
    name: str
    version: str
    description: str
    documentation: str
    openapi: str
    endpoints: list[str]

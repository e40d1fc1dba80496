"""The answers over HTTP. The OpenAPI document, and the types of every client, come from here and from ``bodies``.

Results and catalogs are declared by the classes that write them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict

from memorymark.catalog.listings import GpuCatalog, ModelCatalog
from memorymark.errors import Code, ErrorKind
from memorymark.history import ListedJob
from memorymark.history.job import Origin, State
from memorymark.history.listed_sweep import ListedSweep, SweepView
from memorymark.history.recording import RecordingFacts
from memorymark.history.views import JobView
from memorymark.question.options import Group, OptionType
from memorymark.results.advice import Advice
from memorymark.results.analysis import Analysis
from memorymark.results.grid import Grid
from memorymark.server.document_schemas import AsDocument, schema_of
from memorymark.server.model import ServiceModel
from memorymark.suggestions import Proposal, Suggestion

ModelsAnswer = schema_of(ModelCatalog, "ModelsAnswer")
GpusAnswer = schema_of(GpuCatalog, "GpusAnswer")
SweepReport = schema_of(Grid, "SweepReport")


class DescribedModel(ServiceModel):
    """An object of an answer, whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class MessageView(DescribedModel):
    """A sentence for clients that have other names for options."""

    template: str
    """The sentence, with placeholders for options and values."""
    values: dict[str, Any]
    """The values by the names of their placeholders."""


class Problem(DescribedModel):
    """What went wrong."""

    error: str
    """One sentence that says what to do."""
    code: Code
    """The same for programs."""
    field: str | None
    """The field of the body at fault; null if none is."""
    given: Any
    """That field's value."""
    allowed: list[Any] | dict[str, Any] | None
    """What it may be: choices, or bounds; null if there is no simple rule."""
    suggestions: list[Annotated[Suggestion, AsDocument] | Annotated[Proposal, AsDocument]] | None
    """Changes that may help, the best first. If a training does not fit, they were checked to fit, and null means that
    none was searched for.
    """
    message: MessageView
    """The sentence as data."""
    hint: MessageView | None
    """A part of it that helps to correct a name, as data; null if there is none."""
    shortfall_bytes: int | None = None
    """How much memory is missing if a training does not fit; null if unknown."""


class Error(Problem):
    """An error."""

    status: Literal["error"]
    """The call failed."""
    kind: ErrorKind | None = None
    """The kind of failure of a job; null if there is no job."""
    job_id: str | None = None
    """The failed job; null if there is none."""


class AdviseAnswer(DescribedModel):
    """The answer of POST /advise."""

    kind: Literal["answer"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    job_id: str
    """The job that answered."""
    origin: Origin
    """Where that job comes from."""
    data: Annotated[Advice, AsDocument]
    """The advice."""


class AnalyzeAnswer(DescribedModel):
    """The answer of POST /analyze."""

    kind: Literal["answer"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    job_id: str
    """The job that answered."""
    origin: Origin
    """Where that job comes from."""
    data: Annotated[Analysis, AsDocument]
    """The analysis."""


class JobAnswer(DescribedModel):
    """The answer of calls about one job."""

    kind: Literal["job"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    reused: bool
    """Whether an earlier job already had the answer."""
    job: Annotated[JobView, AsDocument]
    """The job."""


class JobsAnswer(DescribedModel):
    """Jobs, the latest first."""

    kind: Literal["jobs"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    jobs: list[Annotated[ListedJob, AsDocument]]
    """The jobs, without their results."""
    next: str | None
    """What to pass as ``before`` to get older ones; null at the end."""


class SweepsAnswer(DescribedModel):
    """Sweeps, the last to start first."""

    kind: Literal["sweeps"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    sweeps: list[Annotated[ListedSweep, AsDocument]]
    """The sweeps, without their cases."""
    next: str | None
    """What to pass as ``before`` to get earlier ones; null at the end."""


class SweepAnswer(DescribedModel):
    """A sweep, however far it is."""

    kind: Literal["sweep_state"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    sweep: Annotated[SweepView, AsDocument]
    """The sweep."""


class EventView(DescribedModel):
    """An event of a job."""

    id: int
    """Its number, larger than those of earlier events."""
    event: Literal["state", "stage", "trial", "result", "error"]
    """What happened; the last one is ``result`` or ``error``."""
    at: str
    """When it happened."""
    data: dict[str, Any]
    """The state, the stage or the trial, the result, or the error."""


class EventsAnswer(DescribedModel):
    """The events so far."""

    kind: Literal["events"]
    """What this document is."""
    status: Literal["success"]
    """The call succeeded."""
    state: State
    """How far the job is."""
    events: list[EventView]
    """The events, the earliest first."""


class Queue(DescribedModel):
    """How many jobs wait and run."""

    waiting: int
    """Jobs that wait."""
    running: int
    """Jobs that run."""
    limit: int
    """The most jobs that may wait."""


class WorkerView(DescribedModel):
    """One worker process."""

    name: str
    """The name of its lane."""
    device: str
    """What it works on: a device, or ``prediction``."""
    state: Literal["idle", "busy", "starting", "failed"]
    """What it does; ``starting`` means that the next process gets ready."""
    pid: int | None
    """Its process id; null while there is no process."""
    job: str | None
    """The job it works on; null if there is none."""


class GpuView(DescribedModel):
    """A GPU that jobs can be measured on."""

    device: str
    """The device that a question names to be measured on it."""
    name: str
    """Its name, as the driver gives it."""
    gpu: str | None
    """Its id in the catalog; null if it is not in it."""
    host: str | None
    """The node of the cluster that has it; null for a GPU of the server."""
    memory_total_gb: float | None
    """Its memory in GiB; null if unknown."""


class Health(DescribedModel):
    """The health of the service."""

    kind: Literal["health"]
    """What this document is."""
    status: Literal["healthy", "degraded"]
    """``degraded`` means that it answers, but has a problem."""
    problem: str | None
    """The problem in a sentence; null if there is none."""
    version: str
    """The version of MemoryMark."""
    gpu_available: bool
    """Whether torch can use a GPU here."""
    gpu_name: str | None
    """The first GPU; null if there is none."""
    gpu_memory_total_gb: float | None
    """Its memory in GiB; null if there is none."""
    device: Literal["cuda", "mps", "cpu"]
    """What torch can use."""
    gpus: list[GpuView]
    """All GPUs of the server, or of the cluster that its workers run on."""
    recording: Annotated[RecordingFacts, AsDocument] | None
    """What the service plays if all it answers was recorded; null if it works itself."""
    timestamp: str
    """When this was written."""
    queue: Queue
    """The jobs that wait and run."""
    workers: list[WorkerView]
    """The workers."""


class OptionView(DescribedModel):
    """One option of a question, as a field of the bodies of POST /analyze, /advise and /jobs."""

    name: str
    """Its name in a body."""
    group: Group
    """The section of a form that it belongs to."""
    type: OptionType
    """The type of its value; ``counts`` is a list of whole numbers, ``names`` of texts, ``prices`` dollars by name."""
    default: Any
    """Its value if it is left out."""
    is_optional: bool
    """Whether it may be null."""
    choices: list[str] | None
    """The values of a ``choice``; null for other types."""
    labels: dict[str, str]
    """The choices' names for people, by value."""
    minimum: float | None
    """The least value."""
    above: float | None
    """What a value must be more than."""
    maximum: float | None
    """The largest value."""
    below: float | None
    """What a value must be less than."""
    longest: int | None
    """The most characters of a text, entries of a list, or bytes of a document."""
    title: str
    """Its label in a form."""
    help: str
    """What it does, in a sentence."""
    unit: str
    """The unit of its value; empty if it has none."""
    sample_units: list[str] | None
    """The units of the samples that it applies to; null for all."""
    needs: dict[str, list[str]] | None
    """The values of other options that it requires; null if it always applies."""
    measured_only: bool
    """Whether it cannot be predicted."""
    rare: bool
    """Whether it is seldom set, and comes last in a form."""
    flag: str
    """Its flag on the command line."""


class OptionsAnswer(DescribedModel):
    """All options of a question."""

    kind: Literal["options"]
    """What this document is."""
    options: list[OptionView]
    """The options."""


class Info(DescribedModel):
    """Facts about the service, for programs that request the front page."""

    kind: Literal["service"]
    """What this document is."""
    name: str
    """MemoryMark."""
    version: str
    """Its version."""
    description: str
    """What it does, in a sentence."""
    documentation: str
    """Where its documentation is."""
    openapi: str
    """Where this document is."""
    endpoints: list[str]
    """The calls that it answers."""

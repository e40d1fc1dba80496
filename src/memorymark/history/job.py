"""One question on its way to an answer, and what happened on the way."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from memorymark.catalog import find_gpu
from memorymark.errors import CannotPredictError, DoesNotFitError, HistoryError, MemoryMarkError, UsageError
from memorymark.machine import describe_machine, foundation, versions
from memorymark.prediction.allocator import ALLOCATOR_SETTINGS
from memorymark.question import Question
from memorymark.recipe import Recipe
from memorymark.request import Request

Origin = Literal["http", "cli"]
State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Kind = Literal["analysis", "comparison", "sweep", "advice"]
ErrorKind = Literal["usage", "does_not_fit", "cannot_predict", "worker", "time_limit", "stopped", "internal"]
UNFINISHED: tuple[State, ...] = ("queued", "running")
OTHER_VERSION = "another version of MemoryMark wrote this job, and this one cannot read it; ask again."
# What a list shows of a result without carrying all of it.
HEADLINE = (
    "gpu_name",
    "source",
    "max_batch_size",
    "recommended_batch_size",
    "recommended_recipe",
    "speedup",
    "cost_savings_annual",
    "fastest",
    "fastest_candidates",
    "cheapest",
    "cheapest_candidates",
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A question, where its answer stands, and the machine and versions that answer it.

    ``model`` is the catalog's id or another short name, ``asked`` the question as it was written down. ``key`` is the
    same for the same question on the same machine with the same versions: an answer to one is an answer to the other;
    ``fresh`` says that none is wanted. ``error`` is the sentence and ``error_kind`` the sort of failure;
    ``suggestions`` are what was found to fit where the training does not. Times are seconds since 1970.
    """

    id: str
    origin: Origin
    model: str
    asked: dict[str, Any]
    key: str
    created_at: float
    versions: dict[str, str]
    machine: dict[str, Any]
    fresh: bool = False
    time_limit_seconds: float | None = None
    state: State = "queued"
    started_at: float | None = None
    finished_at: float | None = None
    error: str | None = None
    error_kind: ErrorKind | None = None
    suggestions: list[dict[str, Any]] | None = None
    result: dict[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state not in UNFINISHED

    @property
    def question(self) -> Question:
        """What was asked; raises if today's catalogs no longer know the model or the GPU, or this version the field."""
        try:
            return Question.from_dict(self.asked)
        except MemoryMarkError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise HistoryError(OTHER_VERSION) from None

    # What a list shows. It is also shown of jobs that another version wrote, so that nothing here takes a field for
    # granted.

    @property
    def model_name(self) -> str:
        """The model as it was named."""
        return str(_in(self.asked, "request", "model") or self.model)

    @property
    def target_name(self) -> str:
        """The GPU it is for, in a word: a name of the catalog, a device here, or all GPUs."""
        if _in(self.asked, "all_gpus"):
            return "all"
        target = _in(self.asked, "request", "target")
        return str(_in(target, "gpu") or _in(target, "device") or "auto")

    @property
    def kind(self) -> Kind:
        """What its answer is: for one GPU and one length, for all GPUs, for several lengths, or what to change."""
        if _in(self.asked, "advise"):
            return "advice"
        if _in(self.asked, "all_gpus"):
            return "comparison"
        return "sweep" if _in(self.asked, "seq_lens") else "analysis"

    @property
    def recipe_words(self) -> str:
        """How it is trained, in a few words; an optimizer that a workload brings is known with the result."""
        known = self.headline or {}
        try:
            recipe = Recipe(**_in(self.asked, "request", "recipe"))
            return recipe.describe(known.get("optimizer") or "", known.get("weights_dtype") or "")
        except (LookupError, TypeError, ValueError, MemoryMarkError):
            return ""

    @property
    def sample_words(self) -> str | None:
        """The size of a sample that was asked for, or the sizes; ``None`` for the model's usual one."""
        request, lengths = _in(self.asked, "request"), _in(self.asked, "seq_lens")
        if lengths:
            return f"{', '.join(str(length) for length in lengths)} tokens"
        sizes = {"seq_len": "tokens", "image_size": "pixels", "audio_seconds": "seconds"}
        given = {unit: _in(request, name) for name, unit in sizes.items()}
        return ", ".join(f"{size} {unit}" for unit, size in given.items() if size) or None

    @property
    def current_batch_size(self) -> int:
        """Today's batch."""
        return int(_in(self.asked, "current_batch_size") or 0)

    @property
    def memory_cap_bytes(self) -> int | None:
        """How much of the memory may be used, where that was limited."""
        return _in(self.asked, "request", "target", "memory_cap_bytes") or None

    @property
    def headline(self) -> dict[str, Any] | None:
        """The numbers of the result that a list shows, and what it tells of how the workload is really trained."""
        if not self.result:
            return None
        several = (self.result.get("analyses") or {}).values()
        info = self.result.get("info") or next((_in(one, "info") for one in several), None)
        return {
            **{name: self.result.get(name) for name in HEADLINE},
            "optimizer": _in(info, "optimizer"),
            "weights_dtype": _in(info, "weights_dtype"),
        }

    @property
    def is_reusable(self) -> bool:
        """Whether its result may answer the same question again: not where a fault cut it short."""
        return not _in(self.result, "incomplete")


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job: ``state``, ``stage``, ``trial``, and last ``result`` or ``error``."""

    number: int
    event: str
    data: dict[str, Any]
    at: float


def new_job(question: Question, origin: Origin, **fields: Any) -> Job:
    """A job that nobody has begun; more of its fields may be given."""
    machine, tools = describe_machine(), versions()
    return Job(
        id=uuid.uuid4().hex[:12],
        origin=origin,
        model=question.request.entry.id,
        asked=question.to_dict(),
        key=_key(question, tools, machine),
        created_at=time.time(),
        versions=tools,
        machine=machine,
        **fields,
    )


def error_kind(error: MemoryMarkError) -> ErrorKind:
    """The sort of failure that an error is."""
    kinds: dict[type[MemoryMarkError], ErrorKind] = {
        UsageError: "usage",
        DoesNotFitError: "does_not_fit",
        CannotPredictError: "cannot_predict",
    }
    return next((kind for each, kind in kinds.items() if isinstance(error, each)), "worker")


def suggestions_of(error: MemoryMarkError) -> list[dict[str, Any]] | None:
    """What an error suggests, as JSON types; ``None`` where nothing was looked for."""
    found = error.suggestions if isinstance(error, DoesNotFitError) else None
    return None if found is None else [one.to_dict() for one in found]


def _in(document: Any, *names: str) -> Any:
    """What a document has under one name after the other; ``None`` where it has no such thing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _key(question: Question, tools: dict[str, str], machine: dict[str, Any]) -> str:
    target = question.request.target
    gpu = find_gpu(target.gpu).id if target.gpu is not None else None
    asked = question.to_dict()
    asked["request"] |= {"model": _model_key(question.request), "target": asdict(replace(target, gpu=gpu))}
    place = None if question.all_gpus or gpu else [machine, [os.environ.get(name) for name in ALLOCATOR_SETTINGS]]
    text = json.dumps([asked, tools, foundation(), place], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _model_key(request: Request) -> str:
    """The same for the same model; code may change without a sign, so that each time it counts as another."""
    if request.name.runs_code or request.trust_remote_code:
        return uuid.uuid4().hex
    return request.entry.id if request.name.kind == "catalog" else request.model

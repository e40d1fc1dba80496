"""Jobs: questions on their way to an answer, and their events."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from memorymark.devices.allocator_settings import ALLOCATOR_SETTINGS
from memorymark.devices.machine import describe_machine, foundation, versions
from memorymark.errors import ErrorKind, HistoryError, MemoryMarkError
from memorymark.history.headline import Headline
from memorymark.profiles.stored import fingerprint
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import AUTO
from memorymark.results.result import Kind

Origin = Literal["http", "cli", "recording"]
State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
UNFINISHED: tuple[State, ...] = ("queued", "running")
OTHER_VERSION = "another version of MemoryMark wrote this job, and this one cannot read it; ask again."


@dataclass(frozen=True, kw_only=True)
class Job:
    """A question, the state of its answer, and the machine and versions that answer it.

    ``model`` is the catalog's id or another short name, ``asked`` the question as a document. ``key`` is the same for
    the same question on the same machine with the same versions, so that jobs with the same key share an answer;
    ``fresh`` says that an earlier answer must not be reused. ``error`` is a sentence and ``error_kind`` the kind of
    failure; ``suggestions`` are changes found to fit if the training does not. ``problem`` is the error's document,
    which can be rendered in any dialect; jobs of older versions have none. Times are seconds since 1970.
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
    problem: dict[str, Any] | None = None
    result: dict[str, Any] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended."""
        return self.state not in UNFINISHED

    @property
    def question(self) -> Question:
        """The question; raises if this version or its catalogs no longer know the model, the GPU or a field."""
        try:
            return Question.from_dict(self.asked)
        except MemoryMarkError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise HistoryError(OTHER_VERSION) from None

    # What lists show. Jobs of other versions are listed too, so nothing here takes a field for granted.

    @property
    def model_name(self) -> str:
        """The model as the caller named it."""
        return str(_in(self.asked, "request", "model") or self.model)

    @property
    def target_name(self) -> str:
        """The target: a GPU of the catalog, a local device, or ``all``."""
        if _in(self.asked, "all_gpus"):
            return "all"
        if compared := _in(self.asked, "compare_gpus"):
            return ", ".join(map(str, compared))
        target = _in(self.asked, "request", "target")
        return str(_in(target, "gpu") or _in(target, "device") or AUTO)

    @property
    def kind(self) -> Kind:
        """The kind of its result."""
        if _in(self.asked, "advise"):
            return "advice"
        if _in(self.asked, "all_gpus") or _in(self.asked, "compare_gpus"):
            return "comparison"
        return "sweep" if _in(self.asked, "seq_lens") else "analysis"

    @property
    def recipe_words(self) -> str:
        """The recipe in a few words; a workload's own optimizer is known only with the result."""
        known = self.headline or {}
        try:
            recipe = Recipe(**_in(self.asked, "request", "recipe"))
            return recipe.describe(known.get("optimizer") or "", known.get("weights_dtype") or "")
        except (LookupError, TypeError, ValueError, MemoryMarkError):
            return ""

    @property
    def sample_words(self) -> str | None:
        """The requested size or sizes of a sample; ``None`` for the model's default."""
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
        """The memory limit, or ``None``."""
        return _in(self.asked, "request", "target", "memory_cap_bytes") or None

    @property
    def headline(self) -> dict[str, Any] | None:
        """The numbers of the result that lists show, with the workload's real optimizer and weights."""
        if not self.result:
            return None
        several = (self.result.get("analyses") or {}).values()
        info = self.result.get("info") or next((_in(one, "info") for one in several), None)
        return {
            **Headline.of(self.result).to_dict(),
            "optimizer": _in(info, "optimizer"),
            "weights_dtype": _in(info, "weights_dtype"),
        }

    @property
    def is_reusable(self) -> bool:
        """Whether its result may be reused for the same question; not if a fault left it incomplete."""
        return not _in(self.result, "incomplete")


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job: ``state``, ``stage``, ``trial``, and last ``result`` or ``error``."""

    number: int
    event: str
    data: dict[str, Any]
    at: float


def new_job(question: Question, origin: Origin, **fields: Any) -> Job:
    """Makes a queued job; ``fields`` sets more of its fields."""
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


def _in(document: Any, *names: str) -> Any:
    """Follows keys into a nested document; returns ``None`` if one is missing."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _key(question: Question, tools: dict[str, str], machine: dict[str, Any]) -> str:
    target = question.request.target
    gpu = target.entry.id if target.entry is not None else None
    asked = question.to_dict()
    asked["request"] |= {"model": _model_key(question.request), "target": asdict(replace(target, gpu=gpu))}
    profiles = fingerprint(target.profile, gpu) if question.compares_gpus or gpu else None
    asked["request"]["target"] |= {"profile": profiles}
    place = None if question.compares_gpus or gpu else [machine, [os.environ.get(name) for name in ALLOCATOR_SETTINGS]]
    text = json.dumps([asked, tools, foundation(), place], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _model_key(request: Request) -> str:
    """Returns the same key for the same model; a model that runs code gets a new key, since code may change."""
    if request.runs_code:
        return uuid.uuid4().hex
    return request.entry.id if request.name.kind == "catalog" else request.model

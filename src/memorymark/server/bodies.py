"""The bodies, paths and queries of HTTP calls, checked before any other code sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, create_model

from memorymark.catalog import some_models
from memorymark.errors import UsageError
from memorymark.history.job import State
from memorymark.messages import Message
from memorymark.profiles.stored import profiles_for
from memorymark.question.flat import OPTIONS, make_question
from memorymark.question.limits import LONGEST_NAME, NO_LIMIT
from memorymark.question.options import Option
from memorymark.question.question import Question
from memorymark.server.model import ServiceModel
from memorymark.server.permission import refuse_code, refuse_profile_file

MAX_SECONDS = 86_400.0
# Options that only POST /jobs takes, and those of them that POST /advise takes too.
OF_JOBS = ("all_gpus", "compare_gpus", "seq_lens", "advise", "try_compile")
OF_ADVICE = ("try_compile",)


def _whole(value: Any) -> Any:
    """Accepts 16.0 as 16, since JSON has only one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


TYPES: dict[str, Any] = {"flag": bool, "count": int, "number": float, "text": str, "document": dict[str, Any]}


class QuestionBody(ServiceModel):
    """A training and what to find out about it. Only ``model_name`` or ``config`` is required."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    fresh: bool = Field(False, description="Run it again even if the history has the answer.")
    time_limit: float | None = Field(None, gt=0, le=MAX_SECONDS, description="Seconds that the job may take.")

    def question(self, *, allow_code: bool = False, **more: Any) -> Question:
        """Returns the question, checked against the catalogs; only ``allow_code`` permits local files and code.

        ``more`` are options that this body does not have.
        """
        given = {name: getattr(self, one.http_name) for name, one in OPTIONS.items() if hasattr(self, one.http_name)}
        lists = {name: tuple(dict.fromkeys(given.get(name, ()))) for name in ("seq_lens", "compare_gpus")}
        given |= {"model": given["model"] or "", **lists}
        if not given["model"] and given["config"] is None:
            raise UsageError(
                Message(
                    "model_name is missing; name a model such as {some} ({list.models} lists all), or give a config.",
                    some=some_models(),
                ),
                code="missing",
                field="model_name",
            )
        if not allow_code:
            refuse_profile_file(given["profile"])
            refuse_code(
                given["model"],
                trust_remote_code=given["trust_remote_code"],
                has_config=given["config"] is not None,
            )
        question = make_question({**given, **more})
        target = question.request.target
        profiles_for(target.profile, target.gpu)  # raises if this service has no such profile
        return question


def _field(one: Option) -> tuple[Any, Any]:
    """Returns an option as a field of a body: its type with bounds, its default and its description."""
    if one.choices is not None:
        kind: Any = Annotated[Literal[one.choices.values], BeforeValidator(one.choices.understood)]
    elif one.type in LISTS:
        kind = Annotated[LISTS[one.type](one), Field(max_length=one.longest)]
    else:
        kind = _bounded(TYPES[one.type], one)
    takes_none = one.is_optional or one.name == "model"
    default = list(one.default) if isinstance(one.default, tuple) else one.default
    left_out = (default or None) if takes_none else default
    return (kind | None if takes_none else kind), Field(left_out, description=one.help)


def _bounded(kind: Any, one: Option) -> Any:
    numbers = {"ge": one.minimum, "gt": one.above, "le": one.maximum, "lt": one.below}
    facts: dict[str, Any] = {"max_length": one.longest, "pattern": one.pattern} if one.type == "text" else numbers
    bounds = {name: bound for name, bound in facts.items() if bound is not None}
    bounded: Any = Annotated[kind, Field(**bounds)] if bounds else kind
    # Must wrap the bounds, which apply to whole numbers.
    return Annotated[bounded, BeforeValidator(_whole)] if kind is int else bounded


# Types with several values, each within the bounds of the option.
LISTS: dict[str, Callable[[Option], Any]] = {
    "counts": lambda one: list[_bounded(int, one)],  # type: ignore[misc]
    "names": lambda _: list[Annotated[str, Field(max_length=LONGEST_NAME)]],
    "prices": lambda one: dict[Annotated[str, Field(max_length=LONGEST_NAME)], _bounded(float, one)],  # type: ignore[misc]
}


def _body(name: str, doc: str, without: tuple[str, ...]) -> Any:
    fields: dict[str, Any] = {one.http_name: _field(one) for option, one in OPTIONS.items() if option not in without}
    return create_model(name, __base__=QuestionBody, __doc__=doc, **fields)


if TYPE_CHECKING:

    class AnalyzeBody(QuestionBody):
        """What POST /analyze takes."""

    class AdviseBody(QuestionBody):
        """What POST /advise takes."""

    class JobBody(QuestionBody):
        """What POST /jobs takes."""

else:
    AnalyzeBody = _body("AnalyzeBody", QuestionBody.__doc__, without=OF_JOBS)
    AdviseBody = _body(
        "AdviseBody",
        "A training as it runs today. Only ``model_name`` or ``config`` is required.",
        without=tuple(set(OF_JOBS) - set(OF_ADVICE)),
    )
    JobBody = _body(
        "JobBody",
        "A question of any kind: an analysis, a comparison, several lengths or advice. Only ``model_name`` or "
        "``config`` is required.",
        without=(),
    )


class JobPath(ServiceModel):
    """A job by its id."""

    job_id: str = Field(description="The id that POST /jobs returned.")


class JobsQuery(ServiceModel):
    """Which jobs to list."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(None, max_length=LONGEST_NAME, description="Only jobs about this model.")
    state: State | None = Field(None, description="Only jobs in this state.")
    search: str = Field(
        "",
        max_length=LONGEST_NAME,
        description="Only jobs with all these words in their model, GPU, recipe, state, id or error.",
    )
    limit: int = Field(50, ge=1, le=500, description="The most jobs to list.")
    before: str | None = Field(None, pattern="^[0-9a-f]{12}$", description="Only jobs older than the one with this id.")


class SweepPath(ServiceModel):
    """A sweep by its id."""

    sweep_id: str = Field(description="The id that GET /sweeps lists.")


class SweepsQuery(ServiceModel):
    """Which sweeps to list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(50, ge=1, le=500, description="The most sweeps to list.")
    before: str | None = Field(
        None, pattern="^[0-9a-f]{12}$", description="Only sweeps that started before the one with this id."
    )


class SweepQuery(ServiceModel):
    """Which cases of a sweep to send."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=NO_LIMIT, description="Only cases that changed after this change.")
    limit: int = Field(1000, ge=1, le=5000, description="The most cases to send.")


class SweepReportQuery(ServiceModel):
    """In which form to report a sweep."""

    model_config = ConfigDict(extra="forbid")

    form: Literal["html", "csv", "json"] = Field("html", description="A page, a row for each case, or the document.")


class ReportQuery(ServiceModel):
    """What to report."""

    model_config = ConfigDict(extra="forbid")

    part: str | None = Field(
        None, max_length=LONGEST_NAME, description="Only this GPU of a comparison, or this length of a sweep."
    )


class EventsQuery(ServiceModel):
    """Which events to send."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=NO_LIMIT, description="Only events with a larger number.")

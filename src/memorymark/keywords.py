"""The options of a question as keyword arguments of Python, by the same names as on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memorymark.checks.options import unknown_option
from memorymark.checks.types import require_types, shown, whole
from memorymark.errors import UsageError
from memorymark.keyword_types import AnalysisOptions
from memorymark.messages import Message
from memorymark.question import flat
from memorymark.question.gpu_choice import with_gpu_options
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import OwnRequest, Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.training.workload import Workload

RUN = {"time_limit": "time_limit_seconds", "on_event": "on_event"}
SEE = "see docs/python.md for the options"


def make_request(model: str | Request | Workload, options: Mapping[str, Any]) -> Request:
    """Makes a request from a model and its options; raises on options that a request does not have."""
    if isinstance(model, Request):
        refuse_others(options, (), "a Request already says how and where it is trained; change it with replace")
        return model
    if isinstance(model, Workload):
        refuse_others(options, flat.names_of(Recipe, Target), "a Workload makes its own model and batches")
        recipe, target = Recipe(**flat.fields_of(Recipe, options)), Target(**flat.fields_of(Target, options))
        return OwnRequest.from_name(model.name, recipe, target)
    if not isinstance(model, str):
        raise UsageError(
            Message(
                "the model must be a name, a Request or a Workload, not {given}; for a module that is already built, "
                "see max_batch_size.",
                given=shown(model),
            ),
            code="wrong_type",
            field="model",
        )
    refuse_others(options, flat.names_of(Request, Recipe, Target), SEE)
    return flat.make_request({**options, "model": model})


def make_question(model: str | Request | Workload, options: Mapping[str, Any]) -> Question:
    """Makes a question from a model and its options."""
    asked = set(flat.names_of(Question, Usage))
    request = make_request(model, {name: value for name, value in options.items() if name not in asked})
    return flat.make_question(options, request)


def taken_run(options: dict[str, Any], *, several_gpus: bool = True) -> dict[str, Any]:
    """Checks the types of all options, removes those that say how to run, and returns these.

    GPUs and prices become the options that they stand for.
    """
    settled = with_gpu_options(options, several=several_gpus)
    options.clear()
    options.update(settled)
    options.update(require_types(options, AnalysisOptions))
    return {RUN[name]: options.pop(name) for name in RUN if name in options}


def refuse_others(options: Mapping[str, Any], allowed: Iterable[str], why: str) -> None:
    """Raises on the first option that is not allowed, and suggests the ones that may have been meant."""
    known = set(allowed)
    for name, value in options.items():
        if name not in known:
            raise unknown_option(name, value, known or (*AnalysisOptions.__annotations__, "seq_len"), why)


def split_lengths(seq_len: Any) -> dict[str, Any]:
    """Returns ``seq_len`` for one length, or ``seq_lens`` without repeats for several."""
    if seq_len is None:
        return {}
    if isinstance(seq_len, str) or not isinstance(seq_len, Iterable) or whole(seq_len) is not None:
        return {"seq_len": seq_len}
    lengths = list(seq_len)
    for given in lengths:
        if whole(given) is None:
            raise UsageError(
                Message(
                    "{seq_len} must be a whole number or a list of them; the list contains {given}.",
                    given=shown(given),
                ),
                code="wrong_type",
                field="seq_len",
                given=shown(given),
            )
    return {"seq_lens": tuple(dict.fromkeys(whole(given) for given in lengths))}

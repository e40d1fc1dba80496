"""The options of the command line as keyword arguments of Python, by the same names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypedDict

from memorymark.errors import MemoryMarkError, UsageError
from memorymark.events import OnEvent
from memorymark.nearest import did_you_mean, nearest
from memorymark.own import OwnRequest
from memorymark.recipe import CHOICES, Attention, Loss, Optimizer, Precision, Recipe
from memorymark.request import Request
from memorymark.target import Target, memory_cap
from memorymark.type_checks import shown
from memorymark.workload import Workload


class RecipeOptions(TypedDict, total=False):
    """How it is trained."""

    precision: Precision
    optimizer: Optimizer
    fused: bool
    lora: int
    attention: Attention
    gradient_checkpointing: bool
    compile: bool
    channels_last: bool
    tf32: bool
    eval_mode: bool
    loss: Loss
    accumulate: int


class TargetOptions(TypedDict, total=False):
    """Where it is trained."""

    gpu: str | None
    device: str
    memory_gib: float | None


class RunOptions(TypedDict, total=False):
    """How the work is done."""

    time_limit: float
    on_event: OnEvent


class ModuleOptions(TargetOptions, total=False):
    """What ``max_batch_size`` takes besides the module and its batches, loss and optimizer."""

    precision: Precision
    fused: bool
    gradient_checkpointing: bool
    compile: bool
    channels_last: bool
    tf32: bool
    eval_mode: bool
    accumulate: int


class ModelOptions(TypedDict, total=False):
    """What a model by name is, and its samples; but for the length, which ``analyze`` takes by itself."""

    task: str | None
    revision: str | None
    trust_remote_code: bool
    image_size: int | None
    audio_seconds: int | None
    small: bool | None


class TrialOptions(ModelOptions, RecipeOptions, TargetOptions, RunOptions, total=False):
    """What ``predict`` and ``measure`` take besides the model and the batch size."""

    seq_len: int | None


class AnalysisOptions(ModelOptions, RecipeOptions, TargetOptions, RunOptions, total=False):
    """What ``analyze`` takes besides the model, the lengths and ``all_gpus``."""

    batch_size: int
    max_batch: int | None
    margin: float
    price_per_hour: float | None
    hours_per_run: float
    runs_per_year: float
    people: int


# An option in a sentence, with the value that it is given there, if it is: one of few, or one with a digit.
VALUES = "|".join([r"cuda(?::\d+)?", "cpu", "mps", *(value for one in CHOICES.values() for value in one.values)])
OPTION = re.compile(rf"(?<![\w-])--(?P<name>[a-z][a-z0-9-]*)(?: (?P<value>(?:{VALUES})\b|[a-z]*\d[\w-]*))?")
# What is called otherwise on the command line than inside.
RECIPE_NAMES = {"eval_mode": "train_mode", "accumulate": "accumulation_steps"}
TARGET_NAMES = {"memory_gib": "memory_cap_bytes"}


def make_request(model: str | Request | Workload, options: dict[str, Any]) -> Request:
    """The request that a model and options ask for; options that are none of a request's are refused."""
    if isinstance(model, Request):
        _require_none(options, "a Request already says how and where it is trained; change it with dataclasses.replace")
        return model
    if not isinstance(model, (str, Workload)):
        raise UsageError(
            f"the model is a name, a Request or a Workload, and not {shown(model)}; for a module that is already "
            "built, see max_batch_size."
        )
    options = dict(options)
    recipe, target = make_recipe(options), make_target(options)
    if isinstance(model, Workload):
        _require_none(options, "a Workload makes its own model and batches")
        return OwnRequest.from_name(model.name, recipe, target)
    shape = {field.name for field in fields(Request)} - {"model", "recipe", "target"}
    given = {name: options.pop(name) for name in shape if name in options}
    _require_none(options, "see docs/python.md for the options")
    return Request(model=model, recipe=recipe, target=target, **given)


def make_recipe(options: dict[str, Any]) -> Recipe:
    """The recipe; its options are taken out."""
    given = _taken(options, Recipe, RECIPE_NAMES)
    if "train_mode" in given:
        given["train_mode"] = not given["train_mode"]
    return Recipe(**given)


def make_target(options: dict[str, Any]) -> Target:
    """The target; its options are taken out."""
    given = _taken(options, Target, TARGET_NAMES)
    if "memory_cap_bytes" in given:
        given["memory_cap_bytes"] = memory_cap(given["memory_cap_bytes"])
    return Target(**given)


def parse_lengths(text: str | None) -> tuple[int | None, tuple[int, ...]]:
    """What ``--seq-len`` says: one length or none, and several if there are several, as in ``128,512,2048``."""
    if text is None:
        return None, ()
    try:
        several = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--seq-len takes a number, or several as in 128,512,2048, not {text!r}.") from None
    return (several[0], ()) if len(several) == 1 else (None, several)


def _taken(options: dict[str, Any], kind: type[Recipe] | type[Target], renamed: dict[str, str]) -> dict[str, Any]:
    inside = {field.name for field in fields(kind)} - set(renamed.values())
    names = {**{name: name for name in inside}, **renamed}
    return {names[name]: options.pop(name) for name in names if name in options}


def _require_none(options: dict[str, Any], why: str) -> None:
    if options:
        raise no_option(next(iter(options)), (*AnalysisOptions.__annotations__, "seq_len"), why)


def no_option(given: str, known: Iterable[str], why: str) -> UsageError:
    """The error for a keyword that is none, with what was perhaps meant."""
    near = did_you_mean(name for name in nearest(given, known) if name != given)
    return UsageError(f"{given!r} is no option here: {near}{why[:1].upper() if near else why[:1]}{why[1:]}.")


@contextmanager
def in_python_terms() -> Iterator[None]:
    """Errors that name options of the command line name the keywords of Python instead: --seq-len is seq_len=."""
    try:
        yield
    except MemoryMarkError as error:
        error.sentence = OPTION.sub(_as_keyword, error.sentence)
        raise


def _as_keyword(option: re.Match[str]) -> str:
    name, value = option["name"].replace("-", "_"), option["value"]
    if value is None:
        return f"{name}="
    return f"{name}={value}" if value.isdigit() else f'{name}="{value}"'

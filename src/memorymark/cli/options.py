"""The options that commands share, made from the declarations of the question."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypedDict

import typer

from memorymark.client import SERVER_VARIABLE
from memorymark.errors import UsageError
from memorymark.events import OnEvent
from memorymark.messages import Message
from memorymark.question.flat import OPTIONS, make_request, names_of
from memorymark.question.gpu_choice import with_gpu_options
from memorymark.question.options import Option
from memorymark.question.question import Question
from memorymark.question.recipe import Recipe
from memorymark.question.request import Request
from memorymark.question.target import Target
from memorymark.question.usage import Usage
from memorymark.worker.remote import DEFAULT_TIME_LIMIT_SECONDS

# Options that people write in other ways than programs: several values, or a file.
WRITTEN = {"price_per_hour": "USD[,USD...]", "prices": "FILE"}
TYPES: dict[str, Any] = {"flag": bool, "count": int, "number": float, "text": str, "choice": str}
# Not flags: a config is given as the model's path, several lengths as one --seq-len, several GPUs as one --gpu.
NOT_TYPED = ("config", "seq_lens", "advise", "compare_gpus", "gpu_facts")
OF_REQUEST = tuple(name for name in names_of(Request, Recipe, Target) if name not in NOT_TYPED)
OF_ADVICE = tuple(name for name in names_of(Question, Usage) if name not in (*NOT_TYPED, "all_gpus"))
OF_ANALYSIS = tuple(name for name in names_of(Question, Usage) if name not in (*NOT_TYPED, "try_compile"))


def complete_model(incomplete: str) -> list[str]:
    """Returns model ids for shell completion."""
    from memorymark.catalog import all_models

    return [entry.id for entry in all_models() if entry.id.startswith(incomplete)]


def complete_gpu(incomplete: str) -> list[str]:
    """Returns GPU ids for shell completion, also of the last of several."""
    from memorymark.catalog import all_gpus

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{entry.id}" for entry in all_gpus() if entry.id.startswith(last)]


def complete_task(incomplete: str) -> list[str]:
    """Returns tasks for shell completion."""
    from memorymark.catalog.tasks import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


COMPLETE = {"model": complete_model, "gpu": complete_gpu, "task": complete_task}


def one_length(text: str | int) -> int:
    """Parses ``--seq-len`` for commands that take one length; only ``analyze`` takes several."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            Message(
                "{seq_len} takes one number of tokens here, not {given!r}; `memorymark analyze` takes several.",
                given=text,
            ),
            code="wrong_type",
            field="seq_len",
            given=text,
        ) from None


def parse_lengths(text: str | None) -> dict[str, Any]:
    """Parses ``--seq-len``: one length, or several as in ``128,512,2048``."""
    if text is None:
        return {}
    try:
        several = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(
            Message("{seq_len} takes a number, or several as in 128,512,2048, not {given!r}.", given=text),
            code="wrong_type",
            field="seq_len",
            given=text,
        ) from None
    return {"seq_len": several[0]} if len(several) == 1 else {"seq_lens": several}


BatchSizeOption = Annotated[int, typer.Option("--batch-size", "-b", help="The batch size.")]
SeqLens = Annotated[
    str | None,
    typer.Option("--seq-len", help="Tokens per sequence, or several lengths: 128,512,2048.", metavar="N[,N...]"),
]
Server = Annotated[
    str | None,
    typer.Option("--server", help="Ask this service, such as http://gpu-box:5001.", envvar=SERVER_VARIABLE),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run it again, even if the history has the answer.")]
NoHistory = Annotated[bool, typer.Option("--no-history", help="Neither read the history nor record the result in it.")]
TimeLimit = Annotated[float, typer.Option("--time-limit", help="Seconds after which one trial counts as hung.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


@dataclass(frozen=True)
class Answer:
    """What a command found: a document for programs, a report for people, and an exit code.

    ``complaint`` is a sentence about anything that could not be done besides; it goes to stderr.
    """

    document: dict[str, Any]
    show: Callable[[], None]
    exit_code: int = 0
    complaint: str = ""


class Run(TypedDict):
    """The options that every command that runs steps passes to the engine."""

    time_limit_seconds: float
    on_event: OnEvent


def takes_request(command: Callable[..., Answer]) -> Callable[..., None]:
    """Makes a command of a function that takes a ``Request``, a ``Run`` and its own options."""

    def with_request(asked: dict[str, Any], run: Run, **own: Any) -> Answer:
        return command(make_request(asked), run, **own)

    return _command(command, with_request, OF_REQUEST)


def takes_options(names: Iterable[str]) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Makes a command of a function that takes the values of a question's options, a ``Run`` and its own options."""

    def decorated(command: Callable[..., Answer]) -> Callable[..., None]:
        return _command(command, command, (OF_REQUEST[0], *names, *OF_REQUEST[1:]))

    return decorated


def _command(
    command: Callable[..., Answer], run_it: Callable[..., Answer], names: Iterable[str]
) -> Callable[..., None]:
    """Adds the named options and those for the output to a command's own, which take precedence."""

    def common(time_limit: TimeLimit = DEFAULT_TIME_LIMIT_SECONDS, as_json: Json = False, quiet: Quiet = False) -> None:
        """Only its signature counts."""

    own = _parameters(command)[2:]
    asked = [_parameter(OPTIONS[name]) for name in names if name not in {option.name for option in own}]
    parameters = [asked[0], *own, *asked[1:], *_parameters(common)]

    @wraps(command)
    def with_shared_options(*, time_limit: float, as_json: bool, quiet: bool, **values: Any) -> None:
        from memorymark.render.json import print_json
        from memorymark.render.plain import one_line
        from memorymark.render.progress import Progress

        given = {parameter.name: values.pop(parameter.name) for parameter in asked}
        given = with_gpu_options(given, several="all_gpus" in given)
        with Progress(quiet=quiet) as progress:
            answer = run_it(given, Run(time_limit_seconds=time_limit, on_event=progress.on_event), **values)
        if as_json:
            print_json(answer.document)
        else:
            answer.show()
        if answer.complaint:
            typer.echo(one_line(answer.complaint), err=True)
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    with_shared_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_shared_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_shared_options


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]


def _parameter(one: Option) -> inspect.Parameter:
    """Returns an option as a parameter of a command."""
    if one.name == "model":
        argument = typer.Argument(metavar=one.metavar, help=one.help, autocompletion=complete_model)
        return inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str, argument])
    facts: dict[str, Any] = {"help": one.help, "metavar": one.metavar or None, "autocompletion": COMPLETE.get(one.name)}
    if one.choices is not None:
        values = one.choices.values
        facts |= {
            "parser": one.choices.read,
            "metavar": f"[{'|'.join(values)}]",
            "autocompletion": lambda incomplete: [value for value in values if value.startswith(incomplete)],
        }
    if one.name == "seq_len":
        facts["parser"] = one_length
    kind: Any = str if one.name in WRITTEN else TYPES[one.type]
    facts["metavar"] = WRITTEN.get(one.name, facts["metavar"])
    kind = kind | None if one.is_optional else kind
    annotation: Any = Annotated[kind, typer.Option(*(one.flags or (one.flag,)), **facts)]
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=annotation)

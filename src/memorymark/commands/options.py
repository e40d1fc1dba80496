"""The options that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, TypedDict

import typer

from memorymark.choices import Choice
from memorymark.errors import UsageError
from memorymark.events import OnEvent
from memorymark.probe.remote import DEFAULT_TIME_LIMIT_SECONDS
from memorymark.recipe import (
    ATTENTION,
    LOSS,
    OPTIMIZER,
    PRECISION,
    Attention,
    Loss,
    Optimizer,
    Precision,
    Recipe,
)
from memorymark.request import Request
from memorymark.target import Target, memory_cap


def complete_model(incomplete: str) -> list[str]:
    """Model ids for the shell's completion."""
    from memorymark.catalog import all_models

    return [entry.id for entry in all_models() if entry.id.startswith(incomplete)]


def complete_gpu(incomplete: str) -> list[str]:
    """GPU ids for the shell's completion."""
    from memorymark.catalog import all_gpus

    return [entry.id for entry in all_gpus() if entry.id.startswith(incomplete)]


def complete_task(incomplete: str) -> list[str]:
    """Tasks for the shell's completion."""
    from memorymark.models.tasks import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


def one_length(text: str | int) -> int:
    """The length that ``--seq-len`` names; several are for ``analyze`` alone."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"--seq-len takes one number of tokens here, not {text!r}; `memorymark analyze` takes several."
        ) from None


def one_of(choice: Choice, text: str) -> Any:
    """An option with a few values, which other names for them are understood as, too."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in choice.values if value.startswith(incomplete)]

    shown = f"[{'|'.join(choice.values)}]"
    return typer.Option(f"--{choice.name}", help=text, parser=choice.read, metavar=shown, autocompletion=complete)


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="What to train: a name of `memorymark models`, org/name on Hugging Face, a ./folder with a config.json, "
        "timm:NAME, or file.py:function.",
        autocompletion=complete_model,
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task", help="The head to train, such as causal-lm; else the usual one.", autocompletion=complete_task
    ),
]
Revision = Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a Hugging Face model.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run the code that a Hugging Face model brings.")
]
BatchSize = Annotated[int, typer.Option("--batch-size", "-b", help="The batch size.")]
CurrentBatchSize = Annotated[int, typer.Option("--batch-size", "-b", help="The batch size you train with today.")]
PrecisionOption = Annotated[Precision, one_of(PRECISION, "Autocast precision.")]
OptimizerOption = Annotated[Optimizer, one_of(OPTIMIZER, "Optimizer.")]
Lora = Annotated[
    int, typer.Option("--lora", help="Train LoRA adapters of this rank; 0 trains the model itself.", metavar="RANK")
]
AttentionOption = Annotated[
    Attention, one_of(ATTENTION, "How transformers computes attention; auto is its own choice.")
]
Fused = Annotated[bool, typer.Option("--fused", help="The fused version of the optimizer.")]
Checkpointing = Annotated[
    bool,
    typer.Option("--gradient-checkpointing", help="Recompute activations in the backward pass."),
]
Compile = Annotated[bool, typer.Option("--compile", help="Run the model under torch.compile.")]
ChannelsLast = Annotated[bool, typer.Option("--channels-last", help="NHWC memory format, for image models.")]
Tf32 = Annotated[bool, typer.Option("--tf32", help="TF32 for fp32 matrix products.")]
EvalMode = Annotated[bool, typer.Option("--eval-mode", help="Dropout off, as published.")]
LossOption = Annotated[Loss, one_of(LOSS, "The model's own loss, or the mean of its logits.")]
Accumulate = Annotated[int, typer.Option("--accumulate", help="Batches per optimizer step.", metavar="STEPS")]
SeqLen = Annotated[int | None, typer.Option("--seq-len", help="Tokens of a sequence.", metavar="N", parser=one_length)]
SeqLens = Annotated[
    str | None,
    typer.Option("--seq-len", help="Tokens of a sequence, or several lengths: 128,512,2048.", metavar="N[,N...]"),
]
ImageSize = Annotated[int | None, typer.Option("--image-size", help="Pixels of a side.")]
AudioSeconds = Annotated[int | None, typer.Option("--audio-seconds", help="Seconds of a sound.")]
Small = Annotated[
    bool | None,
    typer.Option("--small/--full", help="A few-layer stand-in, as on the CPU, or the full model."),
]
Device = Annotated[str, typer.Option("--device", help="auto, cuda, cuda:N, mps or cpu.", metavar="DEVICE")]
Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu", help="Predict for this GPU; see `memorymark gpus`.", metavar="NAME", autocompletion=complete_gpu
    ),
]
MemoryGib = Annotated[float | None, typer.Option("--memory-gib", help="Cap what the allocator may use, in GiB.")]
MaxBatch = Annotated[int | None, typer.Option("--max-batch", help="Look no further than this.")]
Margin = Annotated[float, typer.Option("--margin", help="Part of the memory to leave free.")]
PricePerHour = Annotated[float | None, typer.Option("--price-per-hour", help="Dollars for an hour of the GPU.")]
HoursPerRun = Annotated[float, typer.Option("--hours-per-run", help="What a run takes today.")]
RunsPerYear = Annotated[float, typer.Option("--runs-per-year", help="Runs of one person.")]
People = Annotated[int, typer.Option("--people", help="People who train.")]
Server = Annotated[
    str | None,
    typer.Option("--server", help="Ask this service, such as http://gpu-box:5001.", envvar="MEMORYMARK_SERVER"),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Work it out again, even if the history has the answer.")]
NoHistory = Annotated[
    bool, typer.Option("--no-history", help="Neither look into the history nor keep the result in it.")
]
TimeLimit = Annotated[float, typer.Option("--time-limit", help="Seconds after which one trial counts as hung.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def make_request(
    model: Model,
    precision: PrecisionOption = "fp32",
    optimizer: OptimizerOption = "adamw",
    fused: Fused = False,
    lora: Lora = 0,
    attention: AttentionOption = "auto",
    gradient_checkpointing: Checkpointing = False,
    compile_model: Compile = False,
    channels_last: ChannelsLast = False,
    tf32: Tf32 = False,
    eval_mode: EvalMode = False,
    loss: LossOption = "model",
    accumulate: Accumulate = 1,
    seq_len: SeqLen = None,
    image_size: ImageSize = None,
    audio_seconds: AudioSeconds = None,
    task: TaskOption = None,
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    small: Small = None,
    gpu: Gpu = None,
    device: Device = "auto",
    memory_gib: MemoryGib = None,
) -> Request:
    """The shared options as a request; this signature is where they are defined."""
    return Request(
        model=model,
        task=task,
        revision=revision,
        trust_remote_code=trust_remote_code,
        seq_len=seq_len,
        image_size=image_size,
        audio_seconds=audio_seconds,
        small=small,
        recipe=Recipe(
            precision=precision,
            optimizer=optimizer,
            fused=fused,
            gradient_checkpointing=gradient_checkpointing,
            train_mode=not eval_mode,
            loss=loss,
            accumulation_steps=accumulate,
            compile=compile_model,
            tf32=tf32,
            channels_last=channels_last,
            lora=lora,
            attention=attention,
        ),
        target=Target(device=device, gpu=gpu, memory_cap_bytes=memory_cap(memory_gib)),
    )


@dataclass(frozen=True)
class Answer:
    """What a command found: as a document for programs, as a report for people, and as an exit code.

    ``complaint`` says in a sentence what else was asked for and could not be done; it goes to stderr.
    """

    document: dict[str, Any]
    show: Callable[[], None]
    exit_code: int = 0
    complaint: str = ""


class Run(TypedDict):
    """What every command that runs steps hands on to the engine."""

    time_limit_seconds: float
    on_event: OnEvent


def takes_request(command: Callable[..., Answer]) -> Callable[..., None]:
    """Makes a command of a function that takes a ``Request``, a ``Run`` and options of its own.

    The options that make up the first two, and those for the output, are added to its own. Where it has one of the
    same name, its own counts.
    """

    def common(time_limit: TimeLimit = DEFAULT_TIME_LIMIT_SECONDS, as_json: Json = False, quiet: Quiet = False) -> None:
        """Only its signature counts."""

    own = _parameters(command)[2:]
    asked = [shared for shared in _parameters(make_request) if shared.name not in {option.name for option in own}]
    parameters = [asked[0], *own, *asked[1:], *_parameters(common)]

    @wraps(command)
    def with_shared_options(*, time_limit: float, as_json: bool, quiet: bool, **values: Any) -> None:
        from memorymark.render.json import print_json
        from memorymark.render.plain import one_line
        from memorymark.render.progress import Progress

        request = make_request(**{parameter.name: values.pop(parameter.name) for parameter in asked})
        with Progress(quiet=quiet) as progress:
            answer = command(request, Run(time_limit_seconds=time_limit, on_event=progress.on_event), **values)
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

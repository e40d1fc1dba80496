"""Writes the best option as a runnable script: the code to paste, with a stand-in model and a timer around it."""

from __future__ import annotations

from dataclasses import fields, replace

from memorymark.errors import MemoryMarkError
from memorymark.question.request import OwnRequest, Request
from memorymark.results.advice import Advice
from memorymark.results.code import pytorch_code
from memorymark.results.option import TrainingOption
from memorymark.templating import python_code

# Batches for each optimizer step.
WARM_UP_STEPS, STEPS = 10, 30


def script_for(advice: Advice, option: TrainingOption | None = None) -> str:
    """Returns the option, or the best one, as a script."""
    chosen = option or advice.best
    if chosen is None:
        raise MemoryMarkError("there is nothing to change, so there is no script to write.")
    request = advice.request
    if isinstance(request, OwnRequest):
        raise MemoryMarkError("only your program can build this workload; paste the code there.")
    plan = advice.plan(chosen)
    return python_code(
        "memorymark.advice",
        "training_script",
        plan=plan,
        title=chosen.title,
        model=_in_docstring(request.entry.name),
        learning_rate=advice.learning_rate_note(chosen),
        warm_up_steps=WARM_UP_STEPS * chosen.accumulation_steps,
        steps=STEPS * chosen.accumulation_steps,
        request=_arguments(replace(request, small=advice.info.small), chosen.seq_len),
        loaded_from=repr(getattr(request.entry, "huggingface_id", request.model)),
        code=pytorch_code(plan, torch_is_imported=True),
    )


def _in_docstring(name: str) -> str:
    """Escapes a name, which may be a folder's, so that it cannot end a docstring."""
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _arguments(request: Request, seq_len: int | None) -> str:
    """Returns the parts of the request that describe the model and its samples, as keyword arguments."""
    values = {field.name: getattr(request, field.name) for field in fields(Request)}
    values |= {"seq_len": seq_len or request.seq_len}
    if request.name.kind == "path":
        values["config"] = None  # it is read again
    given = {n: v for n, v in values.items() if n not in ("recipe", "target") and v not in (None, False)}
    return ", ".join(f"{name}={value!r}" for name, value in given.items())

"""The best option as a script that runs: the pasted code between a stand-in model and a stop watch."""

from __future__ import annotations

from dataclasses import fields, replace

from memorymark.advice.advice import Advice, Option
from memorymark.errors import MemoryMarkError
from memorymark.own import OwnRequest
from memorymark.request import Request

SCRIPT = '''"""{title}

What `memorymark advise` advises for {name}, as a script. The model has random weights and the data is made up: put
yours in their place. The lines below "The advice" are what to paste.
"""

import time

import torch

from memorymark import Request
from memorymark.models.workloads import workload_of

LEARNING_RATE = 1e-5  # {learning_rate}
WARM_UP_STEPS, STEPS = {warm_up}, {steps}
WORKLOAD = workload_of(Request({request}))


def make_loader(batch_size):
    """The same batch again and again; says at the end how fast it went."""
    batch = WORKLOAD.batch(batch_size, torch.device("{device}"))
    for step in range(WARM_UP_STEPS + STEPS):
        if step == WARM_UP_STEPS:
            torch.{device}.synchronize()
            start = time.perf_counter()
        yield dict(batch)
    torch.{device}.synchronize()
    print(f"{{STEPS * batch_size / (time.perf_counter() - start):.3g}} samples/s")


{own}model = WORKLOAD.build()

# The advice

{code}'''

OWN = """def loss_of(model, batch):
    return WORKLOAD.loss(model, batch) if WORKLOAD.loss is not None else model(**batch).loss


def make_optimizer(model):
    return WORKLOAD.optimizer(model)


"""


def script_for(advice: Advice, option: Option | None = None) -> str:
    """The option, or the best one, as a script."""
    chosen = option or advice.best
    if chosen is None:
        raise MemoryMarkError("nothing is worth changing, so there is nothing to write.")
    request = advice.request
    if isinstance(request, OwnRequest):
        raise MemoryMarkError("a workload of your own is known to your program only; paste the code there.")
    code = advice.code(chosen).pytorch
    return SCRIPT.format(
        title=f"{chosen.title}.",
        name=request.entry.name,
        learning_rate=advice.learning_rate_note(chosen),
        device=advice.info.device_kind,
        request=_arguments(replace(request, small=advice.info.small), chosen.seq_len),
        code=code.removeprefix("import torch\n").lstrip("\n"),
        warm_up=10 * chosen.accumulation_steps,
        steps=30 * chosen.accumulation_steps,
        own=OWN if "loss_of(" in code or "make_optimizer(" in code else "",
    )


def _arguments(request: Request, seq_len: int | None) -> str:
    """What of the request says what the model and its samples are, as keyword arguments."""
    values = {field.name: getattr(request, field.name) for field in fields(Request)}
    values |= {"seq_len": seq_len or request.seq_len}
    if request.name.kind == "path":
        values["config"] = None  # it is read again
    given = {n: v for n, v in values.items() if n not in ("recipe", "target") and v not in (None, False)}
    return ", ".join(f"{name}={value!r}" for name, value in given.items())

"""``max_batch_size``: finds the largest batch for a module that a training script has already built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memorymark.checks.types import require_types
from memorymark.engine.module_workload import as_module, own_workload, require_trained, where_it_is, with_twin
from memorymark.engine.search import TrialLog, search_with
from memorymark.engine.trainers import trained_by
from memorymark.errors import DoesNotFitError, UsageError
from memorymark.events import OnEvent, ignore
from memorymark.keyword_types import AnalysisOptions, ModuleOptions
from memorymark.keywords import refuse_others
from memorymark.largest_batch import size_within
from memorymark.messages import Message
from memorymark.probe.base import Probe
from memorymark.question.flat import fields_of
from memorymark.question.gpu_choice import with_gpu_options
from memorymark.question.limits import NO_LIMIT
from memorymark.question.options import require_option
from memorymark.question.question import DEFAULT_MARGIN, Question
from memorymark.question.recipe import Recipe
from memorymark.question.target import Target
from memorymark.results.analysis import predicted_interval
from memorymark.results.trial import Trial, why_nothing_fits
from memorymark.suggestions import without
from memorymark.units import format_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack


# The arguments of max_batch_size besides the options of a recipe and a target.
OWN = ("max_batch", "margin", "on_event", "batch", "loss", "optimizer", "step", "between")
# How many sizes to try between one that keeps the margin and one that does not.
LOOKS_BETWEEN = 4


class BatchSize(int):
    """The largest batch that trains, as an ``int``, with the trials that found it.

    ``safe`` is the batch to train with: the largest that leaves the margin free and, if predicted, is sure to fit.
    """

    safe: int
    trials: list[Trial]

    @property
    def peaks(self) -> dict[str, int]:
        """Peak allocated bytes at the largest batch: of the ``step``, and of each function that runs ``between``."""
        trial = next(trial for trial in reversed(self.trials) if trial.batch_size == self and trial.fits)
        of_step = trial.step_peak_bytes if trial.between_peak_bytes else trial.peak_allocated_bytes
        return {"step": of_step, **trial.between_peak_bytes}

    @property
    def source(self) -> str:
        """``measured`` or ``predicted``."""
        return self.trials[-1].source

    def __str__(self) -> str:
        return str(int(self))  # so that f"--batch-size {found}" is what it looks like

    def __repr__(self) -> str:
        return f"BatchSize({int(self)}, safe={self.safe}, {self.source})"


def max_batch_size(
    module: Any,
    batch: Any = None,
    loss: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    step: Callable[..., Any] | None = None,
    between: Any = None,
    max_batch: int | None = None,
    margin: float = DEFAULT_MARGIN,
    on_event: OnEvent = ignore,
    **options: Unpack[ModuleOptions],
) -> BatchSize:
    """Finds the largest batch with which this module trains, and leaves the module unchanged.

    ``module`` may be several, in a list or a dict, or a Trainer of transformers or Lightning, which then says the rest.
    ``batch(size)`` or ``batch(size, device)`` makes a batch: the arguments of a forward call (a dict, a tuple, a pair
    of both, one tensor), or whatever ``loss`` or ``step`` takes. A data loader makes batches of its largest sample.
    ``loss(module, batch)`` runs the forward pass and returns the loss; by default, the loss in the module's output is
    used. ``optimizer`` is an optimizer, a list of several, a function that makes them from the module, or a name that
    the command line knows; the default is AdamW.

    ``step(module, batch, optimizer)`` replaces ``loss``: it runs a whole training step with as many backward passes and
    updates as it likes. ``between`` names functions with the same arguments that run between steps, such as
    ``{"evaluation": evaluate}``; ``peaks`` of the answer names the peak of each.

    Steps run on the module's device, or on the GPU if the module is on the CPU and there is a GPU. ``device`` picks
    another device; ``gpu`` predicts for a GPU of the catalog instead. Weights, buffers, gradients, modes, the
    optimizer's state, the device and random states are restored afterwards, even after an error.
    """
    import torch

    from memorymark.probe.local import LocalProbe
    from memorymark.training.mentioned import mentioned_unharmed

    asked: dict[str, Any] = {**options}
    trained = trained_by(module, batch)
    if trained is not None:
        module, batch, asked = trained.module, trained.batch, {**trained.options, **asked}
        loss = loss or (trained.loss if step is None else None)
        optimizer = trained.optimizer if optimizer is None else optimizer
    module = as_module(module)
    given: dict[str, Any] = {**asked, "max_batch": max_batch, "margin": margin, "on_event": on_event}
    search, recipe, target = _read(given, optimizer if isinstance(optimizer, str) else None)
    require_trained(module)
    target = where_it_is(module, target)
    optimizer = None if isinstance(optimizer, str) else optimizer
    workload = own_workload(module, batch, loss, optimizer, step=step, between=between)
    is_predicted = target.gpu is not None
    with torch.enable_grad(), mentioned_unharmed(module, loss, step, *workload.between.values()):
        workload = with_twin(workload, module) if is_predicted else workload
        with LocalProbe(workload, recipe, target, preserve=not is_predicted) as probe:
            return _found(probe, workload.name, search)


@dataclass(frozen=True)
class _Search:
    """The options of the search itself."""

    max_batch: int | None
    margin: float
    on_event: OnEvent


def _read(options: dict[str, Any], optimizer: str | None) -> tuple[_Search, Recipe, Target]:
    """Checks the options and returns what they ask for; ``optimizer`` is the name of one, if given by name."""
    import torch

    if isinstance(options.get("device"), torch.device):
        options["device"] = str(options["device"])
    options = require_types(with_gpu_options(options, several=False), AnalysisOptions)
    search = _Search(options.pop("max_batch"), options.pop("margin"), options.pop("on_event"))
    require_option(Question, "max_batch", search.max_batch)
    require_option(Question, "margin", search.margin)
    if optimizer is not None:
        options["optimizer"] = optimizer
    if "attention" in options:
        raise UsageError(
            "max_batch_size does not change a module's attention; call the module's set_attn_implementation first.",
            code="not_applicable",
            field="attention",
            given=options["attention"],
            proposals=[without("attention")],
        )
    refuse_others(
        options,
        (*ModuleOptions.__annotations__, "gpu_facts", "lora", *OWN),
        "see docs/python.md for those of max_batch_size",
    )
    return search, Recipe(**fields_of(Recipe, options)), Target(**fields_of(Target, options))


def _found(probe: Probe, name: str, search: _Search) -> BatchSize:
    log, capacity = TrialLog(search.on_event), probe.info.capacity_bytes
    safe_bytes = (1 - search.margin) * capacity
    with log.kept_on_error():
        found = search_with(probe, search.max_batch or NO_LIMIT, log)
        if found.maximum == 0:
            raise _does_not_fit(name, capacity, found.trials)
        interval = predicted_interval(probe.info, found.maximum, found.trials) if found.exact else None
        sure = min(found.maximum, max(interval[0], 1)) if interval else found.maximum
        guess = min(size_within(found.trials, safe_bytes), sure)
        result = BatchSize(found.maximum)
        result.safe = largest_within(log.watching("search", probe.try_from_start), guess, safe_bytes)
        result.trials = log.trials
    return result


def _does_not_fit(name: str, capacity_bytes: int, trials: list[Trial]) -> DoesNotFitError:
    smallest = why_nothing_fits(trials)
    failure = smallest.failure
    why = f": {failure.message}" if failure else ""
    return DoesNotFitError(
        f"{name} does not train within {format_bytes(capacity_bytes)} even at batch {smallest.batch_size}{why}",
        failure.shortfall_bytes if failure else None,
        hint=Message("use smaller samples, {precision:bf16} or {gradient_checkpointing:True}, or a larger GPU"),
    )


def largest_within(tried: Callable[[int], Trial], guess: int, memory_bytes: float) -> int:
    """Returns the first size, from a guess down, that stays within the memory without allocator retries; at least 1.

    If the guess was far off, a few sizes between this one and the last that failed are tried, too.
    """

    def keeps(size: int) -> bool:
        trial = tried(size)
        return trial.fits and trial.peak_reserved_bytes <= memory_bytes and not trial.allocator_retries

    size, stride, too_large = guess, 1, guess + 1
    while size > 1 and not keeps(size):
        size, stride, too_large = max(size - stride, 1), 2 * stride, size
    for _ in range(LOOKS_BETWEEN):
        middle = (size + too_large) // 2
        if middle == size:
            break
        size, too_large = (middle, too_large) if keeps(middle) else (size, middle)
    return size

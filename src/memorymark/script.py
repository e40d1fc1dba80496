"""For a training script: the largest batch for a module that is already there, which stays as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from memorymark.analysis import predicted_interval
from memorymark.errors import CannotPredictError, DoesNotFitError, UsageError
from memorymark.events import OnEvent, ignore
from memorymark.keywords import AnalysisOptions, ModuleOptions, in_python_terms, make_recipe, make_target, no_option
from memorymark.probe import Probe
from memorymark.question import DEFAULT_MARGIN, require_margin, require_positive
from memorymark.search import NO_LIMIT, size_within
from memorymark.searching import TrialLog, search_with
from memorymark.trial import Trial, why_nothing_fits
from memorymark.type_checks import require_types, shown
from memorymark.units import format_bytes
from memorymark.workload import Workload, require_function

if TYPE_CHECKING:
    import torch
    from torch import nn
    from typing_extensions import Unpack


# How often the largest size with a margin is looked for between one that keeps it and one that does not.
LOOKS_BETWEEN = 4


class BatchSize(int):
    """The largest batch that trains, as a number, and what was seen on the way to it.

    ``safe`` is the largest that leaves the margin free and, if predicted, is sure to fit: the one to train with.
    ``trials`` are all that were tried.
    """

    safe: int
    trials: list[Trial]

    @property
    def source(self) -> str:
        """Whether it was measured or predicted."""
        return self.trials[-1].source

    def __repr__(self) -> str:
        return f"BatchSize({int(self)}, safe={self.safe}, {self.source})"


@in_python_terms()
def max_batch_size(
    module: nn.Module,
    batch: Callable[..., Any],
    loss: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    max_batch: int | None = None,
    margin: float = DEFAULT_MARGIN,
    on_event: OnEvent = ignore,
    **options: Unpack[ModuleOptions],
) -> BatchSize:
    """The largest batch with which this module trains on this device; nothing about it is changed.

    ``batch(size)`` or ``batch(size, device)`` makes a batch: the keyword arguments of a forward call, or what ``loss``
    takes. ``loss(module, batch)`` runs the forward pass and gives the loss; without it, the module's own ``.loss`` is
    taken. ``optimizer`` is yours, a list of several, a function that makes them from the module, or a name of the
    command line's; left out, it is AdamW.

    It runs steps where the module is, or on the GPU if it is on the CPU and there is one; ``device`` names another,
    ``gpu`` one that it is predicted for. Weights, buffers, gradients, modes, the optimizer's state, the device and
    random states are afterwards as they were, also if it fails.
    """
    import torch
    from torch import nn

    from memorymark.optimizers import name_of
    from memorymark.step import runs_compiled_code

    if not isinstance(module, nn.Module):
        raise UsageError(f"max_batch_size takes a torch module, not {shown(module)}; for names, see analyze.")
    given: dict[str, Any] = dict(options)
    if isinstance(given.get("device"), torch.device):
        given["device"] = str(given["device"])
    given |= {"max_batch": max_batch, "margin": margin, "on_event": on_event}
    given = require_types(given, AnalysisOptions)
    max_batch, margin, on_event = (given.pop(name) for name in ("max_batch", "margin", "on_event"))
    require_positive("--max-batch", max_batch)
    require_margin(margin)
    _require_loss(loss)
    if isinstance(optimizer, str):
        given["optimizer"], optimizer = optimizer, None
    name, first = name_of(module), next(module.parameters(), None)
    if first is None or not any(parameter.requires_grad for parameter in module.parameters()):
        raise UsageError(f"{name} has no parameters that are trained; give one that has.")
    if not given.get("gpu") and given.get("device", "auto") == "auto" and first.device.type != "cpu":
        given["device"] = str(first.device) if first.device.type == "cuda" else first.device.type
    if "attention" in given:
        raise UsageError("attention would stay changed; set it yourself with the module's set_attn_implementation.")
    recipe, target = make_recipe(given), make_target(given)
    if given:
        known = (*ModuleOptions.__annotations__, "max_batch", "margin", "on_event", "batch", "loss", "optimizer")
        raise no_option(next(iter(given)), known, "see docs/python.md for those of max_batch_size")
    workload = Workload(lambda: module, _on_device(batch), loss, name=name, optimizer=_maker(optimizer, module))

    from memorymark.prediction.fake_step import cannot_predict_compiled
    from memorymark.probe.local import LocalProbe

    with torch.enable_grad():
        if target.gpu is not None:
            if runs_compiled_code(module):  # which cannot even be copied
                raise cannot_predict_compiled("give the module as it was before torch.compile")
            workload = replace(workload, build=_twin(module))
        with LocalProbe(workload, recipe, target, preserve=target.gpu is None) as probe:
            return _search(probe, name, max_batch or NO_LIMIT, margin, on_event)


def _search(probe: Probe, name: str, limit: int, margin: float, on_event: OnEvent) -> BatchSize:
    log, capacity = TrialLog(on_event), probe.info.capacity_bytes
    with log.kept_on_error():
        found = search_with(probe, limit, log)
        if found.maximum == 0:
            raise _does_not_fit(name, capacity, found.trials)
        interval = predicted_interval(probe.info, found.maximum, found.trials) if found.exact else None
        sure = min(found.maximum, max(interval[0], 1)) if interval else found.maximum
        guess = min(size_within(found.trials, (1 - margin) * capacity), sure)
        result = BatchSize(found.maximum)
        result.safe = _largest_within(log.watching("search", probe.try_from_start), guess, (1 - margin) * capacity)
        result.trials = log.trials
    return result


def _does_not_fit(name: str, capacity_bytes: int, trials: list[Trial]) -> DoesNotFitError:
    smallest = why_nothing_fits(trials)
    failure = smallest.failure
    why = f": {failure.message}" if failure else ""
    return DoesNotFitError(
        f"{name} does not train within {format_bytes(capacity_bytes)} even at batch {smallest.batch_size}{why}; use "
        'smaller samples, precision="bf16" or gradient_checkpointing=True, or a larger GPU.',
        failure.shortfall_bytes if failure else None,
    )


def _largest_within(tried: Callable[[int], Trial], guess: int, memory_bytes: float) -> int:
    """From a guess down, the first size that is seen to keep within the memory without thrashing; at least 1.

    Where the guess was far off, a few sizes between that and the last that did not are tried, too.
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


def _require_loss(loss: Any) -> None:
    """Refuses what cannot be called with a module and a batch."""
    from torch.nn.modules.loss import _Loss

    if isinstance(loss, _Loss):
        raise UsageError(
            f"loss= is called as loss(module, batch), and {type(loss).__name__} compares outputs with targets; give a "
            "function such as lambda module, batch: criterion(module(batch[0]), batch[1])."
        )
    if loss is not None:
        require_function("loss", loss, ("module", "batch"))


def _on_device(batch: Callable[..., Any]) -> Callable[[int, torch.device], Any]:
    """The batch function with two arguments; what one of a single argument makes is moved."""
    takes = ("size", "device") if callable(batch) and _required_arguments(batch) >= 2 else ("size",)
    require_function("batch", batch, takes)
    if len(takes) == 2:
        return batch

    def moved(size: int, device: torch.device) -> Any:
        from torch.utils._pytree import tree_map

        return tree_map(lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf, batch(size))

    return moved


def _required_arguments(function: Callable[..., Any]) -> int:
    """How many arguments a function wants; one for a builtin that does not say, such as ``torch.rand``."""
    try:
        parameters = signature(function).parameters.values()
    except ValueError:
        return 1
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is Parameter.empty for p in parameters)


def _maker(optimizer: Any, module: nn.Module) -> Callable[[nn.Module], Any] | None:
    """A function that gives the caller's optimizers for a model: the module itself, or a twin of it."""
    from torch.optim import Optimizer

    from memorymark.optimizers import listed

    if optimizer is None:
        return None
    if isinstance(optimizer, type):
        raise UsageError(
            f"optimizer= is the class {optimizer.__name__}; give one that is made, as in "
            f"{optimizer.__name__}(module.parameters()), or a function that makes it from the module."
        )
    if callable(optimizer) and not isinstance(optimizer, Optimizer):
        require_function("optimizer", optimizer, ("module",))
        make: Callable[[nn.Module], Any] = optimizer
        return make
    several = listed(optimizer, module)

    def same(model: nn.Module) -> list[Optimizer]:
        if model is module:
            return several
        twins = dict(model.named_parameters())
        memo: dict[int, Any] = {id(parameter): twins[name] for name, parameter in module.named_parameters()}
        memo |= {id(one.state): defaultdict(dict) for one in several}
        return deepcopy(several, memo)

    return same


def _twin(module: nn.Module) -> Callable[[], nn.Module]:
    """A function that makes a module of the same shape without memory behind it, which a prediction may change."""

    def build() -> nn.Module:
        import torch
        from torch import nn

        def shape_of(tensor: torch.Tensor) -> torch.Tensor:
            empty = torch.empty_like(tensor, device="meta")
            return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty

        shapes: dict[int, Any] = {id(t): shape_of(t) for t in (*module.parameters(), *module.buffers())}
        try:
            return deepcopy(module, shapes)
        except Exception as error:  # whatever a part of it raises that cannot be copied
            raise CannotPredictError(
                f"{type(module).__name__} cannot be copied ({error}), so a step of it cannot be predicted; measure it, "
                "or give analyze a Workload that builds it."
            ) from error

    return build

"""Builds a workload on fake tensors and traces two training steps of it."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

from memorymark.errors import CannotPredictError, MemoryMarkError
from memorymark.prediction.cuda_choices import cuda_choices
from memorymark.prediction.cuda_recurrent import flatten_weights
from memorymark.prediction.in_place import add_in_place
from memorymark.prediction.operation import StepTrace
from memorymark.prediction.program import Program, merge
from memorymark.prediction.tracer import Tracer
from memorymark.recipe import Recipe
from memorymark.step import TrainingStep, build_model, prepare_model, runs_compiled_code, weights_dtype
from memorymark.trace import Owner, Phase
from memorymark.workload import Workload

# Small, so that the values a model looks at cost little; not 1, which models and kernels may treat in their own way.
TRACED_BATCH = 4
CPU = torch.device("cpu")
# Of the batches whose gradients a step adds up so many are traced: the second is as all that follow.
TRACED_ACCUMULATION_STEPS = 2
# What fake tensors complain of where only a run can tell.
ONLY_A_RUN = {
    "its data is not allocated yet": "the model reads a tensor's values (.tolist(), .numpy()), which only a run has",
    "Expected inputs of BF16 type": "the model multiplies for many experts at once, which cannot be traced",
}


@dataclass(frozen=True)
class TracedStep:
    """A step as programs: the first one, which makes the optimizer's state, and every later one.

    ``weights`` are the storages of parameters and buffers in the order in which ``model.to(device)`` makes them;
    ``tensors`` says how many parameters and buffers there are, ``frozen_tensors`` how many of them get no updates.
    """

    first: Program
    later: Program
    weights: dict[int, int]
    owners: dict[Hashable, Owner]
    parameters: int
    trainable_parameters: int
    tensors: int
    frozen_tensors: int
    own_optimizer: str = ""
    weights_dtype: str = ""

    @property
    def optimizer_state(self) -> dict[int, int]:
        """The storages of the optimizer's state, which the first step makes."""
        made = (storage for growth in self.first.operations for storage in growth.operation.made)
        return {number: size for number, size in made if self.owners.get(number) == "optimizer_state"}


def trace_training(workload: Workload, recipe: Recipe, capability: tuple[int, int]) -> TracedStep:
    """Traces the workload as a GPU of this compute capability would run it."""
    if recipe.compile:
        raise cannot_predict_compiled("drop --compile")
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    with cuda_choices(capability):
        built = _build(workload, recipe)
        if runs_compiled_code(built):
            raise cannot_predict_compiled("give the model as it was before torch.compile")
        model = fake_copy(prepare_model(built, recipe), fake_mode)
        step = TrainingStep(workload, as_traced(recipe), CPU, model=model)
        _update_all_at_once(step)
        tracer = Tracer(fake_mode)
        with _not_tracing_for_transformers(), fake_mode, tracer:
            weights = {tracer.number_of(tensor): tensor.untyped_storage().nbytes() for tensor in _in_order(model)}
            traces = [_traced(step, tracer, size) for size in (TRACED_BATCH, TRACED_BATCH + 1)]
    first, later = merge(traces[0], traces[1], TRACED_BATCH)
    parameters = list(model.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return TracedStep(
        first,
        later,
        weights,
        traces[1].owners,
        parameters=sum(p.numel() for p in parameters),
        trainable_parameters=sum(p.numel() for p in trained),
        tensors=len({id(tensor) for tensor in _in_order(model)}),
        frozen_tensors=len(parameters) - len(trained),
        own_optimizer=step.own_optimizer,
        weights_dtype=weights_dtype(model),
    )


def cannot_predict_compiled(instead: str) -> CannotPredictError:
    """Why there is no prediction of a compiled step, and what to do instead."""
    return CannotPredictError(
        "torch.compile chooses and fuses kernels on the GPU itself, so a compiled step cannot be predicted; "
        f"{instead}, or measure on a GPU."
    )


def as_traced(recipe: Recipe) -> Recipe:
    """The recipe without what has no part in a trace: TF32 changes only the time, as do more batches for a step."""
    steps = min(recipe.accumulation_steps, TRACED_ACCUMULATION_STEPS)
    return replace(recipe, tf32=False, accumulation_steps=steps)


def _build(workload: Workload, recipe: Recipe) -> nn.Module:
    """On the meta device, where even the largest model takes no memory; else for real."""
    try:
        with torch.device("meta"):
            return build_model(workload, recipe)
    except (NotImplementedError, RuntimeError):  # it looks at its own values while it is built
        return build_model(workload, recipe)


def fake_copy(model: nn.Module, fake_mode: FakeTensorMode) -> nn.Module:
    """The same module with every parameter and buffer replaced by a fake one; what was shared stays shared."""
    copies: dict[int, Tensor] = {}

    def fake(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            with fake_mode:
                copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CPU)
                is_parameter = isinstance(tensor, nn.Parameter)
                copies[id(tensor)] = nn.Parameter(copy, requires_grad=tensor.requires_grad) if is_parameter else copy
        return copies[id(tensor)]

    with fake_mode:
        for weight, place in flatten_weights(model, partial(torch.empty, device=CPU)):
            copies[id(weight)] = nn.Parameter(place, requires_grad=weight.requires_grad)
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            named: dict[str, Any] = dict(tensors)
            for name, tensor in named.items():
                if tensor is not None:
                    tensors[name] = fake(tensor)  # type: ignore[assignment]
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()  # it keeps a list of them besides
    return model


def _in_order(module: nn.Module) -> Iterator[Tensor]:
    for child in module.children():
        yield from _in_order(child)
    yield from (tensor for tensor in module._parameters.values() if tensor is not None)
    yield from (tensor for tensor in module._buffers.values() if tensor is not None)


def _update_all_at_once(step: TrainingStep) -> None:
    """torch's optimizers do so by themselves on a GPU, except for Adafactor, which saves the memory."""
    eager = (optimizer for optimizer in step.optimizers if not isinstance(optimizer, torch.optim.Adafactor))
    for group in (group for optimizer in eager for group in optimizer.param_groups):
        if "foreach" in group and group["foreach"] is None and not group.get("fused"):
            group["foreach"] = True


def _traced(step: TrainingStep, tracer: Tracer, batch_size: int) -> StepTrace:
    trace = tracer.start()

    def on_phase(phase: Phase) -> None:
        tracer.mark(phase)
        if phase == "backward":
            owned: tuple[tuple[Owner, Iterator[Tensor]], ...] = (
                ("weights", step.weights()),
                ("gradients", step.gradients()),
                ("optimizer_state", step.optimizer_state()),
            )
            trace.owners = {tracer.number_of(tensor): owner for owner, tensors in owned for tensor in tensors}

    try:
        step(batch_size, on_phase)
    except MemoryMarkError:
        raise
    except (
        UnsupportedFakeTensorException,
        DataDependentOutputException,
        DynamicOutputShapeException,
        NotImplementedError,
    ) as error:
        what = str(error).partition("\n")[0] or type(error).__name__
        raise CannotPredictError("an operation has no shape rule; measure on a GPU.", detail=what) from None
    except RuntimeError as error:
        for sign, reason in ONLY_A_RUN.items():
            if sign in str(error):
                raise CannotPredictError(f"{reason}; measure it on a GPU.") from None
        raise
    return add_in_place(trace)


@contextmanager
def _not_tracing_for_transformers() -> Iterator[None]:
    """transformers takes fake tensors for a graph capture and leaves its shortcuts out; a real run takes them."""
    import_utils: Any = sys.modules.get("transformers.utils.import_utils")  # slow to import where the model does not
    is_fake_tensor = getattr(import_utils, "is_fake_tensor", None)
    if is_fake_tensor is None:
        yield
        return
    import_utils.is_fake_tensor = lambda x: False  # noqa: ARG005 - the name it is called with
    try:
        yield
    finally:
        import_utils.is_fake_tensor = is_fake_tensor

"""Builds a workload on fake tensors and traces two of its training steps."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from memorymark.devices.allocations import Owner, Phase
from memorymark.devices.storages import local_part
from memorymark.errors import CannotPredictError
from memorymark.messages import Message, as_message
from memorymark.prediction.tracing.cuda_choices import cuda_choices
from memorymark.prediction.tracing.cuda_recurrent import flatten_weights
from memorymark.prediction.tracing.flash_attention import flash_attention
from memorymark.prediction.tracing.garbage import no_full_collections
from memorymark.prediction.tracing.in_place import add_in_place
from memorymark.prediction.tracing.layers import Rows
from memorymark.prediction.tracing.like_real import like_real
from memorymark.prediction.tracing.matching import first_queries_match
from memorymark.prediction.tracing.operation import StepTrace
from memorymark.prediction.tracing.places import Places
from memorymark.prediction.tracing.program import Program, may_loop, merge, same_work, splits_unevenly
from memorymark.prediction.tracing.refusals import explained
from memorymark.prediction.tracing.repeating import Repeating
from memorymark.prediction.tracing.routing import Routing
from memorymark.prediction.tracing.sharing import as_traced
from memorymark.prediction.tracing.spreading import SpreadOut, seeing_gathers, spread_out
from memorymark.prediction.tracing.tracer import Tracer
from memorymark.prediction.tracing.updates import note_updates, update_all_at_once
from memorymark.prediction.tracing.values import Origin, initial_values, keep_values
from memorymark.question.recipe import Recipe
from memorymark.results.explanation import ModuleFacts
from memorymark.suggestions import without
from memorymark.training.building import build_model
from memorymark.training.compiled_code import refusing_compiled
from memorymark.training.facts import TrainingFacts, facts_of
from memorymark.training.generation import Generation
from memorymark.training.sharding import COPYING, alone_of_many, require_spreadable
from memorymark.training.step import TrainingStep, prepare_model, runs_compiled_code
from memorymark.training.workload import Batch, Workload

# Small, so that computing values is cheap; not 1, which models and kernels may treat as a special case.
TRACED_BATCH = 4
# Can be split into 2, 3, 4, 6, 8 or 12 equal parts.
EVEN_BATCH = 24
CPU = torch.device("cpu")


@dataclass(frozen=True)
class TracedStep:
    """A traced step as two programs: the first step, which makes the optimizer's state, and every later one.

    ``weights`` are the storages of parameters and buffers in the order in which ``model.to(device)`` makes them, and
    those of a frozen copy; ``tensors`` says how many parameters and buffers the model has, ``frozen_tensors`` how many
    of them get no updates. ``worst`` is the step with the worst routing of tokens to experts, if its memory depends on
    that. ``generation`` is what generating the samples takes before each step, if they are generated. ``modules`` are
    those of the model by their paths, ``homes`` the paths of those that lasting storages belong to.
    """

    first: Program
    later: Program
    weights: dict[int, int]
    owners: dict[Hashable, Owner]
    tensors: int
    frozen_tensors: int
    facts: TrainingFacts
    worst: TracedStep | None = None
    generation: Generation | None = None
    modules: dict[str, ModuleFacts] = field(default_factory=dict)
    homes: dict[int, str] = field(default_factory=dict)

    @cached_property
    def optimizer_state(self) -> dict[int, int]:
        """The storages of the optimizer's state, which the first step makes."""
        made = (storage for growth in self.first.operations for storage in growth.operation.made_on_device)
        return {number: size for number, size in made if self.owners.get(number) == "optimizer_state"}


def trace_training(
    workload: Workload, recipe: Recipe, capability: tuple[int, int], *, every_layer: bool = False
) -> TracedStep:
    """Traces the workload as a GPU of this compute capability would run it, its tokens spread evenly over experts.

    Of many like layers only a few run, unless ``every_layer`` should; the result is the same.
    """
    if recipe.compile:
        dropped = without("compile", usual=False)
        raise cannot_predict_compiled(Message("drop {compile}"), field="compile", given=True, proposals=[dropped])
    require_spreadable(workload, recipe)
    shorten = not every_layer and _runs_by_the_book(workload, recipe)
    step, routed = _trace(workload, recipe, capability, "even", shorten=shorten)
    if not routed:
        return step
    worst, _ = _trace(workload, recipe, capability, "worst", shorten=shorten)
    return replace(step, worst=worst)


def _trace(
    workload: Workload, recipe: Recipe, capability: tuple[int, int], routing: Routing, *, shorten: bool
) -> tuple[TracedStep, bool]:
    """Returns the traced step, and whether its sizes depend on the routing of tokens to experts."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    tracers: list[Tracer] = []
    matching = first_queries_match(lambda: tracers[-1].passing_checks())
    own_step, own_loss = workload.step is not None, workload.loss is not None
    new_tracer = partial(Tracer, fake_mode, routing, is_own=own_step, own_loss=own_loss)
    with no_full_collections(), cuda_choices(capability), matching, alone_of_many(recipe):
        model = _fake_model(workload, recipe, fake_mode)
        spread = spread_out(model, recipe, fake_mode)
        rows = Rows(model) if shorten else None
        if rows is not None and rows.found:
            tracers.append(new_tracer(rows=rows))
            try:
                return _run(workload, recipe, capability, model, fake_mode, spread, tracers[-1], rows)
            except Exception:  # what goes wrong with a few layers goes well with all of them, or is reported there
                if spread is None:
                    model.zero_grad(set_to_none=True)
                else:  # it remembers which layers it ran with
                    model = _fake_model(workload, recipe, fake_mode)
                    spread = spread_out(model, recipe, fake_mode)
        tracers.append(new_tracer())
        return _run(workload, recipe, capability, model, fake_mode, spread, tracers[-1])


def _fake_model(workload: Workload, recipe: Recipe, fake_mode: FakeTensorMode) -> nn.Module:
    built = _build(workload, recipe)
    if runs_compiled_code(built):
        raise cannot_predict_compiled("pass the model as it was before torch.compile")
    return fake_copy(prepare_model(built, recipe, to_trace=True), fake_mode)


def _runs_by_the_book(workload: Workload, recipe: Recipe) -> bool:
    """Tells whether a step is the model's own work alone: no step of the caller's, copy of the model or offloading."""
    own = workload.step is not None or workload.between or workload.optimizer is not None
    copied = recipe.strategy in COPYING  # whose buckets do not end where layers do
    return not (own or copied or workload.compares or workload.completions) and recipe.offload == "none"


def _run(
    workload: Workload,
    recipe: Recipe,
    capability: tuple[int, int],
    model: nn.Module,
    fake_mode: FakeTensorMode,
    spread: SpreadOut | None,
    tracer: Tracer,
    rows: Rows | None = None,
) -> tuple[TracedStep, bool]:
    """Traces steps of the model, of its ``rows`` only a few layers, whose operations then stand for all others'."""
    workload = _moved_from_host(workload, tracer) if workload.from_host else workload
    wrapper = spread.wrapper if spread is not None else None
    make_step = partial(
        TrainingStep,
        workload,
        as_traced(recipe),
        CPU,
        model=model,
        wrapper=wrapper,
        on_outputs=tracer.note_outputs,
    )
    whole = make_step()
    with ExitStack() as stack:
        if workload.step is not None or workload.loss is not None or workload.between:
            stack.enter_context(tracer.seeing_forwards())
        if spread is not None:
            stack.enter_context(seeing_gathers(tracer, spread.group))
        contexts: tuple[AbstractContextManager[Any], ...] = (*_pretences(capability), fake_mode, tracer)
        for context in contexts:
            stack.enter_context(context)
        kept = [tensor for one in whole.models() for tensor in _in_order(one)]
        places = tracer.places = Places(whole.models())
        stack.enter_context(places.followed())
        with rows.shortened() if rows is not None else nullcontext():
            step = make_step() if rows is not None else whole
            update_all_at_once(step)
            note_updates(step, tracer)
            run = [tensor for one in step.models() for tensor in _in_order(one)] if rows is not None else kept
            numbers = {id(tensor): tracer.number_of(tensor) for tensor in run}
            if spread is not None:
                spread.warm_up(step, tracer, TRACED_BATCH)
            step.look_at_generation()
            generation, step.generation = step.generation, None  # its memory does not grow linearly with the batch
            traces, batch_size, stride = _steps(step, tracer)
        if rows is not None:
            traces = _with_every_layer(rows, traces, numbers, tracer)
        weights = {numbers[id(tensor)]: local_part(tensor).untyped_storage().nbytes() for tensor in kept}
        homes = {numbers[id(tensor)]: places.of_tensor(tensor) for tensor in reversed(kept)}
        buckets = spread.buckets(tracer) if spread is not None else {}
    first, later = merge(traces, batch_size, stride)
    traced = TracedStep(
        first,
        later,
        weights | buckets,
        {**traces[1].owners, **dict.fromkeys(buckets, "gradient_buckets")},
        tensors=len({id(tensor) for tensor in _in_order(model)}),
        frozen_tensors=sum(not parameter.requires_grad for parameter in model.parameters()),
        facts=replace(_facts(whole, generation), routing_matters=tracer.routed),
        generation=generation,
        modules=places.modules,
        homes={**traces[1].homes, **homes},
    )
    return traced, tracer.routed


def _with_every_layer(rows: Rows, traces: list[StepTrace], numbers: dict[int, int], tracer: Tracer) -> list[StepTrace]:
    """Returns the traces of the whole model from those of a few layers; notes the numbers of the others' weights."""
    repeating = Repeating(rows.found, tracer.next_number)
    repeating.know(numbers.values())
    for tensor, row, block, key in rows.tensors():
        numbers[id(tensor)] = repeating.add_weight(row, block, key, numbers.get(id(tensor)))
    return repeating.whole(traces)


def _moved_from_host(workload: Workload, tracer: Tracer) -> Workload:
    """Returns the workload with batches that appear where they are used: the host's memory does not count."""

    def moved(size: int, device: torch.device) -> Batch:
        with tracer.paused():
            batch = workload.batch(size, device)
        return tree_map_only(Tensor, torch.clone, batch)

    return replace(workload, batch=moved)


def _pretences(capability: tuple[int, int]) -> Iterator[AbstractContextManager[None]]:
    """Yields the contexts that make a step on fake tensors run as it would on a GPU."""
    yield _not_tracing_for_transformers()
    yield flash_attention(capability)
    yield like_real()
    yield refusing_compiled(lambda: cannot_predict_compiled("pass the functions as they were before torch.compile"))


def _facts(step: TrainingStep, generation: Generation | None) -> TrainingFacts:
    step.generation = generation
    return facts_of(step)


def cannot_predict_compiled(instead: str | Message, **about: Any) -> CannotPredictError:
    """Returns the error for a compiled step; ``instead`` says what to do, ``about`` is more of the error's data."""
    return CannotPredictError(
        "torch.compile chooses and fuses kernels on the GPU itself, so a compiled step cannot be predicted",
        hint=Message("{instead}, or measure on a GPU", instead=as_message(instead)),
        **about,
    )


def _build(workload: Workload, recipe: Recipe) -> nn.Module:
    """Builds the model on the meta device, where it takes no memory; if that fails, for real."""
    try:
        with torch.device("meta"):
            return build_model(workload, recipe, to_trace=True)
    except (NotImplementedError, RuntimeError):  # it reads its own values while it is built
        return build_model(workload, recipe, to_trace=True)


def fake_copy(model: nn.Module, fake_mode: FakeTensorMode) -> nn.Module:
    """Returns the module with every parameter and buffer replaced by a fake one; shared ones stay shared."""
    copies: dict[int, Tensor] = {}

    def fake(tensor: Tensor) -> Tensor:
        if id(tensor) not in copies:
            with fake_mode:
                copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=CPU)
                is_parameter = isinstance(tensor, nn.Parameter)
                if (values := initial_values(tensor)) is not None and not is_parameter:
                    keep_values(copy, values, Origin.CERTAIN)
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
            module._init_flat_weights()  # it also keeps a list of them
    return model


def _in_order(module: nn.Module) -> Iterator[Tensor]:
    for child in module.children():
        yield from _in_order(child)
    yield from (tensor for tensor in module._parameters.values() if tensor is not None)
    yield from (tensor for tensor in module._buffers.values() if tensor is not None)


def _steps(step: TrainingStep, tracer: Tracer) -> tuple[list[StepTrace], int, int]:
    """Traces a first step and the one after it, with one sample more; returns them with the first size and the stride.

    A model that fills a cache of its own in its first step (BEiT's positions) does less in the second. It then starts
    over, with its cache filled but without an optimizer's state. A model that loops over its samples does more; a third
    step shows how much each sample adds. A model that splits batches into equal parts is traced at sizes that they
    divide.
    """
    traces, is_own = _two(step, tracer), step.workload.step is not None
    if not same_work(*traces) and (is_own or not may_loop(*traces)):
        step.start_over()
        traces = _two(step, tracer)
    if splits_unevenly(*traces) or (is_own and not same_work(*traces)):
        step.start_over()
        return _two(step, tracer, EVEN_BATCH, EVEN_BATCH), EVEN_BATCH, EVEN_BATCH
    if not same_work(*traces):
        traces.append(_traced(step, tracer, TRACED_BATCH + 2, traces[-1]))
    return traces, TRACED_BATCH, 1


def _two(step: TrainingStep, tracer: Tracer, batch_size: int | None = None, stride: int = 1) -> list[StepTrace]:
    batch_size = batch_size or TRACED_BATCH
    first = _traced(step, tracer, batch_size)
    return [first, _traced(step, tracer, batch_size + stride, first)]


def _traced(step: TrainingStep, tracer: Tracer, batch_size: int, before: StepTrace | None = None) -> StepTrace:
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
            if (places := tracer.places) is not None:
                states = places.of_state(step.models(), step.optimizers)
                trace.homes = {tracer.number_of(tensor): home for tensor, home in states}

    with explained(step):
        step(batch_size, on_phase)
    return add_in_place(trace, before)


@contextmanager
def _not_tracing_for_transformers() -> Iterator[None]:
    """Keeps transformers from treating fake tensors as a graph capture, which would skip shortcuts of a real run."""
    import_utils: Any = sys.modules.get("transformers.utils.import_utils")  # too slow to import
    is_fake_tensor = getattr(import_utils, "is_fake_tensor", None)
    if is_fake_tensor is None:
        yield
        return
    import_utils.is_fake_tensor = lambda x: False  # noqa: ARG005 - the name it is called with
    try:
        yield
    finally:
        import_utils.is_fake_tensor = is_fake_tensor

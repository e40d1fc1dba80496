"""The allocations and frees of a traced step at any batch size, as a recording of it would show them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from memorymark.devices.allocations import Source, Trace
from memorymark.prediction.memory.plan import Plan, plan_of
from memorymark.prediction.memory.scratch_space import Scratch
from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.operation import MODEL_RETURNS
from memorymark.prediction.tracing.program import Growth
from memorymark.prediction.tracing.spreading import parts_of


def trace_of(
    step: TracedStep,
    batch_size: int,
    *,
    keep_outputs: bool,
    generated: Sequence[int],
    spread: bool,
    scratch: Callable[[Growth, int], Scratch],
    labelled: bool = False,
) -> Trace:
    """Returns the trace of a later step, which frees what the one before it left.

    ``generated`` are the blocks that generating samples takes before it. ``spread`` says that several GPUs share it. If
    it is ``labelled``, it says what ran at each event, which takes longer.
    """
    plan = plan_of(step.later, batch_size)
    sizes, peaks = plan.sizes_at(batch_size), [scratch(kind, batch_size).peak_bytes for kind in plan.kinds]
    kept = plan.returned if keep_outputs else frozenset()
    trace = _before(step, batch_size, plan, sizes, kept, labelled=labelled)
    trace.parts = parts_of(step.later.unrolled(batch_size)) if spread else {}
    outputs: dict[Hashable, int] = {key: size for key, size in trace.before.items() if isinstance(key, tuple)}
    _generate(trace, generated, labelled=labelled)
    alive = _carried_bytes(step, batch_size)
    for phase, requests in plan.phases:
        for freed, numbers, first, kind, *_, growth in requests:
            trace.events += [(one, -alive.pop(one)) for one in freed if one in alive and one not in kept]
            if growth.operation.name == MODEL_RETURNS:
                trace.events += [(key, -size) for key, size in outputs.items()]
                returned = dict.fromkeys(tensor.storage for tensor in growth.operation.inputs)
                outputs = {number: alive.pop(number) for number in returned if number in kept and number in alive}
            made = () if growth.operation.on_host else zip(numbers, sizes[first : first + len(numbers)], strict=True)
            new = dict(made)
            alive |= new
            trace.events += new.items()
            if labelled:
                _label(trace, growth, new, batch_size)
            if peaks[kind]:
                trace.events += [("scratch", peaks[kind]), ("scratch", -peaks[kind])]
                trace.sources += [_running(growth)] * (2 if labelled else 0)
        if phase is not None:
            trace.marks.append((phase, len(trace.events)))
    return trace


def _generate(trace: Trace, generated: Sequence[int], *, labelled: bool) -> None:
    """Adds the blocks that generating samples takes and frees."""
    if generated:
        trace.events += [(("cache", number), size) for number, size in enumerate(generated)]
        trace.marks.append(("generation", len(trace.events)))
        trace.events += [(("cache", number), -size) for number, size in enumerate(generated)]
        trace.sources += [Source("generation")] * (2 * len(generated) if labelled else 0)


def _label(trace: Trace, growth: Growth, made: Iterable[int], batch_size: int) -> None:
    """Says what ran at the new events of an operation, the last of which are of the storages that it makes."""
    sources = [source_of(growth, number, batch_size) for number in made]
    trace.sources += [_running(growth)] * (len(trace.events) - len(trace.sources) - len(sources))
    trace.sources += sources


def source_of(growth: Growth, number: int, batch_size: int) -> Source:
    """Returns the operation that makes a storage, with the shape of the largest tensor in it."""
    operation = growth.operation
    inside = [at for at, tensor in enumerate(operation.outputs) if tensor.storage == number]
    if not inside:
        return _running(growth)
    outputs = operation.outputs if operation is growth.larger else growth.at(batch_size).outputs
    largest = max((outputs[at] for at in inside), key=lambda tensor: tensor.nbytes)
    return Source(operation.name, operation.module, largest.shape)


def _running(growth: Growth) -> Source:
    return Source(growth.operation.name, growth.operation.module)


def _before(
    step: TracedStep, batch_size: int, plan: Plan, sizes: Sequence[int], kept: frozenset[int], *, labelled: bool
) -> Trace:
    """Returns what is alive when the step begins."""
    trace = Trace()
    for request in (one for _, requests in plan.phases for one in requests if not one.growth.operation.on_host):
        for at, number in enumerate(request.numbers, request.first):
            if number in kept:
                trace.before["output", number] = sizes[at]
                if labelled:
                    trace.origins["output", number] = source_of(request.growth, number, batch_size)
    for lasting in (step.weights, step.optimizer_state):
        trace.before |= {number: size for number, size in lasting.items()}  # noqa: C416 - another type of key
    trace.before |= {number: size for number, size in _carried_bytes(step, batch_size).items()}  # noqa: C416 - the same
    if labelled:
        trace.origins |= {number: Source("", home) for number, home in step.homes.items()}
    return trace


def _carried_bytes(step: TracedStep, batch_size: int) -> dict[int, int]:
    """Returns what the step before left that this one frees."""
    later = step.later
    if not later.carried:
        return {}
    made = (one for growth in later.operations for one in growth.made_at(batch_size))
    return {later.carried[number]: size for number, size in made if number in later.carried}

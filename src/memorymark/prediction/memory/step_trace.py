"""The allocations and frees of a traced step at any batch size, as a recording of it would show them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from memorymark.devices.allocations import Source, Trace
from memorymark.prediction.memory.scratch_space import Scratch
from memorymark.prediction.tracing.fake_step import TracedStep
from memorymark.prediction.tracing.operation import MODEL_RETURNS
from memorymark.prediction.tracing.program import Growth, Program
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
    program = step.later.unrolled(batch_size)
    kept = program.returned if keep_outputs else frozenset()
    trace = _before(step, program, batch_size, kept, spread=spread, labelled=labelled)
    outputs: dict[Hashable, int] = {key: size for key, size in trace.before.items() if isinstance(key, tuple)}
    if generated:
        trace.events += [(("cache", number), size) for number, size in enumerate(generated)]
        trace.marks.append(("generation", len(trace.events)))
        trace.sources += [Source("generation")] * (2 * len(generated) if labelled else 0)
        trace.events += [(("cache", number), -size) for number, size in enumerate(generated)]
    alive = _carried_bytes(step, batch_size)
    for index, growth in enumerate(program.operations, 1):
        for number in growth.operation.freed:
            if number in alive and number not in kept:
                trace.events.append((number, -alive.pop(number)))
        if growth.operation.name == MODEL_RETURNS:
            trace.events += [(key, -size) for key, size in outputs.items()]
            returned = dict.fromkeys(tensor.storage for tensor in growth.operation.inputs)
            outputs = {number: alive.pop(number) for number in returned if number in kept and number in alive}
        for number, size in () if growth.operation.on_host else growth.made_at(batch_size):
            alive[number] = size
            trace.events.append((number, size))
            if labelled:
                trace.sources += [_running(growth)] * (len(trace.events) - len(trace.sources) - 1)
                trace.sources.append(source_of(growth, number, batch_size))
        if peak := scratch(growth, batch_size).peak_bytes:
            trace.events += [("scratch", peak), ("scratch", -peak)]
        if labelled:
            trace.sources += [_running(growth)] * (len(trace.events) - len(trace.sources))
        trace.marks += [(phase, len(trace.events)) for phase, end in program.marks if end == index]
    return trace


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
    step: TracedStep, program: Program, batch_size: int, kept: frozenset[int], *, spread: bool, labelled: bool
) -> Trace:
    """Returns what is alive when the step begins."""
    trace = Trace(parts=parts_of(program) if spread else {})
    for growth in program.operations:
        for number, size in growth.made_at(batch_size):
            if number in kept and not growth.operation.on_host:
                trace.before["output", number] = size
                if labelled:
                    trace.origins["output", number] = source_of(growth, number, batch_size)
    for lasting in (step.weights, step.optimizer_state):
        trace.before |= {number: size for number, size in lasting.items()}  # noqa: C416 - another type of key
    trace.before |= {number: size for number, size in _carried_bytes(step, batch_size).items()}  # noqa: C416 - the same
    if labelled:
        trace.origins |= {number: Source("", home) for number, home in step.homes.items()}
    return trace


def _carried_bytes(step: TracedStep, batch_size: int) -> dict[int, int]:
    """Returns what the step before left that this one frees."""
    later = step.later
    made = (one for growth in later.operations for one in growth.made_at(batch_size))
    return {later.carried[number]: size for number, size in made if number in later.carried}

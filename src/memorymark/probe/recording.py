"""Records the allocations of a step that runs on a device and, if asked for, what ran at each of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memorymark.devices import Device
from memorymark.devices.allocations import Owner, Phase, Source, Trace
from memorymark.devices.base import AllocationRecorder
from memorymark.prediction.tracing.places import Places
from memorymark.training.step import TrainingStep


def record_step(
    step: TrainingStep,
    device: Device,
    batch_size: int,
    on_phase: Callable[[Phase], None],
    places: Places | None = None,
) -> tuple[Trace, dict[Hashable, Owner]]:
    """Runs one step; returns its allocations, labelled if the ``places`` of its modules are given, and their owners."""
    recorder = device.record(counted=places is not None)
    owners: dict[Hashable, Owner] = {}
    homes: dict[Hashable, Source] = _weights_at(places, step, device)
    running = _Running(places, recorder) if places is not None else None

    def phase_ended(phase: Phase) -> None:
        with running.paused() if running is not None else nullcontext():
            recorder.mark(phase)
        on_phase(phase)
        if phase == "backward":
            owners.update(_owners(step, device))
            homes.update(_states_at(places, step, device))

    with ExitStack() as stack:
        if places is not None and running is not None:
            stack.enter_context(places.followed())
            stack.enter_context(running)
        try:
            step(batch_size, phase_ended)
        finally:
            trace = recorder.finish()
    trace.origins = homes
    if running is not None:
        running.label(trace)
    return trace, owners


def history_of(device: Device, step: Callable[[], None], steps: int) -> dict[str, Any]:
    """Returns torch's own snapshot after some steps on a CUDA GPU."""
    torch.cuda.memory._record_memory_history(context="alloc", stacks="python")
    try:
        for _ in range(steps):
            step()
        device.synchronize()
        snapshot: dict[str, Any] = torch.cuda.memory._snapshot(device.torch_device)
        return snapshot
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def _owners(step: TrainingStep, device: Device) -> dict[Hashable, Owner]:
    owners: dict[Hashable, Owner] = {device.block_of(tensor): "weights" for tensor in step.weights()}
    owners |= {device.block_of(tensor): "gradients" for tensor in step.gradients()}
    owners |= {device.block_of(tensor): "optimizer_state" for tensor in step.optimizer_state()}
    return owners


def _weights_at(places: Places | None, step: TrainingStep, device: Device) -> dict[Hashable, Source]:
    if places is None:
        return {}
    tensors = (tensor for model in step.models() for tensor in (*model.parameters(), *model.buffers()))
    return {device.block_of(tensor): Source("", places.of_tensor(tensor)) for tensor in tensors}


def _states_at(places: Places | None, step: TrainingStep, device: Device) -> dict[Hashable, Source]:
    if places is None:
        return {}
    states = places.of_state(step.models(), step.optimizers)
    return {device.block_of(tensor): Source("", home) for tensor, home in states}


class _Running(TorchDispatchMode):
    """Notes which operation ran up to which allocation, in which module, and the sizes and shapes of its results."""

    def __init__(self, places: Places, recorder: AllocationRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places, self._recorder = places, recorder
        self._ran: list[tuple[int, Source, dict[int, tuple[int, ...]]]] = []
        self._is_paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operation and notes it."""
        result = func(*args, **(kwargs or {}))
        if self._is_paused or func.namespace == "profiler":  # that only marks where an optimizer's step begins and ends
            return result
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        shapes = {tensor.nbytes: tuple(tensor.shape) for tensor in made}
        self._ran.append((self._recorder.count(), Source(str(func), self._places.now()), shapes))
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Notes nothing of what runs inside, such as the recorder's own marks."""
        self._is_paused = True
        yield
        self._is_paused = False

    def label(self, trace: Trace) -> None:
        """Says in a trace what ran at each event."""
        for until, source, shapes in self._ran:
            for _, size in trace.events[len(trace.sources) : until]:
                trace.sources.append(source._replace(shape=shapes.get(size, ())))
        trace.sources += [Source()] * (len(trace.events) - len(trace.sources))
